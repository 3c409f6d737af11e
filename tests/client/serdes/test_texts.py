"""What `moldau consume` writes of a record with a schema, `moldau produce` reads as that record:
whole values of every type, unions of any two branches; Avro, Protobuf and JSON Schema."""

from __future__ import annotations

import base64
import json
from collections.abc import Coroutine
from inspect import isawaitable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import assume, given
from hypothesis import strategies as st

from moldau.client.serdes.avro import AvroSerializer
from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import SchemaDeserializer, SchemaSerializer
from moldau.client.serdes.protobuf import ProtobufSerializer
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.client.serdes.registry.schemas import RegisteredSchema
from moldau.client.serdes.texts import DecodedText, TextDeserializer, TextSerializer
from moldau.values.avro.schemas import parse_loaded
from moldau.values.avro.texts import JsonValues
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.schema import Schema
from moldau.values.wire import frame

PLACE = Place("orders", False)


class OneSchema(SchemaRegistry):
    """A registry with one schema, which asks nobody."""

    def __init__(self, schema: Schema) -> None:
        super().__init__("http://localhost:1")
        self._only = schema

    async def schema(self, schema_id: int, *, format: str | None = None) -> Schema:
        return self._only

    async def latest(self, subject: str) -> RegisteredSchema:
        return RegisteredSchema(subject, 1, 1, self._only)


def ran(found: Any) -> Any:
    """The result of a serde, which never waits here."""
    if not isawaitable(found):
        return found
    assert isinstance(found, Coroutine)
    try:
        found.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def again(
    reads: SchemaDeserializer, writes: SchemaSerializer, data: bytes
) -> tuple[DecodedText, bytes | None]:
    """What is shown of a record, and the record that is made of the shown line."""
    decoded = ran(reads(data, PLACE))
    assert "\n" not in decoded.text
    json.loads(decoded.text)
    return decoded, ran(writes(decoded.text.encode(), PLACE))


def avro(schema: Any, value: Any) -> tuple[DecodedText, bytes, bytes | None]:
    """What is shown, the bytes before, and those of the line."""
    registry = OneSchema(Schema(json.dumps(schema)))
    write = ran(AvroSerializer(registry).writer(1, ran(registry.schema(1)), value))
    data = write(value)
    decoded, back = again(
        TextDeserializer("AVRO", registry), TextSerializer("AVRO", registry), data
    )
    return decoded, data, back


DAY_MS = 86_400_000
# From the year 1 to 9999, in the units of the types.
DAYS = st.integers(-719_162, 2_932_896)
PLAIN: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "null": ("null", st.none()),
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "string": ("string", st.text()),
    "bytes": ("bytes", st.binary(max_size=8)),
    "date": ({"type": "int", "logicalType": "date"}, DAYS),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, st.integers(0, DAY_MS - 1)),
    "time-micros": (
        {"type": "long", "logicalType": "time-micros"},
        st.integers(0, DAY_MS * 1000 - 1),
    ),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
    **{
        f"{place}timestamp-{unit}": (
            {"type": "long", "logicalType": f"{place}timestamp-{unit}"},
            st.integers(-719_162 * DAY_MS * scale, 2_932_896 * DAY_MS * scale),
        )
        for place in ("", "local-")
        for unit, scale in (("millis", 1), ("micros", 1000))
    },
}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}
names = iter(range(10**9))


