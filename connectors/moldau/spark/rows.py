"""Turn fetched records into Arrow batches, with the columns of Spark's own Kafka source.

Invariant: A batch has exactly the Arrow schema that Spark derives from the row schema. Spark
rejects any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client import PartitionColumns
from moldau.deferred import dataclass
from moldau.records import Buffer, Spans
from moldau.spark.plain_arrays import repeated_int32, repeated_text
from moldau.spark.unreadable import UnreadableValue

Column = Callable[[Any], Any]
"""Turns an Arrow array of binary values into a column of the wanted type."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How keys and values become columns, and which records become rows (`value.mode`)."""

    keys: Column
    values: Column
    mode: str = "permissive"


def to_batch(part: PartitionColumns, count: int, row_format: RowFormat, schema: Any) -> Any:
    """Return a `pyarrow.RecordBatch` of the first `count` records.

    Binary keys and values, offsets and headers are not copied: they stay in the part's buffers."""
    buffers = part.buffers
    stamps = _int64_array(buffers.timestamps, count).view(pa.timestamp("ms", tz="UTC"))
    raw_keys = _span_array(buffers.keys, pa.binary()).slice(0, count)
    raw_values = _span_array(buffers.values, pa.binary()).slice(0, count)
    keys = _read(row_format.keys, raw_keys, part)
    values = _read(row_format.values, raw_values, part)
    columns = [
        keys, values, repeated_text(part.topic, count), repeated_int32(part.partition, count),
        _int64_array(buffers.offsets, count), stamps.cast(pa.timestamp("us", tz="UTC")),
        repeated_int32(int(part.timestamp_type), count),
    ]  # fmt: skip
    if "headers" in schema.names:
        columns.append(_headers(part, count))
    if "rawKey" in schema.names:
        columns += [raw_keys, raw_values]
    batch = pa.RecordBatch.from_arrays(
        [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )
    if row_format.mode not in ("skip", "rejects"):
        return batch
    bad = pc.or_(_is_unreadable(raw_keys, keys), _is_unreadable(raw_values, values))
    return batch.filter(bad if row_format.mode == "rejects" else pc.invert(bad))


def _read(column: Column, raw: Any, part: PartitionColumns) -> Any:
    """Return the column. The error of a value that cannot be read names its record."""
    try:
        return column(raw)
    except UnreadableValue as error:
        offset = part.offsets[_first_unreadable(column, raw)]
        place = {"topic": part.topic, "partition": part.partition, "offset": offset}
        raise UnreadableValue(error.reason, **place, **error.context) from None


def _first_unreadable(column: Column, raw: Any) -> int:
    """Return the index of the first value that the column rejects. There must be one."""
    low, high = 0, len(raw)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column(raw.slice(low, middle - low))
        except UnreadableValue:
            high = middle
        else:
            low = middle
    return low


def _is_unreadable(raw: Any, column: Any) -> Any:
    """Return which rows have a key or value that could not be read."""
    return pc.and_(pc.is_valid(raw), pc.is_null(column))


def _int64_array(buffer: Buffer, count: int) -> Any:
    """Return an int64 array over this buffer."""
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(buffer)])


def _span_array(spans: Spans, kind: Any) -> Any:
    """Return a string or binary array over the buffers of these spans."""
    buffers = [
        None if each is None else pa.py_buffer(each)
        for each in (spans.validity, spans.offsets, spans.data)
    ]
    return pa.Array.from_buffers(kind, spans.length, buffers, offset=spans.first)


def _headers(part: PartitionColumns, count: int) -> Any:
    """Return the column `headers`. As in Spark's own source, a record without headers has null."""
    headers = part.buffers.headers
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if headers is None:
        return pa.nulls(count, kind)
    ends = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(headers.ends)])
    pairs = pa.StructArray.from_arrays(
        [_span_array(headers.names, pa.string()), _span_array(headers.contents, pa.binary())],
        names=["key", "value"],
    )
    has_none = pc.equal(ends[1:], ends[:-1])
    return pa.ListArray.from_arrays(ends, pairs, mask=has_none)
