"""Batches of source records of one kind, stored as columns until a single record is needed.

A source that reads tables returns a `SourceBatch` from `poll`. A source that reads plain values,
such as lines, returns `SourceValues`. Both are sequences of `SourceRecord`s. If the connector has
no transforms, the worker converts the columns or values at once and never creates the records,
which saves a third of the time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, overload

from moldau.connect.api.record import SourceRecord
from moldau.connect.data.schema import Schema
from moldau.connect.data.struct import Struct
from moldau.deferred import dataclass

Offset = dict[str, Any] | None


class LateRecords(Sequence[SourceRecord]):
    """A sequence of records that are made when a single one is asked for."""

    __slots__ = ()

    @abstractmethod
    def records(self) -> list[SourceRecord]:
        """Return the records. They are created by the first call and then kept."""

    def __iter__(self) -> Iterator[SourceRecord]:
        return iter(self.records())

    @overload
    def __getitem__(self, index: int) -> SourceRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[SourceRecord]: ...

    def __getitem__(self, index: int | slice) -> SourceRecord | list[SourceRecord]:
        return self.records()[index]


@dataclass(slots=True)
class SourceBatch(LateRecords):
    """Records of one topic and one source partition whose values are structs of one schema.

    `columns` has one sequence for each field, each as long as the batch, with the values as a
    struct's row stores them. `offsets` is called when single records are made and returns one
    offset a record. `last_offset` is the offset of the last record.
    """

    topic: str
    source_partition: Mapping[str, Any]
    schema: Schema
    columns: Sequence[Sequence[Any]]
    offsets: Callable[[], Sequence[Offset]]
    last_offset: Offset
    key_schema: Schema | None = None
    keys: Sequence[Any] | None = None
    _made: list[SourceRecord] | None = field(default=None, repr=False)

    def records(self) -> list[SourceRecord]:
        if self._made is None:
            partition: Any = self.source_partition
            topic, schema, key_schema, of_row = self.topic, self.schema, self.key_schema, _of_row
            keys = self.keys if self.keys is not None else [None] * len(self)
            rows = zip(*self.columns, strict=True)
            self._made = [
                SourceRecord(
                    partition, offset, topic, None, key_schema, key, schema,
                    of_row(schema, list(row)),
                )
                for offset, key, row in zip(self.offsets(), keys, rows, strict=True)
            ]  # fmt: skip
        return self._made

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass(slots=True)
class SourceValues(LateRecords):
    """Records without keys, of one topic and one source partition, whose values have one schema.

    `offsets` is called when single records are made and returns one offset a record. `last_offset`
    is the offset of the last record. `timestamp`: the milliseconds since 1970 of all records; None
    leaves it to the producer.
    """

    topic: str
    source_partition: Mapping[str, Any]
    schema: Schema | None
    values: Sequence[Any]
    offsets: Callable[[], Sequence[Offset]]
    last_offset: Offset
    timestamp: int | None = None
    _made: list[SourceRecord] | None = field(default=None, repr=False)

    def records(self) -> list[SourceRecord]:
        if self._made is None:
            partition: Any = self.source_partition
            self._made = [
                SourceRecord(
                    partition,
                    offset,
                    self.topic,
                    None,
                    None,
                    None,
                    self.schema,
                    value,
                    self.timestamp,
                )
                for offset, value in zip(self.offsets(), self.values, strict=True)
            ]
        return self._made

    def __len__(self) -> int:
        return len(self.values)


_of_row = Struct.of_row
