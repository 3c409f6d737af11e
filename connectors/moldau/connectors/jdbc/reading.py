"""Reads one table or query: converts rows to source records with the right offsets.

A `TableCursor` knows nothing of connections and clocks. The task runs its query, passes the rows
in batches, and marks the last batch.

In timestamp mode the last row of a batch waits for the next one, which shows whether its instant is
complete (see `progress`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.connect.api import SourceBatch
from moldau.connect.data import Schema, Struct
from moldau.connect.errors import DataError
from moldau.connectors.jdbc.layout import RowLayout
from moldau.connectors.jdbc.progress import ReadProgress
from moldau.connectors.jdbc.query import Bound, Criteria, Mode, Select
from moldau.deferred import dataclass

Rows = Sequence[Sequence[Any]]
Columns = Sequence[Sequence[Any]]
Offset = dict[str, Any] | None
Key = Callable[[Columns], tuple[Schema | None, Sequence[Any] | None]]
"""Returns the schema and the values of the keys for the columns of a result."""


@dataclass(frozen=True, slots=True)
class Route:
    """The topic for a table's records, their source partition, and the columns of their keys."""

    topic: str
    partition: Mapping[str, str]
    key_columns: tuple[str, ...] = ()


class TableCursor:
    """The state while one table or query is read."""

    def __init__(
        self, route: Route, select: Select, criteria: Criteria, progress: ReadProgress
    ) -> None:
        self.route = route
        self.select = select
        self.criteria = criteria
        self.progress = progress
        self._make: Callable[[Rows], SourceBatch] = self._unready
        self._layout: RowLayout | None = None
        self._held: Sequence[Any] | None = None
        self._key: Key = _no_key
        self._stamps: tuple[int, ...] = ()
        self._number = -1

    def parameters(self, begin: Any, end: Any, last: int, upto: Any) -> tuple[Any, ...]:
        """Return the query's parameters, in the order of its placeholders."""
        values = {Bound.BEGIN: begin, Bound.END: end, Bound.LAST: last, Bound.UPTO: upto}
        return tuple(values[bound] for bound in self.select.bounds)

    def begin(self, layout: RowLayout) -> None:
        """Begin a new result. A row that was held back from an interrupted result is dropped."""
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

    def records(self, rows: Rows, *, is_last: bool) -> SourceBatch | None:
        """Return the records for the next rows of the result. `is_last`: there are no more."""
        if self.criteria.mode is Mode.TIMESTAMP:
            if self._held is not None:
                rows = [self._held, *rows]
                self._held = None
            if not is_last and rows:
                *rows, self._held = rows
        return self._make(rows) if rows else None

    def _unready(self, rows: Rows) -> SourceBatch:
        raise AssertionError("records before begin")

    def _bulk(self, rows: Rows) -> SourceBatch:
        count = len(rows)
        return self._made(rows, lambda: [None] * count)

    def _incrementing(self, rows: Rows) -> SourceBatch:
        at = self._number
        numbers = [row[at] for row in rows]
        if set(map(type, numbers)) != {int}:
            numbers = [self._number_of(number) for number in numbers]
        last = ReadProgress(numbers[-1])
        offsets = lambda: [{"incrementing": number} for number in numbers]  # noqa: E731
        batch = self._made(rows, offsets, last.to_offset())
        self.progress = last
        return batch

    def _timestamp(self, rows: Rows) -> SourceBatch:
        instants = [self._instant(row) for row in rows]
        after = self._instant(self._held) if self._held is not None else None
        progress, offsets = self.progress, []
        offset = progress.to_offset()
        for instant, following in zip(instants, [*instants[1:], after], strict=False):
            if following != instant:
                progress = ReadProgress(None, instant)
                offset = progress.to_offset()
            offsets.append(offset)
        batch = self._made(rows, lambda: offsets, offsets[-1])
        self.progress = progress
        return batch

    def _both(self, rows: Rows) -> SourceBatch:
        places = [
            ReadProgress(self._number_of(row[self._number]), self._instant(row)) for row in rows
        ]
        last = places[-1]
        batch = self._made(rows, lambda: [place.to_offset() for place in places], last.to_offset())
        self.progress = last
        return batch

    def _made(
        self, rows: Rows, offsets: Callable[[], Sequence[Offset]], last_offset: Offset = None
    ) -> SourceBatch:
        assert self._layout is not None
        route, schema = self.route, self._layout.schema
        columns = self._layout.values(rows)
        key_schema, keys = self._key(columns)
        return SourceBatch(
            route.topic, route.partition, schema, columns, offsets, last_offset, key_schema, keys
        )

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


def _key_of(schema: Schema, columns: Sequence[str]) -> Key:
    """Return a function for the keys: one column is the key itself, several are a struct."""
    missing = [name for name in columns if name not in schema.positions]
    if missing:
        raise DataError(f"key.fields: no column {', '.join(missing)} in {list(schema.positions)}")
    positions = [schema.positions[name] for name in columns]
    if not positions:
        return _no_key
    if len(positions) == 1:
        position, key_schema = positions[0], schema.fields[positions[0]].schema
        return lambda values: (key_schema, values[position])
    struct = Schema.struct({name: schema.fields[schema.positions[name]].schema for name in columns})

    def key(values: Columns) -> tuple[Schema | None, Sequence[Any] | None]:
        rows = zip(*[values[each] for each in positions], strict=True)
        return struct, [Struct.of_row(struct, list(row)) for row in rows]

    return key


def _no_key(values: Columns) -> tuple[Schema | None, Sequence[Any] | None]:
    return None, None
