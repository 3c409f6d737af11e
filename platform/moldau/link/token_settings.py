"""The settings of requests for tokens, by Kafka's names: one row each, of clients and of nodes."""

from __future__ import annotations

from typing import Final

from moldau.config import (
    BOOLEAN,
    CLASS,
    INT,
    LONG,
    PASSWORD,
    STRING,
    Importance,
    Setting,
    at_least,
    between,
    one_of,
    one_of_ignoring_case,
    rows_in,
)

PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
JWT_BEARER: Final = f"{PACKAGE}JwtBearerJwtRetriever"

sasl_oauthbearer_token_endpoint_url = Setting(
    "sasl.oauthbearer.token.endpoint.url",
    STRING,
    None,
    "Where tokens are asked for, https://...; http only on this machine.",
)
sasl_oauthbearer_client_credentials_client_id = Setting(
    "sasl.oauthbearer.client.credentials.client.id",
    STRING,
    None,
    "The client id that tokens are asked for with; or clientId= in sasl.jaas.config.",
    aliases=("sasl.oauthbearer.client.id",),
)
sasl_oauthbearer_client_credentials_client_secret = Setting(
    "sasl.oauthbearer.client.credentials.client.secret",
    PASSWORD,
    None,
    "The secret of that client; or clientSecret= in sasl.jaas.config.",
    aliases=("sasl.oauthbearer.client.secret",),
)
sasl_oauthbearer_scope = Setting(
    "sasl.oauthbearer.scope",
    STRING,
    None,
    "The scope that is asked for; or scope= in sasl.jaas.config.",
)
sasl_oauthbearer_jwt_retriever_class = Setting(
    "sasl.oauthbearer.jwt.retriever.class",
    CLASS,
    f"{PACKAGE}DefaultJwtRetriever",
    "How tokens are asked for, by Java's names: with the client's credentials, or with an "
    "assertion as grant (JwtBearerJwtRetriever).",
    check=one_of(
        f"{PACKAGE}DefaultJwtRetriever", f"{PACKAGE}ClientCredentialsJwtRetriever", JWT_BEARER
    ),
)
sasl_oauthbearer_assertion_algorithm = Setting(
    "sasl.oauthbearer.assertion.algorithm",
    STRING,
    "RS256",
    "The algorithm that signs assertions.",
    check=one_of_ignoring_case("ES256", "RS256"),
)
sasl_oauthbearer_assertion_claim_aud = Setting(
    "sasl.oauthbearer.assertion.claim.aud", STRING, None, "The audience that assertions name."
)
sasl_oauthbearer_assertion_claim_exp_seconds = Setting(
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    INT,
    300,
    "How long an assertion is valid.",
    check=between(0, 86_400),
    importance=Importance.LOW,
)
sasl_oauthbearer_assertion_claim_iss = Setting(
    "sasl.oauthbearer.assertion.claim.iss",
    STRING,
    None,
    "The issuer that assertions name. With it, or with sasl.oauthbearer.assertion.file, an "
    "assertion is shown instead of a secret.",
)
sasl_oauthbearer_assertion_claim_jti_include = Setting(
    "sasl.oauthbearer.assertion.claim.jti.include",
    BOOLEAN,
    False,
    "Whether each assertion has an id of its own.",
)
sasl_oauthbearer_assertion_claim_nbf_seconds = Setting(
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    INT,
    60,
    "From how long before now an assertion is valid.",
    check=between(0, 3600),
    importance=Importance.LOW,
)
sasl_oauthbearer_assertion_claim_sub = Setting(
    "sasl.oauthbearer.assertion.claim.sub", STRING, None, "The subject that assertions name."
)
sasl_oauthbearer_assertion_file = Setting(
    "sasl.oauthbearer.assertion.file",
    STRING,
    None,
    "A file with an assertion that another program keeps fresh. It is read for each request.",
)
sasl_oauthbearer_assertion_private_key_file = Setting(
    "sasl.oauthbearer.assertion.private.key.file",
    STRING,
    None,
    "The file with the private key that signs assertions, as PEM.",
)
sasl_oauthbearer_assertion_private_key_passphrase = Setting(
    "sasl.oauthbearer.assertion.private.key.passphrase",
    PASSWORD,
    None,
    "The password of that key.",
)
sasl_oauthbearer_assertion_template_file = Setting(
    "sasl.oauthbearer.assertion.template.file",
    STRING,
    None,
    "A JSON file with `header` and `payload`, which every assertion has besides.",
)
sasl_login_connect_timeout_ms = Setting(
    "sasl.login.connect.timeout.ms",
    INT,
    None,
    "How long a connection to the token endpoint may take; without it 10 seconds.",
    check=at_least(1),
    importance=Importance.LOW,
)
sasl_login_read_timeout_ms = Setting(
    "sasl.login.read.timeout.ms",
    INT,
    None,
    "How long the token endpoint may be silent; without it 10 seconds.",
    check=at_least(1),
    importance=Importance.LOW,
)
sasl_login_retry_backoff_ms = Setting(
    "sasl.login.retry.backoff.ms",
    LONG,
    100,
    "The first pause before a token endpoint is asked again that was not there. Each is twice as "
    "long as the one before it.",
    check=at_least(0),
    importance=Importance.LOW,
)
sasl_login_retry_backoff_max_ms = Setting(
    "sasl.login.retry.backoff.max.ms",
    LONG,
    10_000,
    "How long a token endpoint that is not there is asked again for one login, as in Java.",
    check=at_least(0),
    importance=Importance.LOW,
)

TOKEN_ROWS: Final = rows_in(globals())
