"""Letters for records that share groups have given up, in a topic of dead letters (KIP-1191).

A letter goes to the partition of the same number, modulo the number that the topic has. Six headers
say where the record is and why it was given up. There are two sets of rules, by the setting that
names the topic (`DeadLetterTopic`):
- `share.dlq.topic`: a letter is the whole record, with its key, value, timestamp and headers. The
  topic is created if it does not exist. A letter that cannot be written is an error.
- `errors.deadletterqueue.topic.name`, Kafka's: a letter is of the present time, and has the key and
  the value if the group asks for that. Each offset gets one, even if there is no record any more.
  The topic must allow it, and is created only if the broker says so. A letter that cannot be
  written is lost, and the log says so: a group never waits for its topic of dead letters.

Invariants:
- Each call is answered once: when all in-sync replicas have the letters, or else after
  PATIENCE_SECONDS (KAFKA_PATIENCE_SECONDS by Kafka's rules) at the latest.
- A letter that would be the whole record is without its content only if the topic does not take it
  alone with that.
- A record may get two letters, if one was written and the answer lost. By the first rules it is
  never answered as written if it is not there, unless the log does not have the record any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.api.metadata import create_topics, missing_code
from moldau.broker.log.admission import as_kafka_error
from moldau.broker.replication.later_slice import LaterSlice
from moldau.broker.replication.purgatory import DelayedOperation, Pause
from moldau.broker.settings import share, topic
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
    from moldau.broker.share.settings import DeadLetterTopic
    from moldau.records import Headers

LANE: Final = "share-dlq"
PATIENCE_SECONDS: Final = 5.0
KAFKA_PATIENCE_SECONDS: Final = 15.0
"""As long as four pauses of Kafka between five attempts."""
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
_MADE_FOR_KAFKA: Final = {
    topic.errors_deadletterqueue_group_enable.name: "true",
    topic.message_timestamp_type.name: "CreateTime",
}
"""The settings of a topic that is created by Kafka's rules."""


