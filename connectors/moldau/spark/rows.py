"""Rows of the source: the schema of Spark's own Kafka source, and records as Arrow batches.

Invariant: batches have exactly the Arrow schema that Spark derives from the row schema; it refuses
any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from moldau.client.fetched import PartitionRecords

Column = Callable[[Sequence[bytes | None]], Any]

_AFTER_VALUE = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def row_schema(value_type: str, *, has_headers: bool) -> str:
    """As DDL; Spark's own source has BINARY values."""
    columns = f"key BINARY, value {value_type}, {_AFTER_VALUE}"
    return f"{columns}, {_HEADERS}" if has_headers else columns


def to_batch(part: PartitionRecords, values: Column, schema: Any) -> Any:
    """A `pyarrow.RecordBatch` of these records."""
    count = len(part.records)
    stamps = pa.array(part.timestamps(), pa.timestamp("ms", tz="UTC"))
    columns = [
        pa.array(part.keys(), pa.binary()),
        values(part.values()),
        pa.repeat(part.topic, count),
        pa.repeat(pa.scalar(part.partition, pa.int32()), count),
        pa.array(part.offsets(), pa.int64()),
        stamps.cast(pa.timestamp("us", tz="UTC")),
        pa.repeat(pa.scalar(int(part.timestamp_type), pa.int32()), count),
    ]
    if len(schema) > len(columns):
        columns.append(_headers(part, schema.field("headers").type))
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _headers(part: PartitionRecords, kind: Any) -> Any:
    """Null where a record has none, as Spark's own source has it."""
    rows = [
        [{"key": key, "value": value} for key, value in each.headers] or None
        for each in part.records
    ]
    return pa.array(rows, kind)