def named(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": f"N{next(names)}", **more}


def two(pair: tuple[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    schema, values = pair
    return values.map(lambda value: (schema, value))


SIMPLE = st.one_of(
    *map(two, PLAIN.values()),
    st.sampled_from("ABC").map(lambda it: (named("enum", symbols=list("ABC")), it)),
    st.binary(min_size=4, max_size=4).map(lambda it: (named("fixed", size=4), it)),
    st.integers(-(10**12) + 1, 10**12 - 1).map(
        lambda it: (DECIMAL, it.to_bytes((it.bit_length() + 8) // 8, "big", signed=True))
    ),
)


def nested(
    inner: st.SearchStrategy[tuple[Any, Any]],
) -> st.SearchStrategy[tuple[Any, Any]]:
    """Each value with a schema of its own: an array of one item, a map, a record, an optional."""
    return st.one_of(
        inner.map(lambda it: ({"type": "array", "items": it[0]}, [it[1]])),
        inner.map(lambda it: ({"type": "map", "values": it[0]}, {"key": it[1]})),
        st.lists(inner, max_size=3).map(
            lambda its: (
                named(
                    "record",
                    fields=[{"name": f"f{n}", "type": it[0]} for n, it in enumerate(its)],
                ),
                {f"f{n}": it[1] for n, it in enumerate(its)},
            )
        ),
        inner.filter(lambda it: it[0] != "null" and not isinstance(it[0], list)).map(
            lambda it: (["null", it[0]], it[1])
        ),
    )


CASES = st.recursive(SIMPLE, nested, max_leaves=6)


def name_of(schema: Any) -> str:
    """The name of a branch."""
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))


@st.composite
def unions(draw: st.DrawFn) -> tuple[Any, Any]:
    """A union of any two branches, perhaps with null, and a value of one of them."""
    two = [draw(WITHOUT_UNION), draw(WITHOUT_UNION)]
    names = [name_of(schema) for schema, _ in two]
    assume(names[0] != names[1])
    schemas = [schema for schema, _ in two]
    if "null" not in names and draw(st.booleans()):
        schemas.insert(draw(st.integers(0, 2)), "null")
    at = draw(st.integers(0, 1))
    return schemas, None if names[at] == "null" else (names[at], two[at][1])


WITHOUT_UNION = st.one_of(
    SIMPLE,
    st.tuples(SIMPLE, st.sampled_from(["int", "string", "bytes", "map", "null", "base64"])).map(
        lambda it: ({"type": "map", "values": it[0][0]}, {it[1]: it[0][1]})
    ),
    st.tuples(SIMPLE, st.sampled_from(["int", "string", "bytes", "map", "null", "base64"])).map(
        lambda it: (
            named("record", fields=[{"name": it[1], "type": it[0][0]}]),
            {it[1]: it[0][1]},
        )
    ),
    SIMPLE.map(lambda it: ({"type": "array", "items": it[0]}, [it[1]])),
)


@given(st.recursive(st.one_of(SIMPLE, unions()), nested, max_leaves=6))
def test_a_value_of_avro_is_the_same_bytes_after_its_line(case: tuple[Any, Any]) -> None:
    decoded, data, back = avro(*case)
    assert back == data, decoded.text


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ("bytes", b"7", '"7"'),
        ("bytes", b'{"base64": "AA=="}', r'"{\"base64\": \"AA==\"}"'),
        ("bytes", b"\xff", '{"base64": "/w=="}'),
        ("null", None, '{"null": null}'),
        (["null", "string"], None, '{"null": null}'),
        (["null", "string"], "null", '"null"'),
        (["int", "long"], ("long", 5), '{"long": 5}'),
        (["int", "long"], ("int", 5), "5"),
        (["string", "bytes"], ("bytes", b"x"), '{"bytes": "x"}'),
        (
            ["string", {"type": "int", "logicalType": "date"}],
            ("int", 20_000),
            '{"int": "2024-10-04"}',
        ),
        ([{"type": "map", "values": "int"}, "int"], ("map", {"int": 1}), '{"map": {"int": 1}}'),
        ([{"type": "map", "values": "int"}, "int"], ("map", {"x": 1}), '{"x": 1}'),
    ],
)
def test_only_what_would_be_another_value_is_tagged(schema: Any, value: Any, line: str) -> None:
    decoded, data, back = avro(schema, value)
    assert (decoded.text, back) == (line, data)


def test_the_line_null_is_a_record_without_a_value() -> None:
    for text, kind in (('["null", "string"]', "AVRO"), ('{"type": ["null", "object"]}', "JSON")):
        writes = TextSerializer(kind, OneSchema(Schema(text, kind)))
        assert ran(writes(b"null", PLACE)) is None


def test_text_in_a_union_stays_text_where_it_may() -> None:
    date, known = {"type": "int", "logicalType": "date"}, dict[str, Any]()
    both = JsonValues(known).whole_reader(parse_loaded(["null", date, "string"], known))
    assert both("2026-11-29") == ("string", "2026-11-29")
    assert both({"int": "2026-11-29"})[1].year == 2026
    alone = JsonValues(known).whole_reader(parse_loaded(["null", date], known))
    assert alone("2026-11-29")[1].year == 2026


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "int", "logicalType": "date"}, '"soon"'),
        ({"type": "long", "logicalType": "timestamp-millis"}, '"1711010100000"'),
        (DECIMAL, '"much"'),
        ("bytes", '{"base64": "%"}'),
        ("bytes", "7"),
        ("string", "{"),
        (["int", "string"], "true"),
    ],
)
def test_a_line_that_is_no_value_is_refused(schema: Any, line: str) -> None:
    writes = TextSerializer("AVRO", OneSchema(Schema(json.dumps(schema))))
    with pytest.raises(SerializationFailed):
        ran(writes(line, PLACE))


# Protobuf

KIND = descriptor_pb2.FieldDescriptorProto
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    KIND.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    KIND.TYPE_FLOAT: st.floats(-(2.0**127), 2.0**127, width=32),
    KIND.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    KIND.TYPE_UINT64: st.integers(0, 2**64 - 1),
    KIND.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    KIND.TYPE_BOOL: st.booleans(),
    KIND.TYPE_STRING: st.text(st.characters(exclude_categories=["Cs"])),
    KIND.TYPE_BYTES: st.binary(max_size=8),
}
SHIPPED = ("any", "duration", "struct", "timestamp", "wrappers")


