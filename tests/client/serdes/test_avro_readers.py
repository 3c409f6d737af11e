"""Avro's schemas beside the writer's own: a reader's with its defaults, and what is referred to."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from fastavro.read import SchemaResolutionError

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    DeserializationFailed,
    Place,
    Schema,
    SchemaRegistry,
)
from moldau.client.serdes.registry import Reference
from moldau.errors import ConfigError
from tests.client.serdes.registry_run import now, run
from tests.values.avro.samples import logical, named, record

VALUE = Place("orders", False)
PART = named("Part", a="int", b="int")
PART["fields"][0]["default"] = 3
FIXED = {"type": "fixed", "name": "F", "size": 1}
PRICE = logical("bytes", "decimal", precision=4, scale=2)


def wider(schema: Any, default: Any) -> str:
    fields = record(x="int")
    fields["fields"].append({"name": "y", "type": schema, "default": default})
    return json.dumps(fields)


async def fitted(registry: SchemaRegistry, writers: str, readers: str, **options: Any) -> Any:
    data = await now(AvroSerializer(registry, writers)({"x": 1}, VALUE))
    read = AvroDeserializer(registry, schema=readers, **options)
    return [await now(read(data, VALUE)) for _ in range(2)]


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("bytes", "\xff", b"\xff"),
        (FIXED, "\xff", b"\xff"),
        (PRICE, "\x01", Decimal("0.01")),
        (logical("long", "timestamp-millis"), 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (logical("long", "timestamp-micros"), 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (logical("int", "date"), 18000, date(2019, 4, 14)),
        (logical("int", "time-millis"), 3_600_000, time(1)),
        (PART, {"b": 1}, {"a": 3, "b": 1}),
        ("double", "-Infinity", -math.inf),
        ({"type": "array", "items": "bytes"}, ["\xff"], [b"\xff"]),
        (["null", "bytes"], None, None),
        (["bytes", "null"], "\xff", b"\xff"),
        (["string", {"type": "array", "items": "int"}], [1], [1]),
    ],
)
def test_a_readers_default_is_the_value_that_it_stands_for(
    schema: Any, default: Any, value: Any
) -> None:
    async def main(registry: SchemaRegistry) -> None:
        plain = json.dumps(record(x="int"))
        found = await fitted(registry, plain, wider(schema, default))
        assert found == [{"x": 1, "y": value}] * 2

    run(main)


@dataclass
class Priced:
    x: int
    y: Decimal


def test_a_readers_default_goes_into_a_type() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        plain = json.dumps(record(x="int"))
        return await fitted(registry, plain, wider(PRICE, "\x01"), type=Priced)

    assert run(main) == [Priced(1, Decimal("0.01"))] * 2


@pytest.mark.parametrize("in_array", [False, True])
def test_a_readers_default_is_not_shared_by_what_is_read(in_array: bool) -> None:
    def lists(fields: str) -> str:
        return f'{{"type":"array","items":{fields}}}' if in_array else fields

    async def main(registry: SchemaRegistry) -> Any:
        plain, full = record(x="int"), wider({"type": "array", "items": "bytes"}, ["\xff"])
        write = AvroSerializer(registry, lists(json.dumps(plain)))
        data = await now(write([{"x": 1}] if in_array else {"x": 1}, VALUE))
        read = AvroDeserializer(registry, schema=lists(full))
        found = []
        for _ in range(2):
            value = await now(read(data, VALUE))
            one = value[0] if in_array else value
            one["y"].append(b"mine")
            found.append(one)
        return found

    assert run(main) == [{"x": 1, "y": [b"\xff", b"mine"]}] * 2


def test_a_readers_default_that_does_not_fit_is_refused() -> None:
    schema = wider({"type": "enum", "name": "E", "symbols": ["A"]}, "B")

    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(ConfigError, match="default that is none"):
            await fitted(registry, json.dumps(record(x="int")), schema)

    run(main)


A, B = named("n.A", x="int"), named("n.B", y="string", a=["null", "n.A"])
PAIR = {"x": 1}, {"y": "s", "a": {"x": 2}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (["n.A", "n.B"], ("n.B", PAIR[1])),
        (["n.B", "n.A"], ("n.A", PAIR[0])),
        ("n.B", PAIR[1]),
        ({"type": "array", "items": ["null", "n.B", "n.A"]}, [("n.A", PAIR[0]), None, PAIR[1]]),
        ({"type": "map", "values": "n.A"}, {"k": PAIR[0]}),
        (named("n.C", a="A", b="B"), {"a": PAIR[0], "b": PAIR[1]}),
    ],
)
def test_a_schema_may_be_made_of_references_alone(schema: Any, value: Any) -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("A", Schema(json.dumps(A)))
        of_a = Reference("n.A", "A", 1)
        await registry.register("B", Schema(json.dumps(B), references=(of_a,)))
        text = Schema(json.dumps(schema), references=(of_a, Reference("n.B", "B", 1)))
        data = await now(AvroSerializer(registry, text)(value, VALUE))
        for readers in (None, text):
            found = await now(AvroDeserializer(registry, schema=readers)(data, VALUE))
        return found

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        return value[1] if isinstance(value, tuple) else value

    assert run(main) == plain(value)


def test_a_decimal_without_precision_is_its_bytes() -> None:
    schema = json.dumps(record(a=logical("bytes", "decimal")))

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, schema)({"a": b"x"}, VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == {"a": b"x"}


def test_bytes_alone_are_read_into_a_schema_and_a_type() -> None:
    async def main(registry: SchemaRegistry) -> None:
        data = await now(AvroSerializer(registry, '"bytes"')(b"15", VALUE))
        assert await now(AvroDeserializer(registry, schema='"string"')(data, VALUE)) == "15"
        assert await now(AvroDeserializer(registry, type=int)(data, VALUE)) == 15
        with pytest.raises(DeserializationFailed, match="date"):
            await now(AvroDeserializer(registry, type=date)(data, VALUE))
        with pytest.raises(SchemaResolutionError):
            await now(AvroDeserializer(registry, schema='"int"')(data, VALUE))

    run(main)


@pytest.mark.parametrize("kind", [{"type": "enum", "name": "E", "symbols": ["b"]}, FIXED])
@pytest.mark.parametrize("in_union", [False, True])
def test_what_is_named_and_no_record_may_be_the_whole_of_a_readers_schema(
    kind: Any, in_union: bool
) -> None:
    schema = json.dumps(["null", kind] if in_union else kind)
    value = b"b" if kind is FIXED else "b"

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, schema)(value, VALUE))
        return await now(AvroDeserializer(registry, schema=schema)(data, VALUE))

    assert run(main) == value


def test_a_default_that_is_read_under_the_alias_of_its_record_is_not_shared_either() -> None:
    plain = json.dumps(record(x="int"))
    wide = json.loads(wider({"type": "array", "items": "int"}, []))
    readers = json.dumps({**wide, "name": "Renamed", "aliases": [wide["name"]]})

    async def main(registry: SchemaRegistry) -> None:
        one, other = await fitted(registry, plain, readers)
        assert one == other == {"x": 1, "y": []}
        assert one["y"] is not other["y"]

    run(main)


def test_a_default_that_is_none_does_not_matter_where_the_field_is_there_by_an_alias() -> None:
    symbols = {"type": "enum", "name": "E", "symbols": ["A"]}
    readers = json.loads(wider(symbols, "B"))
    readers["fields"][1]["aliases"] = ["before"]

    async def main(registry: SchemaRegistry) -> Any:
        write = AvroSerializer(registry, json.dumps(record(x="int", before=symbols)))
        data = await now(write({"x": 1, "before": "A"}, VALUE))
        return await now(AvroDeserializer(registry, schema=json.dumps(readers))(data, VALUE))

    assert run(main) == {"x": 1, "y": "A"}


AT = logical("long", "timestamp-millis")


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        (AT, 2**63 - 1, datetime(2026, 11, 20, tzinfo=UTC)),
        (logical("string", "uuid"), "", "00000000-0000-0000-0000-000000000005"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "A"),
        (PART, {}, {"a": 1, "b": 2}),
    ],
)
def test_a_default_that_is_none_matters_only_where_it_is_needed(
    schema: Any, default: Any, value: Any
) -> None:
    readers = wider(schema, default)

    async def main(registry: SchemaRegistry) -> Any:
        plain = json.dumps(record(y=schema))
        data = await now(AvroSerializer(registry, plain)({"y": value}, VALUE))
        with_x = json.dumps(record(x="int"))
        with pytest.raises(ConfigError, match="default that is none") as told:
            await fitted(registry, with_x, readers)
        assert told.value.context["field"] == "R.y"
        fields = json.loads(readers)["fields"]
        fields[0]["default"] = 0
        read = AvroDeserializer(registry, schema=json.dumps({**record(), "fields": fields}))
        return await now(read(data, VALUE))

    found = run(main)
    assert found["x"] == 0
    assert str(found["y"]) == str(value)


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("float", 2**24 + 1, 2.0**24),
        (logical("string", "uuid"), f"urn:uuid:{UUID(int=5)}", UUID(int=5)),
    ],
)
def test_a_default_is_not_held_to_what_a_serializer_takes(
    schema: Any, default: Any, value: Any
) -> None:
    async def main(registry: SchemaRegistry) -> Any:
        plain = json.dumps(record(x="int"))
        return await fitted(registry, plain, wider(schema, default))

    assert run(main) == [{"x": 1, "y": value}] * 2
