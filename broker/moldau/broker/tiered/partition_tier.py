"""The remote work of one partition that this node hosts: a `RemoteLog`, and what carries it out.

    tier = PartitionTier(work, partition, broker_id, settings)
    await tier.begin()           # the topic is read to its end
    tier.serve(served)           # readers get the remote part
    tier.on_role()               # the partition leads or follows, perhaps in another epoch
    tier.on_settings(settings)
    await tier.aclose()

Invariants:
- Nothing is done before the topic was read to its end: the local log would be cut below a segment
  whose deletion is not read yet. A leader begins when the topic was read to the end that it has
  after the election. Until then readers are sent away: a leader that does not know a segment would
  take it for a hole, and go on behind it.
- The files of a local segment go by the log's own retention, after its start is durable.
- Objects that no segment has are removed when the store was listed first, and the topic was read to
  its end after that, and they are older than the grace by the clock of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.broker.tiered.copying import SegmentOrigin, copied_end
from moldau.broker.tiered.expiry import recovered_start, unreferenced
from moldau.broker.tiered.metadata_topic import PartitionKey
from moldau.broker.tiered.rebuild import SegmentHistory
from moldau.broker.tiered.remote_log import Ready, RemoteLog, TierSettings
from moldau.broker.tiered.remote_segment import SegmentId
from moldau.broker.tiered.remote_work import STORE_FAILURES, RemoteWork, RunningWork
from moldau.broker.tiered.segment_objects import parse_object_name, partition_folder
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.broker.log.leader_epochs import LeaderEpochs
    from moldau.broker.tiered.copying import LocalLog, LocalSegment
    from moldau.broker.tiered.remote_partition import RemotePartition
    from moldau.broker.tiered.remote_segment import RemoteEvent, RemoteSegment
    from moldau.broker.tiered.segment_upload import SegmentFiles
    from moldau.broker.tiered.served_partition import ServedPartition
    from moldau.ids import Uuid
    from moldau.objects.object_store import StoredObject

_RETRY: Final = Backoff(100, 5_000)
_NOTHING: Final = Ready()
_SWEEP_AGAIN_S: Final = 15 * 60.0
SWEEP_EVERY_S: Final = 6 * 3600.0


class HostedPartition(Protocol):
    """A replica of this node, as far as its remote work is concerned."""

    @property
    def topic(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def is_in_service(self) -> bool:
        """Whether its log can be used, and knows the epochs of its remote records. Without them all
        that is remote would look like another log's."""

    @property
    def are_epochs_known(self) -> bool:
        """Whether the log knows the epochs of its remote records."""

    def learn_epochs(self, earlier: LeaderEpochs) -> None:
        """Give the log the epochs of its remote records. Raise CorruptLog, without effect, if its
        own batches contradict them."""

    def local_log(self) -> LocalLog:
        """Return what decisions know of its log."""

    def end_active_segment(self, now_ms: int) -> None:
        """Go on in a new segment, unless the active one is empty."""

    def segment_files(self, segment: RemoteSegment) -> SegmentFiles | None:
        """Return the files of a local segment that is to be copied; None if the log does not have
        it any more."""

    def low_watermark(self) -> int:
        """Return the lowest log start of the replicas in sync, or its own if it does not lead; -1
        if one of them is not known."""

    def raise_log_start(self, offset: int) -> bool:
        """Raise the start of the log. Return whether it moved."""

    def raise_local_start(self, offset: int) -> bool:
        """Let the local log begin here at the earliest. Return whether that moved. The files go by
        the log's retention."""


class TierWork(NamedTuple):
    """What the driver of a partition has done next."""

    ready: Ready
    wake: float | None


class RemoteSizes(NamedTuple):
    """The remote part of a partition in numbers, for metrics."""

    remote_bytes: int = 0
    """Of the segments that are served."""
    segment_count: int = 0
    """Segments that the topic of remote segments knows, in any state."""
    waiting_count: int = 0
    """Sealed local segments that are not copied yet."""
    waiting_bytes: int = 0
    deleting_count: int = 0
    deleting_bytes: int = 0


