"""What a sink task has polled and not put yet: records, or columns and what they became.

Invariant: it holds only records or only columns. Columns whose values cannot be converted as a
whole become records, and so do all columns before them, to keep the order within a partition.
The consumed bytes of records are kept until the next commit, and only for a sink that reports
single records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from moldau.client import ConsumerRecord, TopicPartition
from moldau.client.base.columns import PartitionColumns
from moldau.connect.api import DataError, SinkColumns, SinkRecord

Report = Callable[[SinkRecord, DataError], None]
"""Reports a record that the sink refuses."""


class Pending:
    """The polled records or columns of one task."""

    def __init__(self) -> None:
        self.records: list[SinkRecord] = []
        self.columns: list[tuple[PartitionColumns, list[Any] | SinkColumns]] = []

    def __len__(self) -> int:
        return len(self.records) + sum(len(part) for part, _ in self.columns)

    def values(self) -> list[Any]:
        """Return the values of all columns, in order."""
        found = [values for _, values in self.columns if isinstance(values, list)]
        return found[0] if len(found) == 1 else [value for values in found for value in values]

    def take_columns(self) -> list[PartitionColumns]:
        """Remove the columns and return them, so that they are converted record by record."""
        parts = [part for part, _ in self.columns]
        self.columns = []
        return parts

    def put_values(
        self, put: Callable[[list[Any]], None], *, tolerates: bool
    ) -> list[PartitionColumns]:
        """Put the values of all columns. If the sink refuses them as bad data, and errors are
        tolerated, remove the columns and return them, to be put as records."""
        try:
            put(self.values())
        except DataError:
            if not tolerates:
                raise
            return self.take_columns()
        return []

    def put_records(self, put: Callable[[list[SinkRecord]], None], report: Report | None) -> None:
        """Put the records. If the sink refuses the batch as bad data, put them one by one and
        `report` those that it refuses; without `report` the first refusal is raised.

        A record that was put or reported is dropped at once, so that after another error only the
        rest is put again."""
        try:
            put(self.records)
            return
        except DataError:
            if report is None:
                raise
        while self.records:
            record = self.records[0]
            try:
                put([record])
            except DataError as error:
                report(record, error)
            del self.records[0]

    def drop(self, gone: Collection[TopicPartition]) -> None:
        """Drop the records and columns of these partitions."""
        self.records = [each for each in self.records if _origin_of(each) not in gone]
        self.columns = [each for each in self.columns if _place_of(each[0]) not in gone]

    def clear(self) -> None:
        """Drop everything, after all of it was put."""
        self.records = []
        self.columns = []


def _origin_of(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_partition)


def _place_of(part: PartitionColumns) -> TopicPartition:
    return TopicPartition(part.topic, part.partition)


class Originals:
    """Consumed records by topic, partition and offset."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], ConsumerRecord] = {}

    def keep(self, record: SinkRecord, raw: Any) -> None:
        """Keep `raw`, the consumed record that the sink record was made of."""
        topic, partition = record.original_topic, record.original_partition
        self._kept[topic, partition, raw.offset] = ConsumerRecord(
            topic, partition, raw.offset, raw.timestamp, raw.key, raw.value, raw.headers
        )

    def of(self, record: SinkRecord) -> ConsumerRecord | SinkRecord:
        """Return the consumed record; the sink record itself if its bytes are no longer kept."""
        where = (record.original_topic, record.original_partition, record.original_offset)
        return self._kept.get(where, record)

    def clear_if(self, is_settled: bool) -> None:
        """Drop all kept records if none of them can be reported any more."""
        if is_settled:
            self._kept.clear()
