"""Unions in Avro, inside what may be null: written as Confluent's serializer does; and read into
the class that is named after the record."""

from __future__ import annotations

import json
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag, model_validator

from moldau.client.serdes import AvroDeserializer, AvroSerializer, Place, Schema, SchemaRegistry
from moldau.values.annotations import UNKNOWN, made_of
from moldau.values.wire import frame
from tests.client.serdes.registry_run import now, run
from tests.values.avro.samples import logical, named, record

VALUE = Place("orders", False)
AT = datetime(2026, 11, 20, tzinfo=UTC)
SYMBOLS = {"type": "enum", "name": "E", "symbols": ["A"]}
UNIONS: list[tuple[list[Any], Any]] = [
    (["null", "string", logical("long", "timestamp-millis")], AT),
    (["null", "string", logical("bytes", "decimal", precision=5, scale=2)], Decimal("1.23")),
    (["string", {"type": "array", "items": "string"}], ["a"]),
    (["null", "string", {"type": "map", "values": "long"}], {"a": 1}),
    (["null", SYMBOLS, {"type": "fixed", "name": "F", "size": 1}], "A"),
]


def around(schema: Any, value: Any) -> list[tuple[Any, Any]]:
    """A union in what may be null, in all the ways."""
    line, inside = named("Line", at=schema), {"at": value}
    lines = {"type": "array", "items": line}
    return [
        (record(lines=["null", lines]), {"lines": [inside]}),
        (record(lines={"type": "array", "items": ["null", line]}), {"lines": [inside, None]}),
        ({"type": "map", "values": ["null", line]}, {"a": inside}),
        (["null", line], inside),
        (record(each=["null", {"type": "map", "values": schema}]), {"each": {"k": value}}),
    ]


def to_confluent(schema: Any, value: Any) -> Any:
    """As the other client writes it, which is there after `make peers` only."""
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    registry = confluent.SchemaRegistryClient.new_client({"url": "mock://"})
    place = serialization.SerializationContext("orders", serialization.MessageField.VALUE)
    return avro.AvroSerializer(registry, json.dumps(schema))(value, place)


BELOW = [pair for union in UNIONS for pair in around(*union)]


async def written(registry: SchemaRegistry, schema: Any, value: Any) -> Any:
    return await now(AvroSerializer(registry, json.dumps(schema))(value, VALUE))


@pytest.mark.parametrize(("schema", "value"), BELOW)
def test_a_union_below_one_with_null_is_written(schema: Any, value: Any) -> None:
    async def main(registry: SchemaRegistry) -> Any:
        data = await written(registry, schema, value)
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == value


@pytest.mark.parametrize(("schema", "value"), BELOW)
def test_a_union_below_one_with_null_is_written_as_confluents_does(schema: Any, value: Any) -> None:
    expected = to_confluent(schema, value)
    assert run(lambda registry: written(registry, schema, value)) == expected


def test_a_default_with_a_union_below_one_with_null_is_written() -> None:
    schema = record(lines=[{"type": "array", "items": ["int", SYMBOLS]}, "null"])
    schema["fields"][0]["default"] = ["A", 1]

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, json.dumps(schema))({}, VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == {"lines": ["A", 1]}


@dataclass
class View:
    id: int


@dataclass
class Click:
    id: int


@dataclass
class Event:
    what: View | Click
    more: list[View | Click | None]


class SeenBy(BaseModel):
    id: int = Field(alias="Id")


class HeardBy(BaseModel):
    id: int


class Noticed(BaseModel):
    what: SeenBy | HeardBy
    more: list[SeenBy | HeardBy | None] = []


class Up(msgspec.Struct, tag=True):
    id: int


class Down(msgspec.Struct, tag=True):
    id: int


class Moved(msgspec.Struct):
    what: Up | Down
    more: list[Up | Down | None]


@pytest.mark.parametrize(
    "value",
    [
        Event(Click(1), [Click(2), None, View(3)]),
        Noticed(what=HeardBy(id=1), more=[HeardBy(id=2), None, SeenBy(Id=3)]),
        Moved(Down(1), [Down(2), None, Up(3)]),
        Event(Click(1), [View(3)] * 300),
    ],
    ids=["dataclasses", "models", "structs", "long"],
)
@pytest.mark.parametrize("is_recursive", [False, True])
def test_a_record_of_a_union_is_read_into_the_class_of_its_name(
    value: Any, is_recursive: bool
) -> None:
    """Also by the reader for what may be nested deeply."""
    kinds = [type(value.what), type(value.more[-1])]
    either = [named(f"shop.{kind.__name__}", id="int") for kind in kinds]
    names = [each["name"] for each in either]
    schema = record(what=either, more={"type": "array", "items": ["null", *names]})
    if is_recursive:
        schema["fields"].append({"name": "again", "type": ["null", "R"], "default": None})

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, json.dumps(schema))(value, VALUE))
        return await now(AvroDeserializer(registry, type=type(value))(data, VALUE))

    assert run(main) == value


