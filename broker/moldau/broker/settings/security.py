"""Principals, authorization, delegation tokens."""

from __future__ import annotations

from moldau.config import BOOLEAN, CLASS, LONG, LOW, PASSWORD, PER_BROKER, STRING, Setting, at_least

SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
AUTHORIZER_SETTINGS = (SUPER_USERS, ALLOW_EVERYONE)
"""Settings of the standard authorizer. They are no rows: in Kafka they belong to a plugin."""

# fmt: off
authorizer_class_name = Setting("authorizer.class.name", STRING, "", importance=LOW,
    doc="The plugin that decides what a principal may do; empty means that all may do everything.")
moldau_audit_log = Setting("moldau.audit.log", STRING, None,
    doc="A file of JSON lines with the decisions of the standard authorizer, each once until a "
    "rule changes. `moldau acl suggest` reads it. Kafka has no such setting.")
moldau_authorizer_dry_run = Setting("moldau.authorizer.dry.run", BOOLEAN, False,
    doc="Whether denied requests are served and only written to `moldau.audit.log`, to find the "
    "rules that a running cluster needs. Kafka has no such setting.")
principal_builder_class = Setting(
    "principal.builder.class", CLASS,
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    dynamic=PER_BROKER,
    doc="The plugin that makes the principal of a connection.")
connections_max_reauth_ms = Setting("connections.max.reauth.ms", LONG, 0,
    doc="A SASL session must log in again after this time; 0 means never.")
security_providers = Setting("security.providers", STRING, None, importance=LOW,
    doc="Factories of Java's security providers.")
delegation_token_secret_key = Setting("delegation.token.secret.key", PASSWORD, None,
    doc="The secret that all brokers sign delegation tokens with; without it there are none.")
delegation_token_max_lifetime_ms = Setting(
    "delegation.token.max.lifetime.ms", LONG, 604_800_000, check=at_least(1),
    doc="A delegation token cannot be renewed beyond this age.")
delegation_token_expiry_time_ms = Setting(
    "delegation.token.expiry.time.ms", LONG, 86_400_000, check=at_least(1),
    doc="How long a delegation token holds until it is renewed.")
delegation_token_expiry_check_interval_ms = Setting(
    "delegation.token.expiry.check.interval.ms", LONG, 3_600_000, check=at_least(1), importance=LOW,
    doc="How often expired delegation tokens are removed.")
# fmt: on
TOKEN_SETTINGS = (
    delegation_token_max_lifetime_ms,
    delegation_token_expiry_time_ms,
    delegation_token_expiry_check_interval_ms,
)
"""What has no effect without the key."""