class _Letter(NamedTuple):
    """A letter as it is written, and the offset that it is for."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class DeadLetters:
    """Satisfies `share.persister.DeadLetters`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tasks: set[Any] = set()
        self.is_closed = False
        self.count = 0
        """How many letters were written since the start."""
        self.requests = 0
        """How many batches of letters were sent."""
        self.failures = 0
        """How many of them were refused for good."""

    def close(self) -> None:
        """Stop: nothing is sent again."""
        self.is_closed = True
        for task in self.tasks:
            task.cancel()

    def bury(
        self,
        key: ShareKey,
        partition: Partition,
        topic: DeadLetterTopic,
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
        topic: DeadLetterTopic,
        letters: Sequence[Letter],
        then: OnStored,
    ) -> None:
        self._dead = dead
        self._node = dead.node
        self._key = key
        self._source = partition
        self._rules = topic
        self._topic = topic.name
        self._left = [(letter, letter.first) for letter in letters]
        """The letters that are not written yet, and from where on."""
        self._then = then
        self._read: _ReadBatch | None = None
        """The records of a batch that took long to read."""
        self._is_bare = False
        """Whether the next record was too large with its key and value."""
        self._batch_bytes = _BATCH_BYTES
        patience = KAFKA_PATIENCE_SECONDS if topic.is_kafkas else PATIENCE_SECONDS
        self._until = self._node.runtime.clock.monotonic() + patience

    def attempt(self) -> None:
        """Write the next batch of letters, if there is one."""
        if self._left and self._rules.is_kafkas and (why := self._why_not_allowed()) is not None:
            self._lose(why)
            return
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
            self._dead.requests += 1
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
            configs = _MADE_FOR_KAFKA if self._rules.is_kafkas else {}
            create_topics(self._node, (self._topic,), None, configs)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def _why_not_allowed(self) -> str | None:
        """Return why Kafka's rules do not allow letters in this topic, or None."""
        node, name = self._node, self._topic
        prefix = node.settings[share.errors_deadletterqueue_topic_name_prefix]
        if not name.startswith(prefix):
            return f"{share.errors_deadletterqueue_topic_name_prefix.name} is {prefix}"
        if node.image.topics.by_name(name) is not None:
            if not node.topic_settings(name)[topic.errors_deadletterqueue_group_enable]:
                return f"{topic.errors_deadletterqueue_group_enable.name} of the topic is false"
        elif not node.settings[share.errors_deadletterqueue_auto_create_topics_enable]:
            return (
                "there is no such topic, and "
                f"{share.errors_deadletterqueue_auto_create_topics_enable.name} is false"
            )
        elif missing_code(name) is ErrorCode.INVALID_TOPIC_EXCEPTION:
            return "no topic can have this name"
        return None

    def _lose(self, why: str) -> None:
        """Go on without the letters that are left."""
        first, last = self._left[0][1], self._left[-1][0].last
        self._node.log.error(
            "dead letters are lost: the records are given up without them",
            group=self._key.group_id,
            topic=self._source.topic,
            partition=self._key.partition,
            offsets=f"{first}-{last}",
            letters=self._topic,
            why=why,
        )
        self._then(None)

    def _refused(self, code: ErrorCode) -> None:
        clock, dead = self._node.runtime.clock, self._dead
        is_kafkas = self._rules.is_kafkas
        is_final = is_kafkas and not code.retriable
        if not is_final and not dead.is_closed and clock.monotonic() < self._until:
            self._node.replicas.purgatory.watch(Pause(self.attempt), (), PAUSE_MS)
            return
        dead.failures += 1
        if is_kafkas:
            self._lose(code.name)
            return
        self._node.log.warn("dead letters not written", topic=self._topic, error=code.name)
        self._then(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, _UNREACHABLE))

    # The letters.

    def _next_batch(self) -> tuple[bytearray, int, list[tuple[Letter, int]]] | None:
        """Return a batch of letters, how many they are, and what is left after them. None if
        nothing is left."""
        left = self._left
        builder, count = BatchBuilder(self._batch_bytes), 0
        while left:
            letter, first = left[0]
            try:
                for offset, timestamp, key, value, headers in self._contents(first, letter.last):
                    if self._is_bare:
                        key, value, headers = None, None, ()
                    headers = (*headers, *self._headers(letter, offset))
                    is_full = self._is_bare and count == 1
                    if is_full or builder.append(timestamp, key, value, headers) is None:
                        return builder.build(), count, [(letter, offset), *left[1:]]
                    count += 1
            except _LargeBatch as large:
                if not count:
                    raise
                # It is read when these are written: only one such batch is kept.
                return builder.build(), count, [(letter, large.first), *left[1:]]
            left = left[1:]
        return (builder.build(), count, left) if count else None

    def _contents(self, first: int, last: int) -> Iterator[_Letter]:
        """Yield what the letters between two offsets have besides their own headers."""
        if not self._rules.is_kafkas:
            for record in self._records(first, last):
                yield _Letter(
                    record.offset, record.timestamp, record.key, record.value, record.headers
                )
            return
        now_ms, at = self._node.runtime.clock.wall_ms(), first
        try:
            for record in self._records(first, last) if self._rules.has_copies else ():
                for offset in range(at, record.offset):
                    yield _Letter(offset, now_ms, None, None, ())
                yield _Letter(record.offset, now_ms, record.key, record.value, ())
                at = record.offset + 1
        except _LargeBatch as large:
            for offset in range(at, large.first):
                yield _Letter(offset, now_ms, None, None, ())
            raise
        except KafkaError as error:
            if error.code is ErrorCode.REQUEST_TIMED_OUT:  # remote records, that may still come
                raise
            self._node.log.warn(
                "records of dead letters cannot be read",
                partition=str(self._source),
                error=error.code.name,
            )
        for offset in range(at, last + 1):
            yield _Letter(offset, now_ms, None, None, ())

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
