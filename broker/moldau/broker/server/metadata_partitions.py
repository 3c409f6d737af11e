"""The partitions of `__remote_log_metadata`, on this node or on their leaders.

Records are read from a replica of this node if it has one, up to its high watermark; else, or if
its disk does not give them, from the leader. One fetch asks a leader for all partitions that are
wanted of it, because the requests of a connection are answered in order. The end of a partition is
always that of its leader, and records are appended there. Requests to other brokers are those of a
client: Fetch, ListOffsets, Produce.

Invariant: a call ends, with what was asked for or with a KafkaError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from moldau.broker.api.internal_topics import creatable, unsafe_remote_segments
from moldau.broker.api.metadata import broker_counts, create_topics
from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.ends import known_end
from moldau.broker.replication.purgatory import DelayedOperation
from moldau.broker.tiered.metadata_topic import TopicRead
from moldau.errors import BadData, CorruptRecord, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.protocol.schemas.framed_log import REMOTE_LOG
from moldau.records import BatchBuilder, iter_records, walk, whole_bytes

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller.topics import Topic
    from moldau.broker.replication.partition import Partition
    from moldau.ids import Uuid
    from moldau.link import Peers
    from moldau.records import Buffer

TOPIC: Final = REMOTE_LOG.topic
_LANE: Final = "remote-log"
_FETCH_LANE: Final = "remote-log-fetch"
_READ_BYTES: Final = 1 << 20
_WAIT_MS: Final = 500
_LOCAL_WAIT_MS: Final = 30_000
_TIMEOUT_MS: Final = 10_000
_ALL_IN_SYNC: Final = -1
_CONSUMER: Final = -1
_LATEST: Final = -1
_NO_LEADER: Final = -1
_PRODUCE_VERSION: Final = 12
"""The last one that names topics; ids came after it."""


class MetadataPartitions:
    """Satisfies `tiered.metadata_topic.TopicAccess`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fetches: dict[int, _LeaderFetch] = {}

    @property
    def topic_id(self) -> Uuid | None:
        topic = self._node.image.topics.by_name(TOPIC)
        return None if topic is None else topic.topic_id

    @property
    def partition_count(self) -> int:
        topic = self._node.image.topics.by_name(TOPIC)
        return 0 if topic is None else len(topic.partitions)

    def create(self) -> None:
        create_topics(self._node, (TOPIC,), None)

    def led(self) -> Collection[int]:
        topic = self._node.image.topics.by_name(TOPIC)
        if topic is None:
            return ()
        node_id = self._node.node_id
        return [index for index, each in topic.partitions.items() if each.leader == node_id]

    @property
    def missing_replicas(self) -> int | None:
        topic = self._node.image.topics.by_name(TOPIC)
        if topic is None:
            return None
        wanted = creatable(TOPIC, self._node.settings, broker_counts(self._node)).replication_factor
        fewest = min(len(each.replicas) for each in topic.partitions.values())
        return wanted if fewest < wanted else None

    @property
    def unsafe_settings(self) -> Mapping[str, str]:
        return unsafe_remote_segments(self._node.topic_settings(TOPIC))

    async def read(self, partition: int, offset: int) -> TopicRead:
        try:
            here = self._node.replicas.readable(TOPIC, partition)
        except KafkaError:
            return await self._read_of_leader(partition, offset)
        if here.high_watermark <= offset:
            moved = _Moved(here, offset)
            self._node.replicas.purgatory.watch(moved, (here,), _LOCAL_WAIT_MS)
            await moved.ended
        try:
            return _read_here(here, offset)
        except KafkaError:
            if self._leader_of(partition) == self._node.node_id:
                raise
        return await self._read_of_leader(partition, offset)

    async def end(self, partition: int) -> int:
        leader = self._leader_of(partition)
        if leader == self._node.node_id:
            return known_end(self._node.replicas.partition(TOPIC, partition))
        asked = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
        )
        peers = self._peers(partition)
        response = await peers.request(leader, request, ListOffsetsResponse, lane=_LANE)
        row = response.topics[0].partitions[0]
        _check(row.error_code, partition)
        return row.offset

    async def append(self, partition: int, value: bytes) -> None:
        builder = BatchBuilder()
        builder.append(self._node.runtime.clock.wall_ms(), None, value)
        leader = self._leader_of(partition)
        if leader == self._node.node_id:
            await self._append_here(partition, builder.build())
            return
        data = PartitionProduceData(index=partition, records=bytes(builder.build()))
        request = ProduceRequest(
            acks=_ALL_IN_SYNC,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        peers = self._peers(partition)
        response = await peers.request(
            leader, request, ProduceResponse, lane=_LANE, version=_PRODUCE_VERSION
        )
        _check(response.responses[0].partition_responses[0].error_code, partition)

    async def _append_here(self, index: int, batch: bytearray) -> None:
        node = self._node
        partition = node.replicas.partition(TOPIC, index)
        appended = partition.append(batch, _ALL_IN_SYNC, node.runtime.clock.wall_ms())
        if partition.is_acknowledged(appended.last_offset, _ALL_IN_SYNC):
            return
        waiting = _Acknowledged(partition, appended.last_offset)
        node.replicas.purgatory.watch(waiting, (partition,), _TIMEOUT_MS)
        await waiting.ended

    async def _read_of_leader(self, partition: int, offset: int) -> TopicRead:
        leader = self._leader_of(partition)
        if leader == self._node.node_id:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, topic=TOPIC, partition=partition)
        fetch = self._fetches.get(leader)
        if fetch is None:
            fetch = self._fetches[leader] = _LeaderFetch(self._node, leader)
        return await fetch.read(self._topic(), partition, offset)

    def _topic(self) -> Topic:
        topic = self._node.image.topics.by_name(TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=TOPIC)
        return topic

    def _leader_of(self, partition: int) -> int:
        known = self._topic().partitions.get(partition)
        if known is None or known.leader == _NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, topic=TOPIC, partition=partition)
        return known.leader

    def _peers(self, partition: int) -> Peers:
        peers = self._node.peers
        if peers is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, topic=TOPIC, partition=partition)
        return peers


