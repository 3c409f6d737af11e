"""Fetches from leaders: one fetch at a time from each, in a session, for all partitions that it
leads.

`follower` decides what a response means; this module carries it out. Added or removed partitions
end the current wait, so that a new topic does not wait for the end of a fetch without news.

Invariants:
* The response for a partition is used only if the partition still follows the same leader in the
  same epoch as in the request.
* The cost of a round depends on the changes: `_touched` has every partition whose log or role may
  differ from the last request. These are partitions that were added, that a response named, or
  whose pause ended. Retention and failed disks are not reported here. So all partitions are checked
  after a response without news, and every `WALK_MS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.broker.replication import follower
from moldau.broker.replication.follower import Action, Marks, Step
from moldau.broker.replication.session import FollowerSession, Tell, Wish
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.records import whole_bytes

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.quota import ReplicationQuota
    from moldau.ids import Uuid
    from moldau.link import Peers
    from moldau.logging import Logger
    from moldau.runtime import Runtime

Key = tuple["Uuid", int]

RACE_MS: Final = 50
WALK_MS: Final = 1000
THROTTLED_MS: Final = 100
"""The pause of a throttled partition while the quota is exceeded."""
_SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
_EARLIEST: Final = -2
_LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """The settings of fetches."""

    min_bytes: int
    wait_ms_max: int
    bytes_max: int
    partition_bytes_max: int
    backoff_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Ground:
    """The services that all fetchers of a node share."""

    runtime: Runtime
    peers: Peers
    node_id: int
    broker_epoch: Callable[[], int]
    terms: Callable[[], FetchTerms]
    quota: Callable[[], ReplicationQuota]
    log: Logger


class ReplicaFetchers:
    """All fetchers of a node. `Replicas` calls `follow` and `unfollow`."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._leaders: dict[int, LeaderFetcher] = {}
        self._places: dict[Key, int] = {}
        self._is_live = False

    def start(self) -> None:
        """Fetch from now on: the broker is registered."""
        self._is_live = True
        for each in self._leaders.values():
            each.start()

    def follow(self, partition: Partition) -> None:
        """Begin to fetch the partition from its `leader_id`, or fetch it in another epoch."""
        key = partition.topic_id, partition.index
        leader_id = partition.leader_id
        known = self._places.get(key)
        if known is not None and known != leader_id:
            self._leaders[known].remove(key)
        fetcher = self._leaders.get(leader_id)
        if fetcher is None:
            fetcher = self._leaders[leader_id] = LeaderFetcher(self._ground, leader_id)
            if self._is_live:
                fetcher.start()
        self._places[key] = leader_id
        fetcher.add(key, partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching the partition."""
        leader_id = self._places.pop((partition.topic_id, partition.index), None)
        if leader_id is not None:
            self._leaders[leader_id].remove((partition.topic_id, partition.index))

    async def aclose(self) -> None:
        """Stop all fetchers."""
        self._is_live = False
        for each in self._leaders.values():
            await each.aclose()
        self._leaders.clear()
        self._places.clear()


class LeaderFetcher:
    """Fetches from one leader."""

    def __init__(self, ground: Ground, leader_id: int) -> None:
        self._ground = ground
        self._leader_id = leader_id
        self._partitions: dict[Key, Partition] = {}
        self._paused: dict[Key, int] = {}
        """The time until which a partition is not fetched."""
        self._asked: dict[Key, tuple[Partition, int, int]] = {}
        """The partitions of the last request, each with its leader epoch and the end of its log."""
        self._touched: dict[Key, None] = {}
        """The partitions to check for the next request."""
        self._walk_at_ms = 0
        """The time at which all partitions are checked."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lane = 0
        self._session = FollowerSession()

    def start(self) -> None:
        """Start the fetching task, if it does not run."""
        if self._task is None:
            name = f"follow-{self._leader_id}"
            self._task = self._ground.runtime.spawn(self._run(), name=name)

    def add(self, key: Key, partition: Partition) -> None:
        """Fetch the partition from now on."""
        self._partitions[key] = partition
        self._paused.pop(key, None)
        self._touched[key] = None
        self._changed.set()

    def remove(self, key: Key) -> None:
        """Stop fetching the partition."""
        self._partitions.pop(key, None)
        self._paused.pop(key, None)
        self._touched[key] = None
        self._changed.set()

    async def aclose(self) -> None:
        """Stop the fetching task."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    # Rounds.

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            terms = self._ground.terms()
            changed, gone = self._refresh(terms.partition_bytes_max)
            tell = self._session.next(changed, gone)
            if not self._asked:
                self._session.end(is_known=True)  # the leader does not learn about this
                await self._wait()
                continue
            response = await self._fetch(self._request(tell, terms), terms)
            if response is not None:
                await self._take(response)

    def _refresh(self, bytes_max: int) -> tuple[dict[Key, Wish], list[Key]]:
        """Update `_asked`. Return the changed fetch positions, and the partitions to forget."""
        now_ms = self._now_ms()
        self._rest_throttled(now_ms)
        for key in [key for key, until_ms in self._paused.items() if until_ms <= now_ms]:
            del self._paused[key]
            self._touched[key] = None
        touched, self._touched = self._touched, {}
        if now_ms >= self._walk_at_ms:
            self._walk_at_ms = now_ms + WALK_MS
            touched.update(dict.fromkeys(self._partitions))
        changed: dict[Key, Wish] = {}
        gone: list[Key] = []
        for key in touched:
            partition = self._partitions.get(key)
            if partition is None or key in self._paused or partition.log.failure is not None:
                if self._asked.pop(key, None) is not None:
                    gone.append(key)
                continue
            epoch, end = partition.leader_epoch, partition.log_end_offset
            self._asked[key] = partition, epoch, end
            last_epoch, start = _marks(partition).last_epoch, partition.log_start_offset
            changed[key] = Wish(epoch, end, last_epoch, start, bytes_max)
        return changed, gone

    def _rest_throttled(self, now_ms: int) -> None:
        """While the quota is exceeded, pause throttled replicas that are not in sync."""
        if not self._ground.quota().is_exceeded(now_ms):
            return
        for key, partition in self._partitions.items():
            if partition.is_fetch_throttled and not partition.is_in_sync:
                self._paused[key] = now_ms + THROTTLED_MS
                self._touched[key] = None

    async def _wait(self) -> None:
        """Wait until partitions are added, or the pause of one is over."""
        seconds = None
        if self._paused:
            seconds = max(0.0, (min(self._paused.values()) - self._now_ms()) / 1000)
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _fetch(self, request: FetchRequest, terms: FetchTerms) -> FetchResponse | None:
        """Fetch and return the response; None if there is none, or if the partitions change."""
        ground = self._ground
        lane = f"fetch-{self._lane}"
        fetching = ground.runtime.spawn(
            ground.peers.request(
                self._leader_id,
                request,
                FetchResponse,
                lane=lane,
                timeout_s=terms.timeout_ms / 1000,
            ),
            name=f"fetch-{self._leader_id}",
            reported=False,
        )
        changed = ground.runtime.spawn(self._changed.wait(), name="fetch-changed")
        try:
            await asyncio.wait((fetching, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            if not fetching.done():
                fetching.cancel()
                self._session.end(is_known=True)
                # the response that is still to come would delay the next request
                self._lane = 1 - self._lane
        if not fetching.done() or fetching.cancelled():
            return None
        error = fetching.exception()
        if error is None and not fetching.result().error_code:
            self._session.answered(fetching.result().session_id)
            return fetching.result()
        self._session.end()
        if error is not None and not isinstance(error, KafkaError):
            raise error
        if error is None and fetching.result().error_code in _SESSION_ERRORS:
            return None  # the leader dropped the session: send everything again, at once
        why = str(error) if error is not None else ErrorCode(fetching.result().error_code).name
        ground.log.debug("a leader does not answer a fetch", leader=self._leader_id, why=why)
        await self._rest(min(terms.backoff_ms, RACE_MS))
        return None

    async def _rest(self, backoff_ms: int) -> None:
        try:
            async with asyncio.timeout(backoff_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return

    def _request(self, tell: Tell, terms: FetchTerms) -> FetchRequest:
        ground = self._ground
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=ground.node_id, replica_epoch=ground.broker_epoch()
            ),
            max_wait_ms=terms.wait_ms_max,
            min_bytes=terms.min_bytes,
            max_bytes=terms.bytes_max,
            session_id=tell.session_id,
            session_epoch=tell.epoch,
            topics=_topics(tell.wishes),
            forgotten_topics_data=_forgotten(tell.forgotten),
        )

    # Responses.

    async def _take(self, response: FetchResponse) -> None:
        if not response.responses:
            self._walk_at_ms = 0
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                self._touched[key] = None
                known = self._asked.get(key)
                if known is None or not self._is_current(key, *known):
                    continue
                step = self._judge(key, known[0], data)
                if step.action is Action.ASK_ENDS:
                    await self._ask_ends(key, *known)

    def _is_current(
        self, key: Key, partition: Partition, leader_epoch: int, end_offset: int
    ) -> bool:
        return (
            self._partitions.get(key) is partition
            and partition.leader_epoch == leader_epoch
            and partition.log_end_offset == end_offset
        )

    def _judge(self, key: Key, partition: Partition, data: PartitionData) -> Step:
        step = follower.on_fetched(_marks(partition), data.error_code, data.diverging_epoch)
        if data.error_code and step.action is Action.PAUSE:
            self._ground.log.debug(
                "a leader refuses a fetch",
                leader=self._leader_id,
                topic=partition.topic,
                partition=partition.index,
                error=ErrorCode(data.error_code).name,
            )
        self._carry_out(key, partition, step, data)
        return step

    def _carry_out(
        self, key: Key, partition: Partition, step: Step, data: PartitionData | None = None
    ) -> None:
        """Carry out a step. An error of the log is logged, and its directory handles it. After any
        error, such as a damaged response, the partition pauses and is then fetched again."""
        ground, log = self._ground, partition.log
        facts = {"topic": partition.topic, "partition": partition.index}
        try:
            match step.action:
                case Action.APPEND:
                    assert data is not None
                    self._append(partition, data)
                case Action.TRUNCATE:
                    ground.log.info("truncates a replica to its leader", **facts, end=step.offset)
                    log.truncate_to(step.offset)
                case Action.START_AT:
                    ground.log.warn("a replica begins anew", **facts, start=step.offset)
                    log.truncate_fully_and_start_at(step.offset)
                case Action.PAUSE:
                    self._pause(key)
        except MoldauError as error:
            ground.log.failure("a replica cannot take what its leader has", error, **facts)
            self._pause(key)

    def _append(self, partition: Partition, data: PartitionData) -> None:
        log, records = partition.log, data.records
        if records:
            whole = memoryview(records)[: whole_bytes(records)]
            if len(whole):
                log.append_as_follower(whole, self._ground.runtime.clock.wall_ms())
                if partition.is_fetch_throttled:
                    self._ground.quota().record(len(whole), self._now_ms())
        partition.take_over(data.high_watermark, data.log_start_offset)

    def _pause(self, key: Key) -> None:
        """Pause the partition briefly: mostly the leader does not know yet that it leads."""
        if key in self._partitions:
            pause_ms = min(self._ground.terms().backoff_ms, RACE_MS)
            self._paused[key] = self._now_ms() + pause_ms
            self._touched[key] = None

    async def _ask_ends(
        self, key: Key, partition: Partition, leader_epoch: int, end_offset: int
    ) -> None:
        """Request the ends of the leader's log, and carry out the step that follows from them."""
        try:
            start = await self._offset(partition, leader_epoch, _EARLIEST)
            end = await self._offset(partition, leader_epoch, _LATEST)
        except KafkaError as error:
            self._ground.log.debug("a leader does not tell its offsets", why=str(error))
            self._pause(key)
            return
        if self._is_current(key, partition, leader_epoch, end_offset):
            self._carry_out(key, partition, follower.on_ends(_marks(partition), start, end))

    async def _offset(self, partition: Partition, leader_epoch: int, timestamp: int) -> int:
        asked = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._ground.node_id,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
        )
        response = await self._ground.peers.request(self._leader_id, request, ListOffsetsResponse)
        row = response.topics[0].partitions[0]
        if row.error_code:
            raise KafkaError(ErrorCode(row.error_code))
        return row.offset

    def _now_ms(self) -> int:
        return self._ground.runtime.clock.monotonic_ns() // 1_000_000


def _marks(partition: Partition) -> Marks:
    log = partition.log
    return Marks(log.log_start_offset, log.log_end_offset, log.leader_epochs)


def _topics(wishes: Mapping[Key, Wish]) -> list[FetchTopic]:
    topics: dict[Uuid, FetchTopic] = {}
    for (topic_id, index), wish in wishes.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=wish.leader_epoch,
                fetch_offset=wish.offset,
                last_fetched_epoch=wish.last_epoch,
                log_start_offset=wish.log_start_offset,
                partition_max_bytes=wish.bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return [ForgottenTopic(topic_id=each, partitions=indexes) for each, indexes in topics.items()]
