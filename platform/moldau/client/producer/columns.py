"""Many records as columns: lists, or any object with Arrow's C interface (pyarrow, polars, duckdb
results, ...). The kernel reads Arrow's buffers directly unless values must be inspected before.

A table has the column `value` and optionally `key`, `headers` (a map of text to binary, or lists of
structs with a key and a value), `timestamp` (milliseconds, or Arrow's timestamps or dates) and
`partition`. The columns beside the values may be Arrow's or Python's, whatever the values are.
pyarrow is imported only for Arrow data.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import repeat
from typing import Any, Final, NamedTuple, TypedDict, cast

from moldau.client.base.arguments import check_numbers, check_timestamp, check_timestamps
from moldau.client.producer.run import BufferRun, RowRun, Run, ValueRun
from moldau.link.arguments import told
from moldau.plugins.extras import need
from moldau.records import Headers, HeadersGiven, Row, Spans, span_list

_KNOWN: Final = ("value", "key", "headers", "timestamp", "partition")
_OF_ALL: Final = ("timestamps_ms", "partition")
_NO_HEADERS: Final[Headers] = ()
_TEXT: Final = ("string", "large_string", "string_view")
_BINARY: Final = ("binary", "large_binary", "binary_view", "null")
_ARROW_MARKS: Final = ("__arrow_c_stream__", "__arrow_c_array__")


class ArrowColumn:
    """An Arrow column of binary or text."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: list[Any]) -> None:
        self._chunks = [chunk for chunk in chunks if len(chunk)]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def spans(self) -> list[Spans]:
        """Return the buffers of each chunk, without a copy."""
        return list(map(spans_of, self._chunks))

    def to_list(self) -> list[bytes | None]:
        """Return a copy of each value."""
        return [value for spans in self.spans() for value in span_list(spans)]

    def taken(self, indices: Sequence[int]) -> ArrowColumn:
        """Return these values, copied in one step. There must be one chunk."""
        (chunk,) = self._chunks
        pyarrow = need("pyarrow", "arrow")
        places = pyarrow.py_buffer(array("i", indices))
        # `pyarrow.array` would look for pandas and numpy.
        at = pyarrow.Array.from_buffers(pyarrow.int32(), len(indices), [None, places])
        return ArrowColumn([chunk.take(at)])


def spans_of(chunk: Any) -> Spans:
    """Return the buffers of an array from `as_binary`."""
    validity, offsets, data = chunk.buffers()
    return Spans(
        None if data is None else memoryview(data).cast("B"),
        memoryview(offsets).cast("B"),
        8 if str(chunk.type).startswith("large_") else 4,
        None if validity is None or not chunk.null_count else memoryview(validity).cast("B"),
        chunk.offset,
        len(chunk),
    )


class RecordColumns(TypedDict, total=False):
    """The columns beside the values of `send_many`: each a sequence of the same length."""

    keys: Any
    headers: Sequence[HeadersGiven] | None
    timestamps_ms: int | Sequence[int | None] | None
    partition: int | Sequence[int | None] | None


