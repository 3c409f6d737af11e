"""The rules for combinations of broker settings: Kafka's own, each a function of all settings.

A rule returns the problem in words, or None. The rules are checked when every single value is
valid, at the start and before every dynamic change.
"""

from __future__ import annotations

from itertools import chain

from moldau.broker.settings import (
    cleaner,
    controller,
    coordinator,
    log,
    network,
    node,
    replication,
    sasl,
    share,
    streams,
    tiered,
)
from moldau.broker.settings.listener import listener_conflict, read_listeners
from moldau.broker.settings.retention import (
    NO_LIMIT,
    exceeds_local,
    exceeds_retention,
    local_limit,
)
from moldau.broker.settings.syntax import parse_host_limits, parse_voter
from moldau.config import LIST, Rule, Setting, Settings
from moldau.config.table import Row

MIB = 1024 * 1024

# Each triple: a lower limit, a value, an upper limit.
_RANGES: tuple[tuple[Setting[int], Setting[int], Setting[int]], ...] = (
    (
        coordinator.group_consumer_min_heartbeat_interval_ms,
        coordinator.group_consumer_heartbeat_interval_ms,
        coordinator.group_consumer_max_heartbeat_interval_ms,
    ),
    (
        coordinator.group_consumer_min_session_timeout_ms,
        coordinator.group_consumer_session_timeout_ms,
        coordinator.group_consumer_max_session_timeout_ms,
    ),
    (
        coordinator.group_consumer_min_assignment_interval_ms,
        coordinator.group_consumer_assignment_interval_ms,
        coordinator.group_consumer_max_assignment_interval_ms,
    ),
    (
        share.group_share_min_heartbeat_interval_ms,
        share.group_share_heartbeat_interval_ms,
        share.group_share_max_heartbeat_interval_ms,
    ),
    (
        share.group_share_min_session_timeout_ms,
        share.group_share_session_timeout_ms,
        share.group_share_max_session_timeout_ms,
    ),
    (
        share.group_share_min_assignment_interval_ms,
        share.group_share_assignment_interval_ms,
        share.group_share_max_assignment_interval_ms,
    ),
    (
        share.group_share_min_delivery_count_limit,
        share.group_share_delivery_count_limit,
        share.group_share_max_delivery_count_limit,
    ),
    (
        share.group_share_min_partition_max_record_locks,
        share.group_share_partition_max_record_locks,
        share.group_share_max_partition_max_record_locks,
    ),
    (
        share.group_share_min_record_lock_duration_ms,
        share.group_share_record_lock_duration_ms,
        share.group_share_max_record_lock_duration_ms,
    ),
    (
        streams.group_streams_min_heartbeat_interval_ms,
        streams.group_streams_heartbeat_interval_ms,
        streams.group_streams_max_heartbeat_interval_ms,
    ),
    (
        streams.group_streams_min_session_timeout_ms,
        streams.group_streams_session_timeout_ms,
        streams.group_streams_max_session_timeout_ms,
    ),
    (
        streams.group_streams_min_assignment_interval_ms,
        streams.group_streams_assignment_interval_ms,
        streams.group_streams_max_assignment_interval_ms,
    ),
)

_NOT_ABOVE: tuple[tuple[Setting[int], Setting[int]], ...] = (
    (replication.replica_fetch_wait_max_ms, replication.replica_socket_timeout_ms),
    (replication.replica_fetch_wait_max_ms, replication.replica_lag_time_max_ms),
    (streams.group_streams_num_standby_replicas, streams.group_streams_max_standby_replicas),
    (streams.group_streams_num_warmup_replicas, streams.group_streams_max_warmup_replicas),
    (
        streams.group_streams_min_task_offset_interval_ms,
        streams.group_streams_task_offset_interval_ms,
    ),
    (share.group_share_max_size, share.group_share_max_share_sessions),
    (cleaner.log_cleaner_min_compaction_lag_ms, cleaner.log_cleaner_max_compaction_lag_ms),
    *chain.from_iterable(((low, value), (value, high)) for low, value, high in _RANGES),
)

_BELOW: tuple[tuple[Setting[int], Setting[int]], ...] = (
    (
        coordinator.group_consumer_heartbeat_interval_ms,
        coordinator.group_consumer_session_timeout_ms,
    ),
    (share.group_share_heartbeat_interval_ms, share.group_share_session_timeout_ms),
    (streams.group_streams_heartbeat_interval_ms, streams.group_streams_session_timeout_ms),
)


def _values(settings: Settings, *rows: Row) -> str:
    return ", ".join(f"{row.name}={settings[row]}" for row in rows)


def _orders(settings: Settings) -> str | None:
    for low, high in _NOT_ABOVE:
        if settings[low] > settings[high]:
            return f"{low.name} must not exceed {high.name} ({_values(settings, low, high)})"
    for low, high in _BELOW:
        if settings[low] >= settings[high]:
            return f"{low.name} must be less than {high.name} ({_values(settings, low, high)})"
    return None


def _one_number(settings: Settings) -> str | None:
    if not settings.is_given(node.broker_id) or settings[node.broker_id] == settings[node.node_id]:
        return None
    return f"{node.broker_id.name} must be the same as {node.node_id.name}, or left out"


