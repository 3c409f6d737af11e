"""Global tables on Spark: each Python process of an executor holds the whole table in memory.

The driver looks up where the topics end when a batch begins, and the tasks of that batch read up to
there before they run. So a table is never older than its batch, and nothing changes it while tasks
run. A process reads only what is new since its last batch. A batch that runs again may meet newer
rows.

A topic may lose records by its retention before a process has read them, and with them the deletion
of rows that it holds. So it begins again where the log begins then, as a worker of the embedded
engine does when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.deferred import dataclass
from moldau.streams.changelog.ranges import (
    BrokersAway,
    RangeReader,
    RecordsGone,
    TopicMadeAgain,
    TopicRange,
)
from moldau.streams.engine.global_table import GlobalStore
from moldau.streams.plan.plan import GlobalTable
from moldau.streams.problems import RecordFailed
from moldau.streams.state.backing import MemoryBacking

RECORDS_GONE: Final = "has lost records that were not read, by its retention"


@dataclass(frozen=True, slots=True)
class WholeTopic:
    """A topic when a batch begins: its id, and the first offset and the end of each partition."""

    topic_id: str
    firsts: tuple[int, ...]
    ends: tuple[int, ...]

    def without(self, partition: int, first: int) -> WholeTopic:
        """Return the topic when the log of a partition begins at `first`."""
        return replace(
            self, firsts=(*self.firsts[:partition], first, *self.firsts[partition + 1 :])
        )


class Notice(NamedTuple):
    """What the user must know of a record, or about the place of the log where it was. Each
    process that reads the table meets the same."""

    table: str
    topic_id: str
    what: str
    partition: int
    offset: int
    text: str


class Notices:
    """Those that a driver has reported. It remembers one offset for each partition."""

    def __init__(self) -> None:
        self._reported: dict[tuple[str, str, str, int], int] = {}

    def new(self, found: Iterable[Notice]) -> list[str]:
        """Return the texts of those that were not reported before, in the order of the offsets."""
        texts = []
        for each in sorted(found):
            key = each[:4]
            if each.offset > self._reported.get(key, -1):
                self._reported[key] = each.offset
                texts.append(each.text)
        return texts


class HeldTable:
    """A global table in an executor's process."""

    def __init__(self, table: GlobalTable, cache_bytes: int) -> None:
        self._name = table.store.name
        self._topic = table.topic
        self._topic_id = ""
        self._read_to: dict[int, int] = {}
        self.store = GlobalStore(table, MemoryBacking(), cache_bytes=cache_bytes)

    def read(self, consumer: Mapping[str, str], topic: WholeTopic) -> list[Notice]:
        """Apply the records that are new, up to the ends. Return what was skipped, and whether the
        table has begun again. Raise RecordFailed for a record that cannot be read, BrokersAway if
        the topic is made again meanwhile."""
        notices = []
        if topic.topic_id != self._topic_id:
            if self._read_to:
                notices.append(self._begin_again(topic, 0, "was deleted and made again"))
            self._topic_id = topic.topic_id
        for partition, first in enumerate(topic.firsts):
            if self._read_to.get(partition, first) < first:
                notices.append(self._begin_again(topic, partition, RECORDS_GONE))
        while True:
            try:
                return notices + self._read_all(consumer, topic)
            except RecordsGone as gone:
                topic = topic.without(gone.partition, gone.first)
                notices.append(self._begin_again(topic, gone.partition, RECORDS_GONE))
            except TopicMadeAgain:
                raise BrokersAway(
                    f"the topic {self._topic} of the global table {self._name} was deleted and "
                    "made again"
                ) from None

    def _begin_again(self, topic: WholeTopic, partition: int, why: str) -> Notice:
        self.store.renew(MemoryBacking())
        self._read_to = {}
        text = (
            f"the topic {self._topic} of the global table {self._name} {why}: the table is read "
            "again from where the log begins"
        )
        return self._notice(topic, why, partition, topic.firsts[partition], text)

    def _read_all(self, consumer: Mapping[str, str], topic: WholeTopic) -> list[Notice]:
        skipped: list[RecordFailed] = []
        for partition, (first, end) in enumerate(zip(topic.firsts, topic.ends, strict=True)):
            start = self._read_to.get(partition, first)
            if start < end:
                self._read_to[partition] = start  # what fails may have applied a part
                skipped += self._read(consumer, partition, start, end)
                self._read_to[partition] = end
        return [
            self._notice(
                topic, "skipped", each.place.partition, each.place.offset, f"skipped: {each}"
            )
            for each in skipped
        ]

    def _read(
        self, consumer: Mapping[str, str], partition: int, start: int, end: int
    ) -> list[RecordFailed]:
        wanted = TopicRange(self._topic, start, end, topic_id=self._topic_id)
        skipped: list[RecordFailed] = []
        with closing(RangeReader(consumer, partition, (wanted,))) as reader:
            while reader.unread:
                for _, chunk in reader.poll([self._topic]):
                    skipped += self.store.apply(chunk, partition)
        return skipped

    def _notice(
        self, topic: WholeTopic, what: str, partition: int, offset: int, text: str
    ) -> Notice:
        return Notice(self._name, topic.topic_id, what, partition, offset, text)


class HeldGlobals:
    """The global tables of a program in an executor's process."""

    def __init__(self, tables: Sequence[GlobalTable], cache_bytes: int) -> None:
        self._tables = {
            each.store.name: (each.topic, HeldTable(each, cache_bytes)) for each in tables
        }

    def read(
        self, consumer: Mapping[str, str], topics: Mapping[str, WholeTopic]
    ) -> tuple[Notice, ...]:
        """Read all tables up to the ends of their topics. Return what the user must know."""
        return tuple(
            each
            for topic, table in self._tables.values()
            for each in table.read(consumer, topics[topic])
        )

    @property
    def stores(self) -> dict[str, GlobalStore]:
        return {name: table.store for name, (_, table) in self._tables.items()}