class PartitionTier:
    """One partition; see the module."""

    def __init__(
        self,
        work: RemoteWork,
        partition: HostedPartition,
        broker_id: int,
        settings: TierSettings,
    ) -> None:
        self.partition: Final = partition
        self.key: Final = PartitionKey(partition.topic_id, partition.index)
        self.settings = settings
        self.is_ready = False
        """Whether the topic was read to its end, so that the remote part can be served."""
        self.served: ServedPartition | None = None
        """What readers have; None as long as there are none."""
        self._work = work
        origin = SegmentOrigin(partition.topic, partition.topic_id, partition.index, broker_id)
        self._core = RemoteLog(origin, work.runtime.random, work.limits.retry)
        self._core.on_settings(settings)
        self._led_epoch: int | None = None
        """The epoch in which the partition leads, perhaps before the core knows it."""
        name = f"remote-log-{partition.topic}-{partition.index}"
        self._driver = work.driver(name, self._ready, self._act, lambda _: False)
        self._running = RunningWork(work, name, self._driver.poke)
        self._election: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def remote(self) -> RemotePartition:
        """What the remote tier has."""
        return self._core.remote

    def sizes(self) -> RemoteSizes:
        """Return how much is remote, waits for its copy, and is being deleted."""
        remote, waiting = self.remote, list(self._uncopied())
        return RemoteSizes(
            remote.size_bytes,
            len(remote),
            len(waiting),
            sum(each.size_bytes for each in waiting),
            remote.deleting_count,
            remote.deleting_bytes,
        )

    def _uncopied(self) -> Iterator[LocalSegment]:
        """Yield the sealed segments that are not remote yet, if they are to be copied."""
        settings = self.settings
        is_copied = settings.is_copied and settings.is_remote
        if not (is_copied and self.partition.is_in_service):
            return iter(())
        log = self.partition.local_log()
        copied = copied_end(self.remote, log)
        return (each for each in log.segments[:-1] if each.end_offset > copied)

    # Life.

    async def begin(self) -> None:
        """Follow the topic, and start the work when it was read to its end."""
        self._work.topic.follow(self.key, self)
        await self._read_to_end()
        self.is_ready = True
        self._driver.begin()
        self.on_role()

    def serve(self, served: ServedPartition) -> None:
        """Let readers have the remote part through `served`, whenever that is known."""
        self.served = served
        served.is_ready = self._election is None

    async def aclose(self) -> None:
        """End the work. What has begun is found by the next leader."""
        self._work.topic.unfollow(self.key)
        self._end_election()
        await self._driver.aclose()
        await self._running.aclose()

    def on_settings(self, settings: TierSettings) -> None:
        """The settings of the topic changed."""
        if settings != self.settings:
            self.settings = settings
            self._core.on_settings(settings)
            self._driver.poke()

    def on_role(self) -> None:
        """Learn whether the partition leads, and in which epoch."""
        partition = self.partition
        epoch = partition.leader_epoch if partition.is_leader else None
        if not self.is_ready or epoch == self._led_epoch:
            return
        self._led_epoch = epoch
        self._end_election()
        self._core.on_follower()
        self._running.cancel()
        if epoch is not None:
            self._serve(is_ready=False)
            self._election = self._work.runtime.spawn(
                self._lead(epoch), name=f"lead {self.key.partition}"
            )
        self._driver.poke()

    def copy_now(self) -> bool:
        """Copy all that the log has at once, its active segment too. Return False, and do nothing,
        if this node does not lead yet with all records of the topic."""
        partition = self.partition
        if not (self.is_ready and self._led_epoch is not None and self._election is None):
            return False
        partition.end_active_segment(self._work.now_ms())
        self._core.on_copy_now(partition.local_log().log_end_offset)
        self._driver.poke()
        return True

    def look(self) -> None:
        """Look at once for what there is to do."""
        self._driver.poke()

    def on_record(self, event: RemoteEvent) -> None:
        """Take a record of the topic."""
        self._core.on_record(event)
        self._driver.poke()

    def _end_election(self) -> None:
        for task in (self._election, self._sweeping):
            if task is not None:
                task.cancel()
        self._election = self._sweeping = None
        self._serve(is_ready=True)

    def _serve(self, *, is_ready: bool) -> None:
        if self.served is not None:
            self.served.is_ready = is_ready

    async def _lead(self, epoch: int) -> None:
        await self._read_to_end()
        await self._recover_epochs()
        self._election = None
        self._serve(is_ready=True)
        self._core.on_leader(epoch)
        self._driver.poke()
        self._sweeping = self._work.runtime.spawn(
            self._sweep_again(), name=f"orphans {self.partition.topic}-{self.partition.index}"
        )

    async def _recover_epochs(self) -> None:
        """Let a log that has lost the epochs of its remote records have them of the segments. A
        follower gets them as it begins anew; a leader follows no replica."""
        failures = 0
        where = {"topic": self.partition.topic, "partition": self.partition.index}
        while not self.partition.are_epochs_known and self.served is not None:
            why: str | None
            try:
                why = await self._learn_epochs(self.served)
            except (KafkaError, *STORE_FAILURES) as error:
                why = str(error)
            if why is None:
                self._work.log.info("a leader has the epochs of remote records again", **where)
                return
            failures += 1
            if failures == 1:
                self._work.log.warn(
                    "a leader does not know the epochs of its remote records, so they are neither "
                    "read nor deleted, and nothing is copied; let another replica lead until this "
                    "one is in sync again",
                    **where,
                    why=why,
                )
            await asyncio.sleep(_RETRY.wait_s(failures, self._work.runtime.random))

    async def _learn_epochs(self, served: ServedPartition) -> str | None:
        """Let the log have the epochs of its remote records, and its start if it has lost that too.
        Return why it does not know them yet; None if it does."""
        partition = self.partition
        offset = partition.local_log().local_start_offset
        epochs = await SegmentHistory(served).epochs_before(offset)
        if epochs is None:
            return f"its remote segments before offset {offset} are of several histories"
        partition.learn_epochs(epochs)
        if partition.are_epochs_known:
            return None
        log = partition.local_log()
        start = recovered_start(self.remote, epochs, log)
        if start is not None and partition.raise_log_start(start):
            self._work.log.warn(
                "a log that had lost its start begins where its remote records do",
                topic=partition.topic,
                partition=partition.index,
                log_start_offset=start,
            )
            return None
        known = epochs.earliest
        return (
            f"the log begins at offset {log.log_start_offset}, and what is known of its remote "
            f"records at {known and known.start_offset}: if it has lost its start, moldau topic "
            f"trim {partition.topic} --partition {partition.index} --before OFFSET gives it one"
        )

    async def _read_to_end(self) -> None:
        failures = 0
        while True:
            try:
                await self._work.topic.read_to_end(self.key)
            except KafkaError as error:
                failures += 1
                self._work.log.debug("remote segments are not known yet", why=str(error))
                await asyncio.sleep(_RETRY.wait_s(failures, self._work.runtime.random))
            else:
                return

    # The driver's halves.

    def _ready(self, now: float) -> TierWork:
        partition, work = self.partition, self._work
        interval_ms = work.limits.interval_ms
        ready = _NOTHING
        if work.is_open and partition.is_in_service:
            wall_ms = work.now_ms()
            ready = self._core.ready(partition.local_log(), partition.low_watermark(), wall_ms)
            if ready.due_ms is not None:
                interval_ms = min(interval_ms, max(ready.due_ms - wall_ms, 1))
        return TierWork(ready, now + interval_ms / 1000)

    async def _act(self, work: TierWork) -> bool:
        ready, running, core = work.ready, self._running, self._core
        is_moved = self._move_starts(ready)
        running.append_all(core, ready.writes)
        if ready.put is not None:
            segment = ready.put
            running.begin(
                self._work.copy(core, segment, partial(self.partition.segment_files, segment))
            )
        running.delete_all(core, ready.deletes)
        return is_moved

    def _move_starts(self, ready: Ready) -> bool:
        """Raise the starts of the log. The log's retention removes what lies below."""
        is_moved = False
        try:
            if ready.log_start_offset is not None:
                is_moved = self.partition.raise_log_start(ready.log_start_offset)
            if ready.local_start_offset is not None:
                is_moved |= self.partition.raise_local_start(ready.local_start_offset)
        except (MoldauError, OSError) as error:
            self._work.log.debug("the start of a log is not moved", why=str(error))
        return is_moved

    # Orphans.

    async def _sweep_again(self) -> None:
        """Look for orphans now, again when a put of the leader before must have ended, and then
        from time to time."""
        pauses_s = chain((_SWEEP_AGAIN_S,), repeat(SWEEP_EVERY_S))
        while True:
            try:
                if self._work.is_open:
                    await remove_orphans(
                        self._work, self.key, self.partition.topic, self.remote, self._read_to_end
                    )
            except (KafkaError, *STORE_FAILURES) as error:
                self._work.log.debug("orphans are looked for later", why=str(error))
            interval_s = self._work.limits.interval_ms / 1000
            await asyncio.sleep(next(pauses_s) if self._work.is_open else interval_s)


