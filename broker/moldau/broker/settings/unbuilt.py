"""What settings can ask for that this version does not do yet. A node must not start with them.

Accepting them and doing nothing would be worse than refusing: a cluster whose authorizer is ignored
is open to everybody. Whoever builds one of these deletes its line here.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.settings import creation, quota, replication, security, tiered, transaction
from moldau.broker.settings.listener import read_listeners
from moldau.config import Settings
from moldau.config.table import Row

# Rows that must be left empty or false, and what they ask for.
UNBUILT: Final[tuple[tuple[Row, str], ...]] = (
    (security.authorizer_class_name, "authorization"),
    (security.delegation_token_secret_key, "delegation tokens"),
    (quota.client_quota_callback_class, "a quota plugin"),
    (creation.create_topic_policy_class_name, "a policy for new topics"),
    (creation.alter_config_policy_class_name, "a policy for changes of settings"),
    (replication.replica_selector_class, "reading from followers"),
    (tiered.remote_log_storage_system_enable, "tiered storage"),
    (transaction.transaction_two_phase_commit_enable, "two-phase commit"),
)
UNBUILT_PROTOCOLS: Final = frozenset(("SSL", "SASL_PLAINTEXT", "SASL_SSL"))


def unbuilt(settings: Settings) -> tuple[str, ...]:
    """Why a node cannot start with these settings: a sentence for each thing that is missing."""
    found = [
        f"{row.name} asks for {what}, which this version does not have ({settings.source(row)})"
        for row, what in UNBUILT
        if settings[row]
    ]
    for listener in read_listeners(settings).bound:
        if listener.security_protocol in UNBUILT_PROTOCOLS:
            found.append(
                f"listener {listener.name} asks for {listener.security_protocol}, which this "
                "version does not have; only PLAINTEXT is served"
            )
    return tuple(found)
