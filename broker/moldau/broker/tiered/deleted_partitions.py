"""Partitions that are deleted, and have remote segments left: they go too.

The leader of a metadata partition does it, for all partitions whose records are there: it is still
there when the replicas of the deleted topic are not, and a crash in between loses nothing. A second
broker that takes itself for the leader does the same again, which changes nothing.

    DELETE_PARTITION_MARKED -> STARTED -> all segments by their own states -> FINISHED

Invariant: a partition counts as deleted only if that is certain, and not because this node does not
know its topic yet. Its topic is missing in the committed metadata, at two looks in a row, and
- another broker has marked it, or
- this node has known it before, or
- the history of the metadata has its deletion, or
- its records are much older than this node's start, when its metadata were complete.

A topic that is there again, as one that was restored, is not deleted on: what it has is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.copying import LocalLog, LocalSegment, SegmentOrigin
from moldau.broker.tiered.metadata_topic import PartitionKey, key_of
from moldau.broker.tiered.partition_tier import SWEEP_EVERY_S, remove_orphans
from moldau.broker.tiered.remote_log import Ready, RemoteLog, TierSettings
from moldau.broker.tiered.remote_segment import DeletionState, PartitionDeletion
from moldau.broker.tiered.remote_work import STORE_FAILURES, RemoteWork, RunningWork
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.broker.tiered.remote_segment import RemoteEvent
    from moldau.ids import Uuid

_LOOKS: Final = 2
_NOTHING: Final = Ready()
_NO_LOG: Final = LocalLog(LeaderEpochs(), (LocalSegment(0, 0, -1, 0),), 0, 0, 0)
_ABOVE_ALL: Final = (1 << 31) - 1
"""The epoch of the leader of a partition that is gone: every segment is of an earlier one."""
_NOTHING_REMOTE: Final = TierSettings(is_copied=False, is_remote=False)


class _Work(NamedTuple):
    ready: Ready
    deletion: PartitionDeletion | None
    wake: float | None


class KnownTopics(NamedTuple):
    """What this node knows of the topics of the cluster."""

    is_known: Callable[[Uuid], bool]
    """Returns whether the committed metadata have a topic."""
    was_deleted: Callable[[Uuid], bool]
    """Returns whether the history of the metadata, as far as it is kept, has a topic's deletion."""
    complete_ms: int
    """Every topic of a record before this time, and not deleted since, is in the metadata."""


class DeletedPartition:
    """One partition whose records a metadata partition has; its deletion, once it `begin`s."""

    def __init__(
        self,
        work: RemoteWork,
        key: PartitionKey,
        topic: str,
        broker_id: int,
        is_known: Callable[[Uuid], bool],
    ) -> None:
        """`is_known` is that of `KnownTopics`."""
        self._work = work
        self._is_known = is_known
        self.key: Final = key
        self.topic: Final = topic
        self._broker_id = broker_id
        origin = SegmentOrigin(topic, key.topic_id, key.partition, broker_id)
        self.core: Final = RemoteLog(origin, work.runtime.random, work.limits.retry)
        self.looks = 0
        """How often the topic was not in the metadata, in a row."""
        self.was_known = False
        """Whether the topic was in the metadata before."""
        self.event_ms = 0
        """The time of the newest record."""
        self.sweep_s = 0.0
        """When its orphans may be looked for, by the monotonic clock."""
        name = f"delete-remote-{topic}-{key.partition}"
        self._driver = work.driver(name, self._ready, self._act, lambda _: self.is_done)
        self._running = RunningWork(work, name, self._driver.poke)
        self._appended: tuple[DeletionState, float] | None = None

    @property
    def is_done(self) -> bool:
        return self.core.remote.deletion is DeletionState.FINISHED

    @property
    def is_begun(self) -> bool:
        return self._driver.is_alive

    def begin(self) -> None:
        """Delete the partition."""
        self._work.log.info(
            "deletes what a deleted topic has in remote storage",
            topic=self.topic,
            partition=self.key.partition,
            segments=len(self.core.remote),
        )
        self.core.on_settings(_NOTHING_REMOTE)
        self.core.on_leader(_ABOVE_ALL)
        self._driver.begin()

    def on_record(self, event: RemoteEvent) -> None:
        self.core.on_record(event)
        self.event_ms = max(self.event_ms, event.event_ms)
        if self.is_begun:
            self._driver.poke()

    async def aclose(self) -> None:
        await self._driver.aclose()
        await self._running.aclose()

    def _ready(self, now: float) -> _Work:
        work, remote = self._work, self.core.remote
        wake = now + work.limits.interval_ms / 1000
        if not work.is_open or self.is_done or self._is_known(self.key.topic_id):
            return _Work(_NOTHING, None, wake)
        if remote.deletion is DeletionState.STARTED and len(remote):
            wall_ms = work.now_ms()
            ready = self.core.ready(_NO_LOG, 0, wall_ms)
            if ready.due_ms is not None:
                wake = min(wake, now + max(ready.due_ms - wall_ms, 1) / 1000)
            return _Work(ready, None, wake)
        state = DeletionState.MARKED
        if remote.deletion is not None:
            state = DeletionState(remote.deletion + 1)
        if self._appended is not None and self._appended[0] is state and now < self._appended[1]:
            return _Work(_NOTHING, None, self._appended[1])
        self._appended = state, wake
        where = *self.key, self.topic
        return _Work(
            _NOTHING, PartitionDeletion(*where, state, self._broker_id, work.now_ms()), wake
        )

    async def _act(self, work: _Work) -> bool:
        running, core = self._running, self.core
        if work.deletion is not None:
            running.append_all(core, (work.deletion,))
        running.append_all(core, work.ready.writes)
        running.delete_all(core, work.ready.deletes)
        return False


