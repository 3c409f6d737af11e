"""A real registry, which keeps its schemas in moldau's broker, and Confluent's own serdes."""

from __future__ import annotations

import asyncio
import decimal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import isawaitable
from itertools import count
from typing import Any

import pytest
from google.protobuf import api_pb2, descriptor_pb2, struct_pb2, timestamp_pb2

from moldau.client import Consumer, Producer
from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Place,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryError,
    Schema,
    SchemaRegistry,
)
from moldau.client.serdes.registry import Config, Reference
from moldau.testing import SyncEmbeddedBroker
from tests.client.serdes.apicurio import Apicurio
from tests.client.serdes.apicurio import schema_registry as schema_registry
from tests.peers.eventually import eventually

pytest.importorskip("confluent_kafka", reason="its serdes are the peers: make peers")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import (
    AvroDeserializer as TheirAvroDeserializer,
)
from confluent_kafka.schema_registry.avro import (
    AvroSerializer as TheirAvroSerializer,
)
from confluent_kafka.schema_registry.json_schema import (
    JSONDeserializer,
    JSONSerializer,
)
from confluent_kafka.schema_registry.protobuf import (
    ProtobufDeserializer as TheirProtobufDeserializer,
)
from confluent_kafka.schema_registry.protobuf import (
    ProtobufSerializer as TheirProtobufSerializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext

pytestmark = pytest.mark.real

ORDER = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "who", "type": ["null", "string"], "default": null},
  {"name": "lines", "type": {"type": "array", "items": "string"}},
  {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "tags", "type": {"type": "map", "values": "int"}},
  {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}}]}"""
VALUES = [
    {
        "id": number,
        "who": "x" * number if number % 2 else None,
        "lines": ["l"] * number,
        "sum": decimal.Decimal(number) / 4,
        "at": datetime(2026, 11, 20, 18, number, tzinfo=UTC),
        "tags": {"t": number} if number else {},
        "kind": "AB"[number % 2],
    }
    for number in range(5)
]
OBJECT = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order",
  "type": "object", "properties": {"id": {"type": "integer"}, "who": {"type": "string"}},
  "required": ["id"], "additionalProperties": false}"""

_numbers = count(1)


@pytest.fixture
def registry(schema_registry: Apicurio) -> Apicurio:
    return schema_registry


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(120):
            return await main()

    return asyncio.run(bounded())


def with_registry(
    registry: Apicurio, main: Callable[[SchemaRegistry], Coroutine[Any, Any, Any]]
) -> Any:
    async def whole() -> Any:
        async with SchemaRegistry(registry.url) as client:
            return await main(client)

    return run(whole)


async def now(outcome: Any) -> Any:
    return await outcome if isawaitable(outcome) else outcome


def both_sides(
    registry: Apicurio, topic: str, serdes: Callable[[SchemaRegistry], Any], values: list[Any]
) -> list[tuple[bytes, Any]]:
    """What ours writes, and what ours reads of it; the second of each value needs no registry."""

    async def main(client: SchemaRegistry) -> list[tuple[bytes, Any]]:
        place = Place(topic, False)
        write, read = serdes(client)
        found = []
        for value in values:
            data = await now(write(value, place))
            assert write(value, place) == data
            found.append((data, await now(read(data, place))))
        return found

    found: list[tuple[bytes, Any]] = with_registry(registry, main)
    return found


@contextmanager
def theirs(
    registry: Apicurio, topic: str
) -> Iterator[tuple[SchemaRegistryClient, SerializationContext]]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client, SerializationContext(topic, MessageField.VALUE)


TOPIC_NAMES = {"subject.name.strategy.type": "TOPIC"}


def test_avro_is_confluents_byte_for_byte_in_both_directions(
    registry: Apicurio, topic: str
) -> None:
    found = both_sides(
        registry,
        topic,
        lambda client: (AvroSerializer(client, ORDER), AvroDeserializer(client)),
        VALUES,
    )
    assert [value for _, value in found] == VALUES
    with theirs(registry, topic) as (client, context):
        write = TheirAvroSerializer(client, ORDER, conf=TOPIC_NAMES)
        read = TheirAvroDeserializer(client)
        assert [data for data, _ in found] == [write(value, context) for value in VALUES]
        assert [read(data, context) for data, _ in found] == VALUES


@pytest.mark.parametrize(
    "message",
    [
        timestamp_pb2.Timestamp(seconds=5, nanos=7),
        timestamp_pb2.Timestamp(),
        struct_pb2.Value(string_value="x"),
        struct_pb2.ListValue(values=[struct_pb2.Value(number_value=1.5)]),
        descriptor_pb2.DescriptorProto.ExtensionRange(start=1, end=2),
        api_pb2.Method(name="m"),
    ],
    ids=lambda message: message.DESCRIPTOR.full_name,
)
def test_protobuf_is_confluents_byte_for_byte_in_both_directions(
    registry: Apicurio, topic: str, message: Any
) -> None:
    ((data, value),) = both_sides(
        registry,
        topic,
        lambda client: (ProtobufSerializer(client), ProtobufDeserializer(client)),
        [message],
    )
    assert value.SerializeToString() == message.SerializeToString()
    assert value.DESCRIPTOR.full_name == message.DESCRIPTOR.full_name
    kind, form = type(message), {"use.deprecated.format": False}
    with theirs(registry, topic) as (client, context):
        write = TheirProtobufSerializer(kind, client, {**form, **TOPIC_NAMES})
        assert data == write(message, context)
        assert TheirProtobufDeserializer(kind, form)(data, context) == message


