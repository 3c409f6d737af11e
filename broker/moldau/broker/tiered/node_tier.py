"""The remote storage of one node: a `PartitionTier` for each tiered partition that it hosts.

    tier = NodeTier(work, facts, log, door)
    tier.live()                # the node takes part in the cluster
    tier.look()                # committed metadata have changed
    await tier.aclose()

Order at the start: the store is checked; the topic of remote segments is found; the store is found
to belong to it; then work begins. A store that fails is reported by one line that names what to do,
and tried again: the node serves what it has meanwhile, and nothing is cut that is not remote.

The topic is created when the node hosts the first partition that needs it, and not before: a topic
that the first broker of a new cluster made for itself would have one replica for ever, and the loss
of that disk would be the loss of all that is remote.

Invariant: nothing is put, deleted or cut before the store was found to belong to the topic of
remote segments of this cluster. An object in the store has the topic's id for a name. Without that,
a topic that was lost and made anew would make all that is in the store look like orphans, and two
clusters that were given one place would remove the other's objects. And a place without that object
is not the one that a topic with records speaks of: it was mistyped, or what it had is lost. What is
deleted there stays where it is, and each reader fails. Nor is anything while the topic
has settings by which it may lose records, as one that was made by hand: nothing else says where the
records are that only the store has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.broker.tiered.deleted_partitions import DeletedPartitions, KnownTopics
from moldau.broker.tiered.metadata_topic import PartitionKey
from moldau.broker.tiered.partition_tier import HostedPartition, PartitionTier
from moldau.broker.tiered.tier_settings import work_limits
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.ids import format_uuid
from moldau.objects.object_store import StoreLimits
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.broker.tiered.chunk_cache import ChunkCache
    from moldau.broker.tiered.partition_tier import RemoteSizes
    from moldau.broker.tiered.remote_log import TierSettings
    from moldau.broker.tiered.remote_partition import RemotePartition
    from moldau.broker.tiered.remote_reads import RemoteReads
    from moldau.broker.tiered.remote_work import RemoteWork
    from moldau.broker.tiered.served_partition import ServedPartition
    from moldau.config import Settings
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.objects.object_store import ObjectStore

OWNER_FOLDER: Final = "moldau-topic"
_CHECK_AGAIN: Final = Backoff(1_000, 60_000)
_CHECK_LIMITS: Final = StoreLimits(attempt_s=10.0, deadline_s=10.0)
"""Of a check: an operator waits for its line."""


class OtherCluster(Exception):
    """What is in the store belongs to another topic of remote segments."""


class ReadDoor(Protocol):
    """Lets the readers of a partition have its remote part."""

    @property
    def reads(self) -> RemoteReads: ...

    @property
    def cache(self) -> ChunkCache: ...

    async def open(self) -> None:
        """Begin, before the first `attach`."""

    def attach(self, partition: HostedPartition, remote: RemotePartition) -> ServedPartition:
        """Serve the remote part of the partition, as soon as what is returned is ready."""

    def detach(self, partition: HostedPartition, served: ServedPartition) -> None:
        """Serve it no more."""

    def configure(self, settings: Settings) -> None:
        """Use the limits of these settings of the node."""

    async def aclose(self) -> None:
        """End all reads."""


class NodeFacts(NamedTuple):
    """What the remote storage asks of its node."""

    node_id: int
    hosted: Callable[[], Iterable[HostedPartition]]
    """Returns the replicas of this node."""
    settings_of: Callable[[str], TierSettings | None]
    """Returns the settings of a topic; None if it has nothing remote."""
    topics: KnownTopics


class NodeTier:
    """The remote storage of one node; see the module."""

    def __init__(self, work: RemoteWork, node: NodeFacts, log: Logger, door: ReadDoor) -> None:
        self.work: Final = work
        self._node = node
        self._log = log
        self.door: Final = door
        self._tiers: dict[PartitionKey, PartitionTier] = {}
        self._beginning: dict[PartitionKey, asyncio.Task[None]] = {}
        self._deleted: dict[int, DeletedPartitions] = {}
        self._has_changed = asyncio.Event()
        self._has_topic = asyncio.Event()
        self._missing_replicas: int | None = None
        """How many replicas the topic should have, if that was reported."""
        self._unsafe_settings: Mapping[str, str] = {}
        """The settings of the topic that were reported."""
        self._tasks: list[asyncio.Task[None]] = []

    def live(self) -> None:
        """Begin: the node takes part in the cluster."""
        spawn = self.work.runtime.spawn
        self._tasks += [
            spawn(self._follow_node(), name="remote-storage"),
            spawn(self._open_store(), name="remote-storage-check"),
        ]

    def look(self) -> None:
        """Look at the node's replicas again: they, or settings, may have changed."""
        self._has_changed.set()

    def copy_now(self, partition: HostedPartition) -> bool:
        """Copy all of a partition at once, its active segment too. Return False, and do nothing, if
        it is not known yet what is remote."""
        tier = self._tiers.get(PartitionKey(partition.topic_id, partition.index))
        return tier is not None and tier.copy_now()

    def configure(self, settings: Settings) -> None:
        """Use these settings of the node: its limits, and those of topics without their own."""
        self.work.configure(work_limits(settings))
        self.door.configure(settings)
        self.look()

    async def aclose(self) -> None:
        """End all work. What has begun is found by the next leaders."""
        for task in (*self._tasks, *self._beginning.values()):
            task.cancel()
            await asyncio.wait([task])
        for deleted in self._deleted.values():
            await deleted.aclose()
        for tier in list(self._tiers.values()):
            await self._end(tier)
        await self.door.aclose()
        await self.work.topic.aclose()

    # The store.

    async def _open_store(self) -> None:
        """Check the store until it works, and let the work begin."""
        work = self.work
        store = work.store.with_limits(_CHECK_LIMITS)
        await self._until_passed(store.check)
        await self._has_topic.wait()
        topic_id = work.topic.checked_id()
        await self._until_passed(lambda: check_owner(store, topic_id, work.topic.has_records))
        work.is_store_open = True
        self._log.info("the remote storage is ready", storage=work.store.where)
        self._look_at_all()

    def _look_at_all(self) -> None:
        for tier in self._tiers.values():
            tier.look()

    async def _until_passed(self, check: Callable[[], Awaitable[None]]) -> None:
        """Repeat a check of the store until it passes."""
        work, failures = self.work, 0
        while True:
            try:
                await check()
            except OtherCluster as error:
                self._log.error(str(error), storage=work.store.where)
            except StoreError as error:
                work.health.on_failure(error)
            except KafkaError as error:
                self._log.debug("the topic of remote segments has no leader yet", why=str(error))
            else:
                work.health.on_success()
                return
            failures += 1
            await asyncio.sleep(_CHECK_AGAIN.wait_s(failures, work.runtime.random))

    # The replicas.

    async def _follow_node(self) -> None:
        await self.door.open()
        while True:
            self._has_changed.clear()
            try:
                if await self._has_found_topic():
                    await self._update()
            except (MoldauError, OSError) as error:
                self._log.failure("remote segments of this node's replicas are not followed", error)
            await self._has_changed.wait()

    async def _has_found_topic(self) -> bool:
        """Find the topic, or have it created if a replica needs it. False: none does yet."""
        if not self._has_topic.is_set():
            if not self.work.topic.access.partition_count and not self._wanted():
                return False
            await self.work.topic.found()
            self._has_topic.set()
        return True

    def _wanted(self) -> dict[PartitionKey, tuple[HostedPartition, TierSettings]]:
        """Return the replicas that need a tier."""
        wanted: dict[PartitionKey, tuple[HostedPartition, TierSettings]] = {}
        for partition in self._node.hosted():
            settings = self._node.settings_of(partition.topic)
            if settings is not None:
                key = PartitionKey(partition.topic_id, partition.index)
                wanted[key] = partition, settings
        return wanted

    async def _update(self) -> None:
        """Have a tier for each replica that needs one."""
        self._check_settings()
        wanted = self._wanted()
        for key, tier in list(self._tiers.items()):
            if key not in wanted or wanted[key][0] != tier.partition:
                await self._end(tier)
        for key, (partition, settings) in wanted.items():
            known = self._tiers.get(key)
            if known is None:
                self._begin(partition, settings)
            else:
                known.on_settings(settings)
                known.on_role()
        await self._update_deleted()
        self._check_replicas()

    def _check_replicas(self) -> None:
        """Warn if the topic has fewer replicas than it would be made with now, as in a cluster that
        has grown. One broker does."""
        access = self.work.topic.access
        wanted = access.missing_replicas if 0 in access.led() else None
        if wanted != self._missing_replicas:
            self._missing_replicas = wanted
            if wanted is not None:
                self._log.warn(
                    "the topic of remote segments has few replicas: if their disks are lost, all "
                    "that is in remote storage is lost; give it more: moldau reassign plan "
                    f"__remote_log_metadata --replicas {wanted} > plan.json; moldau reassign "
                    "execute plan.json"
                )

    def _check_settings(self) -> None:
        """Let the work rest while the topic's settings are not safe. Each broker says so: each has
        segments that stay on its disk."""
        unsafe = self.work.topic.access.unsafe_settings
        if unsafe != self._unsafe_settings:
            self._unsafe_settings = unsafe
            if unsafe:
                safe = " ".join(f"{name}={value}" for name, value in unsafe.items())
                self._log.error(
                    "the topic of remote segments may lose records, and with them what is only in "
                    "remote storage; nothing is copied or deleted there, and no local segment "
                    f"goes, until: moldau config set topic __remote_log_metadata {safe}"
                )
        if self.work.is_topic_safe == bool(unsafe):
            self.work.is_topic_safe = not unsafe
            self._look_at_all()

    def _begin(self, partition: HostedPartition, settings: TierSettings) -> None:
        tier = PartitionTier(self.work, partition, self._node.node_id, settings)
        self._tiers[tier.key] = tier
        name = f"remote-segments-{partition.topic}-{partition.index}"
        task = self.work.runtime.spawn(self._serve(tier), name=name)
        self._beginning[tier.key] = task

    async def _serve(self, tier: PartitionTier) -> None:
        await tier.begin()
        del self._beginning[tier.key]
        tier.serve(self.door.attach(tier.partition, tier.remote))

    async def _end(self, tier: PartitionTier) -> None:
        del self._tiers[tier.key]
        task = self._beginning.pop(tier.key, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if tier.served is not None:
            self.door.detach(tier.partition, tier.served)
        await tier.aclose()

    async def _update_deleted(self) -> None:
        """Look after the deleted partitions of the metadata partitions that this node leads."""
        led = set(self.work.topic.access.led())
        for partition in set(self._deleted) - led:
            await self._deleted.pop(partition).aclose()
        for partition in sorted(led - set(self._deleted)):
            deleted = DeletedPartitions(self.work, partition, self._node.node_id, self._node.topics)
            self._deleted[partition] = deleted
            deleted.begin()

    # For metrics.

    def topics(self) -> frozenset[str]:
        """Return the topics with remote storage of which this node has a replica."""
        return frozenset(each.partition.topic for each in self._tiers.values())

    def sizes(self) -> Iterator[tuple[str, RemoteSizes]]:
        """Yield the topic and the sizes of each partition that this node leads. Others may run
        between two of them."""
        for tier in list(self._tiers.values()):
            if tier.is_ready and tier.partition.is_leader:
                yield tier.partition.topic, tier.sizes()


async def check_owner(
    store: ObjectStore, topic_id: Uuid, has_records: Callable[[], Awaitable[bool]]
) -> None:
    """Check that the store belongs to this topic of remote segments. The first node to come makes
    it so, if the topic has no records yet. Raise StoreError, OtherCluster, or KafkaError if it is
    not known whether the topic has records."""
    name = f"{OWNER_FOLDER}/{format_uuid(topic_id)}"
    owners = {each.name async for each in store.list(OWNER_FOLDER)}
    if not owners and await has_records():
        # Another node may have made it so meanwhile, and have written records.
        owners = {each.name async for each in store.list(OWNER_FOLDER)}
        if not owners:
            raise OtherCluster(
                "remote.storage has none of the segments that this cluster has copied; name the "
                "place where they are. If they were moved here, or are lost, put an object there "
                f"that is named {name}"
            )
    if not owners:
        try:
            await store.put(name, b"moldau\n")
        except StoreError as error:
            if error.why is not StoreReason.ALREADY_EXISTS:
                raise
        owners = {each.name async for each in store.list(OWNER_FOLDER)}
    if owners != {name}:
        raise OtherCluster(
            "remote.storage has segments of another cluster, or of a topic __remote_log_metadata "
            "that was lost; name a prefix that is empty, or restore the topic"
        )
