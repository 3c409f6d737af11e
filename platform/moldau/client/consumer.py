"""The consumer: records of partitions that it is told to read, from an offset, an end or a time on.

    async with Consumer(bootstrap_servers="localhost:9092") as consumer:
        consumer.assign(await consumer.partitions("orders"))
        await consumer.seek_to_beginning()
        while True:
            for part in await consumer.poll(timeout_s=1.0):
                for record in part.records:
                    ...

Partitions are fetched ahead while the user works on what came before, within the memory that
`max.partition.fetch.bytes` allows. `poll` decodes whole batches and gives records by partition, in
the order of each partition's log.

A fetch waits at the broker for something new only if it asks for every partition that is read
there. Otherwise: 1. one partition's records lie here, the others are at their ends; 2. a fetch of
these others waits; 3. the user takes what lies here, and nobody fetches more of it for half a
second.

Invariants: at most one fetch a broker is under way; nothing is given out twice or left out between
two seeks; an error that trying again does not heal is raised by `poll`, once, with topic, partition
and offset. What to fetch and what to give is decided in `positions`; this shell has the clock, the
connections and the waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Final, Self, cast

from moldau.client import settings as rows
from moldau.client.cluster import Cluster
from moldau.client.fetch_requests import fetch_request, settle_fetch
from moldau.client.fetched import PartitionRecords
from moldau.client.metadata import NO_LEADER, TopicPartition
from moldau.client.offsets import (
    EARLIEST,
    LATEST,
    FoundOffset,
    list_offsets,
    partitions_of,
)
from moldau.client.positions import Asked, Position, Positions, State
from moldau.client.world import World, closing_unless_ready
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.fetch import FetchResponse
from moldau.runtime import Runtime

_SHORTEST_WAIT_S: Final = 0.001
# After this long a user hears of a topic or partition that there is not; it is looked for on.
_LOOK_UP_S: Final = 5.0
_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Partitions = Iterable[TopicPartition | tuple[str, int]]


class Consumer:
    """Reads records of assigned partitions. Belongs to the event loop that it was started in."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        **options: object,
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win."""
        self.settings = rows.resolve(rows.CONSUMER_SETTINGS, settings or {}, options)
        self._world = World(runtime)
        self._is_committed = self.settings[rows.isolation_level] == "read_committed"
        self._is_closed = False
        self._fetching: set[int] = set()
        # Brokers that had nothing new of the partitions which had room for more.
        self._had_nothing: set[int] = set()
        self._looking_up: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._fetch_is_due = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Connects; KafkaError when no bootstrap server can be reached."""
        runtime = self._world.enter()
        settings = self.settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._cluster = Cluster(
            runtime, settings, creates_topics=settings[rows.allow_auto_create_topics]
        )
        self._cluster.on_update = self._fetch_soon
        self._positions = Positions(
            settings[rows.max_partition_fetch_bytes],
            settings[rows.auto_offset_reset],
            self._cluster.backoff,
            runtime.random,
            check_crcs=settings[rows.check_crcs],
        )
        async with closing_unless_ready(self.aclose):
            await self._cluster.refresh()

    async def aclose(self) -> None:
        """Closes its connections; a poll that waits fails. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._news.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._looking_up is not None:
            self._looking_up.cancel()
        await self._cluster.aclose()
        await self._world.aclose()

    # Which partitions, and from where

    async def partitions(
        self, *topics: str, timeout_s: float | None = None
    ) -> list[TopicPartition]:
        """All partitions of these topics; KafkaError for one that the cluster does not know, after
        `default.api.timeout.ms` if it is not told otherwise, as topics may be on their way."""
        return await partitions_of(self._cluster, topics, timeout_s=timeout_s)

    def assign(self, partitions: Partitions) -> None:
        """Reads these partitions from now on and no others. New ones begin where
        `auto.offset.reset` says, unless a seek says otherwise."""
        wanted = [TopicPartition(*each) for each in partitions]
        before = {each.where.topic for each in self._positions}
        topics = {where.topic for where in wanted}
        self._positions.assign(wanted)
        self._cluster.unwatch(before - topics)
        self._cluster.watch(topics)
        if topics - self._cluster.metadata.topics.keys():
            self._cluster.request_refresh()
        self._fetch_soon()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return [each.where for each in self._positions]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """The next record of the partition is that of `offset`, or the first one behind it."""
        if offset < 0:
            raise ValueError("an offset is not negative; seek_to_end and others seek by name")
        self._positions.require(TopicPartition(topic, partition)).seek(offset)
        self._fetch_soon()

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Goes to the first record of these partitions, or of all that are assigned."""
        await self._seek_by(dict.fromkeys(self._chosen(partitions), EARLIEST))

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Goes behind the last record of these partitions, or of all that are assigned."""
        await self._seek_by(dict.fromkeys(self._chosen(partitions), LATEST))

    async def seek_to_time(self, timestamp_ms: int, partitions: Partitions | None = None) -> None:
        """Goes to the first record that is not older; to the end where there is none."""
        await self._seek_by(dict.fromkeys(self._chosen(partitions), timestamp_ms))

    async def _seek_by(self, wanted: dict[TopicPartition, int]) -> None:
        found = await self.offsets(wanted)
        late = [where for where, each in found.items() if each.offset < 0]
        ends = await self.offsets(dict.fromkeys(late, LATEST)) if late else {}
        for where in wanted:
            offset = ends[where].offset if where in ends else found[where].offset
            self._positions.require(where).seek(offset)
        self._fetch_soon()

    async def offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        """The offsets by timestamp (ms), or of the ends of the log: `offsets.EARLIEST` and its
        like. Offset -1 where no record is as new."""
        return await list_offsets(self._cluster, wanted, is_committed=self._is_committed)

    def position(self, topic: str, partition: int) -> int | None:
        """The offset of the next record that a poll will give; None while it is not known."""
        found = self._positions.require(TopicPartition(topic, partition))
        return None if found.position < 0 else found.position

    def lag(self, topic: str, partition: int) -> int | None:
        """How many offsets lie before the end as of the last fetch; None before the first one."""
        found = self._positions.require(TopicPartition(topic, partition))
        if found.high_watermark < 0 or found.position < 0:
            return None
        return max(0, found.high_watermark - found.position)

    def pause(self, partitions: Partitions | None = None) -> None:
        """Gives nothing of these partitions and fetches no more of them; what is there is kept."""
        for where in self._chosen(partitions):
            self._positions.require(where).is_paused = True

    def resume(self, partitions: Partitions | None = None) -> None:
        """Takes `pause` back."""
        for where in self._chosen(partitions):
            self._positions.require(where).is_paused = False
        self._news.set()
        self._fetch_soon()

    def _chosen(self, partitions: Partitions | None) -> list[TopicPartition]:
        if partitions is None:
            return self.assignment
        return [TopicPartition(*each) for each in partitions]

    # Records out

    async def poll(
        self, timeout_s: float = 0.0, *, max_records: int | None = None
    ) -> list[PartitionRecords]:
        """Records as soon as there are some, an empty list when the time is over before.

        At most `max_records`, else `max.poll.records`. Raises what keeps a partition from being
        read: KafkaError or CorruptRecord, with topic, partition and offset.
        """
        if max_records is None:
            max_records = self.settings[rows.max_poll_records]
        deadline = self._clock.monotonic() + timeout_s
        while True:
            self._check_open()
            self._news.clear()
            found = self._positions.take(max_records)
            if found:
                self._had_nothing.clear()
            self._fetch_soon()
            left = deadline - self._clock.monotonic()
            if found or left <= 0:
                return found
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                return []

    async def batches(self, *, max_records: int | None = None) -> AsyncIterator[PartitionRecords]:
        """Records by partition for as long as the consumer is open."""
        while not self._is_closed:
            for part in await self.poll(60.0, max_records=max_records):
                yield part

    # Fetching

    def _fetch_soon(self) -> None:
        if not self._fetch_is_due and not self._is_closed:
            self._fetch_is_due = True
            asyncio.get_running_loop().call_soon(self._fetch)

    def _fetch(self) -> None:
        """Sends a fetch to every broker that has none under way and leads what wants more."""
        self._fetch_is_due = False
        if self._is_closed:
            return
        now = self._clock.monotonic()
        metadata = self._cluster.metadata
        wanted = self._positions.to_look_up(now)
        if wanted and self._looking_up is None:
            self._looking_up = self._runtime.spawn(
                self._look_up(wanted), name="look offsets up", reported=False
            )
        full = self._positions.full_at(metadata)
        for node_id, positions in self._positions.to_fetch(now, metadata).items():
            if node_id == NO_LEADER:
                self._check_partitions(positions)
                self._cluster.request_refresh()
            elif node_id not in self._fetching and node_id not in full & self._had_nothing:
                self._fetch_from(node_id, positions, may_wait=node_id not in full)
        if any(each.state is State.FAILED for each in self._positions):
            self._news.set()
        self._set_timer(now)

    def _check_partitions(self, positions: list[Position]) -> None:
        """A partition that there is not shall not be waited for in silence."""
        for each in positions:
            topic = self._cluster.metadata.topics.get(each.where.topic)
            refused = self._cluster.metadata.refused.get(each.where.topic)
            if topic is None and (refused is None or refused.retriable):
                continue
            try:
                self._cluster.metadata.check(each.where)
            except KafkaError as error:
                each.fail(error)

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake = self._positions.next_wake(now)
        if wake is not None:
            delay = max(_SHORTEST_WAIT_S, wake - now)
            self._timer = asyncio.get_running_loop().call_later(delay, self._fetch)

    def _fetch_from(self, node_id: int, positions: list[Position], *, may_wait: bool) -> None:
        self._fetching.add(node_id)
        connection = self._cluster.ready_connection(node_id)
        if connection is None:
            self._runtime.spawn(self._connect(node_id), name=f"connect to {node_id}")
            return
        asked = [Asked(each.where, each.generation, each.fetch_offset) for each in positions]
        on_answer = partial(self._answered, node_id, asked)
        wait_ms = self.settings[rows.fetch_max_wait_ms] if may_wait else 0
        try:
            request, version = fetch_request(
                connection, asked, self._cluster.metadata, self.settings
            )
            request.max_wait_ms = wait_ms
            wait_s = wait_ms / 1000
            timeout_s = connection.options.request_timeout_s + wait_s
            connection.ask(request, on_answer, version=version, timeout_s=timeout_s)
        except KafkaError as error:
            on_answer(error)

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
        except KafkaError:
            self._cluster.request_refresh()
            await asyncio.sleep(self._cluster.backoff.wait_s(1, self._runtime.random))
        finally:
            self._fetching.discard(node_id)
            self._fetch_soon()

    def _answered(self, node_id: int, asked: list[Asked], answer: Response | KafkaError) -> None:
        self._fetching.discard(node_id)
        now = self._clock.monotonic()
        if isinstance(answer, KafkaError):
            self._cluster.note(answer)
            for each in asked:
                self._positions.refused(each, answer, now)
        else:
            response = cast(FetchResponse, answer)
            settle_fetch(response, asked, self._positions, self._cluster, (now, self._is_committed))
            if not any(data.records for topic in response.responses for data in topic.partitions):
                self._had_nothing.add(node_id)
            else:
                self._had_nothing.discard(node_id)
        self._news.set()
        if not self._is_closed:
            self._fetch()

    async def _look_up(self, wanted: dict[TopicPartition, int]) -> None:
        """Finds positions; those that cannot be found now are tried again later."""
        generations = {
            where: position.generation
            for where in wanted
            if (position := self._positions.get(where)) is not None
        }
        try:
            found = await list_offsets(
                self._cluster, wanted, is_committed=self._is_committed, timeout_s=_LOOK_UP_S
            )
        except KafkaError as error:
            self._could_not_look_up(wanted, error)
            return
        finally:
            self._looking_up = None
            self._fetch_soon()
        for where, each in found.items():
            position = self._positions.get(where)
            if position is not None and position.generation == generations.get(where):
                position.seek(max(0, each.offset))

    def _could_not_look_up(self, wanted: Iterable[TopicPartition], error: KafkaError) -> None:
        now = self._clock.monotonic()
        for where in wanted:
            position = self._positions.get(where)
            if position is None:
                continue
            is_told = not error.retriable or error.code in _MISSING
            topic = error.context.get("topic", where.topic)
            partition = error.context.get("partition", where.partition)
            if is_told and where == (topic, partition):
                position.fail(error)
            else:
                self._positions.put_off(where, now)

    def _check_open(self) -> None:
        if self._is_closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the consumer is closed")
