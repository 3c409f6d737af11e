"""The settings of a client's OAuth tokens, by Kafka's names: one row each."""

from __future__ import annotations

from typing import Final

from moldau.config import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Setting,
    at_least,
    between,
    list_of,
    one_of,
    one_of_ignoring_case,
    rows_in,
)

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
MSK_IAM: Final = "msk-iam"
KEYCLOAK: Final = "keycloak"
ENTRA: Final = "entra"
OIDC_PROVIDERS: Final = (KEYCLOAK, ENTRA)
"""The values of `oauth` for which the token endpoint follows from the issuer."""
JWT_BEARER: Final = f"{_PACKAGE}JwtBearerJwtRetriever"
CALLBACKS: Final = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
)
"""The values of `sasl.login.callback.handler.class` that ask for what a client does here anyway."""

oauth = Setting(
    "oauth",
    STRING,
    None,
    "Where the tokens of OAUTHBEARER come from: `keycloak` or `entra`, each with the token "
    "endpoint that follows from sasl.oauthbearer.expected.issuer, or `msk-iam`, which signs them "
    "with the keys of AWS; in Python also an async function that returns a token, a "
    "`TokenEndpoint` or an `MskIam`. Without it they come from "
    "sasl.oauthbearer.token.endpoint.url.",
)
sasl_oauthbearer_token_endpoint_url = Setting(
    "sasl.oauthbearer.token.endpoint.url",
    STRING,
    None,
    "Where tokens are asked for, https://...; http only on this machine.",
)
sasl_oauthbearer_expected_issuer = Setting(
    "sasl.oauthbearer.expected.issuer",
    STRING,
    None,
    "With oauth=keycloak or entra: the issuer of tokens. Its token endpoint is asked. Otherwise it "
    "has no effect on a client: brokers check tokens.",
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
sasl_oauthbearer_extensions = Setting(
    "sasl.oauthbearer.extensions",
    LIST,
    (),
    "What is sent beside the token, name=value; or extension_NAME= in sasl.jaas.config. A name of "
    "librdkafka.",
    check=list_of(),
)
sasl_oauthbearer_header_urlencode = Setting(
    "sasl.oauthbearer.header.urlencode",
    BOOLEAN,
    False,
    "Whether the id and the secret are encoded as for URLs in the header, as RFC 6749 wants it. "
    "With oauth=keycloak and entra they are.",
)
sasl_oauthbearer_jwt_retriever_class = Setting(
    "sasl.oauthbearer.jwt.retriever.class",
    CLASS,
    f"{_PACKAGE}DefaultJwtRetriever",
    "How tokens are asked for, by Java's names: with the client's credentials, or with an "
    "assertion as grant (JwtBearerJwtRetriever).",
    check=one_of(
        f"{_PACKAGE}DefaultJwtRetriever", f"{_PACKAGE}ClientCredentialsJwtRetriever", JWT_BEARER
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
)
sasl_oauthbearer_assertion_claim_iss = Setting(
    "sasl.oauthbearer.assertion.claim.iss",
    STRING,
    None,
    "The issuer that assertions name. With it, or with sasl.oauthbearer.assertion.file, the client "
    "shows an assertion instead of a secret.",
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
sasl_login_callback_handler_class = Setting(
    "sasl.login.callback.handler.class",
    CLASS,
    None,
    "Java's OAuthBearerLoginCallbackHandler, which configs of Java's clients have beside a token "
    "endpoint. Another class has no effect.",
)
sasl_login_connect_timeout_ms = Setting(
    "sasl.login.connect.timeout.ms",
    INT,
    None,
    "How long a connection to the token endpoint may take; without it 10 seconds.",
    check=at_least(1),
)
sasl_login_read_timeout_ms = Setting(
    "sasl.login.read.timeout.ms",
    INT,
    None,
    "How long the token endpoint may be silent; without it 10 seconds.",
    check=at_least(1),
)
sasl_login_retry_backoff_ms = Setting(
    "sasl.login.retry.backoff.ms",
    LONG,
    100,
    "The first pause before a token endpoint is asked again that was not there. Each is twice as "
    "long as the one before it.",
    check=at_least(0),
)
sasl_login_retry_backoff_max_ms = Setting(
    "sasl.login.retry.backoff.max.ms",
    LONG,
    10_000,
    "How long a token endpoint that is not there is asked again for one login, as in Java.",
    check=at_least(0),
)
sasl_login_refresh_window_factor = Setting(
    "sasl.login.refresh.window.factor",
    DOUBLE,
    0.8,
    "The part of a token's life after which logins ask for a new one.",
    check=between(0.5, 1.0),
)

OAUTH_ROWS: Final = rows_in(globals())
