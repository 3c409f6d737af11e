"""JSON Schemas that refer to others, and those of types: what is written fits and is read again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_serializer

from moldau.client.serdes import (
    DeserializationFailed,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Place,
    Schema,
    SchemaRegistry,
    SerializationFailed,
)
from moldau.client.serdes.registry import Reference
from moldau.errors import ConfigError
from moldau.values.schema import JSON
from tests.client.serdes.registry_run import now, run

VALUE = Place("orders", False)
TEXT = {"type": "string"}


def with_leaf(**more: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"leaf": {"$ref": "leaf.json"}}, **more}


def to(address: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"leaf": {"$ref": address}}}


async def checked(
    registry: SchemaRegistry, schema: Any, known: dict[str, Any], value: Any
) -> bytes:
    """As written; what is known has all of what is known before it for references."""
    references: list[Reference] = []
    for name, body in known.items():
        whole = Schema(json.dumps(body), JSON, tuple(references))
        await registry.register(name, whole)
        references.append(Reference(name, name, 1))
    whole = Schema(json.dumps(schema), JSON, tuple(references))
    data: bytes = await now(JsonSchemaSerializer(registry, whole)(value, VALUE))
    return data[5:]


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        (to("v2/item.json"), {"item.json": {"type": "integer"}, "v2/item.json": TEXT}),
        (to("item.json"), {"v2/item.json": {"type": "integer"}, "item.json": TEXT}),
        (
            {"$id": "http://x/a/b/top.json", **to("c/item.json")},
            {"item.json": {"type": "integer"}, "c/item.json": TEXT},
        ),
        (to("http://x/own.json"), {"leaf.json": {"$id": "http://x/own.json", **TEXT}}),
        (
            {"$ref": "middle.json"},
            {"leaf.json": TEXT, "middle.json": with_leaf(**{"$id": "http://x/middle.json"})},
        ),
        (
            {"$id": "http://x/top.json", "$ref": "middle.json"},
            {"leaf.json": TEXT, "middle.json": with_leaf(**{"$id": "http://x/b/middle.json"})},
        ),
        (to("my%20leaf.json"), {"my leaf.json": TEXT}),
        ({"$ref": "a/middle.json"}, {"leaf.json": TEXT, "a/middle.json": with_leaf()}),
        (
            {"$ref": "a/middle.json"},
            {
                "leaf.json": {"type": "integer"},
                "b/leaf.json": TEXT,
                "a/middle.json": to("b/leaf.json"),
            },
        ),
    ],
)
def test_a_reference_is_the_schema_that_its_address_means(schema: Any, known: Any) -> None:
    async def main(registry: SchemaRegistry) -> None:
        assert await checked(registry, schema, known, {"leaf": "x"}) == b'{"leaf":"x"}'
        with pytest.raises(SerializationFailed, match="does not fit"):
            await checked(registry, schema, known, {"leaf": 1})

    run(main)


PAIR = {"type": "array", "items": [TEXT, {"type": "number"}]}
"""As drafts up to 2019-09 say it; draft 2020-12 has other words, and refuses these."""
NOBODYS = "https://example.com/draft"
LATEST = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("schema", [PAIR, {"$schema": NOBODYS, **PAIR}])
def test_a_schema_that_names_no_known_draft_may_be_of_draft_7(schema: Any) -> None:
    async def main(registry: SchemaRegistry) -> None:
        data = await checked(registry, schema, {}, ["a", 1])
        assert data == b'["a",1]'
        schema_id = await registry.register("orders-value", Schema(json.dumps(schema), JSON))
        framed = b"\0" + schema_id.to_bytes(4, "big")
        reader = JsonSchemaDeserializer(registry)
        assert await now(reader(framed + data, VALUE)) == ["a", 1]
        with pytest.raises(DeserializationFailed, match="does not fit"):
            await now(reader(framed + b'["a","b"]', VALUE))

    run(main)


def test_what_its_own_draft_or_all_drafts_refuse_is_refused() -> None:
    async def main(registry: SchemaRegistry) -> None:
        for schema in ({"$schema": LATEST, **PAIR}, {"type": "strin"}):
            with pytest.raises(ConfigError, match="cannot be used"):
                JsonSchemaSerializer(registry, json.dumps(schema))

    run(main)


def test_a_schema_that_names_no_draft_is_of_the_latest_if_it_can_be() -> None:
    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(SerializationFailed, match="does not fit"):
            await checked(registry, {"type": "array", "prefixItems": [TEXT]}, {}, [1])

    run(main)


def test_a_format_is_not_checked_whatever_the_draft() -> None:
    """As Confluent's serializer for Python does it, and as later drafts have it."""

    async def main(registry: SchemaRegistry) -> None:
        for draft in ("http://json-schema.org/draft-07/schema#", None):
            schema = {"$schema": draft} if draft else {}
            await checked(registry, {**schema, "type": "string", "format": "email"}, {}, "x")

    run(main)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    pair: tuple[int, int]


class Counted(msgspec.Struct):
    counts: dict[int, str]


class Computing(BaseModel):
    model_config = ConfigDict(extra="ignore")
    x: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def y(self) -> int:
        return self.x + 1


class Renaming(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_by_name=True)
    x: int = Field(validation_alias="X", serialization_alias="X")


class Telling(BaseModel):
    x: int

    @field_serializer("x")
    def told(self, x: int) -> str:
        return str(x)


class Forbidding(Computing):
    model_config = ConfigDict(extra="forbid")


@pytest.mark.parametrize(
    "value",
    [
        Strict(at=datetime(2026, 11, 20, tzinfo=UTC), pair=(1, 2)),
        Counted({1: "a"}),
        Computing(x=1),
        Renaming(x=1),
        Telling(x=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_type_reads_what_it_wrote(value: Any) -> None:
    async def main(registry: SchemaRegistry) -> Any:
        write = JsonSchemaSerializer(registry, type=type(value))
        read = JsonSchemaDeserializer(registry, type=type(value))
        return await now(read(await now(write(value, VALUE)), VALUE))

    assert run(main) == value


def test_a_computed_field_is_in_the_schema_of_its_type() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        return await now(JsonSchemaSerializer(registry, type=Forbidding)(Forbidding(x=1), VALUE))

    assert run(main)[5:] == b'{"x":1,"y":2}'
