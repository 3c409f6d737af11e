"""The remote storage of a broker, as its settings say: the parts of `tiered`, wired to the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.log import names
from moldau.broker.replication.quota import ReplicationQuota
from moldau.broker.replication.tiered_replica import TieredReplica
from moldau.broker.server.metadata_partitions import MetadataPartitions
from moldau.broker.settings import tiered as rows
from moldau.broker.tiered.chunk_cache import CacheLimits, ChunkCache
from moldau.broker.tiered.deleted_partitions import KnownTopics
from moldau.broker.tiered.key_ring import KeyRing, parse_key_ring
from moldau.broker.tiered.late_bucket import LateBucket
from moldau.broker.tiered.metadata_topic import MetadataTopic
from moldau.broker.tiered.node_tier import NodeFacts, NodeTier
from moldau.broker.tiered.remote_reader import RemoteReader
from moldau.broker.tiered.remote_reads import ReadLimits, RemoteReads
from moldau.broker.tiered.remote_work import RemoteWork
from moldau.broker.tiered.segment_upload import SegmentUpload
from moldau.broker.tiered.served_partition import ServedPartition
from moldau.broker.tiered.tier_settings import store_config, tier_settings
from moldau.errors import ConfigError
from moldau.objects.object_store import ObjectStore
from moldau.objects.obstore_bucket import EXTRA, ObstoreBucket
from moldau.plugins.extras import need

_SKEW_MS_MAX: Final = 10 * 60 * 1000
"""The clocks of brokers are taken to differ by less."""

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.replication.partition import Partition
    from moldau.broker.tiered.partition_tier import HostedPartition
    from moldau.broker.tiered.remote_partition import RemotePartition
    from moldau.config import Settings
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.runtime import Runtime


def remote_storage_of(
    node: Node, log: Logger, deleted: Callable[[], Mapping[Uuid, str | None]]
) -> NodeTier:
    """Give a node whose settings ask for it remote storage, and return that. Raise ConfigError if
    they can never work. A store that does not work now is no error here.

    `deleted` returns the topics whose deletion is in the history of the metadata. The metadata that
    the node has now are complete.
    """
    settings, runtime = node.settings, node.runtime
    config = store_config(settings)
    if config is None:
        raise ConfigError(
            f"{rows.remote_log_storage_system_enable.name}=true needs {rows.remote_storage.name}, "
            "which says where segments go, such as s3://bucket/prefix"
        )
    need("obstore", EXTRA)
    bucket = LateBucket(str(config.address), partial(ObstoreBucket, runtime, config))
    store = ObjectStore(runtime, bucket)
    topic = MetadataTopic(runtime, MetadataPartitions(node), log)
    key_ring = _key_ring(runtime, settings)
    upload = SegmentUpload(runtime, store, key_ring)
    copy_quota = ReplicationQuota(
        settings[rows.remote_log_manager_copy_quota_window_size_seconds] * 1000,
        settings[rows.remote_log_manager_copy_quota_window_num],
    )
    traffic = node.replicas.traffic
    work = RemoteWork(runtime, topic, upload, log, lambda name: traffic.of(name).remote, copy_quota)
    facts = NodeFacts(
        node.node_id,
        lambda: map(TieredReplica, node.replicas.hosted.values()),
        lambda name: tier_settings(node.topic_settings(name)),
        KnownTopics(
            lambda topic_id: topic_id in node.image.topics.by_id,
            lambda topic_id: topic_id in deleted(),
            runtime.clock.wall_ms() - _SKEW_MS_MAX,
        ),
    )
    tier = NodeTier(work, facts, log, _Readers(node, store, key_ring, log))
    tier.configure(settings)
    node.copy_segments = partial(_copy_segments, tier)
    return tier


def _copy_segments(tier: NodeTier, partition: Partition) -> bool:
    """Copy all of a partition that this node leads at once, its active segment too. Return False,
    and do nothing, if it is not known yet what is remote."""
    return tier.copy_now(TieredReplica(partition))


class _Readers:
    """Lets the readers of the node's partitions have their remote parts. Satisfies `ReadDoor`."""

    def __init__(
        self, node: Node, store: ObjectStore, key_ring: KeyRing | None, log: Logger
    ) -> None:
        runtime, settings = node.runtime, node.settings
        limits = CacheLimits(settings[rows.remote_log_index_file_cache_total_size_bytes])
        place = f"{node.directories.in_service()[0].path}/{names.REMOTE_CACHE_DIR}"
        self.cache = ChunkCache(runtime, place, limits)
        self._reader = RemoteReader(runtime, store, self.cache, key_ring)
        self._quota = ReplicationQuota(
            settings[rows.remote_log_manager_fetch_quota_window_size_seconds] * 1000,
            settings[rows.remote_log_manager_fetch_quota_window_num],
        )
        self.reads = RemoteReads(runtime, log, quota=self._quota)

    async def open(self) -> None:
        await self.cache.open()

    def attach(self, partition: HostedPartition, remote: RemotePartition) -> ServedPartition:
        assert isinstance(partition, TieredReplica)
        traffic = partition.partition.traffic.remote
        served = ServedPartition(remote, self._reader, self.reads, traffic)
        partition.partition.attach_remote(served)
        return served

    def detach(self, partition: HostedPartition, served: ServedPartition) -> None:
        assert isinstance(partition, TieredReplica)
        partition.partition.attach_remote(None)
        served.close()

    def configure(self, settings: Settings) -> None:
        self.reads.limits = ReadLimits(
            settings[rows.remote_log_reader_threads],
            settings[rows.remote_log_reader_max_pending_tasks],
        )
        self._quota.bytes_per_second = settings[rows.remote_log_manager_fetch_max_bytes_per_second]

    async def aclose(self) -> None:
        self.reads.close()
        await self.cache.close()


def _key_ring(runtime: Runtime, settings: Settings) -> KeyRing | None:
    path = settings[rows.remote_storage_encryption_keys]
    if path is None:
        return None
    try:
        text = bytes(runtime.files.read_whole(path)).decode()
    except (OSError, UnicodeDecodeError) as error:
        name = rows.remote_storage_encryption_keys.name
        raise ConfigError(f"{name} cannot be read", path=path, why=str(error)) from error
    return parse_key_ring(text, path)
