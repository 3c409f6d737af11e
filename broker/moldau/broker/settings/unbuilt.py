"""Settings for features that this version does not have yet. A node must not start with them.

Accepting and ignoring them would be worse than rejecting them: a cluster whose authorizer is
ignored is open to all. When one of these is built, delete its line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.settings import creation, quota, replication, security, tiered, transaction
from moldau.broker.settings.listener import read_listeners
from moldau.broker.settings.network import listener_security_protocol_map, listeners
from moldau.broker.settings.syntax import parse_endpoint, parse_protocol_map
from moldau.config import LIST, Settings
from moldau.config.kinds import trim
from moldau.config.table import Row

# Rows that must be empty or false, and the features that they need.
UNBUILT: Final[tuple[tuple[Row, str], ...]] = (
    (security.authorizer_class_name, "authorization"),
    (security.delegation_token_secret_key, "delegation tokens"),
    (quota.client_quota_callback_class, "a quota plugin"),
    (creation.create_topic_policy_class_name, "a policy for new topics"),
    (creation.alter_config_policy_class_name, "a policy for changes of settings"),
    (tiered.remote_log_storage_system_enable, "tiered storage"),
    (transaction.transaction_two_phase_commit_enable, "two-phase commit"),
)
UNBUILT_PROTOCOLS: Final = frozenset(("SSL", "SASL_PLAINTEXT", "SASL_SSL"))


def unbuilt(settings: Settings) -> tuple[str, ...]:
    """Return why a node cannot start with these settings, a reason for each missing feature."""
    found = [
        f"{row.name} asks for {what}, which this version does not have ({settings.source(row)})"
        for row, what in UNBUILT
        if settings[row]
    ]
    selector = settings[replication.replica_selector_class]
    if selector and selector not in replication.RACK_AWARE | replication.LEADER_ONLY:
        found.append(
            f"{replication.replica_selector_class.name} names {selector}, which this version does "
            "not have; RackAwareReplicaSelector is there "
            f"({settings.source(replication.replica_selector_class)})"
        )
    found += [
        _unbuilt_listener(listener.name, listener.security_protocol)
        for listener in read_listeners(settings).bound
        if listener.security_protocol in UNBUILT_PROTOCOLS
    ]
    return tuple(found)


def unbuilt_by_change(changes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the missing features that a change of dynamic settings needs, from its values alone.

    A listener and its protocol can come in two changes, so a protocol that is not built is rejected
    in the map, even if its listener does not exist yet. The pairs of Kafka's own default are in
    many maps and open nothing: those are rejected when `listeners` names them.
    """
    default = listener_security_protocol_map.default
    assert isinstance(default, str)
    defaults = parse_protocol_map(default) or {}
    mapped = parse_protocol_map(trim(changes.get(listener_security_protocol_map.name, "")))
    protocols = mapped or defaults
    endpoints = LIST.read(trim(changes.get(listeners.name, "")))
    named = {endpoint[0] for text in endpoints if (endpoint := parse_endpoint(text)) is not None}
    return tuple(
        _unbuilt_listener(name, protocol)
        for name, protocol in protocols.items()
        if protocol in UNBUILT_PROTOCOLS and (name in named or defaults.get(name) != protocol)
    )


def _unbuilt_listener(name: str, protocol: str) -> str:
    return (
        f"listener {name} asks for {protocol}, which this version does not have; "
        "only PLAINTEXT is served"
    )