class DeletedPartitions:
    """The partitions whose records one metadata partition has, while this node leads it."""

    def __init__(
        self,
        work: RemoteWork,
        partition: int,
        broker_id: int,
        topics: KnownTopics,
    ) -> None:
        self._work = work
        self._partition = partition
        self._broker_id = broker_id
        self._topics = topics
        self._found: dict[PartitionKey, DeletedPartition] = {}
        self._swept: set[PartitionKey] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Follow the metadata partition, and look for deleted ones from time to time."""
        self._work.topic.follow_whole(self._partition, self)
        self._task = self._work.runtime.spawn(
            self._look_again(), name=f"deleted-topics-{self._partition}"
        )

    async def aclose(self) -> None:
        """End the work: another broker goes on with it."""
        self._work.topic.unfollow_whole(self._partition)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for each in self._found.values():
            await each.aclose()

    def on_record(self, event: RemoteEvent) -> None:
        key = key_of(event)
        known = self._found.get(key)
        if known is None:
            known = DeletedPartition(
                self._work, key, event.topic, self._broker_id, self._topics.is_known
            )
            self._found[key] = known
        known.on_record(event)

    async def _look_again(self) -> None:
        while True:
            try:
                await self._work.topic.whole_read_to_end(self._partition)
                await self._look()
            except (MoldauError, OSError) as error:
                self._work.log.debug("deleted topics are looked for later", why=str(error))
            await asyncio.sleep(self._work.limits.interval_ms / 1000)

    async def _look(self) -> None:
        for key, each in list(self._found.items()):
            if self._topics.is_known(key.topic_id):
                each.looks, each.was_known = 0, True
                if each.is_begun:
                    await each.aclose()
                continue
            each.looks += 1
            if each.looks < _LOOKS or key in self._swept or not self._is_deleted(each):
                continue
            if not each.is_done and not each.is_begun:
                each.begin()
            elif each.is_done and self._work.runtime.clock.monotonic() >= each.sweep_s:
                await self._sweep(each)

    def _is_deleted(self, each: DeletedPartition) -> bool:
        topics = self._topics
        return (
            each.core.remote.deletion is not None
            or each.was_known
            or each.event_ms < topics.complete_ms
            or topics.was_deleted(each.key.topic_id)
        )

    async def _sweep(self, gone: DeletedPartition) -> None:
        """Remove objects of copies that came after their deletion."""
        work, key = self._work, gone.key
        read = partial(work.topic.whole_read_to_end, self._partition)
        try:
            left = await remove_orphans(work, key, gone.topic, gone.core.remote, read)
        except STORE_FAILURES as error:
            self._work.log.debug("orphans are looked for later", why=str(error))
            return
        if left:
            gone.sweep_s = work.runtime.clock.monotonic() + SWEEP_EVERY_S
            return
        self._swept.add(key)
        await gone.aclose()
