"""Settings for features that this version does not have yet. A node must not start with them,
whether they are for all listeners or for one.

Accepting and ignoring them would be worse than rejecting them: a cluster whose authorizer is
ignored is open to all. When one of these is built, delete its line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.broker.settings import (
    creation,
    oauth,
    quota,
    replication,
    sasl,
    security,
    transaction,
)
from moldau.broker.settings.of_listener import OAUTHBEARER, OwnName, own_values
from moldau.config import GivenValue, Settings
from moldau.config.table import Row
from moldau.link.login.oauth_settings import CALLBACKS

# Rows that must be empty or false, and the features that they need.
UNBUILT: Final[tuple[tuple[Row, str], ...]] = (
    (sasl.sasl_server_callback_handler_class, "a plugin that checks logins"),
    (sasl.sasl_client_callback_handler_class, "a plugin for logins at other nodes"),
    (sasl.sasl_login_callback_handler_class, "a plugin for logins at other nodes"),
    (quota.client_quota_callback_class, "a quota plugin"),
    (creation.create_topic_policy_class_name, "a policy for new topics"),
    (creation.alter_config_policy_class_name, "a policy for changes of settings"),
    (transaction.transaction_two_phase_commit_enable, "two-phase commit"),
)


class KnownClasses(NamedTuple):
    """The classes that a row may name, and what there is in place of others."""

    names: frozenset[str]
    instead: str


_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
NAMED: Final[Mapping[Row, KnownClasses]] = {
    replication.replica_selector_class: KnownClasses(
        replication.RACK_AWARE | replication.LEADER_ONLY, "RackAwareReplicaSelector is there"
    ),
    security.principal_builder_class: KnownClasses(
        frozenset((str(security.principal_builder_class.default),)),
        "ssl.principal.mapping.rules makes names of certificates",
    ),
    oauth.sasl_oauthbearer_jwt_validator_class: KnownClasses(
        frozenset((f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator")),
        "tokens are verified by their keys, issuer and audience",
    ),
}
_STOCK: Final[Mapping[Row, frozenset[str]]] = {
    sasl.sasl_server_callback_handler_class: frozenset(
        (
            f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
            f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
        )
    ),
    sasl.sasl_login_callback_handler_class: frozenset(CALLBACKS),
}
"""Classes of Kafka that ask for what is done here anyway, with OAUTHBEARER."""

_OF_LISTENERS: Final[frozenset[Row]] = frozenset(
    (
        sasl.sasl_server_callback_handler_class,
        sasl.sasl_client_callback_handler_class,
        sasl.sasl_login_callback_handler_class,
        security.principal_builder_class,
        oauth.sasl_oauthbearer_jwt_validator_class,
    )
)
"""Those of these rows that Kafka reads for one listener."""


def unbuilt(settings: Settings) -> tuple[str, ...]:
    """Return why a node cannot start with these settings, a reason for each missing feature."""
    found = [
        f"{row.name} {why} ({settings.source(row)})"
        for row in (*(row for row, _ in UNBUILT), *NAMED)
        if (why := missing(row, settings[row])) is not None
    ]
    found += [
        f"{name} {why} ({given.source})"
        for name, own, given in own_values(settings)
        if (why := missing_there(own, given)) is not None
    ]
    return tuple(found)


def missing_there(own: OwnName, given: GivenValue) -> str | None:
    """Return why a node cannot start with this value of one listener; None if it can."""
    if own.row not in _OF_LISTENERS or not isinstance(given.value, str):
        return None
    is_oauth = own.mechanism is None or own.mechanism.lower() == OAUTHBEARER
    return missing(own.row, given.value.strip(), is_oauth=is_oauth)


def missing(row: Row, value: object, *, is_oauth: bool = True) -> str | None:
    """Return why a node cannot start with this value of a row; None if it can."""
    if not value or (is_oauth and value in _STOCK.get(row, ())):
        return None
    for unbuilt_row, what in UNBUILT:
        if row is unbuilt_row:
            return f"asks for {what}, which this version does not have"
    known = NAMED.get(row)
    if known is None or value in known.names:
        return None
    return f"names {value}, which this version does not have; {known.instead}"