class Columns(NamedTuple):
    """The columns of many records, all of one length; None means the default for all records."""

    values: Any
    keys: Any = None
    headers: Sequence[HeadersGiven] | None = None
    timestamps_ms: int | Sequence[int | None] | None = None
    partition: int | Sequence[int | None] | None = None

    def check(self) -> None:
        """Check the columns. Raise TypeError for one that is not a sequence, ValueError for another
        length; either, with its index, for a wrong timestamp or partition."""
        count = _length("values", self.values)
        for name, column in zip(self._fields[1:], self[1:], strict=True):
            if column is None or (name in _OF_ALL and isinstance(column, int)):
                continue
            length = _length(name, column)
            if length != count:
                raise ValueError(
                    f"values and {name} must be of one length, not {count} and {length}"
                )
        stamps, partition = self.timestamps_ms, self.partition
        if isinstance(stamps, int):
            check_timestamp(stamps, "timestamps_ms")
        elif stamps is not None:
            check_timestamps(stamps)
        if partition is not None and not isinstance(partition, int):
            check_numbers(partition)

    @property
    def is_even(self) -> bool:
        """Whether the records differ in nothing but values (and keys)."""
        return self.headers is None and (
            self.timestamps_ms is None or isinstance(self.timestamps_ms, int)
        )

    def as_lists(self) -> Columns:
        """Return the columns with values and keys as Python objects."""
        values, keys = self.values, self.keys
        return self._replace(
            values=values.to_list() if isinstance(values, ArrowColumn) else values,
            keys=keys.to_list() if isinstance(keys, ArrowColumn) else keys,
        )

    @property
    def is_splittable(self) -> bool:
        """Whether all records are in one chunk of Arrow's, so that `taken` can split them."""
        columns = self.values, self.keys
        return self.is_even and all(
            isinstance(each, ArrowColumn) and len(each.spans()) == 1 for each in columns
        )

    def taken(self, indices: Sequence[int]) -> Columns:
        """Return these records of columns that are splittable."""
        return self._replace(values=self.values.taken(indices), keys=self.keys.taken(indices))

    def in_buffers(self, now_ms: int) -> list[Run] | None:
        """Return the records by chunk if all are in Arrow buffers with equal chunks, else None."""
        if not isinstance(self.values, ArrowColumn) or not self.is_even:
            return None
        stamp = self.timestamps_ms if isinstance(self.timestamps_ms, int) else now_ms
        values = self.values.spans()
        if self.keys is None:
            return [BufferRun(stamp, each) for each in values]
        keys = self.keys.spans() if isinstance(self.keys, ArrowColumn) else []
        if [each.length for each in keys] != [each.length for each in values]:
            return None
        return [BufferRun(stamp, *each) for each in zip(values, keys, strict=True)]

    @property
    def partitions(self) -> set[int]:
        """The partitions that the columns name."""
        if self.partition is None or isinstance(self.partition, int):
            return set() if self.partition is None else {self.partition}
        return {each for each in self.partition if each is not None}

    def runs(self, now_ms: int) -> Sequence[Run]:
        """Return the records in the order given, in whatever form they are held."""
        runs = self.in_buffers(now_ms)
        if runs is not None:
            return runs
        columns = self.as_lists()
        if columns.keys is None and columns.is_even:
            stamp = columns.timestamps_ms if isinstance(columns.timestamps_ms, int) else now_ms
            return [ValueRun(stamp, cast("Sequence[Any]", columns.values))]
        return [RowRun(columns.rows(now_ms))]

    def rows(self, now_ms: int) -> list[Row]:
        """Return timestamp, key, value and headers of each record. The columns must be lists."""
        stamps: Iterable[int | None] = _each(self.timestamps_ms, len(self.values))
        if self.timestamps_ms is None:
            stamps = repeat(now_ms, len(self.values))
        elif not isinstance(self.timestamps_ms, int):
            stamps = [now_ms if each is None else each for each in stamps]
        return list(self._zipped(stamps))

    def each(self) -> Iterable[Any]:
        """Iterate over timestamp (None for now), key, value, headers and partition of each record.
        The columns must be lists."""
        count = len(self.values)
        stamps = _each(self.timestamps_ms, count)
        return self._zipped(stamps, _each(self.partition, count))

    def _zipped(self, stamps: Iterable[Any], *more: Iterable[Any]) -> Iterable[Any]:
        count = len(self.values)
        keys = repeat(None, count) if self.keys is None else self.keys
        headers = repeat(_NO_HEADERS, count) if self.headers is None else self.headers
        return zip(stamps, keys, self.values, headers, *more, strict=True)


# Types with a length that are no sequence of records: bytes would be numbers, a dict its keys.
_NO_COLUMN: Final = (str, bytes, bytearray, memoryview, Mapping, Set)


def _length(name: str, column: Any) -> int:
    if isinstance(column, _NO_COLUMN) or not hasattr(column, "__len__"):
        of_all = "one for all records, or " if name in _OF_ALL else ""
        raise TypeError(f"{name} must be {of_all}a list with one for each, not {told(column)}")
    return len(column)


def is_arrow(values: object) -> bool:
    """Whether the object has Arrow's C interface."""
    return any(hasattr(values, mark) for mark in _ARROW_MARKS)


def _each(given: int | Sequence[int | None] | None, count: int) -> Iterable[int | None]:
    """Iterate over one value for each record."""
    return repeat(given, count) if given is None or isinstance(given, int) else given


def from_arrow(given: Columns) -> Columns:
    """Read Arrow data; a table has all columns itself. TypeError for a column of a wrong type."""
    pyarrow = need("pyarrow", "arrow")
    table = _as_table(pyarrow, given.values) if is_arrow(given.values) else None
    if table is not None:
        if any(each is not None for each in given[1:]):
            raise TypeError("a table has all columns itself: give no others beside it")
        return _from_table(pyarrow, table)
    found = {
        name: _READ[name](pyarrow, name, _chunked(pyarrow, name, column))
        for name, column in given._asdict().items()
        if is_arrow(column)
    }
    return given._replace(**found)


def _as_table(pyarrow: Any, values: Any) -> Any:
    """Return the values as a table, or None for a single column. For objects not of pyarrow, the
    exported schema decides: that of a table is a struct."""
    if isinstance(values, pyarrow.Table):
        return values
    if isinstance(values, pyarrow.Array | pyarrow.ChunkedArray):
        return None
    if isinstance(values, pyarrow.RecordBatch) or hasattr(values, "column_names"):
        return pyarrow.table(values)
    if hasattr(values, "__arrow_c_stream__"):
        found = pyarrow.chunked_array(values)
        if not pyarrow.types.is_struct(found.type):
            return None
        return pyarrow.Table.from_batches(
            [pyarrow.RecordBatch.from_struct_array(each) for each in found.chunks],
            pyarrow.schema(list(found.type)),
        )
    return None


