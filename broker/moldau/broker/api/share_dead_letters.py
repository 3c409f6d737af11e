"""Copies of records that share groups have given up, in a topic of dead letters (as KIP-1191).

A copy is the whole record: key, value, timestamp and headers. Six more headers say where it comes
from and why it is there. It goes to the partition of the same number, modulo the number that the
topic has. The topic is created if it does not exist.

Invariants:
- Each call is answered once: when all in-sync replicas have the copies, or with an error, after
  PATIENCE_SECONDS at the latest.
- A copy is without key, value and headers only if the topic does not take it alone with them.
- A record may be copied twice, if its copy was written and the answer lost. It is never answered as
  copied if it is not there; unless the log does not have the record any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.api.metadata import create_topics
from moldau.broker.log.admission import as_kafka_error
from moldau.broker.replication.later_slice import LaterSlice
from moldau.broker.replication.purgatory import DelayedOperation, Pause
from moldau.broker.share.batches import read_batches
from moldau.errors import CorruptRecord, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records import (
    Batch,
    BatchBuilder,
    OversizedRecords,
    Record,
    kernel,
    open_batch,
)
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, USUAL_BYTES_MAX
from moldau.records.diagnosis import OBJECTS_MAX
from moldau.records.parts import PART_RECORDS, whole_parts

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller.topics import Topic
    from moldau.broker.replication.partition import Partition
    from moldau.broker.share.persister import OnStored, ShareKey
    from moldau.broker.share.piece import Letter
    from moldau.records import Headers

LANE: Final = "share-dlq"
PATIENCE_SECONDS: Final = 5.0
PAUSE_MS: Final = 100
PREFIX: Final = "__dlq.errors."
_READ_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 1 << 20
"""How large a batch of copies is at first: topics take this much by default."""
_TIMEOUT_MS: Final = 2000
_ALL_IN_SYNC: Final = -1
_NO_LEADER: Final = -1
_VERSION: Final = 12
"""The last version of Produce that names topics."""
_UNREACHABLE: Final = "the topic of dead letters cannot be written"


class DeadLetters:
    """Satisfies `share.persister.DeadLetters`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tasks: set[Any] = set()
        self.is_closed = False
        self.count = 0
        """How many records were copied since the start."""

    def close(self) -> None:
        """Stop: nothing is sent again."""
        self.is_closed = True
        for task in self.tasks:
            task.cancel()

    def bury(
        self,
        key: ShareKey,
        partition: Partition,
        topic: str,
        letters: Sequence[Letter],
        then: OnStored,
    ) -> None:
        _Burying(self, key, partition, topic, letters, then).attempt()


