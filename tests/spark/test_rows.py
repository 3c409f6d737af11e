"""Columns of a fetch as rows of the source."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.client import PartitionColumns, TopicPartition  # noqa: E402
from moldau.client.consumer.records import FetchedRecords  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402
from moldau.records import Row, encode_batch  # noqa: E402
from moldau.spark.json_column import JsonColumn  # noqa: E402
from moldau.spark.plain_arrays import repeated_int32, repeated_text  # noqa: E402
from moldau.spark.rows import RowFormat, to_batch  # noqa: E402
from moldau.spark.unreadable import UnreadablePolicy  # noqa: E402

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
AS_THEY_ARE = RowFormat(lambda keys: keys, lambda values: values)
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
    found = to_batch(part(ROWS, 7), count, AS_THEY_ARE, SCHEMA)

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
    found = to_batch(part([ROWS[0], ROWS[2]], 0), 2, AS_THEY_ARE, SCHEMA)

    assert found.column("headers").to_pylist() == [None, None]


def _read(values: Any) -> Any:
    """Reads all but `2`."""
    return pa.array([None if each in (None, b"2") else each for each in values.to_pylist()],
                    pa.binary())  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "left"), [("permissive", [7, 8, 9, 10]), ("skip", [7, 9, 10]), ("rejects", [8])]
)
def test_records_that_cannot_be_read_are_null_or_left_out_or_the_only_ones(
    mode: str, left: list[int]
) -> None:
    raw = [("rawKey", pa.binary()), ("rawValue", pa.binary())]
    schema = pa.schema([*SCHEMA, *(pa.field(*each) for each in raw)])

    by_value = to_batch(part(ROWS, 7), 4, RowFormat(lambda keys: keys, _read, mode), schema)
    assert by_value.column("offset").to_pylist() == left
    assert (b"2" in by_value.column("rawValue").to_pylist()) == (8 in left)
    assert b"2" not in by_value.column("value").to_pylist()

    swapped: list[Row] = [(each[0], each[2], each[1], each[3]) for each in ROWS]
    by_key = to_batch(part(swapped, 7), 4, RowFormat(_read, lambda values: values, mode), schema)
    assert by_key.column("offset").to_pylist() == left


def test_the_error_of_a_strict_read_names_the_record() -> None:
    kind = pa.struct([("id", pa.int64())])
    column = JsonColumn(kind, UnreadablePolicy("value", "json", is_strict=True))
    schema = SCHEMA.set(1, pa.field("value", kind))
    rows: list[Row] = [(1, None, b'{"id": %d}' % each, ()) for each in range(40)]
    rows[23] = (1, None, b"{broken", ())
    rows[31] = (1, None, None, ())

    with pytest.raises(ConfigError, match="not JSON of its schema") as raised:
        to_batch(part(rows, 100), 40, RowFormat(AS_THEY_ARE.keys, column), schema)

    place = [raised.value.context[each] for each in ("topic", "partition", "offset")]
    assert place == ["t", 3, 123]
    assert "{broken" in str(raised.value)


_WITHOUT_PANDAS = """
import sys

from moldau.spark.json_column import JsonColumn
from moldau.spark.unreadable import UnreadablePolicy
from tests.spark.test_rows import AS_THEY_ARE, ROWS, SCHEMA, RowFormat, pa, part, to_batch

to_batch(part(ROWS, 7), 3, AS_THEY_ARE, SCHEMA)
kind = pa.struct([("id", pa.int64())])
schema = SCHEMA.set(1, pa.field("value", kind))
row_format = RowFormat(AS_THEY_ARE.keys, JsonColumn(kind, UnreadablePolicy("value", "json")))
rows = part([(1, b"k", b'{"id": 3}', ()), (2, None, b'{"id": 4}', ())], 0)
assert to_batch(rows, 2, row_format, schema).column("value").to_pylist() == [{"id": 3}, {"id": 4}]
print("pandas" in sys.modules)
"""


def test_no_pandas_is_imported_for_rows_and_json() -> None:
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _WITHOUT_PANDAS], capture_output=True, text=True, timeout=60
    )

    assert (found.stdout, found.stderr) == ("False\n", "")


def test_a_text_is_repeated() -> None:
    assert repeated_text("\u00fcber", 3).to_pylist() == ["\u00fcber"] * 3
    assert repeated_text("t", 0).to_pylist() == []
    assert repeated_text("", 2).to_pylist() == ["", ""]
    assert repeated_int32(-1, 2).to_pylist() == [-1, -1]
