"""Values as typed columns."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.options import parse_read  # noqa: E402
from moldau.spark.value_types import row_schema, value_type  # noqa: E402
from moldau.spark.values import (  # noqa: E402
    JsonColumn,
    RecordColumn,
    UnreadablePolicy,
    key_column,
    value_column,
)


def binary(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


KIND = pa.struct([("id", pa.int64()), ("day", pa.date32()), ("tags", pa.list_(pa.string()))])


def test_one_bad_value_costs_only_itself() -> None:
    values = [b'{"id":%d}' % index for index in range(100)]
    values[17] = b"{"
    values[18] = b'{"id":1}{"id":2}'
    values[40] = b""

    found = JsonColumn(KIND, UnreadablePolicy("value", "json"))(binary(*values)).to_pylist()

    assert len(found) == 100
    assert [index for index, each in enumerate(found) if each is None] == [17, 18, 40]
    assert found[99]["id"] == 99


@pytest.mark.parametrize(
    "values",
    [
        [b'{"id":1} {"id":2}', b"", b'{"id":3}'],
        [b"null"],
        [b"null", b"null"],
        [b" ", b'{"id":3}'],
        [b'{"tags":', b'["a"]}', b'{"id":1}{"id":2}'],
        [b'{"id":1}', b"null", b'  {"id":4} ', b"7", b"[]", b'[{"id":5}]'],
    ],
)
def test_a_value_never_takes_the_place_of_another(values: list[bytes]) -> None:
    column = JsonColumn(KIND, UnreadablePolicy("value", "json"))

    together = column(binary(*values)).to_pylist()

    assert together == [column(binary(each)).to_pylist()[0] for each in values]
    assert any(each is None for each in together)


def test_tombstones_are_null_and_line_breaks_are_blanks() -> None:
    found = JsonColumn(KIND, UnreadablePolicy("value", "json", is_strict=True))(
        binary(None, b'{\n"id": 1,\r\n"tags": ["a"]}', None)
    )

    assert found.to_pylist() == [None, {"id": 1, "day": None, "tags": ["a"]}, None]
    assert found.type == KIND


def test_a_date_is_text() -> None:
    found = JsonColumn(KIND, UnreadablePolicy("value", "json", is_strict=True))(
        binary(b'{"day":"2026-11-23"}')
    )

    assert str(found.to_pylist()[0]["day"]) == "2026-11-23"


def test_failfast_names_the_value() -> None:
    with pytest.raises(ConfigError, match=r"not JSON of its schema.*\{broken"):
        JsonColumn(KIND, UnreadablePolicy("value", "json", is_strict=True))(
            binary(b'{"id":1}', b"{broken")
        )


def test_no_values_make_no_rows() -> None:
    assert (
        JsonColumn(KIND, UnreadablePolicy("value", "json", is_strict=True))(binary()).to_pylist()
        == []
    )
    assert JsonColumn(KIND, UnreadablePolicy("value", "json", is_strict=True))(
        binary(None)
    ).to_pylist() == [None]


def _options(**options: str) -> Any:
    base = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    return parse_read({**base, **options}, is_stream=False)


def test_text_that_is_no_utf8_is_shown_as_spark_does() -> None:
    column = value_column(_options(**{"value.format": "string"}), pa.string())

    assert column(binary(b"a", None, b"\xff")).to_pylist() == ["a", None, "\ufffd"]


def test_avro_has_a_type_and_is_read() -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = (
        '{"type":"record","name":"O","fields":[{"name":"id","type":"long"},'
        '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},'
        '{"name":"note","type":["null","string"]}]}'
    )
    options = _options(**{"value.format": "avro", "value.schema": schema})
    assert value_type(options) == "STRUCT<`id`: BIGINT, `at`: TIMESTAMP, `note`: STRING>"

    from json import loads

    out = io.BytesIO()
    fastavro.schemaless_writer(out, loads(schema), {"id": 7, "at": 1000, "note": None})
    kind = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())])
    found = value_column(options, kind)(binary(out.getvalue(), b"", None)).to_pylist()

    assert found[0]["id"] == 7
    assert found[0]["at"].timestamp() == 1.0
    assert found[1:] == [None, None]


def test_an_avro_union_of_two_types_is_refused() -> None:
    schema = '{"type":"record","name":"O","fields":[{"name":"x","type":["long","string"]}]}'

    with pytest.raises(ConfigError, match="a union may have only one type beside null"):
        value_type(_options(**{"value.format": "avro", "value.schema": schema}))


AVRO = """{"type":"record","name":"O","fields":[{"name":"id","type":"long"},
{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
{"name":"tags","type":{"type":"array","items":"string"}}]}"""
AVRO_KIND = pa.struct(
    [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))]
)


def _avro(number: int) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(AVRO), {"id": number, "at": 1, "tags": ["a"]})
    return out.getvalue()


def test_bytes_after_an_avro_value_make_it_unreadable() -> None:
    read = value_column(_options(**{"value.format": "avro", "value.schema": AVRO}), AVRO_KIND)

    found = read(binary(_avro(1), _avro(2) + b"x", _avro(3) + _avro(4), _avro(5))).to_pylist()

    assert [each and each["id"] for each in found] == [1, None, None, 5]


def test_bytes_after_an_avro_key_make_it_unreadable() -> None:
    read = key_column(_options(**{"key.format": "avro", "key.schema": AVRO}), AVRO_KIND)

    found = read(binary(_avro(1), _avro(2) + b"x", None, _avro(3) + _avro(4))).to_pylist()

    assert [each and each["id"] for each in found] == [1, None, None, None]


def test_five_bytes_of_a_registry_are_looked_at_before_they_are_passed_over() -> None:
    framed = {"value.format": "avro", "value.schema": AVRO, "value.framing": "confluent"}
    read = value_column(_options(**framed), AVRO_KIND)
    start = b"\0\0\0\0\1"

    values = [start + _avro(1), b"\1" + start[1:] + _avro(2), start + _avro(3) + b"x", start, b"\0"]

    found = read(binary(*values)).to_pylist()
    assert [each and each["id"] for each in found] == [1, None, None, None, None]


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_end_a_query_that_reads_avro(seed: int) -> None:
    read = value_column(_options(**{"value.format": "avro", "value.schema": AVRO}), AVRO_KIND)
    chance = random.Random(seed)
    values = [chance.randbytes(chance.randrange(40)) for _ in range(300)]

    found = read(binary(*values, _avro(1)))

    assert len(found) == 301
    assert found[300].as_py()["id"] == 1


def test_a_number_that_fits_no_column_of_its_type_is_unreadable() -> None:
    told = UnreadablePolicy("value", "avro")
    column = RecordColumn(pa.struct([("id", pa.int32())]), lambda value: {"id": int(value)}, told)

    assert column(binary(b"1", b"5000000000", None, b"3")).to_pylist() == [
        {"id": 1}, None, None, {"id": 3}
    ]  # fmt: skip
    strict = UnreadablePolicy("value", "avro", is_strict=True)
    column = RecordColumn(pa.struct([("id", pa.int32())]), lambda value: {"id": int(value)}, strict)
    with pytest.raises(ConfigError, match=r"not Avro of its schema.*5000000000"):
        column(binary(b"1", b"5000000000"))


def test_keys_have_formats_too() -> None:
    options = _options(**{"key.format": "json", "key.schema": "id BIGINT"})
    assert row_schema(options).startswith("key STRUCT<id BIGINT>, value BINARY, topic STRING")
    kind = pa.struct([("id", pa.int64())])
    assert key_column(options, kind)(binary(b'{"id":1}', None, b"k")).to_pylist() == [
        {"id": 1}, None, None
    ]  # fmt: skip
    text = key_column(_options(**{"key.format": "string"}), pa.string())
    assert text(binary(b"k", None)).to_pylist() == ["k", None]
    strict = {"key.format": "json", "key.schema": "id BIGINT", "value.mode": "failfast"}
    column = key_column(_options(**strict), kind)
    with pytest.raises(ConfigError, match=r"a key is not JSON of its schema \(key\.schema"):
        column(binary(b"k"))
    with pytest.raises(ConfigError, match=r"key\.format=avro needs it"):
        row_schema(_options(**{"key.format": "avro"}))
    with pytest.raises(ConfigError, match=r"key\.schema"):
        row_schema(_options(**{"key.format": "avro", "key.schema": "{"}))


def test_raw_keys_and_values_can_be_had_beside_the_typed() -> None:
    assert row_schema(_options(includeRaw="true", includeHeaders="true")).endswith(
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, rawKey BINARY, rawValue BINARY"
    )
