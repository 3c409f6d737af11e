"""Columns in buffers that a producer is to send: polled ones, or Arrow's. No IO.

An Arrow table has the column value and maybe key, headers (a map of text to binary) and timestamp
(Arrow's, or milliseconds). The columns topic, partition and offset, which a polled table has too,
are not looked at. Nothing is copied that Arrow holds as binary or text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

from moldau.client.consumer.columns import PartitionColumns
from moldau.client.producer.columns import is_arrow
from moldau.client.producer.runs import content
from moldau.client.serdes.extras import need
from moldau.link.arguments import told
from moldau.records import BatchBuilder, Buffer, ColumnBuffers, HeaderBuffers, Headers, Row, Spans

_KNOWN: Final = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_NULL_BITS: Final = b"\0"


class Buffered:
    """Records of columns, as a `Run`."""

    __slots__ = ("_columns",)

    def __init__(self, columns: ColumnBuffers) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns.length

    def fill(self, builder: BatchBuilder, start: int, /) -> int:
        """See `Run`."""
        return builder.extend_buffers(self._columns, start)

    def row(self, index: int, /) -> Row:
        """See `Run`."""
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
    """The columns of what is to be sent; what has no time gets this one. TypeError for what has no
    such columns."""
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
    names = table.column_names
    if "value" not in names or len(set(names)) < len(names) or set(names) - _KNOWN:
        raise TypeError(
            "a table of records has a column value and maybe key, headers and timestamp, not: "
            + ", ".join(names)
        )
    for batch in table.to_batches():
        count = batch.num_rows
        if not count:
            continue
        column = dict(zip(names, batch.columns, strict=True))
        yield ColumnBuffers(
            count,
            b"",
            _stamps(pyarrow, column.get("timestamp"), count, now_ms),
            _nulls(count) if "key" not in names else _binary(pyarrow, "key", column["key"]),
            _binary(pyarrow, "value", column["value"]),
            None if "headers" not in names else _headers(pyarrow, column["headers"]),
        )


def _nulls(count: int) -> Spans:
    return Spans(None, bytes(4 * (count + 1)), 4, _NULL_BITS * ((count + 7) >> 3), 0, count)


def _binary(pyarrow: Any, name: str, column: Any) -> Spans:
    kinds, kind = pyarrow.types, column.type
    if kinds.is_null(kind):
        return _nulls(len(column))
    is_fixed = kinds.is_fixed_size_binary(kind)
    if is_fixed or kinds.is_dictionary(kind) or str(kind) in ("binary_view", "string_view"):
        column = column.cast(pyarrow.large_binary())
    kind = column.type
    is_wide = kinds.is_large_binary(kind) or kinds.is_large_string(kind)
    if not (is_wide or kinds.is_binary(kind) or kinds.is_string(kind)):
        raise TypeError(f"the column {name} must be binary or text, not {kind}")
    validity, offsets, data = column.buffers()
    return Spans(
        None if data is None else memoryview(data),
        memoryview(offsets),
        8 if is_wide else 4,
        None if validity is None or not column.null_count else memoryview(validity),
        column.offset,
        len(column),
    )


def _stamps(pyarrow: Any, column: Any, count: int, now_ms: int) -> Buffer:
    if column is None or pyarrow.types.is_null(column.type):
        return memoryview(array("q", [now_ms]) * count).cast("B")
    if pyarrow.types.is_timestamp(column.type) or pyarrow.types.is_date(column.type):
        column = column.cast(pyarrow.timestamp("ms"), safe=False)
    elif not pyarrow.types.is_integer(column.type):
        raise TypeError(
            "the column timestamp must be timestamps, dates or milliseconds since 1970, not "
            f"{column.type}"
        )
    column = column.cast(pyarrow.int64())
    if column.null_count:
        column = column.fill_null(now_ms)
    first = column.offset * 8
    return memoryview(column.buffers()[1])[first : first + count * 8]


def _headers(pyarrow: Any, column: Any) -> HeaderBuffers | None:
    kind = column.type
    if pyarrow.types.is_null(kind):
        return None
    if not pyarrow.types.is_map(kind):
        raise TypeError(f"the column headers must be a map of text to binary, not {kind}")
    if column.null_count:  # no headers are none
        column = pyarrow.array([each or [] for each in column.to_pylist()], kind)
    first = column.offset * 4
    ends = memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)]
    names = _binary(pyarrow, "headers", column.keys)
    return HeaderBuffers(ends, names, _binary(pyarrow, "headers", column.items))
