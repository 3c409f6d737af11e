"""Columns in buffers to be sent: polled ones, or Arrow's. No IO.

An Arrow table has the column value and optionally key, headers (a map of text to binary) and
timestamp (Arrow's, or milliseconds). The columns topic, partition and offset of a polled table are
ignored. Data that Arrow holds as binary or text is not copied.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

from moldau.client.base.columns import PartitionColumns
from moldau.client.producer.columns import (
    as_binary,
    as_milliseconds,
    check_names,
    is_arrow,
    spans_of,
)
from moldau.client.producer.run import content
from moldau.link.arguments import told
from moldau.plugins.extras import need
from moldau.records import BatchBuilder, Buffer, ColumnBuffers, HeaderBuffers, Headers, Row, Spans

_KNOWN: Final = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_NULL_BITS: Final = b"\0"


class ColumnRun:
    """Records in column buffers, as a `Run`."""

    __slots__ = ("_columns",)

    def __init__(self, columns: ColumnBuffers) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns.length

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        return builder.extend_buffers(self._columns, start)

    def row(self, index: int, /) -> Row:
        columns = self._columns
        headers: Headers = ()
        if columns.headers is not None:
            ends = memoryview(columns.headers.ends).cast("B").cast("i")
            headers = tuple(
                (
                    (content(columns.headers.names, at) or b"").decode(),
                    content(columns.headers.contents, at),
                )
                for at in range(ends[index], ends[index + 1])
            )
        stamp = memoryview(columns.timestamps).cast("B").cast("q")[index]
        return stamp, content(columns.keys, index), content(columns.values, index), headers


def buffers_in(given: object, now_ms: int) -> list[ColumnBuffers]:
    """Return the columns of `given`; rows without a timestamp get `now_ms`. Raise TypeError if it
    has no such columns."""
    if isinstance(given, PartitionColumns):
        return [given.buffers]
    if isinstance(given, ColumnBuffers):
        return [given]
    if is_arrow(given):
        return list(_of_arrow(given, now_ms))
    raise TypeError(
        "columns to send are PartitionColumns, ColumnBuffers or an Arrow table, not "
        f"{told(given)}; for lists there is send_many"
    )


def _of_arrow(given: Any, now_ms: int) -> Iterator[ColumnBuffers]:
    pyarrow = need("pyarrow", "arrow")
    table = pyarrow.table(given) if not isinstance(given, pyarrow.Table) else given
    names = check_names(table, _KNOWN)
    read = {"value": as_binary, "key": as_binary, "timestamp": as_milliseconds}
    column = {name: read[name](pyarrow, name, table[name]) for name in names if name in read}
    if "timestamp" in column:
        column["timestamp"] = column["timestamp"].fill_null(now_ms)
    if "headers" in names:
        column["headers"] = table["headers"]
    for batch in pyarrow.table(column).to_batches():
        count = batch.num_rows
        if not count:
            continue
        its = dict(zip(column, batch.columns, strict=True))
        yield ColumnBuffers(
            count,
            b"",
            _stamps(its.get("timestamp"), count, now_ms),
            spans_of(its["key"]) if "key" in its else _nulls(count),
            spans_of(its["value"]),
            _headers(pyarrow, its["headers"]) if "headers" in its else None,
        )


def _nulls(count: int) -> Spans:
    return Spans(None, bytes(4 * (count + 1)), 4, _NULL_BITS * ((count + 7) >> 3), 0, count)


def _stamps(column: Any, count: int, now_ms: int) -> Buffer:
    if column is None:
        return memoryview(array("q", [now_ms]) * count).cast("B")
    first = column.offset * 8
    return memoryview(column.buffers()[1])[first : first + count * 8]


def _headers(pyarrow: Any, column: Any) -> HeaderBuffers | None:
    kind = column.type
    if pyarrow.types.is_null(kind):
        return None
    if not pyarrow.types.is_map(kind):
        raise TypeError(f"the column headers must be a map of text to binary, not {kind}")
    if column.null_count:  # null means no headers
        column = pyarrow.array([each or [] for each in column.to_pylist()], kind)
    first = column.offset * 4
    ends = memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)]
    names, contents = (
        spans_of(as_binary(pyarrow, "headers", each)) for each in (column.keys, column.items)
    )
    return HeaderBuffers(ends, names, contents)
