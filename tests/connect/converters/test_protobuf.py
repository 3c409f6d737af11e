"""Protobuf with a registry: round trips, Confluent's layout of files, refusals."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from moldau.client.sync import SchemaRegistry
from moldau.connect.converters.protobuf import ProtobufConverter
from moldau.connect.converters.protobuf_schemas import (
    ENUM,
    TAG,
    UNION,
    Params,
    ProtobufTraits,
    to_file,
)
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Schema,
    Struct,
)
from moldau.connect.errors import DataError
from moldau.values.schema import PROTOBUF, Reference
from moldau.values.schema import Schema as RegistrySchema
from tests.client.serdes.served_registry import ServedRegistry
from tests.connect.converters import orders
from tests.connect.converters.orders import FIELDS, INNER
from tests.connect.converters.orders import registry as registry

KIND = STRING.replace(parameters={ENUM: "Kind", f"{ENUM}.NEW": "0", f"{ENUM}.OLD": "1"})
CHOICE = Schema.struct(
    {"text": STRING.optionally(), "number": INT64.optionally()}, name=f"{UNION}choice"
).optionally()
ORDER = Schema.struct(
    {
        **FIELDS,
        "day": DATE.optionally(),
        "seen": TIMESTAMP.optionally(),
        "inners": Schema.map(INT32, INNER),
        "by_ratio": Schema.map(FLOAT64, STRING),
        "kind": KIND,
        "choice_0": CHOICE,
    },
    name="shop.Order",
)
VALUES: dict[str, Any] = {
    **orders.VALUES,
    "seen": datetime(1969, 12, 31, 23, 59, 59, 789000, UTC),
    "more": [Struct(INNER, {"a": 1, "b": 0}), Struct(INNER, {"a": 2, "b": 3})],
    "tags": ["a", ""],
    "by_name": {"k": 1, "": 0},
    "inners": {7: Struct(INNER, {"a": 7, "b": 8})},
    "by_ratio": {0.5: "half"},
    "kind": "OLD",
    "choice_0": Struct(CHOICE, {"number": 0}),
}
SCALARS = Schema.struct(
    {"a": INT32.optionally(), "b": STRING.optionally(), "c": BYTES.optionally(), "d": BOOLEAN},
    name="Scalars",
)


def made(url: str, **props: str) -> ProtobufConverter:
    return orders.made(ProtobufConverter, url, **props)


def there_and_back(url: str, schema: Schema, value: Struct, **props: str) -> tuple[Schema, Struct]:
    writing, reading = made(url, **props), made(url, **props)
    data = writing.from_connect_data("orders", None, schema, value)
    found = reading.to_connect_data("orders", None, data)
    writing.close()
    reading.close()
    assert found.schema is not None
    found.value.validate()
    return found.schema, found.value


def test_everything_comes_back(registry: ServedRegistry) -> None:
    value = Struct(ORDER, VALUES)

    schema, found = there_and_back(registry.url, ORDER, value)

    assert found.to_dict() == value.to_dict()
    assert schema.name == "Order"
    types = {field.name: field.schema.type for field in schema.fields}
    assert types == {field.name: field.schema.type for field in ORDER.fields}
    logical = {field.name: field.schema.logical for field in schema.fields}
    assert logical == {field.name: field.schema.logical for field in ORDER.fields}
    assert schema.fields[schema.positions["price"]].schema.scale == 2
    assert (schema.fields[schema.positions["id"]].schema.parameters or {})[TAG] == "1"


@pytest.mark.parametrize("how", ["wrapper_for_nullables", "optional_for_nullables"])
def test_null_is_told_from_zero_where_that_is_wanted(how: str, registry: ServedRegistry) -> None:
    for row in ([None, None, None, False], [0, "", b"", False], [1, "x", b"y", True]):
        value = Struct.of_row(SCALARS, list(row))

        schema, found = there_and_back(registry.url, SCALARS, value, **{how: "true"})

        assert found.row == row
        assert [each.schema.optional for each in schema.fields] == [True, True, True, False]


def test_null_is_zero_without_a_wish(registry: ServedRegistry) -> None:
    value = Struct.of_row(SCALARS, [None, None, None, True])

    assert there_and_back(registry.url, SCALARS, value)[1].row == [0, "", b"", True]


def test_a_schema_that_was_read_writes_the_same_file(registry: ServedRegistry) -> None:
    value = Struct(ORDER, VALUES)
    traits = ProtobufTraits(has_full_names=True)
    schema, found = there_and_back(
        registry.url, ORDER, value, enhanced_protobuf_schema_support="true"
    )

    assert schema.name == "shop.Order"
    numbers = {field.name: field.number for field in to_file(schema, traits).message_type[0].field}
    first = to_file(ORDER, traits).message_type[0]
    assert numbers == {field.name: field.number for field in first.field}
    again = there_and_back(registry.url, schema, found, enhanced_protobuf_schema_support="true")
    assert again[1].to_dict() == value.to_dict()


def test_the_file_is_confluents() -> None:
    file = to_file(ORDER, ProtobufTraits())

    assert (file.package, file.syntax, file.message_type[0].name) == ("shop", "proto3", "Order")
    assert list(file.dependency) == [
        "confluent/type/decimal.proto",
        "confluent/meta.proto",
        "google/type/date.proto",
        "google/type/timeofday.proto",
        "google/protobuf/timestamp.proto",
    ]
    fields = {field.name: field for field in file.message_type[0].field}
    assert fields["price"].type_name == ".confluent.type.Decimal"
    assert Params().read(fields["price"].options) == {"scale": "2"}
    assert fields["inner"].type_name == ".shop.Order.Inner"
    assert fields["number"].oneof_index == fields["text"].oneof_index == 0
    inner = file.message_type[0].nested_type[0]
    assert Params().read(inner.field[0].options) == {"connect.type": "int8"}


def other_file(name: str, package: str) -> descriptor_pb2.FileDescriptorProto:
    """A file with a message that refers to another file's."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    first = file.message_type.add(name="First")
    first.field.add(name="skipped", number=1, type=9, label=1)
    second = file.message_type.add(name="Second")
    inner = second.nested_type.add(name="Inside")
    inner.field.add(name="big", number=4, type=4, label=1)
    inner.field.add(name="many", number=2, type=17, label=3)
    inner.field.add(name="when", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    inner.field.add(name="part", number=5, type=11, label=1, type_name=".base.Part")
    file.dependency.extend(["google/protobuf/timestamp.proto", "base.proto"])
    return file


def test_messages_of_other_writers_are_read(registry: ServedRegistry) -> None:
    base = descriptor_pb2.FileDescriptorProto(name="base.proto", package="base", syntax="proto3")
    base.message_type.add(name="Part").field.add(name="x", number=1, type=5, label=1)
    file = other_file("other.proto", "other")
    with SchemaRegistry(registry.url) as asking:
        asking.register("base", RegistrySchema(encoded(base), PROTOBUF))
        references = (Reference("base.proto", "base", 1),)
        number = asking.register("t-value", RegistrySchema(encoded(file), PROTOBUF, references))
    pool = DescriptorPool()
    for each in (timestamp_pb2.DESCRIPTOR.serialized_pb, base.SerializeToString()):
        pool.AddSerializedFile(each)
    pool.AddSerializedFile(file.SerializeToString())
    message: Any = GetMessageClass(pool.FindMessageTypeByName("other.Second.Inside"))()
    message.big, message.part.x = 2**64 - 1, 3
    message.many.extend([-1, 1])
    message.when.FromMilliseconds(1500)
    data = b"\x00" + number.to_bytes(4, "big") + b"\x04\x02\x00" + message.SerializeToString()
    converter = made(registry.url)

    found = converter.to_connect_data("t", None, data)

    assert found.schema is not None
    assert found.schema.name == "Inside"
    assert found.value.to_dict() == {
        "big": -1,
        "many": [-1, 1],
        "when": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
        "part": {"x": 3},
    }
    missing = b"\x00" + number.to_bytes(4, "big") + b"\x02\x0a"
    with pytest.raises(DataError, match=r"no message at \[5\]"):
        converter.to_connect_data("t", None, missing)
    converter.close()


def encoded(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_the_latest_version_is_written_with(registry: ServedRegistry) -> None:
    wider = Schema.struct({"id": INT64, "more": STRING.optionally()}, name="A")
    narrow = Schema.struct({"id": INT64}, name="A")
    first, latest = made(registry.url), made(registry.url, use_latest_version="true")
    first.from_connect_data("t", None, wider, Struct(wider, {"id": 1}))

    data = latest.from_connect_data("t", None, narrow, Struct(narrow, {"id": 2}))

    assert first.to_connect_data("t", None, data).value.to_dict() == {"id": 2, "more": ""}
    for each in (first, latest):
        each.close()


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (INT32, "protobuf writes structs, not"),
        (Schema.array(INT32), "protobuf writes structs, not"),
        (Schema.struct({"a": Schema.array(Schema.array(INT32))}), "no arrays of arrays"),
        (Schema.struct({"a": Schema.map(STRING, Schema.array(INT32))}), "no maps of arrays"),
        (Schema.struct({"a b": INT32}), "scrub.invalid.names=true"),
        (
            Schema.struct({"a": INNER, "b": Schema.struct({"z": INT32}, name="shop.Inner")}),
            "two structs of one name",
        ),
    ],
)
def test_a_schema_without_a_message(schema: Schema, error: str, registry: ServedRegistry) -> None:
    converter = made(registry.url)

    with pytest.raises(DataError, match=error):
        converter.from_connect_data("t", None, schema, 1)
    converter.close()


