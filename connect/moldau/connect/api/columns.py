"""Sink records of one kind as columns, from a topic to a target without an object a record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from moldau.connect.api.record import SinkRecord
from moldau.connect.api.task import SinkTask
from moldau.connect.data.schema import Schema
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class StructColumns:
    """Structs of one schema, or dicts with the same keys in the same order: one sequence for each
    field, with the values that `Struct.row` or the dict has."""

    schema: Schema | None
    """None for dicts."""
    columns: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Consecutive records of one partition, without headers, whose values are structs of one
    schema, or dicts with the same keys. All sequences have one entry for each record."""

    topic: str
    partition: int
    offsets: Sequence[int]
    keys: Sequence[Any]
    """The converted keys. They may be of several schemas."""
    value: StructColumns
    first: SinkRecord
    """The first record, as `put` would get it."""

    def __len__(self) -> int:
        return len(self.offsets)


class ColumnSinkTask(SinkTask):
    """A sink task that can write columns.

    If no transform is configured, the records have no headers, and the converter reads columns
    (`Converter.reads_columns`), the worker calls `put_columns`. All other records are passed to
    `put`, and so are those that `put_columns` does not write. Flushes follow both in the same way.
    """

    @abstractmethod
    def put_columns(self, part: SinkColumns) -> int:
        """Write the records, or the first ones of them. Return how many are written: the others
        come to `put`, next. After RetriableError it is called again with the same records.

        Return 0 if the columns are of a kind that cannot be written. If a value is bad, return the
        number of records before its batch: `put` then finds and reports it.
        """
