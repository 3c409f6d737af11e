"""Serdes with a registry: which schema is used, who is asked for it, and how often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from inspect import isawaitable
from typing import Any

import pytest
from google.protobuf import timestamp_pb2

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    DeserializationFailed,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Place,
    ProtobufSerializer,
    RegistryError,
    Schema,
    SchemaOptions,
    SchemaRegistry,
    SerializationFailed,
    topic_record_subject,
)
from moldau.client.serdes.registry import Reference
from moldau.errors import ConfigError
from moldau.values.avro.schemas import Shape, parse_alone
from moldau.values.schema import AVRO, JSON, PROTOBUF
from moldau.values.wire import frame
from tests.client.serdes.registry_run import now, run
from tests.client.serdes.registry_world import RegistryWorld

KEY, VALUE = Place("orders", True), Place("orders", False)
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":'
    '[{"name":"id","type":"int"},{"name":"who","type":"string"}]}'
)
WIDER = ORDER.replace("]}", ',{"name":"paid","type":"boolean","default":false}]}')
OBJECT = (
    '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
)


@dataclass
class Order:
    id: int
    who: str


def test_only_the_first_record_of_a_schema_waits() -> None:
    async def main(registry: SchemaRegistry) -> None:
        write, read = AvroSerializer(registry, ORDER), AvroDeserializer(registry)
        value = {"id": 1, "who": "x"}
        first = write(value, VALUE)
        assert isawaitable(first)
        data = await first
        assert data == frame(1) + b"\x02\x02x"
        assert write(value, VALUE) == data
        elsewhere = write(value, KEY)
        assert isawaitable(elsewhere)
        await elsewhere
        assert await now(read(data, VALUE)) == value
        assert read(data, VALUE) == value

    run(main)


def test_a_batch_keeps_its_order_and_tombstones_whatever_is_known() -> None:
    async def main(registry: SchemaRegistry) -> None:
        write, read = AvroSerializer(registry), AvroDeserializer(registry)
        values = ["a", None, 7, "b", 2.5, True, None, b"raw", 7]
        data = await now(write.many(values, VALUE))
        assert [each and each[:5] for each in data[:4]] == [frame(1), None, frame(2), frame(1)]
        assert write.many(values, VALUE) == data
        assert await now(read.many(data, VALUE)) == values
        assert read.many(data, VALUE) == values
        assert [None if each is None else read(each, VALUE) for each in data] == values

    run(main)


def test_a_batch_that_meets_something_new_in_the_middle_goes_on_from_there() -> None:
    async def main(registry: SchemaRegistry) -> None:
        write, read = AvroSerializer(registry), AvroDeserializer(registry)
        first = await now(write("a", VALUE))
        values = ["a", None, "b", 7, "c"]
        outcome = write.many(values, VALUE)
        assert isawaitable(outcome)
        data: list[Any] = await outcome
        assert data[0] == first
        assert await now(read(data[0], VALUE)) == "a"
        found = read.many(data, VALUE)
        assert isawaitable(found)
        assert await found == values

    run(main)


def test_bytes_alone_have_no_length_before_them() -> None:
    async def main(registry: SchemaRegistry) -> bytes:
        data: bytes = await now(AvroSerializer(registry, '"bytes"')(b"raw", VALUE))
        assert await now(AvroDeserializer(registry)(data, VALUE)) == b"raw"
        return data

    assert run(main) == frame(1) + b"raw"


def test_objects_go_in_and_come_out() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        write, read = AvroSerializer(registry, ORDER), AvroDeserializer(registry, type=Order)
        return await now(read(await now(write(Order(1, "x"), VALUE)), VALUE))

    assert run(main) == Order(1, "x")


def test_a_readers_schema_fits_what_was_written_with_another_version() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, ORDER)({"id": 1, "who": "x"}, VALUE))
        return await now(AvroDeserializer(registry, schema=WIDER)(data, VALUE))

    assert run(main) == {"id": 1, "who": "x", "paid": False}


def test_what_was_written_with_several_schemas_is_read_with_each() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        old, new = AvroSerializer(registry, ORDER), AvroSerializer(registry, WIDER)
        plain, wide = {"id": 1, "who": "x"}, {"id": 2, "who": "y", "paid": True}
        data = [await now(old(plain, VALUE)), await now(new(wide, VALUE))] * 2
        read = AvroDeserializer(registry)
        assert await now(read.many(data, VALUE)) == [plain, wide] * 2
        return [read(each, VALUE) for each in data]

    assert len(run(main)) == 4


def test_without_leave_to_register_a_schema_must_be_there() -> None:
    async def main(registry: SchemaRegistry) -> None:
        options = SchemaOptions(auto_register=False)
        write = AvroSerializer(registry, ORDER, options=options)
        with pytest.raises(RegistryError, match="Schema not found"):
            await now(write({"id": 1, "who": "x"}, VALUE))
        await registry.register("orders-value", Schema(ORDER))
        assert await now(write({"id": 1, "who": "x"}, VALUE)) == frame(1) + b"\x02\x02x"

    run(main)


def test_the_latest_version_is_used_where_that_is_wanted_or_nothing_else_is_known() -> None:
    async def main(registry: SchemaRegistry) -> None:
        value = {"id": 1, "who": "x"}
        await registry.register("orders-value", Schema(ORDER))
        latest = AvroSerializer(registry, ORDER, options=SchemaOptions(use_latest=True))
        without = AvroSerializer(registry)
        assert await now(latest(value, VALUE)) == await now(without(value, VALUE))
        await registry.register("orders-value", Schema(WIDER))
        registry.forget()
        assert await now(latest(value, VALUE)) == frame(2) + b"\x02\x02x\x00"
        assert latest(value, VALUE) == frame(2) + b"\x02\x02x\x00"

    run(main)


@pytest.mark.parametrize("kind", [AvroSerializer, JsonSchemaSerializer])
def test_without_a_schema_of_its_own_it_follows_the_latest_version(kind: Any) -> None:
    """As soon as what is remembered of the subject is too old, and not before."""
    type, versions = (AVRO, (ORDER, WIDER)) if kind is AvroSerializer else (JSON, (OBJECT, "{}"))

    async def main(registry: SchemaRegistry) -> None:
        value = {"id": 1, "who": "x"}
        await registry.register("orders-value", Schema(versions[0], type))
        write = kind(registry)
        assert (await now(write(value, VALUE)))[:5] == frame(1)
        await registry.register("orders-value", Schema(versions[1], type))
        assert write(value, VALUE)[:5] == frame(1)
        await asyncio.sleep(11)
        written = write.many([value, None, value], VALUE)
        assert isawaitable(written)
        first, none, last = await written
        assert first == last == write(value, VALUE)
        assert none is None
        assert first[:5] == frame(2)

    run(main, latest_cache_ttl_sec=10)


def test_what_has_a_schema_asks_once_whatever_is_latest() -> None:
    async def main(registry: SchemaRegistry) -> None:
        own, chosen = AvroSerializer(registry, ORDER), SchemaOptions(use_id=1, use_latest=True)
        by_id, plain = AvroSerializer(registry, options=chosen), AvroSerializer(registry)
        value = {"id": 1, "who": "x"}
        pairs = [(own, value), (by_id, value), (plain, "text")]
        data = [await now(write(each, VALUE)) for write, each in pairs]
        await registry.register("orders-value", Schema(WIDER))
        await asyncio.sleep(11)
        assert [write(each, VALUE) for write, each in pairs] == data

    run(main, latest_cache_ttl_sec=10)


def test_a_schema_may_be_chosen_by_its_id() -> None:
    async def main(registry: SchemaRegistry) -> bytes:
        await registry.register("elsewhere", Schema(WIDER))
        write = AvroSerializer(registry, ORDER, options=SchemaOptions(use_id=1))
        data: bytes = await now(write({"id": 1, "who": "x"}, VALUE))
        return data

    assert run(main) == frame(1) + b"\x02\x02x\x00"


def test_subjects_are_named_by_the_strategy() -> None:
    with RegistryWorld() as world:

        async def main(registry: SchemaRegistry) -> None:
            options = SchemaOptions(topic_record_subject)
            await now(AvroSerializer(registry, ORDER, options=options)({"id": 1, "who": ""}, KEY))
            await now(AvroSerializer(registry, options=options)("text", VALUE))
            await now(ProtobufSerializer(registry, options=options)(timestamp_pb2.Timestamp(), KEY))
            await now(JsonSchemaSerializer(registry, OBJECT, options=options)({"id": 1}, KEY))
            with pytest.raises(SerializationFailed, match="no name"):
                await now(AvroSerializer(registry, options=options)({}, VALUE))

        world.run_client(main)
        assert set(world.first.subjects) == {
            "orders-shop.Order",
            "orders-string",
            "orders-google.protobuf.Timestamp",
            "orders-Order",
        }


@pytest.mark.parametrize("auto_register", [True, False])
def test_the_registry_is_told_to_normalize_what_it_is_asked_for(auto_register: bool) -> None:
    options = SchemaOptions(normalize=True, auto_register=auto_register)

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("orders-value", Schema(ORDER))
        await now(AvroSerializer(registry, ORDER, options=options)({"id": 1, "who": "x"}, VALUE))

    with RegistryWorld() as world:
        world.run_client(main)
        asked = [each.query for each in world.first.asked if each.method == "POST"]
        assert asked == [{}, {"normalize": "true"}]


def test_references_are_fetched_and_used() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("shop.Order", Schema(ORDER))
        cart = Schema(
            '{"type":"record","name":"Cart","fields":[{"name":"of","type":"shop.Order"}]}',
            references=(Reference("shop.Order", "shop.Order", 1),),
        )
        data = await now(AvroSerializer(registry, cart)({"of": {"id": 1, "who": "x"}}, VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == {"of": {"id": 1, "who": "x"}}


def test_references_in_a_circle_end() -> None:
    async def main(registry: SchemaRegistry) -> None:
        for name, other in (("A", "B"), ("B", "A")):
            schema = Schema(f'"{other}"', references=(Reference(other, other, 1),))
            await registry.register(name, schema)
        with pytest.raises(ConfigError, match="circle"):
            await now(AvroDeserializer(registry)(frame(1) + b"x", VALUE))

    run(main)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "without a Schema Registry"),
        (b'{"id":1}', "without a Schema Registry"),
        (frame(1) + b"\x02\x02x.", "behind the value"),
        (frame(1) + b"\x02\x10x", r"it ends before its schema's value does \(schema=1\)"),
        (frame(1) + b"\x02\x02\xff", r"no value of its schema: UnicodeDecodeError.*schema=1"),
        (frame(2) + b"{}", "another kind: JSON, not AVRO"),
        (frame(99) + b"x", "Schema 99 not found"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, told: str) -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.register("a", Schema(ORDER))
        await registry.register("j", Schema(OBJECT, JSON))
        with pytest.raises((DeserializationFailed, RegistryError), match=told):
            await now(AvroDeserializer(registry)(data, VALUE))

    run(main)


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    [
        (None, SchemaOptions(), "not found; the serializer has no schema of its own: give it one"),
        (ORDER, SchemaOptions(use_latest=True), "not found; use.latest.version is set"),
        (ORDER, SchemaOptions(auto_register=False), "not found; auto.register.schemas is false"),
    ],
)
def test_where_there_is_no_schema_to_write_with_it_is_told_what_to_do(
    schema: str | None, options: SchemaOptions, told: str
) -> None:
    async def main(registry: SchemaRegistry) -> None:
        write = AvroSerializer(registry, schema, options=options)
        with pytest.raises(RegistryError, match=told) as raised:
            await now(write({"id": 1, "who": "x"}, VALUE))
        assert raised.value.is_of_record, "its status and code stay"

    run(main)


@pytest.mark.parametrize(
    "text", ["{", '{"type":"recrd"}', '{"type":"record","name":"x","fields":[{}]}']
)
def test_a_schema_that_is_none_is_told_before_it_is_registered(text: str) -> None:
    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(ConfigError, match="Avro schema"):
            AvroSerializer(registry, text)
        with pytest.raises(ConfigError, match="schema"):
            JsonSchemaSerializer(registry, text.replace("record", "recrd"))

    run(main)


def test_a_schema_that_needs_itself_without_an_end_is_not_read_with() -> None:
    text = '{"type":"record","name":"N","fields":[{"name":"n","type":"N"}]}'

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("n", Schema(text))
        with pytest.raises(DeserializationFailed, match="without an end"):
            await now(AvroDeserializer(registry)(frame(1) + b"\x00", VALUE))

    run(main)


def test_records_that_need_each_other_are_read_wherever_one_of_them_is_met_first() -> None:
    """A wrapper is first met within the node that it wraps, where its size is not known yet."""
    wrapper = '{"type":"record","name":"Wrapper","fields":[{"name":"node","type":"Node"}]}'
    node = (
        '{"type":"record","name":"Node","fields":[{"name":"next","type":["null",' + wrapper + "]}]}"
    )
    text = (
        '{"type":"record","name":"Top","fields":[{"name":"n","type":' + node + "},"
        '{"name":"w","type":"Wrapper"}]}'
    )
    value = {"n": {"next": None}, "w": {"node": {"next": {"node": {"next": None}}}}}

    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, text)(value, VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == value


def test_many_records_that_all_need_each_other_are_looked_at_in_no_time() -> None:
    """To follow every path through them would take for ever."""
    names = [f"R{number}" for number in range(40)]
    text = '"null"'
    for name in reversed(names):
        text = (
            f'{{"type":"record","name":"{name}","fields":['
            f'{{"name":"down","type":["null",{text}]}}]}}'
        )
    named: dict[str, Any] = {}
    parsed = parse_alone(Schema(text), named)
    for record in named.values():
        record["fields"] += [{"name": f"to_{name}", "type": ["null", name]} for name in names]
    shape = Shape(named)
    assert shape.problem(parsed) is None
    assert shape.is_recursive


def test_a_schema_in_a_header_counts() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("a", Schema(ORDER))
        place = Place("orders", False, (("__value_schema_id", frame(1)),))
        return await now(AvroDeserializer(registry)(b"\x02\x02x", place))

    assert run(main) == {"id": 1, "who": "x"}


def test_ids_and_guids_may_be_mixed() -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.register("a", Schema(ORDER))
        by_id, by_guid = frame(1) + b"\x02\x02x", b"\x01" + bytes(15) + b"\x01\x04\x02y"
        read = AvroDeserializer(registry)
        data = [by_id, by_guid, None, by_id, by_guid]
        found = await now(read.many(data, VALUE))
        assert [each and each["id"] for each in found] == [1, 2, None, 1, 2]
        assert read.many(data, VALUE) == found
        header = Place("orders", False, (("__value_schema_id", by_guid[:17]),))
        assert read(by_id[5:], header) == {"id": 1, "who": "x"}

    run(main)


@pytest.mark.parametrize("value", [{"id": "x"}, {}, [], Order])
def test_json_that_does_not_fit_its_schema_is_not_written(value: Any) -> None:
    async def main(registry: SchemaRegistry) -> None:
        write = JsonSchemaSerializer(registry, OBJECT)
        assert await now(write({"id": 1}, VALUE)) == frame(1) + b'{"id":1}'
        with pytest.raises((SerializationFailed, ValueError)):
            write(value, VALUE)

    run(main)


@pytest.mark.parametrize("value", [Decimal("1.50"), {1: 2}, Order(1, "x"), b"x"])
def test_json_is_checked_as_it_is_written(value: Any) -> None:
    """The checker takes a decimal for a number, but what is written of it is text."""
    text = '{"type":"object","properties":{"a":{"type":"number"}}}'

    async def main(registry: SchemaRegistry) -> None:
        write = JsonSchemaSerializer(registry, text)
        assert await now(write({"a": 1.5}, VALUE)) == frame(1) + b'{"a":1.5}'
        with pytest.raises(SerializationFailed):
            write({"a": value}, VALUE)

    run(main)


def test_json_with_objects_in_it_is_checked_as_well() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        write = JsonSchemaSerializer(registry, f'{{"type":"array","items":{OBJECT}}}')
        with pytest.raises(SerializationFailed, match="does not fit"):
            await now(write([Order("1", "x")], VALUE))  # type: ignore[arg-type]
        return write([Order(1, "x"), {"id": 2}], VALUE)

    assert run(main) == frame(1) + b'[{"id":1,"who":"x"},{"id":2}]'


def test_json_that_does_not_fit_its_schema_is_not_given_out_unless_that_is_wanted() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("j", Schema(OBJECT, JSON))
        data = frame(1) + b'{"id":"x"}'
        with pytest.raises(DeserializationFailed, match="does not fit") as caught:
            await now(JsonSchemaDeserializer(registry)(data, VALUE))
        assert caught.value.context == {"schema": 1, "at": "/id"}
        lax = SchemaOptions(validates=False)
        return await now(JsonSchemaDeserializer(registry, options=lax)(data, VALUE))

    assert run(main) == {"id": "x"}


def test_a_json_schema_may_be_made_of_a_type() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        write = JsonSchemaSerializer(registry, type=Order)
        read = JsonSchemaDeserializer(registry, type=Order)
        data = await now(write(Order(1, "x"), VALUE))
        assert data == frame(1) + b'{"id":1,"who":"x"}'
        with pytest.raises(SerializationFailed, match="does not fit"):
            write({"id": 1}, VALUE)
        return await now(read(data, VALUE))

    assert run(main) == Order(1, "x")


def test_json_schemas_refer_to_others() -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.register("order.json", Schema(OBJECT, JSON))
        cart = Schema(
            '{"type":"array","items":{"$ref":"order.json"}}',
            JSON,
            (Reference("order.json", "order.json", 1),),
        )
        write = JsonSchemaSerializer(registry, cart)
        await now(write([{"id": 1}], VALUE))
        with pytest.raises(SerializationFailed, match="does not fit"):
            write([{"id": "x"}], VALUE)

    run(main)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/x", "file:///etc/passwd"])
def test_a_json_schema_does_not_choose_what_is_fetched(address: str) -> None:
    text = f'{{"$ref":"{address}"}}'

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("j", Schema(text, JSON))
        with pytest.raises(ConfigError, match="none of its references"):
            await now(JsonSchemaDeserializer(registry)(frame(1) + b"{}", VALUE))
        with pytest.raises(ConfigError, match="none of its references"):
            JsonSchemaSerializer(registry, text)

    run(main)


@pytest.mark.parametrize("kind", [AvroSerializer, JsonSchemaSerializer])
def test_a_subject_of_another_kind_is_told(kind: Any) -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.register("orders-value", Schema("x", PROTOBUF))
        with pytest.raises(SerializationFailed, match="another kind"):
            await now(kind(registry)({}, VALUE))

    run(main)
