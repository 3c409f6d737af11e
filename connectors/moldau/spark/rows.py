"""Rows of the source: the schema of Spark's own Kafka source, and records as Arrow batches.

Invariant: batches have exactly the Arrow schema that Spark derives from the row schema; it refuses
any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client import PartitionColumns
from moldau.records import Buffer, Spans

Column = Callable[[Any], Any]
"""From the values as Arrow's binary to a column of the type that the reader wants."""


def to_batch(part: PartitionColumns, count: int, values: Column, schema: Any) -> Any:
    """A `pyarrow.RecordBatch` of the first `count` records. Keys, binary values, offsets and
    headers stay in the buffers of the part."""
    buffers = part.buffers
    stamps = _numbers(buffers.timestamps, count).view(pa.timestamp("ms", tz="UTC"))
    columns = [
        _binary(buffers.keys, pa.binary()).slice(0, count),
        values(_binary(buffers.values, pa.binary()).slice(0, count)),
        pa.repeat(part.topic, count),
        pa.repeat(pa.scalar(part.partition, pa.int32()), count),
        _numbers(buffers.offsets, count),
        stamps.cast(pa.timestamp("us", tz="UTC")),
        pa.repeat(pa.scalar(int(part.timestamp_type), pa.int32()), count),
    ]
    if len(schema) > len(columns):
        columns.append(_headers(part, count))
    return pa.RecordBatch.from_arrays(
        [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


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
