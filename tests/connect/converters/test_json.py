"""JSON with and without the envelope: round trips, exact numbers, refusals that name a field."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.converters.json import JsonConverter
from moldau.connect.data import (
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    Struct,
)
from moldau.connect.errors import DataError
from moldau.errors import ConfigError

INNER = Schema.struct({"a": INT8, "b": BYTES.optionally()}, name="inner")
ALL = Schema.struct(
    {
        "id": INT64,
        "price": Schema.decimal(2),
        "ratio": FLOAT64,
        "name": STRING.replace(default="nobody"),
        "day": DATE,
        "at": TIME,
        "when": TIMESTAMP,
        "inner": INNER.optionally(),
        "list": Schema.array(INT32),
        "by_name": Schema.map(STRING, INT32),
        "by_number": Schema.map(INT32, OPTIONAL_STRING),
    },
    name="all",
    version=3,
    doc="everything",
)


def everything() -> Struct:
    return Struct(
        ALL,
        {
            "id": 2**62,
            "price": Decimal("-12.50"),
            "ratio": 0.1,
            "name": "x",
            "day": date(1969, 12, 31),
            "at": time(23, 59, 59, 999000),
            "when": datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
            "inner": Struct(INNER.optionally(), {"a": -1, "b": b"\x00\xff"}),
            "list": [1, 2],
            "by_name": {"k": 1},
            "by_number": {1: "a", 2: None},
        },
    )


def converter(**props: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): text for name, text in props.items()}, False)
    return made


@pytest.mark.parametrize("decimals", ["BASE64", "numeric"])
def test_everything_comes_back_through_the_envelope(decimals: str) -> None:
    json_converter = converter(decimal_format=decimals)

    data = json_converter.from_connect_data("t", None, ALL, everything())

    for _ in range(2):  # the second time from the head that is known by then
        assert json_converter.to_connect_data("t", None, data) == (ALL, everything())


def test_the_envelope_is_kafkas() -> None:
    data = converter().from_connect_data("t", None, INNER, Struct(INNER, {"a": 5, "b": b"\x01"}))

    assert data is not None
    assert json.loads(data) == {
        "schema": {
            "type": "struct",
            "fields": [
                {"type": "int8", "optional": False, "field": "a"},
                {"type": "bytes", "optional": True, "field": "b"},
            ],
            "optional": False,
            "name": "inner",
        },
        "payload": {"a": 5, "b": "AQ=="},
    }


def test_without_schemas_only_the_payload_is_written() -> None:
    plain = converter(schemas_enable="false")

    data = plain.from_connect_data("t", None, INNER, Struct(INNER, {"a": 5}))

    assert data == b'{"a":5,"b":null}'
    assert plain.to_connect_data("t", None, data) == (None, {"a": 5, "b": None})


def test_a_tombstone_stays_one() -> None:
    assert converter().to_connect_data("t", None, None) == (None, None)
    assert converter().from_connect_data("t", None, None, None) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"schema":{"type":"int32"},"payload":1,"more":2}',
        '{"payload":{"schema":{"type":"int32"}}}',
        '{"id":1}',
        "[1]",
        "1",
    ],
)
def test_what_is_no_envelope_is_refused_with_advice(text: str) -> None:
    json_converter = converter()
    json_converter.to_connect_data("t", None, b'{"schema":{"type":"int32"},"payload":7}')

    with pytest.raises(DataError, match=r"set schemas\.enable=false"):
        json_converter.to_connect_data("t", None, text.encode())


def test_the_order_and_the_blanks_of_an_envelope_do_not_matter() -> None:
    data = b' { "payload" : 7 , "schema" : { "optional":false, "type" : "int32" } } '

    assert converter().to_connect_data("t", None, data) == (INT32, 7)
    of_python = json.dumps({"schema": {"type": "int32", "optional": False}, "payload": 7})
    assert converter().to_connect_data("t", None, of_python.encode()) == (INT32, 7)


def test_a_decimal_is_read_digit_by_digit() -> None:
    schema = '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
    schema += '"parameters":{"scale":"20"}}'
    text = f'{{"schema":{schema},"payload":0.12345678901234567890}}'

    found = converter().to_connect_data("t", None, text.encode())

    assert found.value == Decimal("0.12345678901234567890")


@pytest.mark.parametrize(
    ("schema", "payload", "complaint"),
    [
        (INT8, "300", "300 does not fit into int8"),
        (INT32, '"1"', "JSON string where the schema has int32"),
        (INT32, "1.5", "JSON number where the schema has int32"),
        (INT32, "true", "JSON boolean where the schema has int32"),
        (INT32, "null", "null, but int32 is required"),
        (STRING, "1", "JSON number where the schema has string"),
        (BYTES, '"%"', "bytes are written as base64"),
        (FLOAT64, '"x"', "JSON string where the schema has double"),
        (TIME, "86400000", "86400000 is no time of day"),
        (DATE, "3000000", "outside the years 1 to 9999"),
        (Schema.array(INT8), "{}", "JSON object where the schema has array"),
        (Schema.array(INT8), "[1,999]", "999 does not fit"),
        (INNER, '{"a":"x"}', "a: JSON string where the schema has int8"),
        (Schema.struct({"in": INNER}), '{"in":{"a":1,"b":2}}', "in: b: bytes are written as"),
        (Schema.map(INT8, INT8), '{"1":1}', r"list of \[key, value\] pairs"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(
    schema: Schema, payload: str, complaint: str
) -> None:
    json_converter = converter()
    written = json_converter._remember(schema)[1]

    for _ in range(2):
        with pytest.raises(DataError, match=complaint):
            json_converter.to_connect_data("t", None, written + payload.encode() + b"}")


@pytest.mark.parametrize("text", [b"{", b"\xff", b'{"schema":', b"nul", b'{"a":1}x', b"[" * 99999])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    for enable in ("true", "false"):
        with pytest.raises(DataError):
            converter(schemas_enable=enable).to_connect_data("t", None, text)


@pytest.mark.parametrize(
    "schema",
    [
        "{}",
        '{"type":"int33"}',
        '{"type":"array"}',
        '{"type":"map","keys":{"type":"string"}}',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{"type":"int8"}]}',
        '{"type":"struct","fields":[1]}',
        '{"type":"int8","parameters":{"a":1}}',
        '{"type":"int8","default":"x"}',
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"}',
        "7",
    ],
)
def test_a_broken_schema_is_refused(schema: str) -> None:
    with pytest.raises(DataError):
        converter().to_connect_data("t", None, f'{{"schema":{schema},"payload":1}}'.encode())


def test_a_null_becomes_the_default_or_stays() -> None:
    schema = INT32.replace(default=5, optional=True)
    data = b'{"schema":{"type":"int32","optional":true,"default":5},"payload":null}'

    assert converter().to_connect_data("t", None, data) == (schema, 5)
    kept = converter(replace_null_with_default="false")
    assert kept.to_connect_data("t", None, data) == (schema, None)
    written = kept.from_connect_data("t", None, schema, None)
    assert written is not None
    assert json.loads(written)["payload"] is None


def test_numbers_that_json_does_not_have_become_texts() -> None:
    plain = converter(schemas_enable="false")

    data = plain.from_connect_data("t", None, None, {"a": [math.nan, None, -math.inf]})

    assert data == b'{"a":["NaN",null,"-Infinity"]}'
    enveloped = converter().from_connect_data("t", None, FLOAT64, math.inf)
    assert converter().to_connect_data("t", None, enveloped) == (FLOAT64, math.inf)


def test_values_without_a_schema_that_json_does_not_know() -> None:
    plain = converter(schemas_enable="false")
    value = {
        "bytes": b"\x01",
        "decimal": Decimal("1.50"),
        "when": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "pairs": {1: "a"},
    }

    data = plain.from_connect_data("t", None, None, value)

    assert data == b'{"bytes":"AQ==","decimal":1.50,"when":1000,"pairs":[[1,"a"]]}'
    with pytest.raises(DataError, match="type set cannot be written"):
        plain.from_connect_data("t", None, None, {"a": {1, 2}})


@pytest.mark.parametrize(
    ("schema", "value", "complaint"),
    [
        (INT8, 128, "128 does not fit into int8"),
        (STRING, 1, "where the schema has string"),
        (STRING, "\ud800", "cannot be written to JSON"),
        (INNER, Struct(INNER), "a: null, but int8 is required"),
        (INNER, {"a": 1}, "dict where the schema has struct inner"),
        (Schema.decimal(1), Decimal("1.55"), "more digits behind the point"),
        (Schema.decimal(1), Decimal("NaN"), "no decimal that can be stored"),
        (TIMESTAMP, datetime(2026, 1, 1), "has no time zone"),
    ],
)
def test_a_value_that_does_not_fit_is_not_written(
    schema: Schema, value: Any, complaint: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        converter().from_connect_data("t", None, schema, value)


def test_one_schema_for_all_records() -> None:
    described = '{"type":"struct","fields":[{"field":"a","type":"int32"}]}'
    fixed = converter(schema_content=described)

    found = fixed.to_connect_data("t", None, b'{"a":1}')

    assert found == SchemaAndValue(Schema.struct({"a": INT32}), found.value)
    assert found.value["a"] == 1
    with pytest.raises(ConfigError, match=r"schema\.content is no schema"):
        converter(schema_content="{")


def test_more_schemas_than_are_remembered() -> None:
    small = converter(schemas_cache_size="2")
    for size in (1, 2, 3, 1):
        schema = Schema.struct({f"f{n}": FLOAT32 for n in range(size)})
        struct = Struct(schema, {f"f{n}": 0.5 for n in range(size)})
        data = small.from_connect_data("t", None, schema, struct)
        assert small.to_connect_data("t", None, data) == (schema, struct)


def test_headers_are_converted_as_values_are() -> None:
    made = JsonConverter()
    made.configure({})

    assert made.to_connect_header("t", "h", made.from_connect_header("t", "h", INT8, 5)) == (
        INT8,
        5,
    )
