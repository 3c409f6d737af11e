"""The configuration of this node's controller and of its part in the metadata quorum."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from moldau.broker.controller.rules import Rules
from moldau.broker.controller.setting_schema import SettingSchema
from moldau.broker.controller.token_changes import TokenRules
from moldau.broker.log.log_config import LogConfig
from moldau.broker.raft.node import RaftSettings
from moldau.broker.raft.quorum import Membership
from moldau.broker.raft.replica import RaftTimeouts
from moldau.broker.raft.snapshot_retention import SnapshotRetention
from moldau.broker.security.delegation import TokenIndex, token_secret_of
from moldau.broker.server.security import to_controllers
from moldau.broker.settings import controller as rows
from moldau.broker.settings import quota, read_listeners, replication, security
from moldau.broker.settings.creation import default_replication_factor, num_partitions
from moldau.broker.settings.node import broker_session_timeout_ms, node_id
from moldau.broker.settings.replication import min_insync_replicas
from moldau.broker.settings.syntax import parse_address, parse_voter
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.link.security import Security
    from moldau.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The configuration that a controller of this node is opened with each time."""

    directory: str
    """The log directory that holds the metadata log."""
    membership: Membership
    rules: Rules
    log_config: LogConfig
    retention: SnapshotRetention
    snapshot_after_bytes: int
    snapshot_interval_ms: int
    timing: RaftTimeouts
    terms: RaftSettings
    voters: Mapping[int, tuple[str, int]]
    """The addresses of the voters that the settings name."""
    bootstrap: tuple[tuple[str, int], ...] = ()
    """The addresses of controllers that know the voters, if the settings do not name the voters."""
    own: tuple[tuple[str, str, int], ...] = ()
    """The endpoints of this node's controller: listener, host, port."""
    listener: str = ""
    """The listener of other controllers that this node connects to: the first that the settings
    name."""
    has_others: bool = False
    """Whether the settings name controllers on other nodes, or this host has other brokers."""
    security: Callable[[Runtime], Security | None] = lambda runtime: None
    """Returns the encryption and the login of connections to other controllers."""


def controller_config_of(
    settings: Settings, cluster_id: str, directory: str, shards: Collection[int] = ()
) -> ControllerConfig:
    """Return the configuration from the settings. `shards` are the brokers of this host."""
    parsed = (parse_voter(text) for text in settings[rows.controller_quorum_voters])
    voters = [voter for voter in parsed if voter is not None]
    static = tuple(voter.node_id for voter in voters)
    segment_bytes = settings[rows.internal_metadata_log_segment_bytes]
    bootstrap = () if voters else _bootstrap(settings)
    listeners = read_listeners(settings)
    listener = next(iter(listeners.controller_names), "")
    advertised = listeners.advertised_controller
    own = {(each.host, each.port) for each in advertised}
    return ControllerConfig(
        bootstrap=bootstrap,
        security=partial(to_controllers, settings),
        own=tuple((each.name, each.host, each.port) for each in advertised if each.host),
        listener=listener,
        has_others=bool(voters) or bool(set(bootstrap) - own) or bool(shards),
        directory=directory,
        membership=Membership(settings[node_id], static),
        rules=Rules(
            cluster_id,
            settings[node_id],
            SettingSchema(settings),
            num_partitions=settings[num_partitions],
            replication_factor=settings[default_replication_factor],
            min_isr=settings[min_insync_replicas],
            session_timeout_ms=settings[broker_session_timeout_ms],
            rebalance_interval_ms=_rebalance_interval_ms(settings),
            mutation_window_s=settings[quota.controller_quota_window_num]
            * settings[quota.controller_quota_window_size_seconds],
            unclean_interval_ms=settings[replication.unclean_leader_election_interval_ms],
            tokens=_token_rules(settings),
        ),
        log_config=LogConfig(
            segment_bytes=segment_bytes or settings[rows.metadata_log_segment_bytes],
            segment_ms=settings[rows.metadata_log_segment_ms],
            max_message_bytes=settings[rows.internal_metadata_max_batch_size_in_bytes],
            file_delete_delay_ms=settings[rows.internal_metadata_delete_delay_millis],
            retention_ms=-1,
            retention_bytes=-1,
        ),
        retention=SnapshotRetention(
            settings[rows.metadata_max_retention_bytes], settings[rows.metadata_max_retention_ms]
        ),
        snapshot_after_bytes=settings[rows.metadata_log_max_record_bytes_between_snapshots],
        snapshot_interval_ms=settings[rows.metadata_log_max_snapshot_interval_ms],
        timing=RaftTimeouts(
            election_ms=settings[rows.controller_quorum_election_timeout_ms],
            backoff_ms_max=settings[rows.controller_quorum_election_backoff_max_ms],
            fetch_ms=settings[rows.controller_quorum_fetch_timeout_ms],
        ),
        terms=RaftSettings(
            cluster_id=cluster_id,
            listener=listener,
            request_timeout_s=settings[rows.controller_quorum_request_timeout_ms] / 1000,
            retry_s=settings[rows.controller_quorum_retry_backoff_ms] / 1000,
            fetch_bytes_max=settings[rows.controller_quorum_fetch_max_bytes],
            snapshot_bytes_max=settings[rows.controller_quorum_fetch_snapshot_max_bytes],
        ),
        voters={voter.node_id: (voter.address.host, voter.address.port) for voter in voters},
    )


def _bootstrap(settings: Settings) -> tuple[tuple[str, int], ...]:
    found = map(parse_address, settings[rows.controller_quorum_bootstrap_servers])
    return tuple((each.host, each.port) for each in found if each is not None)


def _token_rules(settings: Settings) -> TokenRules | None:
    secret = token_secret_of(settings)
    if secret is None:
        return None
    return TokenRules(
        TokenIndex(secret),
        settings[security.delegation_token_max_lifetime_ms],
        settings[security.delegation_token_expiry_time_ms],
        settings[security.delegation_token_expiry_check_interval_ms],
    )


def _rebalance_interval_ms(settings: Settings) -> int | None:
    if not settings[replication.auto_leader_rebalance_enable]:
        return None
    return settings[replication.leader_imbalance_check_interval_seconds] * 1000
