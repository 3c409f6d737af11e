"""What a sink task has polled and not put yet: records, or columns and what they became.

Invariant: it holds only records or only columns. Columns whose values cannot be converted as a
whole become records, and so do all columns before them, to keep the order within a partition.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from moldau.client import TopicPartition
from moldau.client.base.columns import PartitionColumns
from moldau.connect.api import SinkColumns, SinkRecord


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
