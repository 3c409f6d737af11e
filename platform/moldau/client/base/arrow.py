"""Records as an Arrow record batch, for pyarrow, polars, duckdb, pandas. No IO.

    table = pyarrow.Table.from_batches(part.to_arrow() for part in await consumer.poll(1.0))

Columns: topic, partition, offset, timestamp (milliseconds; null for a record without one), key,
value, headers (a map of text to binary). Keys and values are binary, or the Arrow type of what the
consumer's deserializers returned. pyarrow is imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.plugins.extras import need
from moldau.records import ColumnBuffers, ConsumerRecord, Spans


def to_arrow(topic: str, partition: int, records: Sequence[ConsumerRecord]) -> Any:
    """Return a `pyarrow.RecordBatch`. Without pyarrow, a ConfigError says what to install."""
    pyarrow = need("pyarrow", "arrow")
    count = len(records)
    stamps = [each.timestamp if each.timestamp >= 0 else None for each in records]
    kind_of_headers = pyarrow.map_(pyarrow.string(), pyarrow.binary())
    columns = {
        **_place(pyarrow, topic, partition, count),
        "offset": pyarrow.array([each.offset for each in records], pyarrow.int64()),
        "timestamp": pyarrow.array(stamps, pyarrow.timestamp("ms", tz="UTC")),
        "key": _column(pyarrow, [each.key for each in records]),
        "value": _column(pyarrow, [each.value for each in records]),
        "headers": pyarrow.array([each.headers for each in records], kind_of_headers),
    }
    return pyarrow.RecordBatch.from_pydict(columns)


def _place(pyarrow: Any, topic: str, partition: int, count: int) -> dict[str, Any]:
    """Return the columns topic and partition."""
    same = pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count)
    return {
        "topic": pyarrow.DictionaryArray.from_arrays(same, pyarrow.array([topic])),
        "partition": pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), count),
    }


def _column(pyarrow: Any, values: list[Any]) -> Any:
    first = next((each for each in values if each is not None), b"")
    return pyarrow.array(values, pyarrow.binary() if isinstance(first, bytes) else None)


def columns_to_arrow(topic: str, partition: int, columns: ColumnBuffers) -> Any:
    """Return a `pyarrow.RecordBatch` on the memory of these buffers, and keep that memory alive."""
    pyarrow = need("pyarrow", "arrow")
    compute = need("pyarrow.compute", "arrow")
    count = columns.length
    binary, number = pyarrow.binary(), pyarrow.int64()
    stamps = pyarrow.Array.from_buffers(
        number, count, [None, pyarrow.py_buffer(columns.timestamps)]
    )
    kind_of_stamps = pyarrow.timestamp("ms", tz="UTC")
    if count and compute.min(stamps).as_py() < 0:
        is_there = compute.greater_equal(stamps, 0)
        none = pyarrow.scalar(None, number)
        stamps = compute.if_else(is_there, stamps, none)
    found = {
        **_place(pyarrow, topic, partition, count),
        "offset": pyarrow.Array.from_buffers(
            number, count, [None, pyarrow.py_buffer(columns.offsets)]
        ),
        "timestamp": stamps.cast(kind_of_stamps),
        "key": _binary(pyarrow, columns.keys, binary),
        "value": _binary(pyarrow, columns.values, binary),
        "headers": _headers(pyarrow, columns),
    }
    return pyarrow.RecordBatch.from_pydict(found)


def _binary(pyarrow: Any, spans: Spans, kind: Any) -> Any:
    assert spans.first == 0
    buffers = [
        None if each is None else pyarrow.py_buffer(each)
        for each in (spans.validity, spans.offsets, spans.data)
    ]
    return pyarrow.Array.from_buffers(kind, spans.length, buffers)


def _headers(pyarrow: Any, columns: ColumnBuffers) -> Any:
    text, binary = pyarrow.string(), pyarrow.binary()
    headers = columns.headers
    if headers is None:
        ends = pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), columns.length + 1)
        none = pyarrow.array([], text), pyarrow.array([], binary)
        return pyarrow.MapArray.from_arrays(ends, *none)
    ends = pyarrow.Array.from_buffers(
        pyarrow.int32(), columns.length + 1, [None, pyarrow.py_buffer(headers.ends)]
    )
    return pyarrow.MapArray.from_arrays(
        ends, _binary(pyarrow, headers.names, text), _binary(pyarrow, headers.contents, binary)
    )
