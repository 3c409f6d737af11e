"""Global tables on Spark: each Python process of an executor holds the whole table in memory.

The driver looks up where the topics end when a batch begins, and the tasks of that batch read up to
there before they run. So a table is never older than its batch, and nothing changes it while tasks
run. A process reads only what is new since its last batch. A batch that runs again may meet newer
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from moldau.streams.engine.global_table import GlobalStore
from moldau.streams.plan.plan import GlobalTable
from moldau.streams.problems import RecordFailed
from moldau.streams.spark.ranges import TaskRanges, TopicRange
from moldau.streams.spark.reading import RangeReader
from moldau.streams.spark.versions import Version
from moldau.streams.state.backing import MemoryBacking


@dataclass(frozen=True, slots=True)
class WholeTopic:
    """A topic when a batch begins: its id, and the first offset and the end of each partition."""

    topic_id: str
    firsts: tuple[int, ...]
    ends: tuple[int, ...]


class HeldTable:
    """A global table in an executor's process."""

    def __init__(self, table: GlobalTable, cache_bytes: int) -> None:
        self._topic = table.topic
        self._topic_id = ""
        self._read_to: dict[int, int] = {}
        self.store = GlobalStore(table, MemoryBacking(), cache_bytes=cache_bytes)

    def read(self, consumer: Mapping[str, str], topic: WholeTopic) -> list[RecordFailed]:
        """Apply the records that are new, up to the ends. Return those that were skipped. Raise
        RecordFailed for one that cannot be read."""
        if self._is_of_another(topic):
            self.store.renew(MemoryBacking())
            self._read_to = {}
        self._topic_id = topic.topic_id
        skipped: list[RecordFailed] = []
        for partition, (first, end) in enumerate(zip(topic.firsts, topic.ends, strict=True)):
            start = self._read_to.get(partition, first)
            if start < end:
                skipped += self._read(consumer, partition, start, end)
                self._read_to[partition] = end
        return skipped

    def _is_of_another(self, topic: WholeTopic) -> bool:
        """Whether the topic was made again, or records were deleted before they were read."""
        return topic.topic_id != self._topic_id or any(
            self._read_to.get(partition, first) < first
            for partition, first in enumerate(topic.firsts)
        )

    def _read(
        self, consumer: Mapping[str, str], partition: int, start: int, end: int
    ) -> list[RecordFailed]:
        wanted = TopicRange(self._topic, start, end, topic_id=self._topic_id)
        skipped: list[RecordFailed] = []
        with closing(RangeReader(consumer, TaskRanges(partition, Version(), (wanted,)))) as reader:
            while reader.unread:
                for _, chunk in reader.poll([self._topic]):
                    skipped += self.store.apply(chunk, partition)
        return skipped


class HeldGlobals:
    """The global tables of a program in an executor's process."""

    def __init__(self, tables: Sequence[GlobalTable], cache_bytes: int) -> None:
        self._tables = {
            each.store.name: (each.topic, HeldTable(each, cache_bytes)) for each in tables
        }

    def read(
        self, consumer: Mapping[str, str], topics: Mapping[str, WholeTopic]
    ) -> tuple[str, ...]:
        """Read all tables up to the ends of their topics. Return what was skipped, for the user."""
        return tuple(
            str(each)
            for topic, table in self._tables.values()
            for each in table.read(consumer, topics[topic])
        )

    @property
    def stores(self) -> dict[str, GlobalStore]:
        return {name: table.store for name, (_, table) in self._tables.items()}