def file() -> Any:
    """A file of a message with a field of each kind, and two others."""
    made = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    made.dependency.extend(f"google/protobuf/{each}.proto" for each in SHIPPED)
    first = made.message_type.add(name="First")
    for number, kind in enumerate(SCALARS, 1):
        first.field.add(name=f"f{number}", number=number, type=kind, label=KIND.LABEL_OPTIONAL)
        first.field.add(name=f"r{number}", number=30 + number, type=kind,
                        label=KIND.LABEL_REPEATED)  # fmt: skip
    for number, (name, kind) in enumerate(
        {"inner": "shop.Second", "any": "google.protobuf.Any", "at": "google.protobuf.Timestamp",
         "wait": "google.protobuf.Duration", "free": "google.protobuf.Value",
         "count": "google.protobuf.Int64Value"}.items(), 60
    ):  # fmt: skip
        first.field.add(name=name, number=number, type=KIND.TYPE_MESSAGE, type_name=f".{kind}",
                        label=KIND.LABEL_OPTIONAL)  # fmt: skip
    second = made.message_type.add(name="Second")
    second.field.add(name="f1", number=1, type=KIND.TYPE_DOUBLE, label=KIND.LABEL_OPTIONAL)
    return made


SHOP = OneSchema(Schema(base64.b64encode(file().SerializeToString()).decode(), "PROTOBUF"))
WRITE = ran(ProtobufSerializer(SHOP).mapping_writer(1, ran(SHOP.schema(1))))
ANYS = st.one_of(
    st.fixed_dictionaries({"@type": st.just("type.googleapis.com/shop.Second"),
                           "f1": SCALARS[KIND.TYPE_DOUBLE]}),
    st.fixed_dictionaries({"@type": st.just("type.googleapis.com/google.protobuf.Duration"),
                           "value": st.just("1.500s")}),
)  # fmt: skip


def as_json(kind: Any, value: Any) -> Any:
    """A scalar in Protobuf's JSON."""
    return base64.b64encode(value).decode() if kind == KIND.TYPE_BYTES else value


FIRSTS = st.fixed_dictionaries(
    {},
    optional={
        **{
            f"f{n}": values.map(lambda it, kind=kind: as_json(kind, it))  # type: ignore[misc]
            for n, (kind, values) in enumerate(SCALARS.items(), 1)
        },
        **{
            f"r{n}": st.lists(
                values.map(lambda it, kind=kind: as_json(kind, it)),  # type: ignore[misc]
                max_size=2,
            )
            for n, (kind, values) in enumerate(SCALARS.items(), 1)
        },
        "inner": st.fixed_dictionaries({"f1": st.floats(-10, 10)}),
        "any": ANYS,
        "at": st.datetimes().map(lambda it: f"{it.isoformat()}Z"),
        "wait": st.integers(-(10**9), 10**9).map(lambda it: f"{it}.250s"),
        "count": st.integers(-5, 5),
        "free": st.recursive(
            st.one_of(st.none(), st.booleans(), st.floats(-10, 10), st.text(max_size=3)),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner),
            max_leaves=4,
        ),
    },
)


@given(FIRSTS)
def test_a_message_is_the_same_after_its_line(fields: dict[str, Any]) -> None:
    data = WRITE(fields)
    reads, writes = TextDeserializer("PROTOBUF", SHOP), TextSerializer("PROTOBUF", SHOP)
    decoded, back = again(reads, writes, data)
    assert back is not None
    assert ran(reads(back, PLACE)).value == decoded.value, decoded.text


def test_a_message_that_is_not_the_first_is_tagged() -> None:
    reads, writes = TextDeserializer("PROTOBUF", SHOP), TextSerializer("PROTOBUF", SHOP)
    data = WRITE({"f1": 1.5}, "shop.Second")
    decoded, back = again(reads, writes, data)
    assert (decoded.text, back) == ('{"@type": "shop.Second", "f1": 1.5}', data)
    with pytest.raises(SerializationFailed, match="no such message"):
        ran(writes('{"@type": "shop.Third"}', PLACE))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\xa0\x06\x01", "fields that its schema has not"),
        (b"\xea\x03\x04\x0a\x02xx", "cannot be written as JSON"),  # an Any of no known type
    ],
)
def test_a_message_that_json_cannot_say_is_refused(payload: bytes, why: str) -> None:
    with pytest.raises(DeserializationFailed, match=why):
        ran(TextDeserializer("PROTOBUF", SHOP)(frame(1) + b"\0" + payload, PLACE))


# JSON Schema

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner),
    max_leaves=5,
)  # fmt: skip


def json_schema(payload: str, schema: str = "true") -> tuple[DecodedText, bytes, bytes | None]:
    registry = OneSchema(Schema(schema, "JSON"))
    data = frame(1) + payload.encode()
    reads, writes = TextDeserializer("JSON", registry), TextSerializer("JSON", registry)
    decoded, back = again(reads, writes, data)
    return decoded, data, back


@given(JSONS)
def test_a_value_of_json_is_the_same_after_its_line(value: Any) -> None:
    payload = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    decoded, data, back = json_schema(payload)
    assert back == data, decoded.text


def test_json_keeps_every_digit_and_its_nulls() -> None:
    for payload in ("0.12345678901234567890", '{"a": [1.00000000000000000001,\n 2]}', "null"):
        _, data, back = json_schema(payload)
        assert back == data.replace(b"\n", b" ")
    assert json_schema('{"null":null}', '{"type": "object"}')[0].text == '{"null": null}'
    with pytest.raises(DeserializationFailed, match="means a null"):
        json_schema('{"null":null}')
