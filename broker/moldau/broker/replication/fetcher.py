"""The fetchers of a node: one for each leader, which carries out what `LeaderFetch` decides.

A fetcher is one task. It waits for the response to a request, or for the next deadline; added or
removed partitions end either wait. What a log must know to begin behind remote records is found out
by a task for each such log, as the store may be slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moldau.broker.log.offset_lookup import EARLIEST, LATEST
from moldau.broker.replication.follower import Action, Marks
from moldau.broker.replication.leader_fetch import LeaderFetch, LogStep, Refusal, RequestedPartition
from moldau.broker.replication.rebuild import LeaderQueries, find_start
from moldau.broker.replication.session import FollowerPosition, FollowerSessionRequest
from moldau.deferred import dataclass
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
from moldau.records import whole_bytes

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.quota import ReplicationQuota
    from moldau.broker.tiered.rebuild import RemoteHistory
    from moldau.ids import Uuid
    from moldau.link import Peers
    from moldau.logging import Logger
    from moldau.runtime import Runtime

    Key = tuple[Uuid, int]

_REBUILD_FAILURES_UNTIL_LINE: Final = 4
_UNANSWERED: Final = "a leader does not answer a fetch"


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of fetches."""

    min_bytes: int
    wait_ms_max: int
    bytes_max: int
    partition_bytes_max: int
    backoff_ms: int
    timeout_ms: int
    is_remote_skipped: bool = False
    """Whether a new replica of a tiered topic copies nothing that is remote already."""


@dataclass(frozen=True, slots=True)
class FetcherServices:
    """The services that all fetchers of a node share."""

    runtime: Runtime
    peers: Peers
    node_id: int
    broker_epoch: Callable[[], int]
    terms: Callable[[], FetchSettings]
    quota: Callable[[], ReplicationQuota]
    watch_room: Callable[[], None]
    """Measures the room on the disks, if one may be nearly full and the last measure is old."""
    log: Logger
    history: Callable[[Partition], RemoteHistory | None] = lambda partition: None
    """Returns the remote records of a partition; None if it has none, or not yet."""


class ReplicaFetchers:
    """All fetchers of a node. `Replicas` calls `follow` and `unfollow`."""

    def __init__(self, ground: FetcherServices) -> None:
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


class FollowedReplica:
    """A replica as the core sees it, and the watcher of its changes."""

    __slots__ = ("_core", "_ground", "_key", "partition", "rebuild_failures")

    def __init__(
        self,
        ground: FetcherServices,
        core: LeaderFetch[FollowedReplica],
        key: Key,
        partition: Partition,
    ) -> None:
        self._ground = ground
        self._core = core
        self.rebuild_failures = 0
        """The attempts in a row to begin behind remote records that failed."""
        self._key = key
        self.partition = partition

    @property
    def leader_epoch(self) -> int:
        return self.partition.leader_epoch

    @property
    def marks(self) -> Marks:
        log = self.partition.log.state
        return Marks(
            log.log_start_offset, log.log_end_offset, log.leader_epochs, log.is_history_known
        )

    @property
    def is_in_service(self) -> bool:
        return self.partition.log.state.failure is None

    @property
    def is_throttled(self) -> bool:
        partition = self.partition
        return _is_throttled(partition, self._ground.quota()) and not partition.is_in_sync

    @property
    def is_short_of_room(self) -> bool:
        partition = self.partition
        return partition.log.state.owner.room.is_short and not partition.is_reserved

    @property
    def is_remote_skipped(self) -> bool:
        config = self.partition.log.config
        is_eligible = config.is_tiered and not config.is_compacted
        return is_eligible and self._ground.terms().is_remote_skipped

    def on_change(self) -> None:
        self._core.on_changed(self._key)

    def on_displaced(self) -> None:
        """Called when the partition is added again, for another epoch."""


