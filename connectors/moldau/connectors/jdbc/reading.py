"""One table or query on its way into a topic: rows in, source records out, offsets right.

A `Reading` knows nothing of connections and clocks. The task runs its query, feeds it rows in
batches, and says with the last batch that there are no more.

In timestamp mode the last row of a batch waits for the next one: whether its instant is complete is
known only then (see `progress`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.api import SourceRecord
from moldau.connect.data import Schema, Struct
from moldau.connect.errors import DataError
from moldau.connectors.jdbc.layout import Layout
from moldau.connectors.jdbc.progress import Progress
from moldau.connectors.jdbc.query import Bound, Criteria, Mode, Select

Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a table's records go, and what their keys are made of."""

    topic: str
    partition: Mapping[str, str]
    key_columns: tuple[str, ...] = ()


class Reading:
    """The state of one table's or query's reading."""

    def __init__(
        self, route: Route, select: Select, criteria: Criteria, progress: Progress
    ) -> None:
        self.route = route
        self.select = select
        self.criteria = criteria
        self.progress = progress
        self._make: Callable[[Rows], list[SourceRecord]] = self._unready
        self._layout: Layout | None = None
        self._held: Sequence[Any] | None = None
        self._key: Callable[[Struct], tuple[Schema | None, Any]] | None = None
        self._stamps: tuple[int, ...] = ()
        self._number = -1

    def parameters(self, begin: Any, end: Any, last: int) -> tuple[Any, ...]:
        """The query's parameters, in the order of its placeholders."""
        values = {Bound.BEGIN: begin, Bound.END: end, Bound.LAST: last}
        return tuple(values[bound] for bound in self.select.bounds)

    def begin(self, layout: Layout) -> None:
        """A new result; forgets a row that was held back in a result that broke off."""
        self._layout = layout
        self._held = None
        self._key = _key_of(layout.schema, self.route.key_columns)
        mode = self.criteria.mode
        if mode.uses_timestamp:
            names = self.criteria.timestamp_columns
            self._stamps = tuple(layout.position(name) for name in names)
        if mode.uses_incrementing:
            assert self.criteria.incrementing_column is not None
            self._number = layout.position(self.criteria.incrementing_column)
        self._make = {
            Mode.BULK: self._bulk,
            Mode.INCREMENTING: self._incrementing,
            Mode.TIMESTAMP: self._timestamp,
            Mode.TIMESTAMP_INCREMENTING: self._both,
        }[mode]

    def records(self, rows: Rows, *, is_last: bool) -> list[SourceRecord]:
        """Records for the next rows of the result. `is_last`: the result has no more."""
        if self.criteria.mode is Mode.TIMESTAMP:
            if self._held is not None:
                rows = [self._held, *rows]
                self._held = None
            if not is_last and rows:
                *rows, self._held = rows
        return self._make(rows)

    def _unready(self, rows: Rows) -> list[SourceRecord]:
        raise AssertionError("records before begin")

    def _bulk(self, rows: Rows) -> list[SourceRecord]:
        return self._made(rows, [None] * len(rows))

    def _incrementing(self, rows: Rows) -> list[SourceRecord]:
        numbers = [self._number_of(row[self._number]) for row in rows]
        records = self._made(rows, [{"incrementing": number} for number in numbers])
        if rows:
            self.progress = Progress(numbers[-1])
        return records

    def _timestamp(self, rows: Rows) -> list[SourceRecord]:
        instants = [self._instant(row) for row in rows]
        after = self._instant(self._held) if self._held is not None else None
        progress, offsets = self.progress, []
        offset = progress.to_offset()
        for instant, following in zip(instants, [*instants[1:], after], strict=False):
            if following != instant:
                progress = Progress(None, instant)
                offset = progress.to_offset()
            offsets.append(offset)
        records = self._made(rows, offsets)
        self.progress = progress
        return records

    def _both(self, rows: Rows) -> list[SourceRecord]:
        places = [Progress(self._number_of(row[self._number]), self._instant(row)) for row in rows]
        records = self._made(rows, [place.to_offset() for place in places])
        if places:
            self.progress = places[-1]
        return records

    def _made(self, rows: Rows, offsets: Sequence[dict[str, Any] | None]) -> list[SourceRecord]:
        assert self._layout is not None
        partition: Any = self.route.partition
        topic, schema, key_of = self.route.topic, self._layout.schema, self._key
        structs = self._layout.structs(rows)
        if key_of is None:
            return [
                SourceRecord(partition, offset, topic, None, None, None, schema, value)
                for offset, value in zip(offsets, structs, strict=True)
            ]
        return [
            SourceRecord(partition, offset, topic, None, *key_of(value), schema, value)
            for offset, value in zip(offsets, structs, strict=True)
        ]

    def _number_of(self, value: Any) -> int:
        if type(value) is int:
            return value
        if value is None or value != int(value):
            column = self.criteria.incrementing_column
            raise DataError(f"{self.route.topic}: incrementing column {column} holds {value!r}")
        return int(value)

    def _instant(self, row: Sequence[Any]) -> int:
        assert self._layout is not None
        for position in self._stamps:
            if row[position] is not None:
                return self._layout.instant(row[position])
        names = ", ".join(self.criteria.timestamp_columns)
        raise DataError(f"{self.route.topic}: a row has no timestamp in {names}")


def _key_of(
    schema: Schema, columns: Sequence[str]
) -> Callable[[Struct], tuple[Schema | None, Any]] | None:
    """One column is the key itself; several are a struct; none is no key."""
    missing = [name for name in columns if name not in schema.positions]
    if missing:
        raise DataError(f"key.fields: no column {', '.join(missing)} in {list(schema.positions)}")
    positions = [schema.positions[name] for name in columns]
    if not positions:
        return None
    if len(positions) == 1:
        position, key_schema = positions[0], schema.fields[positions[0]].schema
        return lambda value: (key_schema, value.row[position])
    struct = Schema.struct({name: schema.fields[schema.positions[name]].schema for name in columns})
    return lambda value: (struct, Struct.of_row(struct, [value.row[each] for each in positions]))
