"""Records as an Arrow record batch, for pyarrow, polars, duckdb, pandas. No IO.

    table = pyarrow.Table.from_batches(part.to_arrow() for part in await consumer.poll(1.0))

Columns: topic, partition, offset, timestamp (milliseconds; null where a record has none), key,
value, headers (a map of text to binary). Keys and values are binary, or what Arrow makes of what
the consumer's deserializers gave. pyarrow is imported when somebody asks for Arrow, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.client.fetched import PolledRecord
from moldau.client.serdes.extras import need


def to_arrow(topic: str, partition: int, records: Sequence[PolledRecord]) -> Any:
    """A `pyarrow.RecordBatch`; ConfigError with what to install where there is no pyarrow."""
    pyarrow = need("pyarrow", "arrow")
    count = len(records)
    names = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count), pyarrow.array([topic])
    )
    stamps = [each.timestamp if each.timestamp >= 0 else None for each in records]
    kind_of_headers = pyarrow.map_(pyarrow.string(), pyarrow.binary())
    columns = {
        "topic": names,
        "partition": pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), count),
        "offset": pyarrow.array([each.offset for each in records], pyarrow.int64()),
        "timestamp": pyarrow.array(stamps, pyarrow.timestamp("ms", tz="UTC")),
        "key": _column(pyarrow, [each.key for each in records]),
        "value": _column(pyarrow, [each.value for each in records]),
        "headers": pyarrow.array([each.headers for each in records], kind_of_headers),
    }
    return pyarrow.RecordBatch.from_pydict(columns)


def _column(pyarrow: Any, values: list[Any]) -> Any:
    first = next((each for each in values if each is not None), b"")
    return pyarrow.array(values, pyarrow.binary() if isinstance(first, bytes) else None)
