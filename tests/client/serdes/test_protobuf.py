"""Protobuf with a registry: which message it is, and that no other one is read."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2

from moldau.client.serdes import (
    DeserializationFailed,
    Place,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryError,
    Schema,
    SchemaOptions,
    SchemaRegistry,
    SerializationFailed,
)
from moldau.values.protobuf.messages import Messages, messages_of_file, messages_of_text
from moldau.values.schema import PROTOBUF
from moldau.values.wire import frame
from tests.client.serdes.registry_run import now, run
from tests.client.serdes.registry_world import RegistryWorld

VALUE = Place("orders", False)


def shop_messages() -> Any:
    """Classes of a file with messages inside messages, which imports another file."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    other = descriptor_pb2.FileDescriptorProto(name="shop/who.proto", package="shop")
    other.message_type.add(name="Who").field.add(name="name", number=1, type=9, label=1)
    file = descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto",
        package="shop",
        dependency=["shop/who.proto", "google/protobuf/timestamp.proto"],
    )
    file.message_type.add(name="First")
    order = file.message_type.add(name="Order")
    order.field.add(name="who", number=1, type=11, label=1, type_name=".shop.Who")
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.nested_type.add(name="Empty")
    order.nested_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for each in (other, file):
        pool.AddSerializedFile(each.SerializeToString())
    names = ("shop.First", "shop.Order", "shop.Order.Line")
    return [GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


def test_protobuf_messages_are_found_by_their_path() -> None:
    first, order, line = shop_messages()

    async def main(registry: SchemaRegistry) -> None:
        write, read = ProtobufSerializer(registry), ProtobufDeserializer(registry)
        whole = order(who={"name": "x"}, at={"seconds": 5})
        values = [first(), whole, line(sku="s")]
        data = [await now(write(each, VALUE)) for each in values]
        assert [each[5:] for each in data] == [
            b"\x00",
            b"\x02\x02" + whole.SerializeToString(),
            b"\x04\x02\x02\x0a\x01s",
        ]
        found = await now(read.many(data, VALUE))
        assert [each.DESCRIPTOR.full_name for each in found] == [
            "shop.First",
            "shop.Order",
            "shop.Order.Line",
        ]
        assert found[1].who.name == "x"
        assert found[1].at.seconds == 5
        assert found[2].sku == "s"
        typed = await now(ProtobufDeserializer(registry, type=order)(data[1], VALUE))
        assert typed == whole

    with RegistryWorld() as world:
        world.run_client(main)
        assert set(world.first.subjects) == {"shop/who.proto", "orders-value"}
        text = world.first.texts[-1]["schema"]
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
        assert file.name == "shop/order.proto"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (frame(1) + b"\x02\x0c", "no such message"),
        (frame(1) + b"\x00\xff", "no google.protobuf.Timestamp"),
        (frame(1), "cut short"),
        (frame(2) + b"\x00", "give the deserializer the generated class"),
    ],
)
def test_protobuf_that_cannot_be_read_says_why(data: bytes, told: str) -> None:
    text = base64.b64encode(timestamp_pb2.DESCRIPTOR.serialized_pb).decode()

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("p", Schema(text, PROTOBUF))
        await registry.register("q", Schema('syntax = "proto3"; message A {}', PROTOBUF))
        with pytest.raises(DeserializationFailed, match=told):
            await now(ProtobufDeserializer(registry)(data, VALUE))

    run(main)


def test_what_is_no_message_is_told() -> None:
    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(SerializationFailed, match="protobuf message"):
            await now(ProtobufSerializer(registry)(7, VALUE))

    run(main)


