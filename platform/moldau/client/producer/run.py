"""Records that go one behind another into the batches of a partition. No IO.

However they are held, a batch is filled with as many as fit by one call of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from moldau.records import BatchBuilder, Headers, Row, Spans, span_list

_NO_HEADERS: Final[Headers] = ()


class Run(Protocol):
    """Records in an order."""

    def __len__(self) -> int: ...

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        """Appends those from `start` on, as many as fit; how many."""

    def row(self, index: int, /) -> Row:
        """One of them by itself."""


class RowRun:
    """Any records."""

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
    """Values of one time, without keys and headers."""

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
    """Values, and maybe keys, of one time, straight from Arrow's buffers."""

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
    """One value of a column; ValueError if its offsets lead out of the data."""
    return span_list(spans._replace(first=spans.first + index, length=1))[0]
