"""Reading one range of offsets in an executor. The only module of the source that fetches records.

Spark keeps its Python workers between batches, so a consumer is made once for a worker and its
settings, and its connections are used again (`_CONSUMERS`). It keeps the last partitions, paused,
with what it has fetched ahead of them: the next batch of one of them goes on there.

Invariants: a range gives the same records each time it is read, whatever compaction or transaction
markers left out; it ends at `end` even if no record is there any more; an offset that is gone is an
error or a gap, as `failOnDataLoss` says; no record is of another topic than the range, if a topic
was deleted and made again since the range was planned or since the consumer last read it.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from moldau.client import PartitionColumns, TopicPartition
from moldau.client.sync import Consumer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime.children import Mailbox
from moldau.runtime.real import RealClock
from moldau.spark.ranges import REMADE, Range

_CONSUMERS: Final[dict[frozenset[tuple[str, str]], Consumer]] = {}
_BATCH_RECORDS: Final = 50_000
_WAIT_S: Final = 0.2
_KEPT: Final = 4
"""So many partitions of up to 8 MB each, of the 64 MB that a consumer keeps."""
_DEFAULTS: Final = {
    "max.partition.fetch.bytes": "4194304",
    "fetch.max.wait.ms": "100",
    "allow.auto.create.topics": "false",
}
_OF_MEMBERS: Final = ("group.id", "group.instance.id")
"""A task is given its partition, and is no member of a group."""
_OF_OLD_METADATA: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the driver has heard of a partition that is newer
    ErrorCode.OFFSET_NOT_AVAILABLE,  # the topic was made again: a position in the old one is void
)
_OURS: Final = {"auto.offset.reset": "none", "enable.auto.commit": "false"}


class Part(NamedTuple):
    """What one poll brought of a range: the first `length` records are in it."""

    columns: PartitionColumns
    length: int


def fetch(
    settings: Mapping[str, str], wanted: Range, *, fails_on_loss: bool, timeout_ms: int
) -> Iterator[Part]:
    """The records of the range, in order, as columns in buffers."""
    reading = _Reading(settings, wanted, fails_on_loss=fails_on_loss, timeout_ms=timeout_ms)
    try:
        yield from reading.records()
    finally:
        _rest(settings, wanted.where)


class _Reading:
    """One range. `position` is the offset of its next record."""

    def __init__(
        self, settings: Mapping[str, str], wanted: Range, *, fails_on_loss: bool, timeout_ms: int
    ) -> None:
        self._settings = settings
        self._wanted = wanted
        self._fails_on_loss = fails_on_loss
        self._timeout_ms = timeout_ms
        self._clock = RealClock()
        self._heard_at = self._clock.monotonic()
        self._is_checked = False
        self.position = wanted.start
        self._consumer = _placed(settings, wanted, wanted.start)

    def records(self) -> Iterator[Part]:
        """What is there of the range, a poll at a time."""
        wanted = self._wanted
        while self.position < wanted.end:
            for part in self._poll():
                count = bisect_left(part.offsets, wanted.end)
                if count:
                    yield Part(part, count)
                    self._heard_at = self._clock.monotonic()  # what Spark did meanwhile is no wait

    def _poll(self) -> list[PartitionColumns]:
        where = self._wanted.where
        most = min(_BATCH_RECORDS, self._wanted.end - self.position)
        try:
            parts = self._consumer.poll_batches(_WAIT_S, max_records=most, partitions=[where])
        except KafkaError as error:
            self._on_error(error)
            return []
        if parts and not self._is_checked:
            self._is_checked = _may_be_of(self._consumer, self._wanted)
            if not self._is_checked:
                self._on_another_topic()
                return []
        reached = self._consumer.position(where)
        if reached is not None and reached > self.position:
            self.position, self._heard_at = reached, self._clock.monotonic()
        elif self._is_late:
            self._on_silence()
        return parts

    @property
    def _is_late(self) -> bool:
        return self._clock.monotonic() - self._heard_at > self._timeout_ms / 1000

    def _on_error(self, error: KafkaError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_loss(error)
            return
        if error.code not in _OF_OLD_METADATA or self._is_late:
            raise error
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._consumer.close()
        self._place()

    def _on_loss(self, error: KafkaError) -> None:
        """The position is not in the log any more. Goes on where the log begins, or ends where the
        log ends before the range and does not grow."""
        if self._fails_on_loss:
            raise self._loss(error.code, "records that the batch should hold were deleted")
        where, end = self._wanted.where, self._wanted.end
        first = self._consumer.beginning_offsets([where])[where]
        if first > self.position:
            self.position = min(first, end)
        elif self._is_late:
            self.position = end
        else:
            Mailbox[None]().take(_WAIT_S)
        self._place()

    def _on_another_topic(self) -> None:
        """The broker has another topic of the name: its metadata lag, or the topic that the range
        was planned for is gone. The records are not the wanted ones, whatever their offsets."""
        if not self._is_late:
            Mailbox[None]().take(_WAIT_S)
            self._place()
            return
        if self._fails_on_loss:
            raise self._loss(ErrorCode.UNKNOWN_TOPIC_ID, REMADE)
        self.position = self._wanted.end

    def _on_silence(self) -> None:
        """Ends the range if the log ends before it, and that is no failure."""
        where = self._wanted.where
        if not self._fails_on_loss and self._log_end() <= self.position:
            self.position = self._wanted.end
            return
        raise TimeoutError(
            f"no record of {where} from offset {self.position} on came within {self._timeout_ms} "
            f"ms: is its leader up? (option kafkaConsumer.pollTimeoutMs)"
        )

    def _log_end(self) -> int:
        where = self._wanted.where
        return self._consumer.end_offsets([where])[where]

    def _place(self) -> None:
        self._consumer = _placed(self._settings, self._wanted, self.position)
        self._is_checked = False

    def _loss(self, code: ErrorCode, reason: str) -> KafkaError:
        where, start, end, _ = self._wanted
        advice = "set failOnDataLoss=false to go on without them"
        return KafkaError(code, f"{reason}: {advice}", **where._asdict(), start=start, end=end)


def _placed(settings: Mapping[str, str], wanted: Range, position: int) -> Consumer:
    """This worker's consumer, at a place; one that stands there keeps what it has fetched ahead."""
    where = wanted.where
    consumer = _consumer(settings)
    if not _may_be_of(consumer, wanted):
        consumer.close()  # what it keeps is of a topic that is gone
        consumer = _consumer(settings)
    others = [each for each in consumer.assignment if each != where]
    if len(others) == len(consumer.assignment):
        consumer.assign([*others[1 - _KEPT :], where])
    consumer.resume([where])
    if consumer.position(where) != position:
        consumer.seek(where, position)
    return consumer


def _may_be_of(consumer: Consumer, wanted: Range) -> bool:
    """Whether the consumer does not know the topic by another id than that of the range."""
    known = consumer.topic_ids([wanted.where])[wanted.where]
    return known == ZERO_UUID or wanted.topic_id in ("", format_uuid(known))


def _rest(settings: Mapping[str, str], where: TopicPartition) -> None:
    """Nothing more is fetched of it: the next fetch must not wait for an unwanted one."""
    consumer = _CONSUMERS.get(frozenset(settings.items()))
    if consumer is not None and not consumer.is_over and where in consumer.assignment:
        consumer.pause([where])


def _consumer(settings: Mapping[str, str]) -> Consumer:
    key = frozenset(settings.items())
    found = _CONSUMERS.get(key)
    if found is None or found.is_over:
        own = {name: value for name, value in settings.items() if name not in _OF_MEMBERS}
        found = Consumer({**_DEFAULTS, **own, **_OURS})
        found.start()
        _CONSUMERS[key] = found
        # Spark collects garbage after each task, 35 ms for the modules alone.
        gc.freeze()
    return found