def _from_table(pyarrow: Any, table: Any) -> Columns:
    names = check_names(table, _KNOWN)
    column = {name: table.column(name) for name in names}
    found = {
        field: _READ[field](pyarrow, name, column[name])
        for name, field in zip(_KNOWN, Columns._fields, strict=True)
        if name in column
    }
    return Columns(**found)


def _chunked(pyarrow: Any, name: str, column: Any) -> Any:
    """Return one column of any library as pyarrow's ChunkedArray."""
    if isinstance(column, pyarrow.ChunkedArray):
        return column
    if isinstance(column, pyarrow.Table | pyarrow.RecordBatch):
        raise TypeError(f"{name} must be one column, not a {type(column).__name__}")
    is_stream = hasattr(column, "__arrow_c_stream__")
    return pyarrow.chunked_array(column if is_stream else [pyarrow.array(column)])


def check_names(table: Any, known: Collection[str]) -> list[str]:
    """Return the names of the columns. Raise TypeError if this is not a table of records."""
    names: list[str] = table.column_names
    if "value" not in names or set(names) - set(known) or len(set(names)) < len(names):
        raise TypeError(
            "a table of records has a column value and maybe key, headers, timestamp and "
            f"partition, not: {', '.join(names)}"
        )
    return names


def as_binary(pyarrow: Any, name: str, column: Any) -> Any:
    """Return the column as binary or text with offsets. Raise TypeError for another type."""
    kinds, kind = pyarrow.types, column.type
    if str(kind) in ("string", "binary", "large_string", "large_binary"):
        return column
    try:
        if kinds.is_integer(kind) or kinds.is_floating(kind):
            raise TypeError
        if kinds.is_dictionary(kind):
            return as_binary(pyarrow, name, column.cast(kind.value_type))
        return column.cast(pyarrow.large_binary())
    except (TypeError, pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        raise TypeError(f"the column {name} must be binary or text, not {kind}") from None


def _binary(pyarrow: Any, name: str, column: Any) -> ArrowColumn:
    return ArrowColumn(as_binary(pyarrow, name, column).chunks)


def _headers(pyarrow: Any, name: str, column: Any) -> list[Headers]:
    """Read a column of maps, or of lists of structs with a key and a value."""
    if not _has_headers(pyarrow.types, column.type):
        raise TypeError(
            f"the column {name} must be a map of text to binary or text, or lists of structs with "
            f"such a key and value, not {column.type}"
        )
    return [_headers_of(each) for each in column.to_pylist()]


def _has_headers(kinds: Any, kind: Any) -> bool:
    if kinds.is_null(kind):
        return True
    if kinds.is_map(kind):
        return str(kind.key_type) in _TEXT and _is_content(kind.item_type)
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    if not is_list or not kinds.is_struct(kind.value_type):
        return False
    fields = {each.name: each.type for each in kind.value_type}
    is_pair = fields.keys() == {"key", "value"}
    return is_pair and str(fields["key"]) in _TEXT and _is_content(fields["value"])


def _is_content(kind: Any) -> bool:
    name = str(kind)
    return name in _TEXT or name in _BINARY or name.startswith("fixed_size_binary")


def _headers_of(given: Any) -> Headers:
    if given is None:
        return ()
    pairs = (
        (each["key"], each["value"]) if isinstance(each, dict) else (each[0], each[1])
        for each in given
    )
    return tuple((key, _as_bytes(value)) for key, value in pairs)


def _as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def as_milliseconds(pyarrow: Any, name: str, column: Any) -> Any:
    """Return a column of milliseconds, times or dates as milliseconds; TypeError for others."""
    kinds, kind = pyarrow.types, column.type
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return column.cast(pyarrow.timestamp("ms"), safe=False).cast(pyarrow.int64())
    if not (kinds.is_integer(kind) or kinds.is_null(kind)):
        raise TypeError(
            f"the column {name} must be milliseconds since 1970 (integers), timestamps or dates, "
            f"not {kind}"
        )
    return column.cast(pyarrow.int64())


def _milliseconds(pyarrow: Any, name: str, column: Any) -> list[int | None]:
    found: list[int | None] = as_milliseconds(pyarrow, name, column).to_pylist()
    return found


def _numbers(pyarrow: Any, name: str, column: Any) -> list[int | None]:
    """Read a column of partitions."""
    kinds, kind = pyarrow.types, column.type
    if not (kinds.is_integer(kind) or kinds.is_null(kind)):
        raise TypeError(f"the column {name} must be integers, not {kind}")
    found: list[int | None] = column.to_pylist()
    return found


_READ: Final[Mapping[str, Callable[[Any, str, Any], Any]]] = {
    "values": _binary,
    "keys": _binary,
    "headers": _headers,
    "timestamps_ms": _milliseconds,
    "partition": _numbers,
}
