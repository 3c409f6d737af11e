"""Values as typed columns."""

from __future__ import annotations

import io
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.options import parse_read  # noqa: E402
from moldau.spark.value_types import value_type  # noqa: E402
from moldau.spark.values import JsonColumn, value_column  # noqa: E402


def binary(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


KIND = pa.struct([("id", pa.int64()), ("day", pa.date32()), ("tags", pa.list_(pa.string()))])


def test_one_bad_value_costs_only_itself() -> None:
    values = [b'{"id":%d}' % index for index in range(100)]
    values[17] = b"{"
    values[18] = b'{"id":1}{"id":2}'
    values[40] = b""

    found = JsonColumn(KIND, is_strict=False)(binary(*values)).to_pylist()

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
    column = JsonColumn(KIND, is_strict=False)

    together = column(binary(*values)).to_pylist()

    assert together == [column(binary(each)).to_pylist()[0] for each in values]
    assert any(each is None for each in together)


def test_tombstones_are_null_and_line_breaks_are_blanks() -> None:
    found = JsonColumn(KIND, is_strict=True)(binary(None, b'{\n"id": 1,\r\n"tags": ["a"]}', None))

    assert found.to_pylist() == [None, {"id": 1, "day": None, "tags": ["a"]}, None]
    assert found.type == KIND


def test_a_date_is_text() -> None:
    found = JsonColumn(KIND, is_strict=True)(binary(b'{"day":"2026-11-23"}'))

    assert str(found.to_pylist()[0]["day"]) == "2026-11-23"


def test_failfast_names_the_value() -> None:
    with pytest.raises(ConfigError, match=r"no JSON of its schema.*\{broken"):
        JsonColumn(KIND, is_strict=True)(binary(b'{"id":1}', b"{broken"))


def test_no_values_make_no_rows() -> None:
    assert JsonColumn(KIND, is_strict=True)(binary()).to_pylist() == []
    assert JsonColumn(KIND, is_strict=True)(binary(None)).to_pylist() == [None]


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

    with pytest.raises(ConfigError, match="a union may have one type beside null"):
        value_type(_options(**{"value.format": "avro", "value.schema": schema}))
