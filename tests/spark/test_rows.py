"""Columns of a fetch as rows of the source."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.client import PartitionColumns, TopicPartition  # noqa: E402
from moldau.client.consumer.records import FetchedRecords  # noqa: E402
from moldau.records import Row, encode_batch  # noqa: E402
from moldau.spark.rows import to_batch  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
ROWS: list[Row] = [
    (1, b"a", b"1", ()),
    (2, None, b"2", (("h", b"x"), ("g", None))),
    (-1, b"", None, ()),
    (4, b"d", b"4", (("last", b""),)),
]


def part(rows: list[Row], first_offset: int) -> PartitionColumns:
    data = encode_batch(rows, first_offset)
    fetched = FetchedRecords(
        TopicPartition("t", 3), first_offset, data, None, first_offset + len(rows)
    )
    found = fetched.take_columns(len(rows), check_crc=True)
    assert found is not None
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_first_rows_of_a_part_are_as_in_the_log(count: int) -> None:
    found = to_batch(part(ROWS, 7), count, lambda values: values, SCHEMA)

    assert found.schema == SCHEMA
    assert found.validate(full=True) is None
    rows = found.to_pylist()
    assert [each["offset"] for each in rows] == [7, 8, 9, 10][:count]
    assert [(each["key"], each["value"]) for each in rows] == [row[1:3] for row in ROWS[:count]]
    assert [each["headers"] for each in rows] == [
        None,
        [{"key": "h", "value": b"x"}, {"key": "g", "value": None}],
        None,
        [{"key": "last", "value": b""}],
    ][:count]
    assert {(each["topic"], each["partition"]) for each in rows} == {("t", 3)}


def test_no_headers_at_all_are_null() -> None:
    found = to_batch(part([ROWS[0], ROWS[2]], 0), 2, lambda values: values, SCHEMA)

    assert found.column("headers").to_pylist() == [None, None]
