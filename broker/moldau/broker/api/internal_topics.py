"""The internal topics of the cluster, and the settings with which they are created.

They are not created at the start: the first request that needs one creates it by name, with the
partitions, replicas and configs that the broker's settings give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from moldau.broker.settings import creation, offset, share, tiered, transaction
from moldau.broker.settings import topic as topic_rows
from moldau.config import SourceKind
from moldau.errors import ConfigError
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Setting, Settings

_UNSAID: Final = -1
_UNLIMITED: Final = -1
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
REMOTE_SEGMENTS_TOPIC: Final = "__remote_log_metadata"
"""Not internal, as in Kafka: clients may read it as any other topic."""
REMOTE_SEGMENTS_PARTITIONS: Final = 50
REMOTE_SEGMENTS_REPLICAS: Final = 3
REMOTE_SEGMENTS_IN_SYNC: Final = 2


def is_internal(topic: str) -> bool:
    """Whether the topic is internal."""
    return topic in _SHAPES or topic == SHARE_STATE_TOPIC


class BrokerCounts(NamedTuple):
    """How many brokers the cluster has."""

    live: int
    registered: int
    """Those that are down count too."""


def creatable(topic: str, settings: Settings, brokers: BrokerCounts) -> CreatableTopic:
    """Return the topic for the request that creates it when it is needed and does not exist."""
    if topic == SHARE_STATE_TOPIC:
        partitions, replicas, configs = _of_share_state(settings, brokers.live)
    elif topic == REMOTE_SEGMENTS_TOPIC:
        partitions, replicas, configs = _of_remote_segments(settings, brokers.registered)
    else:
        partitions, replicas, configs = _SHAPES.get(topic, _of_users)(settings)
    return CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )


_Shape: TypeAlias = "tuple[int, int, Mapping[str, str]]"


def _of_users(settings: Settings) -> _Shape:
    """Return what this broker's own settings say. What they do not say is left to the controller's
    (KIP-464): the cluster has one default, and not one for each broker that a client may ask."""
    return (
        _said(settings, creation.num_partitions),
        _said(settings, creation.default_replication_factor),
        {},
    )


def _said(settings: Settings, setting: Setting[int]) -> int:
    is_default = settings.source(setting).kind is SourceKind.DEFAULT
    return _UNSAID if is_default else settings[setting]


def _of_offsets(settings: Settings) -> _Shape:
    return (
        settings[offset.offsets_topic_num_partitions],
        settings[offset.offsets_topic_replication_factor],
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings[offset.offsets_topic_segment_bytes]),
        },
    )


def _of_transactions(settings: Settings) -> _Shape:
    return (
        settings[transaction.transaction_state_log_num_partitions],
        settings[transaction.transaction_state_log_replication_factor],
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings[transaction.transaction_state_log_min_isr]),
            "segment.bytes": str(settings[transaction.transaction_state_log_segment_bytes]),
            "unclean.leader.election.enable": "false",
        },
    )


def _of_share_state(settings: Settings, brokers: int) -> _Shape:
    """Return the shape of the share state topic. Replicas and in-sync replicas that the settings do
    not say follow the number of brokers, so that share groups work in a cluster of one."""
    replicas = settings[share.share_coordinator_state_topic_replication_factor]
    if _said(settings, share.share_coordinator_state_topic_replication_factor) == _UNSAID:
        replicas = max(1, min(replicas, brokers))
    in_sync = settings[share.share_coordinator_state_topic_min_isr]
    if _said(settings, share.share_coordinator_state_topic_min_isr) == _UNSAID:
        in_sync = min(in_sync, replicas)
    return (
        settings[share.share_coordinator_state_topic_num_partitions],
        replicas,
        {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(in_sync),
            "retention.ms": "-1",
            "segment.bytes": str(settings[share.share_coordinator_state_topic_segment_bytes]),
        },
    )


def _of_remote_segments(settings: Settings, brokers: int) -> _Shape:
    """Return the shape of the topic of remote segments. Its settings are those of Kafka's plugin;
    replicas that they do not say follow the number of brokers. One that is down counts: without
    this topic nothing remote can be read.

    A record counts when the leader has it on its disk. Local segments go after that: a loss of
    power must not take the record that says where they are."""
    replicas = min(REMOTE_SEGMENTS_REPLICAS, max(1, brokers))
    replicas = _metadata_topic_number(settings, "replication.factor", replicas)
    in_sync = min(REMOTE_SEGMENTS_IN_SYNC, replicas)
    return (
        _metadata_topic_number(settings, "num.partitions", REMOTE_SEGMENTS_PARTITIONS),
        replicas,
        {
            "cleanup.policy": "delete",
            "flush.messages": "1",
            "min.insync.replicas": str(_metadata_topic_number(settings, "min.isr", in_sync)),
            "retention.ms": str(_metadata_topic_number(settings, "retention.ms", -1)),
            "retention.bytes": "-1",
            "unclean.leader.election.enable": "false",
        },
    )


def unsafe_remote_segments(settings: ResourceSettings) -> dict[str, str]:
    """Return the settings with which the topic of remote segments may lose a record of segments
    that only the store has, and values that are safe. It may be made by hand, or changed. A finite
    retention is taken if the broker's own settings give the topic that."""
    found = {}
    policy = settings[topic_rows.cleanup_policy]
    if settings[topic_rows.flush_messages] != 1:
        found[topic_rows.flush_messages.name] = "1"
    if "compact" in policy:
        found[topic_rows.cleanup_policy.name] = "delete"
    if policy:
        kept_ms = _metadata_topic_number(settings.broker, "retention.ms", _UNLIMITED)
        if not _reaches(settings[topic_rows.retention_ms], kept_ms):
            found[topic_rows.retention_ms.name] = str(kept_ms)
        if settings[topic_rows.retention_bytes] != _UNLIMITED:
            found[topic_rows.retention_bytes.name] = str(_UNLIMITED)
    return found


def _reaches(limit: int, least: int) -> bool:
    return limit == _UNLIMITED or _UNLIMITED != least <= limit


def _metadata_topic_number(settings: Settings, name: str, default: int) -> int:
    """Return a number that `rlmm.config.remote.log.metadata.topic.NAME` gives the topic of remote
    segments. Raise ConfigError if it is none."""
    prefix = settings[tiered.remote_log_metadata_manager_impl_prefix]
    full_name = f"{prefix}remote.log.metadata.topic.{name}"
    given = settings.others.get(full_name)
    if given is None:
        return default
    try:
        return int(str(given.value))
    except ValueError:
        raise ConfigError(f"{full_name} must be a whole number", found=str(given.value)) from None


_SHAPES: Final[Mapping[str, Callable[[Settings], _Shape]]] = {
    OFFSETS_TOPIC: _of_offsets,
    TRANSACTIONS_TOPIC: _of_transactions,
}
