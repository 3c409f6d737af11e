"""What a sink task has polled and not put yet: records, or columns with their converted values.

Invariant: it holds one of both, never a mix. Columns whose values cannot be converted as a whole
become records, and with them all columns before, so that the order within a partition stays.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from moldau.client import TopicPartition
from moldau.client.consumer.columns import PartitionColumns
from moldau.connect.api import SinkRecord


class Pending:
    """Of one task."""

    def __init__(self) -> None:
        self.records: list[SinkRecord] = []
        self.columns: list[tuple[PartitionColumns, list[Any]]] = []

    def __len__(self) -> int:
        return len(self.records) + sum(len(part) for part, _ in self.columns)

    def values(self) -> list[Any]:
        """Those of all columns, in their order."""
        if len(self.columns) == 1:
            return self.columns[0][1]
        return [value for _, values in self.columns for value in values]

    def take_columns(self) -> list[PartitionColumns]:
        """Take the columns out, to be converted record by record."""
        parts = [part for part, _ in self.columns]
        self.columns = []
        return parts

    def drop(self, gone: Collection[TopicPartition]) -> None:
        """Forget what is of these partitions."""
        self.records = [each for each in self.records if _origin_of(each) not in gone]
        self.columns = [each for each in self.columns if _place_of(each[0]) not in gone]

    def clear(self) -> None:
        """All of it was put."""
        self.records = []
        self.columns = []


def _origin_of(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_partition)


def _place_of(part: PartitionColumns) -> TopicPartition:
    return TopicPartition(part.topic, part.partition)
