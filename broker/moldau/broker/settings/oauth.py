"""Logins by SASL/OAUTHBEARER: verifying tokens.

A node gets its own tokens as a client does, by the rows of `moldau.link.login.token_settings`.
"""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    Setting,
    list_of,
    one_of_ignoring_case,
)

# fmt: off
sasl_oauthbearer_jwks_endpoint_url = Setting("sasl.oauthbearer.jwks.endpoint.url", STRING, None,
    doc="Where the keys are published that tokens are verified with: https://..., or file:///...")
moldau_oauth_provider = Setting(
    "moldau.oauth.provider", STRING, None, check=one_of_ignoring_case("keycloak", "entra"),
    doc="`keycloak` or `entra`: the keys of tokens are where this provider has them for "
    "`sasl.oauthbearer.expected.issuer`. Kafka has no such setting.")
sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, importance=LOW,
    doc="How often these keys are fetched anew.")
sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, importance=LOW,
    doc="The first pause between attempts to fetch keys.")
sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, importance=LOW,
    doc="The longest pause between attempts to fetch keys.")
sasl_oauthbearer_scope_claim_name = Setting(
    "sasl.oauthbearer.scope.claim.name", STRING, "scope", importance=LOW,
    doc="The claim of a token that holds its scope.")
sasl_oauthbearer_sub_claim_name = Setting(
    "sasl.oauthbearer.sub.claim.name", STRING, "sub", importance=LOW,
    doc="The claim of a token that holds the principal's name.")
sasl_oauthbearer_expected_audience = Setting(
    "sasl.oauthbearer.expected.audience", LIST, (), check=list_of(), importance=HIGH,
    doc="A token must be meant for one of these audiences. A listener with OAUTHBEARER needs it, "
    "or `sasl.oauthbearer.allow.unverified.audience`.")
sasl_oauthbearer_expected_issuer = Setting(
    "sasl.oauthbearer.expected.issuer", STRING, None, importance=HIGH,
    doc="A token must come from this issuer. A listener with OAUTHBEARER needs it, or "
    "`sasl.oauthbearer.allow.unverified.issuer`.")
sasl_oauthbearer_allow_unverified_audience = Setting(
    "sasl.oauthbearer.allow.unverified.audience", BOOLEAN, False,
    doc="Whether a listener opens without `sasl.oauthbearer.expected.audience`. Then tokens that "
    "the issuer made for other services are let in, too. An audience that is expected is checked "
    "nevertheless.")
sasl_oauthbearer_allow_unverified_issuer = Setting(
    "sasl.oauthbearer.allow.unverified.issuer", BOOLEAN, False,
    doc="Whether a listener opens without `sasl.oauthbearer.expected.issuer`. Then every token "
    "that one of the keys has signed is let in. An issuer that is expected is checked "
    "nevertheless.")
sasl_oauthbearer_clock_skew_seconds = Setting(
    "sasl.oauthbearer.clock.skew.seconds", INT, 30, importance=LOW,
    doc="How far the clock of an issuer may differ from ours.")
sasl_oauthbearer_jwt_validator_class = Setting(
    "sasl.oauthbearer.jwt.validator.class", CLASS,
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    doc="The plugin that verifies tokens.")