def test_a_type_reads_its_own_message_and_no_other() -> None:
    """Its bytes are those of an empty StringValue, too."""

    async def main(registry: SchemaRegistry) -> None:
        write = ProtobufSerializer(registry)
        data = await now(write(wrappers_pb2.Int64Value(value=7), VALUE))
        own = ProtobufDeserializer(registry, type=wrappers_pb2.Int64Value)
        other = ProtobufDeserializer(registry, type=wrappers_pb2.StringValue)
        assert await now(own(data, VALUE)) == wrappers_pb2.Int64Value(value=7)
        for _ in range(2):
            with pytest.raises(
                DeserializationFailed,
                match=r"google\.protobuf\.Int64Value, not a google\.protobuf\.StringValue",
            ):
                await now(other(data, VALUE))
        with pytest.raises(DeserializationFailed, match="no such message"):
            own(frame(1) + b"\x02\x62" + data[7:], VALUE)

    run(main)


def test_an_id_that_the_registry_does_not_have_is_told() -> None:
    async def main(registry: SchemaRegistry) -> None:
        read = ProtobufDeserializer(registry, type=wrappers_pb2.Int64Value)
        with pytest.raises(RegistryError, match="Schema 99 not found"):
            await now(read(frame(99) + b"\x00", VALUE))

    run(main)


def test_the_registry_is_asked_once_for_each_id() -> None:
    async def main(registry: SchemaRegistry) -> None:
        data = await now(ProtobufSerializer(registry)(wrappers_pb2.Int64Value(value=7), VALUE))
        read = ProtobufDeserializer(registry, type=wrappers_pb2.Int64Value)
        assert await now(read(data, VALUE)) == read(data, VALUE)
        assert read.many([data, None, data], VALUE) == [read(data, VALUE), None, read(data, VALUE)]

    with RegistryWorld() as world:
        world.run_client(main)
        assert world.first.counts()["GET /schemas/ids/1"] == 2, "its rules, and its descriptors"


def test_a_path_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(registry: SchemaRegistry) -> None:
        data = await now(ProtobufSerializer(registry)(wrappers_pb2.Int64Value(value=7), VALUE))
        read = ProtobufDeserializer(registry, type=wrappers_pb2.Int64Value)
        first = await now(read(data, VALUE))
        monkeypatch.delattr(Messages, "names_at")
        assert read(data, VALUE) == first

    run(main)


TEXT = """
// message Comment {}
syntax = "proto3"; package shop . v1;
import "x.proto"; /* message Another { */
option (note) = { message: "x" };
enum Kind { option allow_alias = true; A = 0; }
message First { string message = 1 [deprecated = true]; oneof one { int32 a = 2; } }
message Order {
  map<string, Line> some_lines = 1;
  message Line { message Deep {} string text = 1 [(note) = "} message No {"]; }
  optional group Old = 4 { optional int32 a = 1; message InGroup {} }
  extend Line { optional group Hidden = 9 {} }
  message Last {}
}
service S { rpc Get (Order) returns (First) { option x = 1; } }
message End {}
"""


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ((0,), ["First"]),
        ((1,), ["Order"]),
        ((2,), ["End"]),
        ((3,), []),
        ((1, 0), ["Order.Line"]),
        ((1, 1), ["Order.Line", "Order.Last"]),
        ((1, 1, 0), ["Order.Line.Deep"]),
        ((1, 2, 0), ["Order.Old.InGroup"]),
        ((1, 3), []),
        ((1, 4), ["Order.Last"]),
        ((1, 5), []),
        ((0, 0), []),
    ],
)
def test_paths_are_found_in_the_text_of_a_file(path: tuple[int, ...], names: list[str]) -> None:
    """With the entries of maps and without: serializers count differently."""
    assert messages_of_text(TEXT).names_at(path) == [f"shop.v1.{name}" for name in names]


def test_a_path_is_found_by_its_name() -> None:
    found = messages_of_text(TEXT)
    assert found.path_of("shop.v1.Order.Line.Deep") == (1, 1, 0)
    assert found.path_of("shop.v1.Order.Lost") is None
    assert found.path_of("other.Order") is None
    assert messages_of_text("message A {}").path_of("A") == (0,)
    assert messages_of_text("export message A {} local message B {}").path_of("B") == (1,)


