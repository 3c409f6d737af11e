"""Records that are appended one after another to the batches of a partition. No IO.

Whatever their form, one kernel call fills a batch with as many as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from moldau.records import BatchBuilder, Headers, Row, Spans, span_list

_NO_HEADERS: Final[Headers] = ()


class Run(Protocol):
    """A sequence of records."""

    def __len__(self) -> int: ...

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        """Append the records from `start` on, as many as fit. Return their number."""

    def row(self, index: int, /) -> Row:
        """Return one record."""


class RowRun:
    """Records with all their fields."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        return builder.extend(self._rows, start)

    def row(self, index: int, /) -> Row:
        return self._rows[index]


class ValueRun:
    """Values with one timestamp, without keys and headers."""

    __slots__ = ("_timestamp_ms", "_values")

    def __init__(self, timestamp_ms: int, values: Sequence[bytes | None]) -> None:
        self._timestamp_ms = timestamp_ms
        self._values = values if isinstance(values, list | tuple) else list(values)

    def __len__(self) -> int:
        return len(self._values)

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        return builder.extend_values(self._timestamp_ms, self._values, start)

    def row(self, index: int, /) -> Row:
        return self._timestamp_ms, None, self._values[index], _NO_HEADERS


class BufferRun(NamedTuple):
    """Values, and maybe keys, with one timestamp, in Arrow's buffers."""

    timestamp_ms: int
    values: Spans
    keys: Spans | None = None

    def __len__(self) -> int:
        return self.values.length

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        return builder.extend_spans(self.timestamp_ms, self.values, self.keys, start)

    def row(self, index: int, /) -> Row:
        key = None if self.keys is None else content(self.keys, index)
        return self.timestamp_ms, key, content(self.values, index), _NO_HEADERS


def content(spans: Spans, index: int) -> bytes | None:
    """Return one value of a column. Raise ValueError if its offsets point outside the data."""
    return span_list(spans._replace(first=spans.first + index, length=1))[0]