def test_names_are_scrubbed_where_that_is_wanted(registry: ServedRegistry) -> None:
    schema = Schema.struct({"a b": INT32, "7": INT32}, name="my-shop")

    _, found = there_and_back(
        registry.url, schema, Struct(schema, {"a b": 1, "7": 2}), scrub_invalid_names="true"
    )

    assert found.to_dict() == {"a_b": 1, "x7": 2}


def test_what_cannot_be_converted(registry: ServedRegistry) -> None:
    converter = made(registry.url)
    value = Struct(ORDER, {**VALUES, "id": None})

    with pytest.raises(DataError, match="needs a schema, and this value has none"):
        converter.from_connect_data("t", None, None, {"a": 1})
    with pytest.raises(DataError, match=r"'?id'?"):
        converter.from_connect_data("t", None, ORDER, value)
    assert converter.from_connect_data("t", None, ORDER.optionally(), None) is None
    data = converter.from_connect_data("t", None, ORDER, Struct(ORDER, VALUES))
    assert data is not None
    with pytest.raises(DataError, match="this is no protobuf"):
        converter.to_connect_data("t", None, data[:9])
    converter.close()


def test_a_message_that_holds_itself_is_refused(registry: ServedRegistry) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="n.proto", syntax="proto3")
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type=11, label=1, type_name=".Node")
    with SchemaRegistry(registry.url) as asking:
        number = asking.register("n-value", RegistrySchema(encoded(file), PROTOBUF))
    converter = made(registry.url)

    with pytest.raises(DataError, match="holds itself"):
        converter.to_connect_data("n", None, b"\x00" + number.to_bytes(4, "big") + b"\x00")
    converter.close()
