"""Avro schemas made of Python classes: the serializer writes instances with them."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic
import pytest

from moldau.client.serdes.avro import AvroDeserializer, AvroSerializer
from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry import Schema, SchemaRegistry
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from moldau.values.avro.models import avro_of_type
from tests.client.serdes.served_registry import served_registry


class State(enum.Enum):
    NEW = "NEW"
    DONE = "DONE"


@dataclass
class Item:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    customer: str | None
    at: datetime.datetime
    items: list[Item]
    by_name: dict[str, Item]
    state: State = State.NEW
    note: str | None = None
    tags: list[str] = field(default_factory=list)


class Model(pydantic.BaseModel):
    id: int
    name: str = "n"
    nested: Item | None = None


class Struct(msgspec.Struct):
    id: int
    ratio: float = 1.5
    key: uuid.UUID | None = None


def test_a_dataclass_becomes_a_record() -> None:
    made = avro_of_type(Order)
    by_name = {each["name"]: each for each in made["fields"]}
    assert (made["type"], made["name"]) == ("record", "Order")
    assert by_name["id"] == {"name": "id", "type": "long"}
    assert by_name["customer"]["type"] == ["null", "string"]
    assert by_name["at"]["type"]["logicalType"] == "timestamp-micros"
    assert by_name["items"]["type"]["items"]["name"] == "Item"
    assert by_name["by_name"]["type"] == {"type": "map", "values": "Item"}
    assert (by_name["state"]["type"]["symbols"], by_name["state"]["default"]) == (
        ["NEW", "DONE"],
        "NEW",
    )
    assert by_name["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert by_name["tags"]["default"] == []


def test_models_and_structs_keep_their_defaults() -> None:
    model = {each["name"]: each for each in avro_of_type(Model)["fields"]}
    assert model["name"]["default"] == "n"
    assert model["nested"]["default"] is None
    assert model["nested"]["type"][0] == "null"
    assert avro_of_type(Struct)["fields"][1:] == [
        {"name": "ratio", "type": "double", "default": 1.5},
        {
            "name": "key",
            "type": ["null", {"type": "string", "logicalType": "uuid"}],
            "default": None,
        },
    ]


@pytest.mark.real
@pytest.mark.parametrize(
    "value",
    [
        Order(
            1,
            None,
            datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            [Item("a")],
            {"b": Item("b", 2)},
        ),
        Model(id=1, nested=Item("x")),
        Struct(3, key=uuid.UUID(int=7)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_instance_is_written_and_read_again(value: Any) -> None:
    async def main(runtime: Runtime, url: str) -> None:
        schema = Schema(json.dumps(avro_of_type(type(value))))
        async with SchemaRegistry(url, runtime=runtime) as registry:
            place = Place("orders", False)
            written = await _awaited(AvroSerializer(registry, schema)(value, place))
            read = await _awaited(AvroDeserializer(registry, type=type(value))(written, place))
            assert read == value

    from moldau.runtime.real import run

    with served_registry() as registry:
        run(lambda runtime: main(runtime, registry.url), node="test")


async def _awaited(value: Any) -> Any:
    return await value if asyncio.iscoroutine(value) or hasattr(value, "__await__") else value


def test_a_field_that_avro_has_no_type_for_is_named() -> None:
    @dataclass
    class Price:
        amount: decimal.Decimal

    @dataclass
    class Pair:
        both: tuple[int, str]

    for kind, where in ((Price, "Price.amount"), (Pair, "Pair.both")):
        with pytest.raises(ConfigError, match=where):
            avro_of_type(kind)
    with pytest.raises(ConfigError):
        avro_of_type(int)
