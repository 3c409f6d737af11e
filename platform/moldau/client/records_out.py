"""What a consumer has taken of its positions and its user has not worked on yet. No IO.

`poll` gives everything at once, so all of it counts as worked on when the user comes back. An
`async for` gives one record at a time and may be left in the middle: the rest lies here, is given
by whatever reads next, and is not committed. So does what a poll is still decoding: a poll that is
cancelled then has lost nothing.

Invariant: `consumed` of a partition is the offset behind the last record that the user was given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, cast

from moldau.client.fetched import PartitionRecords
from moldau.client.metadata import TopicPartition
from moldau.records import Headers, Record


class ConsumerRecord(NamedTuple):
    """One record, and where it is. Key and value are bytes, None where there is none, or what the
    consumer's deserializers made of them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()


_NOTHING: Final[Iterator[Record]] = iter(())
_new: Final = tuple.__new__


class RecordsOut:
    """The parts that are being read one record at a time, the first of them begun."""

    def __init__(self) -> None:
        self._parts: deque[PartitionRecords] = deque()
        self._part: PartitionRecords | None = None
        self._rest = _NOTHING
        self._given: ConsumerRecord | None = None
        self._undecoded: list[PartitionRecords] = []

    def hold(self, parts: list[PartitionRecords]) -> None:
        """These were taken, and are not decoded yet."""
        self._undecoded = parts

    @property
    def held(self) -> list[PartitionRecords]:
        """What is not decoded yet, without what was dropped meanwhile."""
        return self._undecoded

    def release(self) -> set[TopicPartition]:
        """They are decoded now; tells of which partitions that is still wanted."""
        held, self._undecoded = self._undecoded, []
        return {TopicPartition(*each[:2]) for each in held}

    def add(self, parts: Iterable[PartitionRecords]) -> None:
        """These are read next."""
        self._parts.extend(parts)

    def records(self) -> Iterator[ConsumerRecord]:
        """One by one; may be left at any time, and goes on from there when it is called again."""
        while self._begin():
            assert self._part is not None
            topic, partition = self._part.topic, self._part.partition
            first: object = self._part.records[0]
            if isinstance(first, ConsumerRecord):  # they were deserialized
                for whole in cast("Iterator[ConsumerRecord]", self._rest):
                    self._given = whole
                    yield whole
            for record in self._rest:
                self._given = given = _new(
                    ConsumerRecord,
                    (
                        topic,
                        partition,
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        record.headers,
                    ),
                )
                yield given
            self._part = None

    def _begin(self) -> bool:
        if self._part is None and self._parts:
            self._part = self._parts.popleft()
            self._rest = iter(self._part.records)
            self._given = None
        return self._part is not None

    def take(self, count_max: int) -> list[PartitionRecords]:
        """The rest, or so many of it, for who wants parts after all."""
        self._put_back()
        found: list[PartitionRecords] = []
        while self._parts and count_max > 0:
            part = self._parts.popleft()
            if len(part.records) > count_max:
                rest = part.records[count_max:]
                self._parts.appendleft(part._replace(records=rest))
                part = part._replace(records=part.records[:count_max], next_offset=rest[0].offset)
            found.append(part)
            count_max -= len(part.records)
        return found

    def _put_back(self) -> None:
        part, self._part = self._part, None
        left = list(self._rest)
        if part is not None and left:
            self._parts.appendleft(part._replace(records=left))

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not read on: they were sought elsewhere, or belong to others."""
        gone = set(partitions)
        if self._part is not None and TopicPartition(*self._part[:2]) in gone:
            deque(self._rest, maxlen=0)
            self._part = None
        self._parts = deque(each for each in self._parts if TopicPartition(*each[:2]) not in gone)
        self._undecoded = [
            each for each in self._undecoded if TopicPartition(*each[:2]) not in gone
        ]

    def consumed(self) -> dict[TopicPartition, int]:
        """The partitions that were not given out whole, and how far each was."""
        found: dict[TopicPartition, int] = {}
        if self._part is not None:
            where = TopicPartition(*self._part[:2])
            given = self._given
            found[where] = self._part.records[0].offset if given is None else given.offset + 1
        for part in (*self._parts, *self._undecoded):
            found.setdefault(TopicPartition(*part[:2]), part.records[0].offset)
        return found
