"""Settings for features that this version does not have yet. A node must not start with them.

Accepting and ignoring them would be worse than rejecting them: a cluster whose authorizer is
ignored is open to all. When one of these is built, delete its line here.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.settings import creation, quota, replication, sasl, security, tiered, transaction
from moldau.config import Settings
from moldau.config.table import Row

# Rows that must be empty or false, and the features that they need.
UNBUILT: Final[tuple[tuple[Row, str], ...]] = (
    (sasl.sasl_server_callback_handler_class, "a plugin that checks logins"),
    (sasl.sasl_client_callback_handler_class, "a plugin for logins at other nodes"),
    (sasl.sasl_login_callback_handler_class, "a plugin for logins at other nodes"),
    (quota.client_quota_callback_class, "a quota plugin"),
    (creation.create_topic_policy_class_name, "a policy for new topics"),
    (creation.alter_config_policy_class_name, "a policy for changes of settings"),
    (tiered.remote_log_storage_system_enable, "tiered storage"),
    (transaction.transaction_two_phase_commit_enable, "two-phase commit"),
)


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
    builder = settings[security.principal_builder_class]
    if builder not in ("", security.principal_builder_class.default):
        found.append(
            f"{security.principal_builder_class.name} names {builder}, which this version does not "
            f"have; ssl.principal.mapping.rules makes names of certificates "
            f"({settings.source(security.principal_builder_class)})"
        )
    return tuple(found)