def _quorum(settings: Settings) -> str | None:
    names = f"{controller.controller_quorum_voters.name}"
    texts = settings[controller.controller_quorum_voters]
    voters = {voter.node_id for voter in map(parse_voter, texts) if voter is not None}
    is_controller = "controller" in settings[node.process_roles]
    if not voters and not settings[controller.controller_quorum_bootstrap_servers]:
        servers = controller.controller_quorum_bootstrap_servers.name
        return f"one of {servers} and {names} must say where controllers are"
    if is_controller and voters and settings[node.node_id] not in voters:
        return f"{names} must hold this controller's {node.node_id.name}"
    if not is_controller and settings[node.node_id] in voters:
        return f"{names} holds this node, but {node.process_roles.name} does not say controller"
    if not is_controller and settings[controller.controller_quorum_auto_join_enable]:
        join = controller.controller_quorum_auto_join_enable.name
        return f"{join} is for controllers; {node.process_roles.name} does not say controller"
    return None


def _retention(settings: Settings) -> str | None:
    if settings[log.log_retention_ms] == 0:
        return f"{log.log_retention_ms.name} must not be 0; {NO_LIMIT} keeps records for ever"
    return None


def _local_retention(settings: Settings) -> str | None:
    """Check local retention. At a start this is checked only with tiered storage; at a run-time
    change always."""
    if not settings[tiered.remote_log_storage_system_enable]:
        return None
    return local_retention_conflict(settings)


def local_retention_conflict(settings: Settings) -> str | None:
    """Return the problem if the limit for the local disk is larger than the whole retention, or
    less than the lag of remote copies."""
    retention_ms = max(settings[log.log_retention_ms], NO_LIMIT)
    pairs = (
        (
            tiered.log_local_retention_ms,
            log.log_retention_ms,
            retention_ms,
            tiered.log_remote_copy_lag_ms,
        ),
        (
            tiered.log_local_retention_bytes,
            log.log_retention_bytes,
            settings[log.log_retention_bytes],
            tiered.log_remote_copy_lag_bytes,
        ),
    )
    for local, whole, whole_value, lag in pairs:
        if exceeds_retention(settings[local], whole_value):
            return f"{local.name} must not exceed {whole.name} ({_values(settings, local, whole)})"
        if exceeds_local(settings[lag], local_limit(settings[local], whole_value)):
            return f"{lag.name} must not exceed {local.name} ({_values(settings, lag, local)})"
    return None


def _cordoned(settings: Settings) -> str | None:
    cordoned = settings[log.cordoned_log_dirs]
    if "broker" not in settings[node.process_roles] or cordoned == ("*",):
        return None
    unknown = [each for each in cordoned if each not in (settings[log.log_dirs] or ())]
    if not unknown:
        return None
    shown = ", ".join(unknown)
    return f"{log.cordoned_log_dirs.name} must be `*` or some of {log.log_dirs.name}, not: {shown}"


def _cleaner_memory(settings: Settings) -> str | None:
    threads = settings[cleaner.log_cleaner_threads]
    if threads > 0 and settings[cleaner.log_cleaner_dedupe_buffer_size] // threads > MIB:
        return None
    rows = (cleaner.log_cleaner_dedupe_buffer_size, cleaner.log_cleaner_threads)
    return f"every cleaner thread needs more than 1 MiB of memory ({_values(settings, *rows)})"


def _connections(settings: Settings) -> str | None:
    overrides = network.max_connections_per_ip_overrides
    if settings[network.max_connections_per_ip] == 0 and not parse_host_limits(settings[overrides]):
        return (
            f"{network.max_connections_per_ip.name}=0 admits no connection without {overrides.name}"
        )
    idle_ms = settings[network.connections_max_idle_ms]
    delay = network.connection_failed_authentication_delay_ms
    if 0 <= idle_ms <= settings[delay]:
        return f"{delay.name} must be less than {network.connections_max_idle_ms.name}"
    return None


def _queue(settings: Settings) -> str | None:
    queued = network.queued_max_request_bytes
    largest = network.socket_request_max_bytes
    if settings[queued] <= 0 or settings[queued] >= settings[largest]:
        return None
    return f"{queued.name} must have room for {largest.name} ({_values(settings, queued, largest)})"


def _inter_broker_login(settings: Settings) -> str | None:
    """Check the login between brokers. `listener_conflict` reports problems of listeners, so those
    are ignored here."""
    if listener_conflict(settings) is not None:
        return None
    found = read_listeners(settings)
    if not found.inter_broker_protocol.startswith("SASL"):
        return None
    enabled = settings[sasl.sasl_enabled_mechanisms]
    own = f"listener.name.{found.inter_broker.lower()}.{sasl.sasl_enabled_mechanisms.name}"
    if own in settings.others:
        given = settings.others[own].value or ()
        enabled = LIST.read(given.strip()) if isinstance(given, str) else given
    if settings[sasl.sasl_mechanism_inter_broker_protocol] in enabled:
        return None
    names = (sasl.sasl_enabled_mechanisms.name, sasl.sasl_mechanism_inter_broker_protocol.name)
    return f"{names[0]} must hold {names[1]}, with which brokers log in at each other"


def _group_protocols(settings: Settings) -> str | None:
    if "classic" in settings[coordinator.group_coordinator_rebalance_protocols]:
        return None
    return f"{coordinator.group_coordinator_rebalance_protocols.name} must hold classic"


def _assignors(settings: Settings) -> str | None:
    if len(settings[share.group_share_assignors]) == 1:
        return None
    return f"{share.group_share_assignors.name} must name exactly one assignor"


RULES: tuple[Rule, ...] = (
    _one_number,
    _quorum,
    listener_conflict,
    _orders,
    _retention,
    _local_retention,
    _cordoned,
    _cleaner_memory,
    _connections,
    _queue,
    _assignors,
    _group_protocols,
)

WHOLE_RULES: tuple[Rule, ...] = (_inter_broker_login,)
"""Rules about a node, which the settings of one of its listeners need not keep."""
