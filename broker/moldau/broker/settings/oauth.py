"""Logins by SASL/OAUTHBEARER: verifying tokens, and getting them."""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Importance,
    Setting,
    between,
    list_of,
    one_of_ignoring_case,
)

sasl_oauthbearer_jwks_endpoint_url = Setting(
    "sasl.oauthbearer.jwks.endpoint.url",
    STRING,
    None,
    "Where the keys are published that tokens are verified with.",
)
moldau_oauth_provider = Setting(
    "moldau.oauth.provider",
    STRING,
    None,
    "`keycloak` or `entra`: the keys of tokens are where this provider has them for "
    "`sasl.oauthbearer.expected.issuer`. Kafka has no such setting.",
    check=one_of_ignoring_case("keycloak", "entra"),
)
sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    LONG,
    3_600_000,
    "How often these keys are fetched anew.",
    importance=Importance.LOW,
)
sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    LONG,
    100,
    "The first pause between attempts to fetch keys.",
    importance=Importance.LOW,
)
sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    LONG,
    10_000,
    "The longest pause between attempts to fetch keys.",
    importance=Importance.LOW,
)
sasl_oauthbearer_token_endpoint_url = Setting(
    "sasl.oauthbearer.token.endpoint.url",
    STRING,
    None,
    "Where this node gets tokens for itself.",
)
sasl_oauthbearer_scope = Setting(
    "sasl.oauthbearer.scope",
    STRING,
    None,
    "The scope that is asked for with a token.",
)
sasl_oauthbearer_scope_claim_name = Setting(
    "sasl.oauthbearer.scope.claim.name",
    STRING,
    "scope",
    "The claim of a token that holds its scope.",
    importance=Importance.LOW,
)
sasl_oauthbearer_sub_claim_name = Setting(
    "sasl.oauthbearer.sub.claim.name",
    STRING,
    "sub",
    "The claim of a token that holds the principal's name.",
    importance=Importance.LOW,
)
sasl_oauthbearer_expected_audience = Setting(
    "sasl.oauthbearer.expected.audience",
    LIST,
    (),
    "A token must be meant for one of these audiences; empty means any.",
    check=list_of(),
    importance=Importance.HIGH,
)
sasl_oauthbearer_expected_issuer = Setting(
    "sasl.oauthbearer.expected.issuer",
    STRING,
    None,
    "A token must come from this issuer; none means any.",
    importance=Importance.HIGH,
)
sasl_oauthbearer_clock_skew_seconds = Setting(
    "sasl.oauthbearer.clock.skew.seconds",
    INT,
    30,
    "How far the clock of an issuer may differ from ours.",
    importance=Importance.LOW,
)
sasl_oauthbearer_jwt_retriever_class = Setting(
    "sasl.oauthbearer.jwt.retriever.class",
    CLASS,
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    "The plugin that gets tokens.",
)
sasl_oauthbearer_jwt_validator_class = Setting(
    "sasl.oauthbearer.jwt.validator.class",
    CLASS,
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    "The plugin that verifies tokens.",
)
sasl_oauthbearer_client_credentials_client_id = Setting(
    "sasl.oauthbearer.client.credentials.client.id",
    STRING,
    None,
    "The client id with which tokens are asked for.",
)
sasl_oauthbearer_client_credentials_client_secret = Setting(
    "sasl.oauthbearer.client.credentials.client.secret",
    PASSWORD,
    None,
    "The client secret with which tokens are asked for.",
)
sasl_oauthbearer_assertion_algorithm = Setting(
    "sasl.oauthbearer.assertion.algorithm",
    STRING,
    "RS256",
    "The algorithm that signs assertions.",
    check=one_of_ignoring_case("ES256", "RS256"),
)
sasl_oauthbearer_assertion_claim_aud = Setting(
    "sasl.oauthbearer.assertion.claim.aud",
    STRING,
    None,
    "The audience that assertions name.",
)
sasl_oauthbearer_assertion_claim_iss = Setting(
    "sasl.oauthbearer.assertion.claim.iss",
    STRING,
    None,
    "The issuer that assertions name.",
)
sasl_oauthbearer_assertion_claim_sub = Setting(
    "sasl.oauthbearer.assertion.claim.sub",
    STRING,
    None,
    "The subject that assertions name.",
)
sasl_oauthbearer_assertion_claim_exp_seconds = Setting(
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    INT,
    300,
    "How long an assertion holds.",
    check=between(0, 86_400),
    importance=Importance.LOW,
)
sasl_oauthbearer_assertion_claim_nbf_seconds = Setting(
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    INT,
    60,
    "From how long before now an assertion holds.",
    check=between(0, 3600),
    importance=Importance.LOW,
)
sasl_oauthbearer_assertion_claim_jti_include = Setting(
    "sasl.oauthbearer.assertion.claim.jti.include",
    BOOLEAN,
    False,
    "Whether each assertion gets an id of its own.",
)
sasl_oauthbearer_assertion_file = Setting(
    "sasl.oauthbearer.assertion.file",
    STRING,
    None,
    "A file with an assertion that is ready to use.",
)
sasl_oauthbearer_assertion_private_key_file = Setting(
    "sasl.oauthbearer.assertion.private.key.file",
    STRING,
    None,
    "The file with the key that signs assertions, as PEM.",
)
sasl_oauthbearer_assertion_private_key_passphrase = Setting(
    "sasl.oauthbearer.assertion.private.key.passphrase",
    PASSWORD,
    None,
    "The password of the key that signs assertions.",
)
sasl_oauthbearer_assertion_template_file = Setting(
    "sasl.oauthbearer.assertion.template.file",
    STRING,
    None,
    "A JSON file with claims and headers that every assertion gets.",
)