class _LeaderFetch:
    """The reads that wait for one leader: one fetch at a time, for all of them."""

    def __init__(self, node: Node, leader: int) -> None:
        self._node = node
        self._leader = leader
        self._wanted: dict[int, tuple[int, asyncio.Future[TopicRead]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def read(self, topic: Topic, partition: int, offset: int) -> TopicRead:
        """Return records from `offset` on, or none after a while."""
        waiting: asyncio.Future[TopicRead] = asyncio.get_running_loop().create_future()
        self._wanted[partition] = offset, waiting
        if self._task is None or self._task.done():
            name = f"{_FETCH_LANE}-{self._leader}"
            self._task = self._node.runtime.spawn(self._fetch_all(topic), name=name)
        return await waiting

    async def _fetch_all(self, topic: Topic) -> None:
        while self._wanted:
            wanted = dict(self._wanted)
            self._wanted.clear()
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, broker=self._leader)
            try:
                await self._fetch(topic, wanted)
            except KafkaError as error:
                failure = without_frames(error)
            finally:  # whatever has ended it
                for _, waiting in wanted.values():
                    if not waiting.done():
                        waiting.set_exception(failure)
            # The readers that have something ask again in this turn.
            await asyncio.sleep(0)

    async def _fetch(
        self, topic: Topic, wanted: dict[int, tuple[int, asyncio.Future[TopicRead]]]
    ) -> None:
        peers = self._node.peers
        if peers is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, broker=self._leader)
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=_READ_BYTES)
            for index, (offset, _) in wanted.items()
        ]
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            topics=[FetchTopic(topic=TOPIC, topic_id=topic.topic_id, partitions=partitions)],
        )
        response = await peers.request(self._leader, request, FetchResponse, lane=_FETCH_LANE)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), broker=self._leader)
        for row in (each for answered in response.responses for each in answered.partitions):
            offset, waiting = wanted.pop(row.partition_index)
            if waiting.done():
                continue
            try:
                _check(row.error_code, row.partition_index)
                waiting.set_result(_values(row.records or b"", offset))
            except KafkaError as error:
                waiting.set_exception(without_frames(error))
        for offset, waiting in wanted.values():
            if not waiting.done():
                waiting.set_result(TopicRead((), offset))


class _Moved(DelayedOperation):
    """Waits until a replica has committed records behind an offset, or for a while."""

    __slots__ = ("_offset", "_partition", "ended")

    def __init__(self, partition: Partition, offset: int) -> None:
        self._partition = partition
        self._offset = offset
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_gone(self) -> bool:
        return self.ended.done()

    def try_complete(self) -> bool:
        partition = self._partition
        is_readable = partition.is_leader or partition.is_following
        if is_readable and partition.high_watermark <= self._offset:
            return False
        self.on_timeout()
        return True

    def on_timeout(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class _Acknowledged(DelayedOperation):
    """Waits until all replicas in sync have a record."""

    __slots__ = ("_last_offset", "_partition", "ended")

    def __init__(self, partition: Partition, last_offset: int) -> None:
        self._partition = partition
        self._last_offset = last_offset
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_gone(self) -> bool:
        return self.ended.done()

    def try_complete(self) -> bool:
        try:
            if not self._partition.is_acknowledged(self._last_offset, _ALL_IN_SYNC):
                return False
        except KafkaError as error:
            self._end(error)
        else:
            self._end(None)
        return True

    def on_timeout(self) -> None:
        self._end(KafkaError(ErrorCode.REQUEST_TIMED_OUT, topic=TOPIC))

    def _end(self, error: KafkaError | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(without_frames(error))


def _read_here(here: Partition, offset: int) -> TopicRead:
    """Return what a replica of this node has. Raise KafkaError if it does not give it."""
    try:
        found = here.read(offset, _READ_BYTES, here.high_watermark, True)
        if not isinstance(found, LogSlice):
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, topic=TOPIC, partition=here.index)
        return _values(found.read(), offset)
    except (BadData, OSError) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, topic=TOPIC, error=str(error)) from error


def _values(data: Buffer, offset: int) -> TopicRead:
    """Return the values of whole batches from `offset` on. Raise KafkaError for a damaged one."""
    try:
        return _decoded(data, offset)
    except BadData as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, topic=TOPIC, error=str(error)) from error


def _decoded(data: Buffer, offset: int) -> TopicRead:
    whole = memoryview(data)[: whole_bytes(data)]
    if data and not whole:
        raise CorruptRecord("a read without a whole batch", offset=offset, size=len(data))
    values = []
    next_offset = offset
    for batch in walk(whole):
        next_offset = batch.header.next_offset
        values += [
            (record.offset, bytes(record.value))
            for record in iter_records((batch,))
            if record.offset >= offset and record.value is not None
        ]
    return TopicRead(values, next_offset)


def _check(error_code: int, partition: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code), topic=TOPIC, partition=partition)
