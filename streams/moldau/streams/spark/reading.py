"""Read the ranges of a task in an executor, with the client's own columns.

Spark keeps its Python workers between batches, so a worker keeps one consumer for each set of
settings. Of an input that goes on, the consumer keeps what it has fetched in advance, paused; the
next batch of the task goes on there.

Invariants: a range gives the same records each time it is read. It ends at `end` even if no record
is there: compaction and markers of transactions leave gaps. A worker runs one task at a time, so
one thread has the consumer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moldau.client import PartitionColumns, TopicPartition
from moldau.client.sync import Consumer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime.process import tune_process
from moldau.runtime.real import RealClock
from moldau.streams.engine.batches import Chunk
from moldau.streams.problems import StreamsError
from moldau.streams.spark.ranges import TaskRanges, TopicRange
from moldau.streams.spark.waiting import BrokersAway

_CONSUMERS: Final[dict[frozenset[tuple[str, str]], Consumer[Any, Any]]] = {}
_KEPT_PARTITIONS: Final = 16
_POLL_S: Final = 0.2
_POLL_RECORDS: Final = 20_000
_TIMEOUT_S: Final = 60.0
_DEFAULTS: Final = {"max.partition.fetch.bytes": "4194304", "fetch.max.wait.ms": "100"}
_FORCED: Final = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
}


def worker_consumer(settings: Mapping[str, str]) -> Consumer[Any, Any]:
    """Return this worker's consumer with these settings. It is closed when the process ends."""
    key = frozenset(settings.items())
    found = _CONSUMERS.get(key)
    if found is None or found.is_over:
        found = Consumer({**_DEFAULTS, **settings, **_FORCED})
        found.start()
        _CONSUMERS[key] = found
        # Spark collects garbage after each task, of all objects that are not frozen.
        tune_process()
    return found


class RangeReader:
    """The ranges of one task, from the first poll to `close`."""

    def __init__(self, settings: Mapping[str, str], task: TaskRanges) -> None:
        """Raise StreamsError if a topic was deleted and made again."""
        self._ranges = {
            TopicPartition(each.topic, task.partition): each
            for each in task.ranges
            if each.start < each.end
        }
        self._clock = RealClock()
        self._progress_at_s = self._clock.monotonic()
        self._unread = dict.fromkeys(self._ranges)
        self._consumer = worker_consumer(settings)
        if not self._has_topics():
            self._consumer.close()  # what it knows is older than the topic
            self._consumer = worker_consumer(settings)
        self._position()

    @property
    def unread(self) -> list[str]:
        """The topics with a range that is not read to its end."""
        return [where.topic for where in self._unread]

    def poll(self, topics: Sequence[str]) -> Iterator[tuple[str, Chunk]]:
        """Yield records of these topics as soon as there are some. Raise StreamsError if records of
        a range are gone, KafkaError for what keeps a partition from being read."""
        wanted = [where for where in self._unread if where.topic in topics]
        try:
            parts = self._consumer.poll_batches(
                _POLL_S, max_records=_POLL_RECORDS, partitions=wanted
            )
        except KafkaError as error:
            raise self._told(error, wanted) from None
        if parts and not self._has_topics():
            raise StreamsError("an input was deleted and made again while the app read it")
        for part in parts:
            end = self._ranges[TopicPartition(part.topic, part.partition)].end
            chunk = _chunk(part, end)
            if chunk is not None:
                yield part.topic, chunk
        self._note_progress(wanted, has_records=bool(parts))

    def close(self) -> None:
        """Stop fetching; keep what was fetched in advance of inputs that go on."""
        consumer = self._consumer
        if consumer.is_over:
            return
        ended = [where for where, each in self._ranges.items() if not each.has_more]
        kept = [where for where in consumer.assignment if where not in ended]
        consumer.assign(kept[-_KEPT_PARTITIONS:])
        consumer.pause(consumer.assignment)

    def _position(self) -> None:
        consumer, mine = self._consumer, list(self._ranges)
        others = [each for each in consumer.assignment if each not in self._ranges]
        if len(others) + len(mine) > len(consumer.assignment):
            consumer.assign([*others, *mine])
        consumer.resume(mine)
        for where, wanted in self._ranges.items():
            if consumer.position(where) != wanted.start:
                consumer.seek(where, wanted.start)

    def _has_topics(self) -> bool:
        """Whether the consumer knows the topics by the ids of the ranges, as far as both are
        known."""
        known = self._consumer.topic_ids(list(self._ranges))
        return all(
            known[where] == ZERO_UUID or each.topic_id in ("", format_uuid(known[where]))
            for where, each in self._ranges.items()
        )

    def _note_progress(self, wanted: Sequence[TopicPartition], *, has_records: bool) -> None:
        """Note which ranges are read. Raise BrokersAway if nothing comes for a minute."""
        left = len(self._unread)
        for where in wanted:
            if (self._consumer.position(where) or 0) >= self._ranges[where].end:
                del self._unread[where]
        now = self._clock.monotonic()
        if has_records or len(self._unread) < left:
            self._progress_at_s = now
        elif now - self._progress_at_s > _TIMEOUT_S:
            trouble = next(iter(self._consumer.troubles().values()), None)
            raise BrokersAway(
                f"{', '.join(map(str, wanted))}: no record in {_TIMEOUT_S:.0f} s: "
                f"{trouble or 'check that the leader of the partition runs'}"
            )

    def _told(self, error: KafkaError, wanted: Sequence[TopicPartition]) -> Exception:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return error
        first = self._consumer.beginning_offsets(wanted)
        for where in wanted:
            each: TopicRange = self._ranges[where]
            if first[where] > each.start:
                return StreamsError(
                    f"{where}: the app has read up to offset {each.start}, and the log begins at "
                    f"{first[where]}: records were deleted before they were read; give the topic a "
                    "longer retention, and the app a new --checkpoint, which begins without state"
                )
        return error


def _chunk(part: PartitionColumns, end: int) -> Chunk | None:
    """Return the records before `end`."""
    count = bisect_left(part.offsets, end)
    if not count:
        return None
    headers = part.headers
    return Chunk(
        part.offsets[:count].tolist(),
        part.timestamps[:count].tolist(),
        part.keys.tolist()[:count],
        part.values.tolist()[:count],
        min(part.next_offset, end),
        None if headers is None else headers.tolist()[:count],
    )
