"""The settings of requests for tokens, by Kafka's names: one row each, of clients and of nodes."""

from __future__ import annotations

from typing import Final

from moldau.config import (
    BOOLEAN,
    CLASS,
    INT,
    LONG,
    LOW,
    PASSWORD,
    STRING,
    Setting,
    at_least,
    between,
    one_of,
    one_of_ignoring_case,
    rows_in,
)

PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
JWT_BEARER: Final = f"{PACKAGE}JwtBearerJwtRetriever"

# fmt: off
sasl_oauthbearer_token_endpoint_url = Setting("sasl.oauthbearer.token.endpoint.url", STRING, None,
    doc="Where tokens are asked for, https://...; http only on this machine.")
sasl_oauthbearer_client_credentials_client_id = Setting(
    "sasl.oauthbearer.client.credentials.client.id", STRING, None,
    aliases=("sasl.oauthbearer.client.id",),
    doc="The client id that tokens are asked for with; or clientId= in sasl.jaas.config.")
sasl_oauthbearer_client_credentials_client_secret = Setting(
    "sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None,
    aliases=("sasl.oauthbearer.client.secret",),
    doc="The secret of that client; or clientSecret= in sasl.jaas.config.")
sasl_oauthbearer_scope = Setting("sasl.oauthbearer.scope", STRING, None,
    doc="The scope that is asked for; or scope= in sasl.jaas.config.")
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
    "sasl.oauthbearer.assertion.algorithm", STRING, "RS256",
    check=one_of_ignoring_case("ES256", "RS256"),
    doc="The algorithm that signs assertions.")
sasl_oauthbearer_assertion_claim_aud = Setting("sasl.oauthbearer.assertion.claim.aud", STRING, None,
    doc="The audience that assertions name.")
sasl_oauthbearer_assertion_claim_exp_seconds = Setting(
    "sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, check=between(0, 86_400),
    importance=LOW,
    doc="How long an assertion is valid.")
sasl_oauthbearer_assertion_claim_iss = Setting("sasl.oauthbearer.assertion.claim.iss", STRING, None,
    doc="The issuer that assertions name. With it, or with sasl.oauthbearer.assertion.file, an "
    "assertion is shown instead of a secret.")
sasl_oauthbearer_assertion_claim_jti_include = Setting(
    "sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False,
    doc="Whether each assertion has an id of its own.")
sasl_oauthbearer_assertion_claim_nbf_seconds = Setting(
    "sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, check=between(0, 3600), importance=LOW,
    doc="From how long before now an assertion is valid.")
sasl_oauthbearer_assertion_claim_sub = Setting("sasl.oauthbearer.assertion.claim.sub", STRING, None,
    doc="The subject that assertions name.")
sasl_oauthbearer_assertion_file = Setting("sasl.oauthbearer.assertion.file", STRING, None,
    doc="A file with an assertion that another program keeps fresh. It is read for each request.")
sasl_oauthbearer_assertion_private_key_file = Setting(
    "sasl.oauthbearer.assertion.private.key.file", STRING, None,
    doc="The file with the private key that signs assertions, as PEM.")
sasl_oauthbearer_assertion_private_key_passphrase = Setting(
    "sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None,
    doc="The password of that key.")
sasl_oauthbearer_assertion_template_file = Setting(
    "sasl.oauthbearer.assertion.template.file", STRING, None,
    doc="A JSON file with `header` and `payload`, which every assertion has besides.")
sasl_login_connect_timeout_ms = Setting(
    "sasl.login.connect.timeout.ms", INT, None, check=at_least(1), importance=LOW,
    doc="How long a connection to the token endpoint may take; without it 10 seconds.")
sasl_login_read_timeout_ms = Setting(
    "sasl.login.read.timeout.ms", INT, None, check=at_least(1), importance=LOW,
    doc="How long the token endpoint may be silent; without it 10 seconds.")
sasl_login_retry_backoff_ms = Setting(
    "sasl.login.retry.backoff.ms", LONG, 100, check=at_least(0), importance=LOW,
    doc="The first pause before a token endpoint is asked again that was not there. Each is twice "
    "as long as the one before it.")
sasl_login_retry_backoff_max_ms = Setting(
    "sasl.login.retry.backoff.max.ms", LONG, 10_000, check=at_least(0), importance=LOW,
    doc="How long a token endpoint that is not there is asked again for one login, as in Java.")
# fmt: on

TOKEN_ROWS: Final = rows_in(globals())
