"""Values as typed columns."""

from __future__ import annotations

import io
import json
import random
from datetime import time
from typing import Any
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.json_column import JsonColumn  # noqa: E402
from moldau.spark.options import parse_read  # noqa: E402
from moldau.spark.record_column import RecordColumn  # noqa: E402
from moldau.spark.unreadable import UnreadablePolicy  # noqa: E402
from moldau.spark.value_types import row_schema, value_type  # noqa: E402
from moldau.spark.values import key_column, value_column  # noqa: E402


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


def _schema(*fields: dict[str, Any], **more: str) -> str:
    return json.dumps({"type": "record", "name": "O", "fields": fields, **more})


TIMES_OF_DAY = _schema(
    {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "ms", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "us", "type": ["null", {"type": "long", "logicalType": "time-micros"}]},
    {"name": "all", "type": {"type": "map", "values": {"type": "string", "logicalType": "uuid"}}},
)


def test_uuids_and_times_of_day_are_of_their_declared_type() -> None:
    fastavro = pytest.importorskip("fastavro")
    options = _options(**{"value.format": "avro", "value.schema": TIMES_OF_DAY})
    assert value_type(options) == (
        "STRUCT<`u`: STRING, `ms`: INT, `us`: BIGINT, `all`: MAP<STRING, STRING>>"
    )
    kind = pa.struct([("u", pa.string()), ("ms", pa.int32()), ("us", pa.int64()),
                      ("all", pa.map_(pa.string(), pa.string()))])  # fmt: skip
    one, at = UUID(int=5), time(1, 2, 3, 4000)
    values = []
    for micros in (at, None):
        out = io.BytesIO()
        row = {"u": one, "ms": at, "us": micros, "all": {"k": one}}
        fastavro.schemaless_writer(out, json.loads(TIMES_OF_DAY), row)
        values.append(out.getvalue())
    column = value_column(options, kind)

    for _ in range(2):  # the second batch knows that its values are converted
        found = column(binary(values[0], b"", None, values[1])).to_pylist()
        expected = {"u": str(one), "ms": 3_723_004, "us": 3_723_004_000, "all": [("k", str(one))]}
        assert found == [expected, None, None, {**expected, "us": None}]


def test_an_avro_type_may_be_named_again() -> None:
    fastavro = pytest.importorskip("fastavro")
    address = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    mark = {"type": "fixed", "name": "x.Mark", "size": 2}
    schema = _schema(
        {"name": "home", "type": address},
        {"name": "work", "type": ["null", "Address"]},
        {"name": "old", "type": {"type": "array", "items": "shop.Address"}},
        {"name": "mark", "type": mark},
        {"name": "other", "type": "x.Mark"},
        namespace="shop",
    )
    options = _options(**{"value.format": "avro", "value.schema": schema})

    city = "STRUCT<`city`: STRING>"
    assert value_type(options) == (
        f"STRUCT<`home`: {city}, `work`: {city}, `old`: ARRAY<{city}>, `mark`: BINARY, "
        "`other`: BINARY>"
    )
    place = pa.struct([("city", pa.string())])
    kind = pa.struct([("home", place), ("work", place), ("old", pa.list_(place)),
                      ("mark", pa.binary()), ("other", pa.binary())])  # fmt: skip
    row = {"home": {"city": "a"}, "work": {"city": "b"}, "old": [], "mark": b"12", "other": b"34"}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(schema), row)
    assert value_column(options, kind)(binary(out.getvalue())).to_pylist() == [row]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type":"record","name":"O"}', "has no fields"),
        ('{"type":"record","fields":[]}', "name"),
        (_schema({"name": "a"}), "type"),
        (_schema({"type": "long"}), "name"),
        (_schema({"name": "a", "type": {"type": "array"}}), "has no 'items'"),
        (_schema({"name": "a", "type": "lng"}), "lng"),
        (_schema({"name": "a", "type": "null"}), "the type null is not supported"),
        (_schema({"name": "a", "type": ["null", "O"]}), "the record O contains itself"),
        (_schema({"name": "a", "type": 5}), "a part is no type"),
        ("[1", "it is no JSON"),
        ("[]", "the outermost type must be a record"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_avro_schema_is_one_line(schema: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        value_type(_options(**{"value.format": "avro", "value.schema": schema}))

    assert raised.value.context["option"] == "value.schema"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "id BIGINT",
        "id: bigint NOT NULL COMMENT 'the, number', `a b` DECIMAL(10, 2)",
        "m MAP<STRING, ARRAY<STRUCT<a: INT, b: STRUCT<c TIMESTAMP_NTZ>>>>, s STRUCT<>, x CHAR(5)",
        "STRUCT<id: BIGINT, s: STRING COLLATE UTF8_LCASE>",
    ],
)
def test_columns_of_known_types_are_accepted(text: str) -> None:
    found = value_type(_options(**{"value.format": "json", "value.schema": text}))

    assert found == (text if text.startswith("STRUCT") else f"STRUCT<{text}>")


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("id BIGNT", "id", "Spark has no type BIGNT"),
        ("id BIGINT, s STRUCT<a: INT, b: ARRAY<LNG>>", "s.b", "Spark has no type LNG"),
        ("id BIGINT, name", "name", "the column has no type"),
        ("id BIGINT,", "", "a column needs a name and a type"),
        ("", "", "name at least one column"),
        ("id ARRAY<INT", "id", "`>` is missing"),
        ("id MAP<INT>", "id", "`,` is missing"),
        ("id INT>", "id", "a bracket is missing or left over"),
        ("id DECIMAL(10", "id", r"`\)` is missing"),
    ],
)
def test_a_wrong_type_of_a_column_names_option_and_field(text: str, field: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        row_schema(_options(**{"key.format": "json", "key.schema": text}))

    assert (raised.value.context["option"], raised.value.context["field"]) == ("key.schema", field)


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
