"""Rows as Avro values: the schema of columns, and what fastavro and our reader make of values."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

import fastavro
import pyarrow as pa

from moldau.errors import ConfigError
from moldau.spark.avro import avro_reader, avro_to_ddl
from moldau.spark.avro_writing import ValueWriter, check_record, schema_of, value_writer
from moldau.values.failures import SerializationFailed
from tests.spark.avro_order import ORDER


def column(name: str, kind: Any, *, nullable: bool = False) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def columns(*found: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(found)}


def fields_of(*found: dict[str, Any]) -> list[Any]:
    return [each["type"] for each in json.loads(schema_of(columns(*found), "t"))["fields"]]


@pytest.mark.parametrize(
    ("kind", "avro"),
    [
        ("byte", "int"),
        ("integer", "int"),
        ("long", "long"),
        ("binary", "bytes"),
        ("varchar(7)", "string"),
        ("string collate UNICODE_CI", "string"),
        ("date", {"type": "int", "logicalType": "date"}),
        ("timestamp", {"type": "long", "logicalType": "timestamp-micros"}),
        ("timestamp_ntz", {"type": "long", "logicalType": "local-timestamp-micros"}),
        (
            "decimal(10,2)",
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        ),
        (
            {"type": "array", "elementType": "long", "containsNull": True},
            {"type": "array", "items": ["null", "long"]},
        ),
        (
            {
                "type": "map",
                "keyType": "string",
                "valueType": "long",
                "valueContainsNull": False,
            },
            {"type": "map", "values": "long"},
        ),
    ],
)
def test_each_type_of_spark_has_one_of_avro(kind: Any, avro: Any) -> None:
    assert fields_of(column("a", kind), column("b", kind, nullable=True)) == [avro, ["null", avro]]


def test_a_record_has_a_good_name_and_those_below_have_names_of_their_own() -> None:
    inner = columns(column("x", "long"))
    listed = {"type": "array", "elementType": inner, "containsNull": False}
    made = json.loads(
        schema_of(columns(column("a", inner), column("b", listed)), "7 shop.orders-eu")
    )

    assert made["name"] == "_7_shop_orders_eu"
    assert made["fields"][0]["type"]["name"] == "_7_shop_orders_eu_a"
    assert made["fields"][1]["type"]["items"]["name"] == "_7_shop_orders_eu_b"
    fastavro.parse_schema(made)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (column("two words", "long"), "rename it in transforms.sql .+two words"),
        (column("a", columns(column("x-y", "long"))), "column='a.x-y'"),
        (column("a", "void"), "cast the column in transforms.sql .+void"),
        (column("a", "interval day to second"), "cast the column"),
        (
            column(
                "a",
                {
                    "type": "map",
                    "keyType": "long",
                    "valueType": "long",
                    "valueContainsNull": True,
                },
            ),
            "column='a', type='map'",
        ),
    ],
)
def test_what_avro_cannot_say_is_told_with_the_column(found: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        schema_of(columns(found), "t")


def test_a_schema_for_rows_is_that_of_a_record() -> None:
    assert check_record(ORDER) == {"id": False, "note": True}
    for text in ('"string"', "{", '{"type":"record"}', '["null","string"]'):
        with pytest.raises(ConfigError):
            check_record(text)


def test_values_are_read_by_fastavro_and_our_own_reader() -> None:
    moment = datetime(2026, 11, 25, 10, 0, 0, 123_456, UTC)
    row = {
        "id": 7,
        "money": Decimal("12.50"),
        "day": date(2026, 11, 25),
        "at": moment,
        "local": moment.replace(tzinfo=None),
        "tags": {"a": 1},
        "maybe": None,
    }
    tags = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    text = schema_of(
        columns(
            column("id", "long"),
            column("money", "decimal(10,2)"),
            column("day", "date"),
            column("at", "timestamp"),
            column("local", "timestamp_ntz"),
            column("tags", tags),
            column("maybe", "string", nullable=True),
        ),
        "t",
    )

    value = value_writer(text, None)(row)

    schema = fastavro.parse_schema(json.loads(text))
    assert fastavro.schemaless_reader(io.BytesIO(value), schema, None) == row
    assert avro_reader(text)(value) == row
    assert "`local`: TIMESTAMP_NTZ" in avro_to_ddl(text)
    framed = value_writer(text, 258)(row)
    assert framed == b"\0\0\0\1\2" + value


def test_a_batch_keeps_its_other_columns() -> None:
    rows = [{"id": 1, "note": "x"}, {"id": 2, "note": None}]
    kind = pa.struct([("id", pa.int64()), ("note", pa.string())])
    batch = pa.record_batch({"key": ["a", "b"], "value": pa.array(rows, kind)})

    [made] = ValueWriter(ORDER, 1)(iter([batch]))

    assert made.schema.names == ["key", "value"]
    assert made.column("key").to_pylist() == ["a", "b"]
    read = avro_reader(ORDER, is_framed=True)
    assert [read(each) for each in made.column("value").to_pylist()] == rows


def test_a_row_that_does_not_fit_is_named_by_its_column() -> None:
    write = value_writer(ORDER, None)
    with pytest.raises(SerializationFailed, match="a row does not fit") as raised:
        write({"id": None, "note": "x"})
    assert "column='id'" in str(raised.value)
    with pytest.raises(SerializationFailed, match="column='id'"):
        write({"id": "seven", "note": "x"})