@pytest.mark.parametrize("text", ["/* " * 9, "garbage {{{", "message", 'syntax = "proto3"; x'])
def test_what_is_no_proto_file_has_no_messages(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert messages_of_text(text).names_at((0,)) == []
    assert capfd.readouterr() == ("", "")


def test_a_descriptor_has_the_names_of_its_text() -> None:
    file = descriptor_pb2.FileDescriptorProto(package="shop")
    order = file.message_type.add(name="Order")
    order.nested_type.add(name="LinesEntry").options.map_entry = True
    order.nested_type.add(name="Line")
    text = "package shop; message Order { map<int32, Line> lines = 1; message Line {} }"
    for found in (messages_of_file(file), messages_of_text(text)):
        assert found.names_at((0, 0)) == found.names_at((0, 1)) == ["shop.Order.Line"]
        assert found.path_of("shop.Order.Line") == (0, 1)


def test_a_type_is_looked_up_in_the_text_where_there_is_no_more() -> None:
    text = 'syntax = "proto3"; package google.protobuf; message First {} message Int64Value {}'

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("p", Schema(text, PROTOBUF))
        read = ProtobufDeserializer(registry, type=wrappers_pb2.Int64Value)
        payload = wrappers_pb2.Int64Value(value=7).SerializeToString()
        found = await now(read(frame(1) + b"\x02\x02" + payload, VALUE))
        assert found.value == 7
        with pytest.raises(DeserializationFailed, match=r"a google\.protobuf\.First, not"):
            read(frame(1) + b"\x00" + payload, VALUE)

    run(main)


@pytest.mark.parametrize("options", [SchemaOptions(use_latest=True), SchemaOptions(use_id=1)])
def test_the_path_is_that_of_the_schema_that_is_written_with(options: SchemaOptions) -> None:
    text = 'syntax = "proto3"; package google.protobuf; message First {} message Int64Value {}'

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("orders-value", Schema(text, PROTOBUF))
        write = ProtobufSerializer(registry, options=options)
        assert (await now(write(wrappers_pb2.Int64Value(), VALUE)))[5:] == b"\x02\x02"
        with pytest.raises(SerializationFailed, match="does not have the message"):
            await now(write(wrappers_pb2.StringValue(), VALUE))

    run(main)


@pytest.mark.parametrize(
    "text",
    [
        "message Out { map<string, string> m = 1 [(x).map = {min_pairs: 1}]; %s }",
        "message Out { map<string, string> m = 1 [(x) = {a: 1}, (y) = {b {c: 1}}]; %s }",
        "message Out { message MEntry {} optional string group = 1 [(x) = {a: 1}]; %s }",
        "message Out { message MEntry {} option (x) = { message { a: 1 } }; %s }",
    ],
)
def test_options_in_braces_hide_and_add_no_messages(text: str) -> None:
    found = messages_of_text(text % "message B {} message C {}")
    assert found.path_of("Out.B") == (0, 1)
    assert found.path_of("Out.C") == (0, 2)
    assert found.names_at((0, 1))[0] == "Out.B"


def test_the_schema_to_write_with_is_looked_up_in_descriptors_where_there_are_some() -> None:
    """The text that the registry keeps of it says less."""
    file = descriptor_pb2.FileDescriptorProto(package="google.protobuf")
    for name in ("First", "Second", "Int64Value"):
        file.message_type.add(name=name)
    described = base64.b64encode(file.SerializeToString()).decode()

    async def main(registry: SchemaRegistry) -> None:
        text = 'syntax = "proto3"; package google.protobuf; message Int64Value {}'
        await registry.register("orders-value", Schema(text, PROTOBUF))
        in_descriptors = {"schema": described, "schemaType": PROTOBUF}
        world.first.by_format["serialized"] = in_descriptors
        write = ProtobufSerializer(registry, options=SchemaOptions(use_latest=True))
        assert (await now(write(wrappers_pb2.Int64Value(), VALUE)))[5:] == b"\x02\x04"

    with RegistryWorld() as world:
        world.run_client(main)


def test_a_class_is_no_message() -> None:
    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(
            SerializationFailed, match="a protobuf message or a mapping was expected"
        ):
            await now(ProtobufSerializer(registry)(timestamp_pb2.Timestamp, VALUE))

    run(main)
