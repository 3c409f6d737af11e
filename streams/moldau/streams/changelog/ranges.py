"""Read ranges of offsets of partitions with one number, with the client's own columns.

Invariants: a range gives the same records each time it is read. It ends at `end` even if no record
is there: compaction and markers of transactions leave gaps. A reader does not wait for ever for
records that a log has: it says what it waits for, and gives up in the end.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from moldau.client import PartitionColumns, TopicPartition
from moldau.client.sync import Consumer
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.executors.ranges import RangeConsumer
from moldau.link.settings import default_api_timeout_ms
from moldau.runtime.process import tune_process
from moldau.runtime.real import RealClock
from moldau.streams.engine.batches import Chunk
from moldau.streams.problems import StreamsError

_KEPT_PARTITIONS: Final = 16
_POLL_RECORDS: Final = 20_000
_REPORT_S: Final = 5.0
_REPORT_AGAIN_S: Final = 30.0
LOG: Final = logging.getLogger("moldau.streams")


@dataclass(frozen=True, slots=True)
class TopicRange:
    """A range of offsets of an input, end excluded. `has_more` says that the log goes on."""

    topic: str
    start: int
    end: int
    has_more: bool = False
    topic_id: str = ""


class BrokersAway(StreamsError):
    """Brokers cannot be reached, or do not answer. The same batch may work later."""


class RecordsGone(StreamsError):
    """Records of a range were deleted before they were read. `first` is where the log begins."""

    def __init__(self, where: TopicPartition, start: int, first: int) -> None:
        super().__init__(
            f"{where}: the app has read up to offset {start}, and the log begins at {first}: "
            "records were deleted before they were read; give the topic a longer retention, and "
            "the app a new --checkpoint, which begins without state"
        )
        self.partition = where.partition
        self.first = first


class TopicMadeAgain(StreamsError):
    """A topic was deleted and made again while its range was read."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic} was deleted and made again while the app read it: give a new "
            "--checkpoint, which begins without state"
        )


class RangeReader:
    """The ranges of one task, from the first poll to `close`."""

    def __init__(
        self, settings: Mapping[str, str], partition: int, ranges: Iterable[TopicRange]
    ) -> None:
        self._ranges = {
            TopicPartition(each.topic, partition): each for each in ranges if each.start < each.end
        }
        self._clock = RealClock()
        self._unread = dict.fromkeys(self._ranges)
        ids = {where: each.topic_id for where, each in self._ranges.items()}
        # Spark collects garbage after each task, of all objects that are not frozen.
        self._place = RangeConsumer(settings, ids, tune_process)
        self._place.seek({where: each.start for where, each in self._ranges.items()})
        self._consumer = self._place.consumer
        ends = {where: each.end for where, each in self._ranges.items()}
        self._wait = RecordWait(settings, self._consumer, ends)

    @property
    def unread(self) -> list[str]:
        """The topics with a range that is not read to its end."""
        return [where.topic for where in self._unread]

    def poll(self, topics: Sequence[str]) -> Iterator[tuple[str, Chunk]]:
        """Yield records of these topics as soon as there are some.

        Raise RecordsGone if those of a range are gone, TopicMadeAgain if they are those of another
        topic, KafkaError for what keeps a partition from being read, BrokersAway if nothing comes
        for a long time."""
        wanted = [where for where in self._unread if where.topic in topics]
        began_s = self._clock.monotonic()
        try:
            parts = self._place.poll(wanted, _POLL_RECORDS)
        except KafkaError as error:
            raise self._reported(error, wanted) from None
        polled_s = self._clock.monotonic() - began_s
        for topic in self._place.other_topics():
            raise TopicMadeAgain(topic)
        for part in parts:
            end = self._ranges[TopicPartition(part.topic, part.partition)].end
            chunk = _chunk(part, end)
            if chunk is not None:
                yield part.topic, chunk
        has_read = self._note_read(wanted)
        if parts or has_read:
            self._wait.reset()
        else:
            self._wait.add(polled_s, wanted)

    def close(self) -> None:
        """Stop fetching; keep what was fetched in advance of inputs that go on."""
        ended = [where for where, each in self._ranges.items() if not each.has_more]
        self._place.release(_KEPT_PARTITIONS, ended)

    def _note_read(self, wanted: Sequence[TopicPartition]) -> bool:
        """Note which ranges are read to their ends. Return whether there are any."""
        read = [
            where
            for where in wanted
            if (self._consumer.position(where) or 0) >= self._ranges[where].end
        ]
        for where in read:
            del self._unread[where]
        return bool(read)

    def _reported(self, error: KafkaError, wanted: Sequence[TopicPartition]) -> Exception:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return error
        first = self._consumer.beginning_offsets(wanted)
        for where in wanted:
            each: TopicRange = self._ranges[where]
            if first[where] > each.start:
                return RecordsGone(where, each.start, first[where])
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


class RecordWait:
    """The time since a consumer last had records. Only the polls count: what records take to run
    does not."""

    def __init__(
        self,
        settings: Mapping[str, str],
        consumer: Consumer[Any, Any],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """`settings` are the consumer's; `ends` are the offsets before which records must come."""
        limit = default_api_timeout_ms
        self._limit_s = int(settings.get(limit.name, str(limit.default))) / 1000
        self._consumer = consumer
        self._ends = ends
        self.reset()

    def reset(self) -> None:
        """Begin anew: records have come."""
        self._waited_s = 0.0
        self._report_after_s = _REPORT_S

    def add(self, polled_s: float, wanted: Sequence[TopicPartition]) -> None:
        """Count a poll that had nothing. Log what is waited for if that is long; raise BrokersAway
        after `default.api.timeout.ms`."""
        self._waited_s += polled_s
        if self._waited_s > self._limit_s:
            raise BrokersAway(self._waits_for(wanted))
        if self._waited_s > self._report_after_s:
            self._report_after_s = self._waited_s + _REPORT_AGAIN_S
            LOG.warning("streams: %s; it goes on waiting", self._waits_for(wanted))

    def _waits_for(self, wanted: Sequence[TopicPartition]) -> str:
        """Return which records do not come, and why, for the user."""
        troubles = self._consumer.troubles()
        places = [
            f"{where} at offset {self._consumer.position(where)} of {self._ends[where]}"
            for where in wanted
        ]
        why = next((troubles[where] for where in wanted if where in troubles), None)
        return (
            f"{', '.join(places)}: no record in {self._waited_s:.0f} s: "
            f"{why or 'check that the leader of the partition runs'}"
        )
