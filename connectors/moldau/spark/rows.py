"""Rows of the source: the schema of Spark's own Kafka source, and records as Arrow batches.

Invariant: batches have exactly the Arrow schema that Spark derives from the row schema; it refuses
any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client import PartitionColumns
from moldau.records import Buffer, Spans
from moldau.spark.plain_arrays import repeated_int32, repeated_text

Column = Callable[[Any], Any]
"""From the values as Arrow's binary to a column of the type that the reader wants."""


@dataclass(frozen=True, slots=True)
class Typed:
    """How keys and values become columns, and which records are rows (`value.mode`)."""

    keys: Column
    values: Column
    mode: str = "permissive"


def to_batch(part: PartitionColumns, count: int, typed: Typed, schema: Any) -> Any:
    """A `pyarrow.RecordBatch` of the first `count` records. Binary keys and values, offsets and
    headers stay in the buffers of the part."""
    buffers = part.buffers
    stamps = _numbers(buffers.timestamps, count).view(pa.timestamp("ms", tz="UTC"))
    raw_keys = _binary(buffers.keys, pa.binary()).slice(0, count)
    raw_values = _binary(buffers.values, pa.binary()).slice(0, count)
    keys, values = typed.keys(raw_keys), typed.values(raw_values)
    columns = [
        keys,
        values,
        repeated_text(part.topic, count),
        repeated_int32(part.partition, count),
        _numbers(buffers.offsets, count),
        stamps.cast(pa.timestamp("us", tz="UTC")),
        repeated_int32(int(part.timestamp_type), count),
    ]
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
    if typed.mode not in ("skip", "rejects"):
        return batch
    bad = pc.or_(_unread(raw_keys, keys), _unread(raw_values, values))
    return batch.filter(bad if typed.mode == "rejects" else pc.invert(bad))


def _unread(raw: Any, column: Any) -> Any:
    """Where there is a key or value, and it could not be read."""
    return pc.and_(pc.is_valid(raw), pc.is_null(column))


def _numbers(buffer: Buffer, count: int) -> Any:
    """64-bit numbers."""
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(buffer)])


def _binary(spans: Spans, kind: Any) -> Any:
    buffers = [
        None if each is None else pa.py_buffer(each)
        for each in (spans.validity, spans.offsets, spans.data)
    ]
    return pa.Array.from_buffers(kind, spans.length, buffers, offset=spans.first)


def _headers(part: PartitionColumns, count: int) -> Any:
    """Null where a record has none, as Spark's own source has it."""
    headers = part.buffers.headers
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if headers is None:
        return pa.nulls(count, kind)
    ends = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(headers.ends)])
    pairs = pa.StructArray.from_arrays(
        [_binary(headers.names, pa.string()), _binary(headers.contents, pa.binary())],
        names=["key", "value"],
    )
    has_none = pc.equal(ends[1:], ends[:-1])
    return pa.ListArray.from_arrays(ends, pairs, mask=has_none)
