"""Values of a Schema Registry as columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.client.serdes.contract import Place  # noqa: E402
from moldau.client.serdes.registry.schemas import RegistryError  # noqa: E402
from moldau.client.sync import SchemaRegistry  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.options import parse_read  # noqa: E402
from moldau.spark.value_types import value_type  # noqa: E402
from moldau.spark.values import value_column  # noqa: E402
from moldau.values.schema import Schema  # noqa: E402
from tests.client.serdes.served_registry import ServedRegistry, served_registry  # noqa: E402

PLACE = Place("orders", False)
V1 = {"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"]}]}
JSON_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"oneOf": [{"type": "null"},
                   {"type": "string"}]}, "tags": {"type": "array", "items": {"type": "string"}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


def options(served: ServedRegistry, kind: str, topic: str) -> Any:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": topic, "value.format": kind,
             "value.registry": served.url}  # fmt: skip
    return parse_read(given, is_stream=False)


def rows(served: ServedRegistry, kind: str, topic: str, type: Any, *values: bytes | None) -> Any:
    """What an executor makes of the values."""
    read = value_column(options(served, kind, topic), type)
    return read(pa.array(values, pa.binary())).to_pylist()


def test_avro_of_two_versions_fits_the_latest(served: ServedRegistry) -> None:
    fastavro = pytest.importorskip("fastavro")
    import io

    def written(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()

    with SchemaRegistry(served.url) as registry:
        first = registry.register("avro-value", Schema(json.dumps(V1)))
        second = registry.register("avro-value", Schema(json.dumps(V2)))

    assert value_type(options(served, "avro", "avro")) == "STRUCT<`id`: BIGINT, `note`: STRING>"
    kind = pa.struct([("id", pa.int64()), ("note", pa.string())])
    values = [written(first, V1, {"id": 1}), None, b"bare",
              written(second, V2, {"id": 2, "note": "x"})]  # fmt: skip
    assert rows(served, "avro", "avro", kind, *values) == [
        {"id": 1, "note": None},
        None,
        None,
        {"id": 2, "note": "x"},
    ]


def test_json_schema_gives_columns(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url) as registry:
        number = registry.register("js-value", Schema(json.dumps(JSON_SCHEMA), "JSON"))

    found = value_type(options(served, "json", "js"))
    assert found == "STRUCT<`id`: BIGINT, `note`: STRING, `tags`: ARRAY<STRING>>"
    kind = pa.struct([("id", pa.int64()), ("note", pa.string()), ("tags", pa.list_(pa.string()))])
    value = b"\0" + number.to_bytes(4, "big") + b'{"id": 3, "tags": ["a"]}'
    assert rows(served, "json", "js", kind, value) == [{"id": 3, "note": None, "tags": ["a"]}]


def order_file() -> Any:
    """A Protobuf file with a message of a number, texts and a time."""
    files = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = files.FileDescriptorProto(
        name="order.proto", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    kind = files.FieldDescriptorProto
    message.field.add(name="id", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL)
    message.field.add(name="tags", number=2, type=kind.TYPE_STRING, label=kind.LABEL_REPEATED)
    message.field.add(name="at", number=3, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL,
                      type_name=".google.protobuf.Timestamp")  # fmt: skip
    return file


def order(**fields: Any) -> bytes:
    """A message of that file."""
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(order_file().SerializeToString())
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))(**fields)
    data: bytes = made.SerializeToString()
    return data


def frame(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


ORDER = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string())),
                   ("at", pa.timestamp("us", "UTC"))])  # fmt: skip


def test_protobuf_messages_are_rows(served: ServedRegistry) -> None:
    text = base64.b64encode(order_file().SerializeToString()).decode()
    with SchemaRegistry(served.url) as registry:
        number = registry.register("pb-value", Schema(text, "PROTOBUF"))

    found = value_type(options(served, "protobuf", "pb"))
    assert found == "STRUCT<`id`: BIGINT, `tags`: ARRAY<STRING>, `at`: TIMESTAMP>"
    value = order(id=7, tags=["a", "b"], at={"seconds": 1, "nanos": 500_000_000})
    assert rows(served, "protobuf", "pb", ORDER, frame(number) + b"\0" + value) == [
        {"id": 7, "tags": ["a", "b"], "at": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)}
    ]


@pytest.mark.parametrize("seconds", [2**40, 2**60, -(2**60)])
def test_a_time_that_no_column_holds_is_unreadable(served: ServedRegistry, seconds: int) -> None:
    text = base64.b64encode(order_file().SerializeToString()).decode()
    with SchemaRegistry(served.url) as registry:
        start = frame(registry.register("pb-value", Schema(text, "PROTOBUF"))) + b"\0"

    values = [start + order(id=1, at={"seconds": seconds}), start + order(id=2)]
    assert rows(served, "protobuf", "pb", ORDER, *values) == [
        None, {"id": 2, "tags": [], "at": None}
    ]  # fmt: skip


ID = pa.struct([("id", pa.int64())])


def test_bytes_after_a_value_make_it_unreadable(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url) as registry:
        avro = frame(registry.register("tail-value", Schema(json.dumps(V1))))
        text = frame(registry.register("tail-js-value", Schema(json.dumps(JSON_SCHEMA), "JSON")))

    found = rows(served, "avro", "tail", ID, avro + b"\2", avro + b"\2x", avro + b"\2\2")
    assert found == [{"id": 1}, None, None]
    values = [text + b'{"id": 1}', text + b'{"id": 1} x', text + b'{"id": 1}{"id": 2}']
    assert rows(served, "json", "tail-js", ID, *values) == [{"id": 1}, None, None]


def test_a_value_that_is_no_record_is_unreadable(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url) as registry:
        text = frame(registry.register("text-value", Schema('"string"')))
        plain = frame(registry.register("plain-value", Schema('"bytes"')))
        listed = frame(registry.register("list-value", Schema('{"type": "array"}', "JSON")))

    assert rows(served, "avro", "text", ID, text + b"\2x", plain + b"x") == [None, None]
    assert rows(served, "json", "list", ID, listed + b"[1]", listed + b"[" * 100_000) == [None] * 2


def test_a_schema_that_the_registry_does_not_have_is_asked_for_once(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url) as registry:
        known = frame(registry.register("avro-value", Schema(json.dumps(V1))))

    found = rows(served, "avro", "avro", ID, known + b"\2", frame(98_001) + b"\2", *[
        frame(98_001) + b"\4"] * 20)  # fmt: skip

    assert found == [{"id": 1}, *[None] * 21]
    assert served.script.counts()["GET /schemas/ids/98001"] == 1
    strict = parse_read(
        {"kafka.bootstrap.servers": "b:1", "subscribe": "avro", "value.format": "avro",
         "value.registry": served.url, "value.mode": "failfast"}, is_stream=False,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="the registry does not have its schema"):
        value_column(strict, ID)(pa.array([frame(98_001) + b"\2"], pa.binary()))


def test_a_registry_that_fails_ends_the_query(served: ServedRegistry) -> None:
    served.script.instead["/schemas/ids/98002"] = (401, b"{}", "")

    with pytest.raises(RegistryError, match="401"):
        rows(served, "avro", "avro", ID, frame(98_002) + b"\2")


def test_what_the_registry_does_not_have_is_one_line(served: ServedRegistry) -> None:
    with pytest.raises(ConfigError, match="the registry has no schema for the values") as raised:
        value_type(options(served, "avro", "nowhere"))
    assert "nowhere-value" in str(raised.value)
    assert "\n" not in str(raised.value)

    with SchemaRegistry(served.url) as registry:
        registry.register("other-value", Schema(json.dumps(V1)))
    with pytest.raises(ConfigError, match="has another format"):
        value_type(options(served, "json", "other"))