def test_json_with_a_schema_is_read_by_both(registry: Apicurio, topic: str) -> None:
    values = [{"id": 1, "who": "W\xfcrde"}, {"id": 2}]
    found = both_sides(
        registry,
        topic,
        lambda client: (JsonSchemaSerializer(client, OBJECT), JsonSchemaDeserializer(client)),
        values,
    )
    assert [value for _, value in found] == values
    with theirs(registry, topic) as (client, context):
        write = JSONSerializer(OBJECT, client, conf=TOPIC_NAMES)
        read = JSONDeserializer(OBJECT, schema_registry_client=client)
        assert [read(data, context) for data, _ in found] == values
        written = [write(value, context) for value in values]
    assert [data[:5] for data in written] == [data[:5] for data, _ in found]

    async def read_theirs(ours: SchemaRegistry) -> list[Any]:
        outcome = JsonSchemaDeserializer(ours).many(written, Place(topic, False))
        found: list[Any] = await now(outcome)
        return found

    assert with_registry(registry, read_theirs) == values


def test_records_travel_through_the_broker_by_names_as_in_a_properties_file(
    registry: Apicurio, moldau_broker: SyncEmbeddedBroker, topic: str
) -> None:
    async def main() -> list[tuple[Any, Any]]:
        shared = {
            "bootstrap.servers": moldau_broker.bootstrap_servers,
            "schema.registry.url": registry.url,
        }
        writes = {
            "key.serializer": "org.apache.kafka.common.serialization.LongSerializer",
            "value.serializer": "io.confluent.kafka.serializers.KafkaAvroSerializer",
            "auto.register.schemas": "false",
            "use.latest.version": "true",
        }
        reads = {
            "key.deserializer": "org.apache.kafka.common.serialization.LongDeserializer",
            "value.deserializer": "io.confluent.kafka.serializers.KafkaAvroDeserializer",
            "auto.offset.reset": "earliest",
            "group.id": topic,
        }
        async with SchemaRegistry(registry.url) as client:
            await client.register(f"{topic}-value", Schema(ORDER))
        async with Producer({**shared, **writes}) as producer:
            for value in VALUES:
                await producer.send(topic, value, key=value["id"])
            await producer.send(topic, None, key=99)
        found: list[tuple[Any, Any]] = []
        async with Consumer({**shared, **reads}) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                found.append((record.key, record.value))
                if len(found) == len(VALUES) + 1:
                    break
        return found

    assert run(main) == [*((value["id"], value) for value in VALUES), (99, None)]


def test_the_registry_keeps_what_is_in_the_broker_when_it_is_restarted(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Any, registry: Apicurio, topic: str
) -> None:
    async def main(client: SchemaRegistry) -> int:
        return await client.register(topic, Schema(ORDER))

    schema_id = with_registry(registry, main)
    registry.stop()
    registry.start()

    async def again(client: SchemaRegistry) -> Schema:
        return await client.schema(schema_id)

    def is_there() -> bool:
        try:
            return bool(with_registry(registry, again) == Schema(ORDER))
        except RegistryError as error:
            if error.status != 404:  # which it answers before it has read its topic
                raise
            return False

    eventually(is_there)


def test_everything_that_this_registry_serves_of_the_api(registry: Apicurio, topic: str) -> None:
    async def main(client: SchemaRegistry) -> None:
        order, wider = Schema(ORDER), Schema(ORDER.replace('"long"}', '"double"}', 1))
        cart = Schema(
            '{"type":"record","name":"Cart","fields":[{"name":"of","type":"shop.Order"}]}',
            references=(Reference("shop.Order", topic, 1),),
        )
        assert set(await client.schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
        first = await client.register(topic, order)
        second = await client.register(topic, wider)
        of_cart = await client.register(f"{topic}-cart", cart)
        assert await client.versions(topic) == [1, 2]
        assert (await client.lookup(topic, order)).version == 1
        assert (await client.latest(topic)).id == second
        assert (await client.version(topic, 1)).id == first
        assert (await client.schema(of_cart)).references == cart.references
        assert (topic, 1) in await client.schema_versions(first)
        assert await client.referenced_by(topic, 1) == [of_cart]
        assert {topic, f"{topic}-cart"} <= set(await client.subjects())
        assert await client.set_config(Config("FULL"), topic) == Config("FULL")
        assert (await client.config(topic)).compatibility == "FULL"
        other = Schema('{"type":"record","name":"Other","fields":[{"name":"x","type":"int"}]}')
        answer = await client.is_compatible(topic, other)
        assert not answer.is_compatible
        with pytest.raises(RegistryError) as refused:
            await client.register(topic, other)
        assert refused.value.status == 409
        assert refused.value.context["subject"] == topic
        await client.delete_config(topic)
        assert await client.contexts()
        assert await client.delete_subject(f"{topic}-cart") == [1]
        assert await client.delete_subject(f"{topic}-cart", permanent=True) == [1]
        assert await client.delete_version(topic, 2) == 2
        assert await client.versions(topic) == [1]
        assert await client.delete_subject(topic) == [1]
        with pytest.raises(RegistryError) as missing:
            await client.latest(topic)
        assert (missing.value.status, missing.value.code) == (404, 40401)

    with_registry(registry, main)
