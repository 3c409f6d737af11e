"""Reading one range of offsets in an executor. The only module of the source that fetches records.

Spark keeps its Python workers between batches, so a consumer is made once for a worker and its
settings, and its connections are used again (`_CONSUMERS`). It keeps the last partitions, paused,
with what it has fetched ahead of them: the next batch of one of them goes on there.

Invariants: a range gives the same records each time it is read, whatever compaction or transaction
markers left out; it ends at `end` even if no record is there any more; an offset that is gone is an
error or a gap, as `failOnDataLoss` says.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from moldau.client import PartitionColumns, TopicPartition
from moldau.client.sync import Consumer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.real import RealClock
from moldau.spark.ranges import Range

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
_OURS: Final = {"auto.offset.reset": "none", "enable.auto.commit": "false"}


class Part(NamedTuple):
    """What one poll brought of a range: the first `length` records are in it."""

    columns: PartitionColumns
    length: int


def fetch(
    settings: Mapping[str, str], wanted: Range, *, fails_on_loss: bool, timeout_ms: int
) -> Iterator[Part]:
    """The records of the range, in order, as columns in buffers."""
    consumer = _placed(settings, wanted.where, wanted.start)
    try:
        yield from _records(settings, consumer, wanted, fails_on_loss, timeout_ms)
    finally:
        _rest(settings, wanted.where)


def _records(
    settings: Mapping[str, str],
    consumer: Consumer,
    wanted: Range,
    fails_on_loss: bool,
    timeout_ms: int,
) -> Iterator[Part]:
    clock = RealClock()
    position, heard_at = wanted.start, clock.monotonic()
    while position < wanted.end:
        is_late = clock.monotonic() - heard_at > timeout_ms / 1000
        try:
            most = min(_BATCH_RECORDS, wanted.end - position)
            parts = consumer.poll_batches(_WAIT_S, max_records=most, partitions=[wanted.where])
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_late:
                # The driver has heard of a partition that came after this consumer's metadata.
                consumer.close()
                consumer = _placed(settings, wanted.where, position)
            else:
                position = _after_loss(consumer, wanted, error, fails_on_loss=fails_on_loss)
            continue
        for part in parts:
            count = bisect_left(part.offsets, wanted.end)
            if count:
                yield Part(part, count)
        reached = consumer.position(wanted.where)
        if reached is not None and reached > position:
            position, heard_at = reached, clock.monotonic()
        elif is_late:
            raise TimeoutError(
                f"no record of {wanted.where} from offset {position} on came within {timeout_ms} "
                f"ms: is its leader up? (option kafkaConsumer.pollTimeoutMs)"
            )


def _placed(settings: Mapping[str, str], where: TopicPartition, position: int) -> Consumer:
    """This worker's consumer, at a place; one that stands there keeps what it has fetched ahead."""
    consumer = _consumer(settings)
    others = [each for each in consumer.assignment if each != where]
    if len(others) == len(consumer.assignment):
        consumer.assign([*others[1 - _KEPT :], where])
    consumer.resume([where])
    if consumer.position(where) != position:
        consumer.seek(where, position)
    return consumer


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


def _after_loss(
    consumer: Consumer, wanted: Range, error: KafkaError, *, fails_on_loss: bool
) -> int:
    """Where to go on when the position is not in the log any more."""
    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        raise error
    if fails_on_loss:
        raise KafkaError(
            error.code,
            "records that the batch should hold were deleted: set failOnDataLoss=false to go on "
            "without them",
            **wanted.where._asdict(),
            start=wanted.start,
            end=wanted.end,
        ) from error
    topic, partition = wanted.where
    first = consumer.beginning_offsets([wanted.where])[wanted.where]
    position = min(max(first, wanted.start), wanted.end)
    consumer.seek((topic, partition), position)
    return position