async def remove_orphans(
    work: RemoteWork,
    key: PartitionKey,
    topic: str,
    remote: RemotePartition,
    read_to_end: Callable[[], Awaitable[None]],
) -> int:
    """Remove the objects of a partition that no segment has, and return how many are left because
    they are not old enough. `read_to_end` waits until `remote` has all records that the topic has
    then."""
    stored: dict[SegmentId, list[StoredObject]] = {}
    folder = partition_folder(topic, key.topic_id, key.partition)
    async for each in work.store.list(folder):
        parsed = parse_object_name(each.name)
        if parsed is not None:
            segment_id = SegmentId(key.topic_id, key.partition, parsed.id)
            stored.setdefault(segment_id, []).append(each)
    await read_to_end()
    orphans = {
        segment_id: max(each.modified_ms for each in objects)
        for segment_id, objects in stored.items()
        if segment_id not in remote
    }
    if not orphans:
        return 0
    before_ms = await work.store.now_ms() - work.limits.orphan_grace_ms
    removed = unreferenced(orphans, remote, before_ms)
    for segment_id in removed:
        for each in stored[segment_id]:
            work.log.info("removes an object that no remote segment has", name=each.name)
            await work.store.delete(each.name)
            work.counts.orphans += 1
    return len(orphans) - len(removed)