class LeaderFetcher:
    """Fetches from one leader."""

    def __init__(self, ground: FetcherServices, leader_id: int) -> None:
        self._ground = ground
        self._leader_id = leader_id
        self._core: LeaderFetch[FollowedReplica] = LeaderFetch()
        self._followed: dict[Key, FollowedReplica] = {}
        self._changed = asyncio.Event()
        self._asking: asyncio.Timeout | None = None
        """The wait for a response, which a change of the partitions ends."""
        self._task: asyncio.Task[None] | None = None
        self._rebuilds: set[asyncio.Task[None]] = set()
        self._lane = 0

    def start(self) -> None:
        """Start the fetching task, if it does not run."""
        if self._task is None:
            name = f"follow-{self._leader_id}"
            self._task = self._ground.runtime.spawn(self._run(), name=name)

    def add(self, key: Key, partition: Partition) -> None:
        """Fetch the partition from now on."""
        followed = self._followed[key] = FollowedReplica(self._ground, self._core, key, partition)
        partition.watchers.add(self._ground.node_id, followed)
        self._core.on_added(key, followed)
        self._on_change()

    def remove(self, key: Key) -> None:
        """Stop fetching the partition."""
        followed = self._followed.pop(key, None)
        if followed is not None:
            followed.partition.watchers.remove(self._ground.node_id, followed)
        self._core.on_removed(key)
        self._on_change()

    def _on_change(self) -> None:
        self._changed.set()
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.reschedule(asyncio.get_running_loop().time())

    async def aclose(self) -> None:
        """Stop the fetching task."""
        task, self._task = self._task, None
        tasks = [*self._rebuilds, *(() if task is None else (task,))]
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Rounds.

    async def _run(self) -> None:
        core, ground = self._core, self._ground
        while True:
            self._changed.clear()
            ground.watch_room()
            terms, now_ms = ground.terms(), self._now_ms()
            core.on_settings(terms.partition_bytes_max, terms.backoff_ms)
            core.on_quota(ground.quota().is_exceeded(now_ms))
            ready = core.ready(now_ms)
            self._report_refusals(ready.refusals)
            for step in ready.steps:
                self._carry_out(step)
            for asked in ready.questions:
                await self._ask_ends(asked)
            for asked in ready.rebuilds:
                self._begin_rebuild(asked)
            if ready.request is not None:
                await self._fetch(ready.request, terms)
            elif ready.is_idle:
                await self._until(ready.deadline_ms)

    async def _until(self, deadline_ms: int | None) -> None:
        """Wait until the deadline, or until the partitions change."""
        seconds = None if deadline_ms is None else max(0.0, (deadline_ms - self._now_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _fetch(self, tell: FollowerSessionRequest, terms: FetchSettings) -> None:
        """Send a request, and tell the core what came of it."""
        ground, core = self._ground, self._core
        asking = ground.peers.request(
            self._leader_id,
            self._request(tell, terms),
            FetchResponse,
            lane=f"fetch-{self._lane}",
            timeout_s=terms.timeout_ms / 1000,
        )
        try:
            try:
                async with asyncio.timeout(None) as self._asking:
                    response = await asking
            finally:
                self._asking = None
        except TimeoutError:  # the partitions have changed
            core.on_given_up()
            # The response that is still to come would delay the next request.
            self._lane = 1 - self._lane
            return
        except KafkaError as error:
            ground.log.debug(_UNANSWERED, leader=self._leader_id, why=str(error))
            core.on_failed(self._now_ms())
            return
        if response.error_code:
            why = ErrorCode(response.error_code).name
            ground.log.debug(_UNANSWERED, leader=self._leader_id, why=why)
        core.on_response(response, self._now_ms())

    def _request(self, tell: FollowerSessionRequest, terms: FetchSettings) -> FetchRequest:
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

    def _report_refusals(self, refusals: Iterable[Refusal[FollowedReplica]]) -> None:
        for replica, code in refusals:
            self._ground.log.debug(
                "a leader refuses a fetch",
                leader=self._leader_id,
                **_facts(replica.partition),
                error=ErrorCode(code).name,
            )

    # Steps.

    def _carry_out(self, step: LogStep[FollowedReplica]) -> None:
        """Carry out a step. An error of the log is logged, and its directory handles it. After any
        error, such as a damaged response, the partition pauses and is then fetched again."""
        log, partition = self._ground.log, step.replica.partition
        try:
            match step.action:
                case Action.APPEND:
                    assert step.data is not None
                    self._append(partition, step.data)
                case Action.TRUNCATE:
                    facts = _facts(partition)
                    log.info("truncates a replica to its leader", **facts, end=step.offset)
                    partition.log.truncate_to(step.offset)
                case Action.START_AT:
                    facts = _facts(partition)
                    log.warn("a replica begins anew", **facts, start=step.offset)
                    partition.log.truncate_fully_and_start_at(step.offset)
                case Action.REBUILD:
                    self._rebuild(step)
        except MoldauError as error:
            what = "a replica cannot take what its leader has"
            log.failure(what, error, **_facts(partition))
            self._core.on_step_failed(step.key, self._now_ms())

    def _append(self, partition: Partition, data: PartitionData) -> None:
        records = data.records
        if records:
            whole = memoryview(records)[: whole_bytes(records)]
            if len(whole):
                partition.log.append_as_follower(whole, self._ground.runtime.clock.wall_ms())
                quota = self._ground.quota()
                if _is_throttled(partition, quota):
                    quota.record(len(whole), self._now_ms())
        partition.take_over(data.high_watermark, data.log_start_offset)

    async def _ask_ends(self, asked: RequestedPartition[FollowedReplica]) -> None:
        """Request the ends of the leader's log."""
        leader = self._ask(asked.replica.partition)
        try:
            start = await leader.offset(EARLIEST)
            end = await leader.offset(LATEST)
        except KafkaError as error:
            self._ground.log.debug("a leader does not tell its offsets", why=str(error))
            self._core.on_no_ends(asked, self._now_ms())
        else:
            self._core.on_ends(asked, start.offset, end.offset, self._now_ms())

    def _ask(self, partition: Partition) -> LeaderQueries:
        ground = self._ground
        return LeaderQueries(ground.peers, ground.node_id, self._leader_id, partition)

    # Beginning behind remote records.

    def _begin_rebuild(self, asked: RequestedPartition[FollowedReplica]) -> None:
        task = self._ground.runtime.spawn(self._find_start(asked), name="rebuild")
        self._rebuilds.add(task)
        task.add_done_callback(self._rebuilds.discard)

    async def _find_start(self, asked: RequestedPartition[FollowedReplica]) -> None:
        """Find out how a log begins anew, and tell the core."""
        replica, ground = asked.replica, self._ground
        partition = replica.partition
        try:
            start = await find_start(
                self._ask(partition),
                replica.marks,
                ground.history(partition),
                is_remote_skipped=replica.is_remote_skipped,
            )
        except MoldauError as error:
            self._report_rebuild(replica, error)
            self._core.on_rebuild_failed(asked, self._now_ms())
        else:
            replica.rebuild_failures = 0
            if start is None:
                self._core.on_no_rebuild(asked)
            else:
                self._core.on_start(asked, start)
        self._on_change()

    def _report_rebuild(self, replica: FollowedReplica, error: MoldauError) -> None:
        """Log one failure of several in a row: not the first ones, as after each start the topic of
        remote segments is still being read."""
        replica.rebuild_failures += 1
        if replica.rebuild_failures == _REBUILD_FAILURES_UNTIL_LINE:
            what = "a replica cannot begin behind its remote records yet, and tries again"
            self._ground.log.warn(what, **_facts(replica.partition), why=str(error))

    def _rebuild(self, step: LogStep[FollowedReplica]) -> None:
        """Begin a log anew behind remote records."""
        partition, start = step.replica.partition, step.start
        assert start is not None
        self._ground.log.info(
            "a replica begins behind its remote records",
            **_facts(partition),
            offset=step.offset,
            log_start_offset=start.log_start_offset,
            producers=len(start.history.producers),
        )
        now_ms = self._ground.runtime.clock.wall_ms()
        partition.log.begin_behind(start.history, start.log_start_offset, now_ms)
        partition.on_moved()

    def _now_ms(self) -> int:
        return self._ground.runtime.clock.monotonic_ns() // 1_000_000


def _is_throttled(partition: Partition, quota: ReplicationQuota) -> bool:
    """Whether the quota applies to the partition, by a setting or by a move of this node."""
    is_paced = quota.paced is not None and quota.paced == (partition.topic, partition.index)
    return is_paced or partition.is_fetch_throttled


def _facts(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.index}


def _topics(wishes: Mapping[Key, FollowerPosition]) -> list[FetchTopic]:
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