class _Burying:
    """Some letters until they are written."""

    def __init__(
        self,
        dead: DeadLetters,
        key: ShareKey,
        partition: Partition,
        topic: str,
        letters: Sequence[Letter],
        then: OnStored,
    ) -> None:
        self._dead = dead
        self._node = dead.node
        self._key = key
        self._source = partition
        self._topic = topic
        self._left = [(letter, letter.first) for letter in letters]
        """The letters that are not written yet, and from where on."""
        self._then = then
        self._read: _ReadBatch | None = None
        """The records of a batch that took long to read."""
        self._is_bare = False
        """Whether the next record was too large with its key and value."""
        self._batch_bytes = _BATCH_BYTES
        self._until = self._node.runtime.clock.monotonic() + PATIENCE_SECONDS

    def attempt(self) -> None:
        """Write the next batch of copies, if there is one."""
        try:
            written = self._next_batch()
            if written is None:
                self._then(None)
                return
            batch, count, left = written
            topic = self._target()
        except _LargeBatch as large:
            self._node.coordinator_node.in_thread(large.read, self._on_read)
            return
        except KafkaError as error:
            self._refused(error.code)
            return
        index = self._key.partition % len(topic.partitions)
        leader = topic.partitions[index].leader

        def on_code(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self._left, self._is_bare = left, False
                self._dead.count += count
                self.attempt()
            elif code is ErrorCode.MESSAGE_TOO_LARGE and count > 1:
                self._batch_bytes = min(self._batch_bytes, len(batch)) // 2
                self.attempt()
            elif code is ErrorCode.MESSAGE_TOO_LARGE and not self._is_bare:
                self._is_bare = True
                self.attempt()
            else:
                self._refused(code)

        if leader == self._node.node_id:
            self._append(index, batch, on_code)
        elif leader == _NO_LEADER:
            self._refused(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            asking = self._ask(leader, index, batch, on_code)
            task = self._node.runtime.spawn(asking, name=f"share-dlq-{leader}")
            self._dead.tasks.add(task)
            task.add_done_callback(self._dead.tasks.discard)

    def _target(self) -> Topic:
        topic = self._node.image.topics.by_name(self._topic)
        if topic is None:
            create_topics(self._node, (self._topic,), None)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def _refused(self, code: ErrorCode) -> None:
        clock, dead = self._node.runtime.clock, self._dead
        if not dead.is_closed and clock.monotonic() < self._until:
            self._node.replicas.purgatory.watch(Pause(self.attempt), (), PAUSE_MS)
            return
        self._node.log.warn("dead letters not written", topic=self._topic, error=code.name)
        self._then(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, _UNREACHABLE))

    # The copies.

    def _next_batch(self) -> tuple[bytearray, int, list[tuple[Letter, int]]] | None:
        """Return a batch of copies, how many they are, and what is left after them. None if nothing
        is left."""
        left = self._left
        builder, count = BatchBuilder(self._batch_bytes), 0
        while left:
            letter, first = left[0]
            try:
                for record in self._records(first, letter.last):
                    key, value, headers = record.key, record.value, tuple(record.headers)
                    if self._is_bare:
                        key, value, headers = None, None, ()
                    headers += self._headers(letter, record.offset)
                    is_full = self._is_bare and count == 1
                    if is_full or builder.append(record.timestamp, key, value, headers) is None:
                        return builder.build(), count, [(letter, record.offset), *left[1:]]
                    count += 1
            except _LargeBatch as large:
                if not count:
                    raise
                # It is read when these are written: only one such batch is kept.
                return builder.build(), count, [(letter, large.first), *left[1:]]
            left = left[1:]
        return (builder.build(), count, left) if count else None

    def _records(self, first: int, last: int) -> Iterator[Record]:
        """Read records of the source. Those that are not there any more are left out."""
        source, at = self._source, max(first, self._source.log_start_offset)
        while at <= last:
            # What a member got was committed, also where the high watermark is behind.
            found = source.read(at, _READ_BYTES, source.log_end_offset, True)
            if isinstance(found, LaterSlice):
                if not found.has_come:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
                found = found.take()
            whole = read_batches(found, {})
            if not whole:
                return
            for each in whole:
                batch = open_batch(found.read_at(each.position, each.size_bytes))
                if not batch.header.is_control:
                    yield from self._records_of(batch, at, last)
                at = each.batch.last + 1
                if at > last:
                    return

    def _records_of(self, batch: Batch, first: int, last: int) -> Sequence[Record]:
        """Return the records of a batch between two offsets. Raise _LargeBatch if that takes long,
        unless a thread has read them. It reads those of the letters behind it, too."""
        if self._read is not None and self._read.has(batch, first, last):
            return [each for each in self._read.records if first <= each.offset <= last]
        last_of_all = max(letter.last for letter, _ in self._left)
        if batch.header.record_count > PART_RECORDS:
            raise _LargeBatch(batch, first, last_of_all)
        try:
            return _records_between(batch, first, last, USUAL_BYTES_MAX)
        except OversizedRecords:
            raise _LargeBatch(batch, first, last_of_all) from None
        except CorruptRecord as error:
            raise as_kafka_error(error) from error

    def _on_read(self, found: _ReadBatch | KafkaError) -> None:
        if isinstance(found, KafkaError):
            self._refused(found.code)
        else:
            self._read = without_frames(found)
            self.attempt()

    def _headers(self, letter: Letter, offset: int) -> Headers:
        facts = (
            ("topic", self._source.topic),
            ("partition", self._key.partition),
            ("offset", offset),
            ("group", self._key.group_id),
            ("delivery.count", letter.deliveries),
            ("message", letter.reason),
        )
        return tuple((PREFIX + name, str(value).encode()) for name, value in facts)

    # The ways to the leader.

    def _append(self, index: int, batch: bytearray, then: Callable[[ErrorCode], None]) -> None:
        node = self._node
        try:
            partition = node.replicas.partition(self._topic, index)
            appended = partition.append(batch, _ALL_IN_SYNC, node.runtime.clock.wall_ms())
            waiting = _Waiting(partition, appended.last_offset, then)
        except KafkaError as error:
            then(error.code)
            return
        if not waiting.try_complete():
            node.replicas.purgatory.watch(waiting, (partition,), _TIMEOUT_MS)

    async def _ask(
        self, leader: int, index: int, batch: bytearray, then: Callable[[ErrorCode], None]
    ) -> None:
        data = PartitionProduceData(index=index, records=bytes(batch))
        request = ProduceRequest(
            acks=_ALL_IN_SYNC,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        code = ErrorCode.NETWORK_EXCEPTION
        peers = self._node.peers
        if peers is not None:
            try:
                response = await peers.request(
                    leader, request, ProduceResponse, lane=LANE, version=_VERSION
                )
            except KafkaError as error:
                code = error.code
            else:
                code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        then(code)


class _ReadBatch(NamedTuple):
    """Records of a batch, between two offsets."""

    base_offset: int
    first: int
    last: int
    records: Sequence[Record]

    def has(self, batch: Batch, first: int, last: int) -> bool:
        """Whether the records of a batch between these offsets are here."""
        is_same = batch.header.base_offset == self.base_offset
        return is_same and self.first <= first and last <= self.last


class _LargeBatch(Exception):
    """A batch takes long to read, from `first` on. `read` is for a thread, and has a copy of it."""

    def __init__(self, batch: Batch, first: int, last: int) -> None:
        super().__init__(batch.header.base_offset)
        self.first = first
        self._batch = Batch(batch.header, memoryview(bytes(batch.data)))
        self._last = last

    def read(self) -> _ReadBatch:
        """Return the records. Raise KafkaError if the batch is damaged."""
        batch, first, last = self._batch, self.first, self._last
        try:
            records = _records_between(batch, first, last, DECOMPRESSED_BYTES_MAX)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        return _ReadBatch(batch.header.base_offset, first, last, records)


def _records_between(batch: Batch, first: int, last: int, limit: int) -> list[Record]:
    batch.check_crc()
    found: list[Record] = []
    for data, header in whole_parts(batch, limit):
        records = kernel.decode(data, header, OBJECTS_MAX)
        found += [each for each in records if first <= each.offset <= last]
    return found


class _Waiting(DelayedOperation):
    """Copies that are not on enough replicas yet."""

    __slots__ = ("_last_offset", "_partition", "_then")

    def __init__(
        self, partition: Partition, last_offset: int, then: Callable[[ErrorCode], None]
    ) -> None:
        self._partition = partition
        self._last_offset = last_offset
        self._then = then

    def try_complete(self) -> bool:
        try:
            if not self._partition.is_acknowledged(self._last_offset, _ALL_IN_SYNC):
                return False
        except KafkaError as error:
            self._then(error.code)
            return True
        self._then(ErrorCode.NONE)
        return True

    def on_timeout(self) -> None:
        self._then(ErrorCode.REQUEST_TIMED_OUT)