def test_of_two_classes_of_one_name_the_first_that_fits_is_read_into() -> None:
    schema = record(what=[named("shop.View", id="int"), named("Click", id="int")])
    first, second = (make_dataclass("View", [("id", kind)]) for kind in (int, float))
    event = make_dataclass("Event", [("what", first | second | Click)])

    async def main(registry: SchemaRegistry) -> Any:
        value = {"what": ("shop.View", {"id": 1})}
        data = await now(AvroSerializer(registry, json.dumps(schema))(value, VALUE))
        return (await now(AvroDeserializer(registry, type=event)(data, VALUE))).what

    assert type(run(main)) is first


def test_records_of_a_union_alone_are_read_into_their_classes() -> None:
    schema = json.dumps([named("View", id="int"), named("Click", id="int")])
    either: Any = View | Click

    async def main(registry: SchemaRegistry) -> Any:
        write, read = AvroSerializer(registry, schema), AvroDeserializer(registry, type=either)
        return [
            await now(read(await now(write(each, VALUE)), VALUE)) for each in (Click(1), View(2))
        ]

    assert run(main) == [Click(1), View(2)]


def test_without_a_type_a_record_of_a_union_stays_a_dict() -> None:
    schema = json.dumps([named("View", id="int"), named("Click", id="int")])

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, schema)(Click(1), VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == {"id": 1}


class Renamed(BaseModel):
    x: int = Field(0, alias="X")


def test_a_model_with_an_alias_reads_what_it_wrote() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, json.dumps(record(x="int")))(Renamed(X=5), VALUE))
        return await now(AvroDeserializer(registry, type=Renamed)(data, VALUE))

    assert run(main) == Renamed(X=5)


class Swapped(BaseModel):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Shifted(BaseModel):
    id: int = Field(alias="_id")
    key: int = Field(alias="id")


class ByAlias(BaseModel, serialize_by_alias=True):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (Swapped(a=1, b=2), "ab"),
        (Shifted(_id=1, id=2), ["id", "key"]),
        (Shifted(_id=1, id=2), ["_id", "id"]),
        (ByAlias(a=1, b=2), "ab"),
    ],
)
def test_an_alias_that_is_another_fields_name_reads_what_was_written(
    value: Any, names: list[str]
) -> None:
    schema = json.dumps(record(**dict.fromkeys(names, "int")))
    fields = {"_id": 1, "id": 2} if "_id" in names else value

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, schema)(fields, VALUE))
        return await now(AvroDeserializer(registry, type=type(value))(data, VALUE))

    assert run(main) == value


class ViewModel(BaseModel):
    id: int


class ClickModel(BaseModel):
    id: int


Either = ViewModel | ClickModel


class Plain(BaseModel):
    what: Either
    whole: dict[str, int]
    anything: Any
    other: HeardBy


class Copied(BaseModel):
    what: Annotated[Either, BeforeValidator(lambda fields: {**fields})]


class Checked(BaseModel):
    what: Either

    @model_validator(mode="before")
    @classmethod
    def checked(cls, fields: Any) -> Any:
        assert fields["what"]["id"] == 1
        return fields


class Chosen(BaseModel):
    what: Annotated[
        Annotated[ViewModel, Tag("view")] | Annotated[ClickModel, Tag("click")],
        Discriminator(lambda fields: "click" if fields["id"] == 1 else "view"),
    ]


class Strange(BaseModel):
    id: str


class Refused(BaseModel):
    what: Strange | HeardBy


PLAIN: Any = {"id": 1}
VIEW, CLICK = ("ViewModel", {"id": 1}), ("ClickModel", {"id": 1})
FIT: Any = {"what": ClickModel(id=1), "whole": {"id": 1}, "anything": {"id": 1}}


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (
            Plain,
            {"what": CLICK, "whole": VIEW, "anything": VIEW, "other": VIEW},
            Plain(**FIT, other=HeardBy(id=1)),
        ),
        (Copied, {"what": CLICK}, Copied(what=PLAIN)),
        (Checked, {"what": CLICK}, Checked(what=PLAIN)),
        (Chosen, {"what": CLICK}, Chosen(what=PLAIN)),
        (Refused, {"what": ("Strange", {"id": 1})}, Refused(what=PLAIN)),
    ],
)
def test_a_record_stays_plain_where_its_type_wants_no_instance(
    kind: Any, value: Any, found: Any
) -> None:
    names = ["Strange", "ViewModel", "ClickModel"]
    first, *others = value
    schema = record(**{first: [named(name, id="int") for name in names]})
    schema["fields"] += [{"name": each, "type": names} for each in others]

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, json.dumps(schema))(value, VALUE))
        return await now(AvroDeserializer(registry, type=kind)(data, VALUE))

    assert run(main) == found


class Early(BaseModel):
    what: Late | Later


class Late(BaseModel):
    id: int


class Later(BaseModel):
    id: int = Field(alias="Id")


@dataclass
class Selfish:
    what: View | Click
    unknown: NotThere = None  # type: ignore[name-defined]  # noqa: F821


def test_classes_that_come_later_are_found() -> None:
    """For a type that has made no instance yet."""
    schema = json.dumps(record(what=[named("Late", id="int"), named("Later", id="int")]))

    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("early", Schema(schema))
        read = AvroDeserializer(registry, type=Early)
        return await now(read(frame(1) + b"\x02\x02", VALUE))

    assert run(main) == Early(what=Later(Id=1))


def test_a_name_that_is_not_known_hides_no_other_field() -> None:
    assert made_of(Selfish) == [View | Click, UNKNOWN]
