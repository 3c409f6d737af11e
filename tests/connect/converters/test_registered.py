"""Avro and JSON Schema with a registry: round trips, Confluent's schemas, refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from moldau.client.sync import SchemaRegistry
from moldau.connect.api import Converter
from moldau.connect.converters.avro import AvroConverter
from moldau.connect.converters.avro_schemas import to_avro
from moldau.connect.converters.registered_json import (
    JsonSchemaConverter,
    from_json_schema,
    to_json_schema,
)
from moldau.connect.data import (
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Schema,
    Struct,
)
from moldau.connect.errors import DataError, RetriableError
from moldau.errors import ConfigError
from moldau.values.schema import Reference
from moldau.values.schema import Schema as RegistrySchema
from tests.client.serdes.served_registry import ServedRegistry
from tests.connect.converters.orders import FIELDS, INNER, VALUES, made
from tests.connect.converters.orders import registry as registry

ORDER = Schema.struct(
    {
        **FIELDS,
        "name": STRING.replace(default="nobody"),
        "tags": Schema.array(STRING.optionally()),
        "by_number": Schema.map(INT32, STRING),
    },
    name="shop.Order",
    version=2,
    doc="An order.",
    parameters={"x": "y"},
)
CONVERTERS: list[type[Converter]] = [AvroConverter, JsonSchemaConverter]


def order(**changes: Any) -> Struct:
    values: dict[str, Any] = {
        **VALUES,
        "seen": datetime(2026, 2, 3, 4, 5, 6, 789000, UTC),
        "more": [Struct(INNER, {"a": 1})],
        "tags": ["a", None],
        "by_name": {"k": 1},
        "by_number": {7: "seven"},
    }
    return Struct(ORDER, {**values, **changes})


@pytest.mark.parametrize("cls", CONVERTERS)
def test_everything_comes_back(cls: type[Converter], registry: ServedRegistry) -> None:
    writing, reading = made(cls, registry.url), made(cls, registry.url)
    sparse = order(weight=None, at=None, inner=None)

    for value in (order(), sparse, order()):
        data = writing.from_connect_data("orders", None, ORDER, value)
        assert data is not None
        assert data[0] == 0
        assert reading.to_connect_data("orders", None, data) == (ORDER, value)
    with SchemaRegistry(registry.url) as asking:
        assert asking.subjects() == ["orders-value"]
    writing.close()
    reading.close()


@pytest.mark.parametrize("cls", CONVERTERS)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING, "x"),
        (INT8, -3),
        (INT64.optionally(), 5),
        (BYTES, b"\x01"),
        (Schema.decimal(3), Decimal("1.250")),
        (TIMESTAMP, datetime(1969, 12, 31, tzinfo=UTC)),
        (Schema.array(INT32), [1, 2]),
        (Schema.map(STRING, Schema.array(FLOAT64)), {"a": [0.5]}),
    ],
)
def test_what_is_no_struct(
    cls: type[Converter], schema: Schema, value: Any, registry: ServedRegistry
) -> None:
    converter = made(cls, registry.url)

    data = converter.from_connect_data("t", None, schema, value)

    found = converter.to_connect_data("t", None, data)
    assert found.value == value
    assert found.schema is not None
    assert found.schema.optionally(False) == schema.optionally(False)
    converter.close()


@pytest.mark.parametrize("cls", CONVERTERS)
def test_tombstones_have_no_schema(cls: type[Converter], registry: ServedRegistry) -> None:
    converter = made(cls, registry.url)

    assert converter.from_connect_data("t", None, None, None) is None
    assert converter.from_connect_data("t", None, ORDER.optionally(), None) is None
    assert converter.to_connect_data("t", None, None) == (None, None)
    converter.close()


@pytest.mark.parametrize("cls", CONVERTERS)
def test_what_cannot_be_converted(cls: type[Converter], registry: ServedRegistry) -> None:
    converter = made(cls, registry.url)

    with pytest.raises(DataError, match="needs a schema, and this value has none"):
        converter.from_connect_data("t", None, None, {"a": 1})
    with pytest.raises(DataError, match=r"'?id'?"):
        converter.from_connect_data("t", None, ORDER, order(id=None))
    with pytest.raises(DataError, match="does not begin with a schema's id"):
        converter.to_connect_data("t", None, b'{"a":1}')
    data = converter.from_connect_data("t", None, ORDER, order())
    assert data is not None
    for broken in (data[:9], data + b"x", data + data):
        with pytest.raises(DataError, match="this is no"):
            converter.to_connect_data("t", None, broken)
    with pytest.raises(DataError, match="the schema registry"):
        converter.to_connect_data("t", None, b"\x00\x00\x00\x03\xe7x")
    converter.close()


def test_subjects_by_strategy_and_the_latest_version(registry: ServedRegistry) -> None:
    schema = Schema.struct({"a": INT32}, name="shop.A")
    value = Struct(schema, {"a": 1})
    by_record = made(AvroConverter, registry.url, value_subject_name_strategy="record")
    latest = made(
        AvroConverter,
        registry.url,
        use_latest_version="true",
        value_subject_name_strategy="record",
    )

    data = by_record.from_connect_data("t", None, schema, value)

    assert latest.from_connect_data("t", None, schema, value) == data
    with SchemaRegistry(registry.url) as asking:
        assert asking.subjects() == ["shop.A"]
    unregistered = made(AvroConverter, registry.url, auto_register_schemas="false")
    with pytest.raises(DataError, match="the schema registry"):
        unregistered.from_connect_data("t", None, schema, value)
    with pytest.raises(ConfigError, match="Invalid value mine for"):
        made(AvroConverter, registry.url, value_subject_name_strategy="mine")
    for converter in (by_record, latest, unregistered):
        converter.close()


def test_a_registry_that_is_away_can_come_back() -> None:
    converter = made(AvroConverter, "http://127.0.0.1:1", max_retries="0")

    with pytest.raises(RetriableError, match="the schema registry"):
        converter.from_connect_data("t", None, INT32, 1)
    converter.close()


def test_the_avro_schema_is_confluents() -> None:
    schema = Schema.struct(
        {"a": INT16.optionally(), "d": Schema.decimal(2), "m": Schema.map(INT32, STRING)},
        name="shop.A",
    )

    assert to_avro(schema) == {
        "type": "record",
        "name": "A",
        "namespace": "shop",
        "fields": [
            {
                "name": "a",
                "type": ["null", {"type": "int", "connect.type": "int16"}],
                "default": None,
            },
            {
                "name": "d",
                "type": {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "scale": 2,
                    "precision": 64,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                },
            },
            {
                "name": "m",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "MapEntry",
                        "namespace": "io.confluent.connect.avro",
                        "fields": [
                            {"name": "key", "type": "int"},
                            {"name": "value", "type": "string"},
                        ],
                        "connect.name": "io.confluent.connect.avro.MapEntry",
                        "connect.internal.type": "MapEntry",
                    },
                },
            },
        ],
        "connect.name": "shop.A",
    }


def test_avro_of_other_writers_is_read(registry: ServedRegistry) -> None:
    described = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "same", "type": "Kind"},
            {"name": "either", "type": ["null", "long", "string"]},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "note", "type": "string", "default": "-"},
        ],
    }
    value = {"kind": "B", "same": "A", "either": "x", "hash": b"ab", "note": "n"}
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(described), value)
    with SchemaRegistry(registry.url) as asking:
        number = asking.register("events-value", RegistrySchema(json.dumps(described)))
    converter = made(AvroConverter, registry.url)

    found = converter.to_connect_data(
        "events", None, b"\x00" + number.to_bytes(4, "big") + out.getvalue()
    )

    either = {"long": None, "string": "x"}
    assert found.value.to_dict() == {**value, "either": either}
    assert found.schema is not None
    assert found.schema.name == "Event"
    assert found.schema.fields[4].schema.default == "-"
    converter.close()


@pytest.mark.parametrize(
    "described",
    [
        {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
        "Unknown",
        {"name": "x"},
        7,
    ],
)
def test_an_avro_schema_without_a_connect_schema(described: Any, registry: ServedRegistry) -> None:
    converter = made(AvroConverter, registry.url)
    with pytest.raises(DataError):
        converter.reader(RegistrySchema(json.dumps(described)))
    converter.close()


def test_a_value_of_an_avro_union_is_in_the_branch_it_was_written_in(
    registry: ServedRegistry,
) -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    described = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "count", "type": ["int", "long"]},
            {"name": "kind", "type": ["null", kind, "string"]},
        ],
    }
    value = {"count": ("long", 5), "kind": ("string", "A")}
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(described), value)
    with SchemaRegistry(registry.url) as asking:
        number = asking.register("unions-value", RegistrySchema(json.dumps(described)))
    converter = made(AvroConverter, registry.url)

    data = b"\x00" + number.to_bytes(4, "big") + out.getvalue()
    assert converter.to_connect_data("unions", None, data).value.to_dict() == {
        "count": {"int": None, "long": 5},
        "kind": {"Kind": None, "string": "A"},
    }
    for props in ({}, {"use_latest_version": "true"}):
        writing = made(AvroConverter, registry.url, **props)
        found = converter.to_connect_data("unions", None, data)
        topic = "unions" if props else "copies"
        copy = writing.from_connect_data(topic, None, found.schema, found.value)
        assert copy is not None
        again = converter.to_connect_data(topic, None, copy).value.to_dict()
        assert again["count"] == {"int": None, "long": 5}
        assert again["kind"]["string"] == "A"
        writing.close()
    converter.close()


def test_avro_that_refers_to_another_subject_is_read(registry: ServedRegistry) -> None:
    base = {"type": "record", "name": "shop.Item", "fields": [{"name": "sku", "type": "string"}]}
    whole = {
        "type": "record",
        "name": "shop.Cart",
        "fields": [{"name": "items", "type": {"type": "array", "items": "shop.Item"}}],
    }
    with SchemaRegistry(registry.url) as asking:
        asking.register("item", RegistrySchema(json.dumps(base)))
        reference = Reference("shop.Item", "item", 1)
        cart = RegistrySchema(json.dumps(whole), references=(reference,))
        number = asking.register("carts-value", cart)
    converter = made(AvroConverter, registry.url)

    data = b"\x00" + number.to_bytes(4, "big") + b"\x02\x02a\x00"
    assert converter.to_connect_data("carts", None, data).value.to_dict() == {
        "items": [{"sku": "a"}]
    }
    converter.close()


def test_two_structs_of_one_name_must_be_the_same() -> None:
    other = Schema.struct({"z": INT32}, name="shop.Inner")

    with pytest.raises(DataError, match="two structs of one name"):
        to_avro(Schema.struct({"a": INNER, "b": other}))


def test_the_json_schema_is_confluents() -> None:
    schema = Schema.struct({"b": INT8, "a": STRING.optionally()}, name="A")

    assert to_json_schema(schema) == {
        "type": "object",
        "properties": {
            "b": {"type": "integer", "connect.type": "int8", "connect.index": 0},
            "a": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        },
        "title": "A",
    }


def test_json_schemas_of_other_writers_are_read() -> None:
    described = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "score": {"type": "number"},
            "kind": {"enum": ["a", "b"]},
        },
        "required": ["id", "kind"],
    }

    schema = from_json_schema(described)

    assert {field.name: field.schema for field in schema.fields} == {
        "id": INT64,
        "name": STRING.optionally(),
        "score": FLOAT64.optionally(),
        "kind": STRING,
    }


@pytest.mark.parametrize(
    "described",
    [
        True,
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": ["string", "integer"]},
        {"type": "array"},
        {"$ref": "#/x"},
    ],
)
def test_a_json_schema_without_a_connect_schema(described: Any) -> None:
    with pytest.raises(DataError, match=r"ha(s|ve) no"):
        from_json_schema(described)
