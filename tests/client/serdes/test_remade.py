"""Serdes and registries that are pickled: they arrive as how they were made."""

from __future__ import annotations

import asyncio
import pickle
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable
from types import ModuleType
from typing import Any

import msgspec
import pydantic
import pytest
from google.protobuf import timestamp_pb2

from moldau.client.base.given import resolve
from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    BooleanDeserializer,
    BooleanSerializer,
    BytesDeserializer,
    BytesSerializer,
    JsonDeserializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    JsonSerializer,
    NumberDeserializer,
    NumberSerializer,
    Place,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaOptions,
    SchemaRegistry,
    StringDeserializer,
    StringSerializer,
    UuidDeserializer,
    UuidSerializer,
    record_subject,
)
from moldau.client.settings import serdes as rows
from moldau.client.settings.rows import PRODUCER_SETTINGS
from moldau.runtime.real import RealRuntime
from tests.client.serdes.served_registry import served_registry

PLACE = Place("t", False)
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
MODULES = ["pickle", "cloudpickle"]


@dataclass
class Order:
    id: int


class Model(pydantic.BaseModel):
    id: int


class Struct(msgspec.Struct):
    id: int


def to_dict(value: Any) -> Any:
    return {"id": value}


@pytest.fixture(params=MODULES)
def pickler(request: pytest.FixtureRequest) -> ModuleType:
    """Spark's is cloudpickle."""
    found: ModuleType = pytest.importorskip(request.param)
    return found


def copied(pickler: ModuleType, value: Any) -> Any:
    """As it arrives elsewhere."""
    return pickle.loads(pickler.dumps(value))  # noqa: S301 - our own


async def now(outcome: Any) -> Any:
    return await outcome if isawaitable(outcome) else outcome


async def through(write: Any, read: Any, value: Any) -> Any:
    return await now(read(await now(write(value, PLACE)), PLACE))


@pytest.mark.parametrize(
    ("write", "read", "value"),
    [
        (BytesSerializer(), BytesDeserializer(), b"raw"),
        (StringSerializer("latin-1"), StringDeserializer("latin-1"), "\xfc"),
        (NumberSerializer("int"), NumberDeserializer("int"), 7),
        (BooleanSerializer(), BooleanDeserializer(), True),
        (UuidSerializer(), UuidDeserializer(), None),
        (JsonSerializer(), JsonDeserializer(), {"id": 1}),
        (JsonSerializer(), JsonDeserializer(Order), Order(1)),
        (JsonSerializer(), JsonDeserializer(Model), Model(id=1)),
        (JsonSerializer(), JsonDeserializer[Struct](Struct), Struct(1)),
        (JsonSerializer(), JsonDeserializer(list[Order]), [Order(1)]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_serde_arrives_as_it_was_made(
    pickler: ModuleType, write: Any, read: Any, value: Any
) -> None:
    wrote, reads = copied(pickler, write), copied(pickler, read)
    assert (type(wrote), type(reads)) == (type(write), type(read))
    if value is not None:
        assert reads(wrote(value, PLACE), PLACE) == value


def test_what_reads_uuids_is_made_anew_where_it_arrives(pickler: ModuleType) -> None:
    text = b"00000000-0000-0000-0000-00000000000a"
    assert b"pydantic" not in pickler.dumps(UuidDeserializer())
    assert str(copied(pickler, UuidDeserializer())(text, PLACE)).encode() == text


WITH_REGISTRY: list[tuple[Callable[[SchemaRegistry], tuple[Any, Any]], Any]] = [
    (lambda own: (AvroSerializer(own), AvroDeserializer(own)), "text"),
    (lambda own: (AvroSerializer(own, ORDER), AvroDeserializer(own, type=Order)), Order(1)),
    (lambda own: (AvroSerializer(own, Schema(ORDER)), AvroDeserializer(own)), {"id": 1}),
    (
        lambda own: (
            AvroSerializer(own, ORDER, to_dict=to_dict, options=SchemaOptions(record_subject)),
            AvroDeserializer(own, schema=ORDER, type=Model),
        ),
        Model(id=1),
    ),
    (
        lambda own: (
            JsonSchemaSerializer(own, type=Order),
            JsonSchemaDeserializer(own, type=Order),
        ),
        Order(1),
    ),
    (
        lambda own: (
            ProtobufSerializer(own),
            ProtobufDeserializer(own, type=timestamp_pb2.Timestamp),
        ),
        timestamp_pb2.Timestamp(seconds=7),
    ),
]


@pytest.mark.parametrize(("make", "value"), WITH_REGISTRY)
def test_a_serde_arrives_with_its_registry_and_without_what_it_learned(
    pickler: ModuleType, make: Callable[[SchemaRegistry], tuple[Any, Any]], value: Any
) -> None:
    given = 1 if isinstance(value, Model) else value
    with served_registry() as served:

        async def main() -> None:
            async with SchemaRegistry(served.url, max_retries=0) as registry:
                write, read = make(registry)
                unused = pickler.dumps((write, read))
                assert await through(write, read, given) == value
                assert pickler.dumps((write, read)) == unused
                wrote, reads = copied(pickler, (write, read))
                assert wrote.registry is reads.registry is not registry
                assert wrote.options == write.options
                async with wrote.registry:
                    assert await through(wrote, reads, given) == value

        asyncio.run(main())
        assert served.script.connections == 2


def test_a_registry_arrives_with_its_settings_and_is_open(pickler: ModuleType) -> None:
    named = {"schema.registry.url": "http://a:1,http://b:2"}
    secret: dict[str, Any] = {
        "basic_auth_credentials_source": "USER_INFO",
        "basic_auth_user_info": "me:secret",
        "max_retries": 7,
    }
    resolved = resolve(PRODUCER_SETTINGS, {"bootstrap.servers": "h:1", **named}, secret)
    for registry in (SchemaRegistry(named, **secret), SchemaRegistry(resolved)):
        asyncio.run(registry.aclose())
        again = copied(pickler, registry)
        assert type(again) is SchemaRegistry
        assert all(again.settings[row] == registry.settings[row] for row in rows.REGISTRY_ROWS)
        assert again.settings[rows.retries_max] == 7
        assert not again._registry.is_closed


def test_what_cannot_travel_is_named_with_what_to_do(pickler: ModuleType) -> None:
    tls = ssl.create_default_context()
    registry = SchemaRegistry("https://a:1", tls=tls)
    with pytest.raises(TypeError, match=r"`tls` .*schema\.registry\.ssl\.truststore\.location"):
        pickler.dumps(AvroSerializer(registry))

    async def main() -> None:
        async with RealRuntime() as runtime:
            given = SchemaRegistry("http://a:1", runtime=runtime)
            with pytest.raises(TypeError, match=r"`runtime` .*leave it out"):
                pickler.dumps(AvroDeserializer(given))

    asyncio.run(main())


def test_a_lambda_travels_with_cloudpickle_and_is_told_of_by_pickle() -> None:
    registry = SchemaRegistry("http://a:1")
    write = AvroSerializer(registry, ORDER, to_dict=lambda value: {"id": value})
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(write)
    cloudpickle = pytest.importorskip("cloudpickle")
    assert isinstance(copied(cloudpickle, write), AvroSerializer)
