"""A form made of a schema: its fields, and the JSON that is written from what was typed."""

from __future__ import annotations

import asyncio
import json
from html import unescape
from types import SimpleNamespace
from typing import Any, Final

import pytest

from moldau.client import Consumer
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.console.pages import schema_form
from moldau.console.pages.rendering import BadForm
from moldau.console.pages.schema_form import (
    FIELDS_MAX,
    Kind,
    SchemaField,
    form_of_schema,
    is_copied,
    json_of,
    typed_of,
)
from moldau.link.metadata import TopicPartition
from moldau.testing import SyncEmbeddedBroker
from moldau.values.schema import AVRO, JSON, PROTOBUF, Schema
from tests.console.shown import browser
from tests.registry.served import process

BIG: Final = "12345678901234567890"
ORDER: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long", "doc": "the number of the order"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "is_gift", "type": "boolean", "default": False},
        {
            "name": "to",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [
                    {"name": "city", "type": "string", "default": "Prag"},
                    {"name": "country", "type": "string"},
                ],
            },
        },
        {"name": "billing", "type": ["null", "Address"]},
        {"name": "lines", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
OBJECT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "to"],
    "properties": {
        "id": {"type": "integer"},
        "state": {"enum": ["NEW", "PAID"], "default": "NEW"},
        "to": {"$ref": "#/$defs/address"},
        "lines": {"type": "array"},
    },
    "$defs": {
        "address": {
            "type": "object",
            "properties": {
                "city": {"type": ["string", "null"]},
                "inner": {"$ref": "#/$defs/address"},
            },
        }
    },
}
PROTO: Final = """syntax = "proto3";
message Order {
  int64 id = 1;
  enum State { NEW = 0; PAID = 1; }
  State state = 2;
  message Address { string city = 1; }
  Address to = 3;
  repeated string lines = 4;
}
"""


def form(kind: str, parsed: Any) -> SchemaField:
    made = form_of_schema(kind, parsed)
    assert made is not None
    return made


def test_a_record_of_avro_has_a_field_for_each_of_its_own() -> None:
    leaves = {each.path: each for each in form(AVRO, ORDER).leaves()}
    assert list(leaves) == [
        *("id", "state", "note", "is_gift", "to.city", "to.country"),
        *("billing.city", "billing.country", "lines"),
    ]
    assert leaves["state"].choices == ("NEW", "PAID")
    assert (leaves["id"].doc, leaves["is_gift"].default) == ("the number of the order", "false")
    assert (leaves["note"].is_optional, leaves["id"].is_optional) == (True, False)
    assert (leaves["to.city"].default, leaves["lines"].default) == ("Prag", "[]")


def test_what_was_typed_becomes_json_with_every_digit() -> None:
    made = form(AVRO, ORDER)
    typed = typed_of(made, "") | {"id": BIG, "state": "NEW", "to.country": 'a "b"\r\nc'}
    text = json_of(made, typed)
    assert BIG in text
    assert json.loads(text, parse_int=str) == {
        "id": BIG,
        "state": "NEW",
        "note": None,
        "is_gift": False,
        "to": {"city": "Prag", "country": 'a "b"\nc'},
        "billing": {"city": "Prag", "country": ""},
        "lines": [],
    }
    typed |= {"billing.city": "", "billing.country": ""}
    assert json.loads(json_of(made, typed))["billing"] is None
    assert typed_of(made, text) == typed_of(made, text) | {"id": BIG, "to.city": "Prag"}


@pytest.mark.parametrize(
    ("path", "text"),
    [("id", "x"), ("id", ""), ("id", "1 2"), ("state", "LOST"), ("lines", "[1"), ("is_gift", "no")],
)
def test_what_does_not_fit_a_field_is_told_with_its_name(path: str, text: str) -> None:
    made = form(AVRO, ORDER)
    typed = typed_of(made, "") | {"id": "1", "state": "NEW"}
    with pytest.raises(BadForm, match=f"^{path}: "):
        json_of(made, typed | {path: text})


def logical(plain: str, its: str, /, **more: Any) -> dict[str, Any]:
    return {"type": plain, "logicalType": its, **more}


MONEY: Final = {"type": "fixed", "name": "Money", "size": 4, "logicalType": "decimal"}
INVOICE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Invoice",
    "fields": [
        {"name": "due", "type": logical("int", "date")},
        {"name": "opens", "type": logical("int", "time-millis")},
        {"name": "closes", "type": ["null", logical("long", "time-micros")], "default": None},
        {"name": "made", "type": logical("long", "timestamp-millis")},
        {"name": "sent", "type": logical("long", "local-timestamp-micros")},
        {"name": "total", "type": logical("bytes", "decimal", precision=6, scale=2)},
        {"name": "tax", "type": {**MONEY, "precision": 9, "scale": 3}},
        {"name": "id", "type": logical("string", "uuid")},
        {"name": "since", "type": logical("int", "date"), "default": 20_000},
    ],
}
GIVEN: Final = {
    "due": "2026-11-30",
    "opens": "10:15:00",
    "closes": "10:15:00.000001",
    "made": "2026-11-30T10:15:00Z",
    "sent": "2026-11-30 10:15:00",
    "total": "-12.5",
    "tax": "12.505",
    "id": "0f6a2c1e-7b58-4b7e-9d1c-52a0c0e9d3aa",
}


def test_dates_times_decimals_and_uuids_are_typed_as_texts() -> None:
    made = form(AVRO, INVOICE)
    leaves = {each.path: each for each in made.leaves()}
    assert {each.kind for each in leaves.values()} == {Kind.LOGICAL}
    assert (leaves["due"].example, leaves["tax"].type) == ("2026-11-30", "fixed, decimal")
    text = json_of(made, GIVEN)
    assert json.loads(text) == GIVEN, "with a default `since` may be left out"
    assert is_copied(made, typed_of(made, text), text)
    assert json.loads(json_of(made, GIVEN | {"closes": ""}))["closes"] is None


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("due", "30.11.2026", "30.11.2026 is no date; an example: 2026-11-30"),
        ("due", "2026-02-30", "2026-02-30 is no date; an example: 2026-11-30"),
        ("due", "20422", "20422 is no date; an example: 2026-11-30"),
        ("due", "", "give a value (int, date)"),
        ("opens", "10.15", "10.15 is no time of day; an example: 10:15:00"),
        ("opens", "25:00:00", "25:00:00 is no time of day; an example: 10:15:00"),
        ("made", "2026-11-30T10:15:00", "no time with a zone; an example: 2026-11-30T10:15:00Z"),
        ("made", "1711010100000", "no time with a zone; an example: 2026-11-30T10:15:00Z"),
        ("sent", "2026-11-30T10:15:00Z", "no time without a zone; an example"),
        ("total", "12,50", "12,50 is no decimal; an example: 12.50"),
        ("total", "1.005", "1.005: at most 2 digits behind the point were expected"),
        ("total", "12345.00", "12345.00: at most 6 digits in all were expected"),
        ("tax", "9999999", "9999999: at most 9 digits in all were expected"),
        ("id", "0f6a2c1e", "0f6a2c1e is no UUID; an example: "),
    ],
)
def test_a_text_that_is_no_value_of_its_type_is_told_with_an_example(
    path: str, text: str, why: str
) -> None:
    with pytest.raises(BadForm) as refused:
        json_of(form(AVRO, INVOICE), GIVEN | {path: text})
    assert str(refused.value).startswith(f"{path}: ")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (logical("long", "nobody-knows"), Kind.NUMBER),
        (logical("bytes", "decimal"), Kind.JSON),
        (logical("fixed", "duration", name="D", size=12), Kind.JSON),
        ({"type": logical("int", "date")}, Kind.LOGICAL),
    ],
)
def test_a_logical_type_that_avro_ignores_is_its_plain_type(schema: Any, kind: Kind) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": schema}]}
    (leaf,) = form(AVRO, record).leaves()
    assert leaf.kind is kind


def test_an_object_of_json_schema_leaves_out_what_is_not_required() -> None:
    made = form(JSON, OBJECT)
    leaves = {each.path: each for each in made.leaves()}
    assert leaves["state"].default == "NEW"
    assert "to.inner.inner.city" in leaves, "a record in itself ends somewhere"
    assert json.loads(json_of(made, {"id": "7"})) == {"id": 7, "to": {}}


@pytest.mark.parametrize(
    ("kind", "parsed"),
    [
        (AVRO, "string"),
        (AVRO, ["null", "string"]),
        (JSON, {"type": "array"}),
        (JSON, True),
        (JSON, {"type": "object", "properties": {f"f{n}": {} for n in range(999)}}),
    ],
)
def test_what_is_no_record_or_too_large_has_no_form(kind: str, parsed: Any) -> None:
    assert form_of_schema(kind, parsed) is None


COPIED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "any": {},
        "lines": {"type": "array"},
        "to": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 12345678901234567890, "name": "Ada", "any": "7", "lines": [1, 2.50, "3"]}',
        '{"any": {"a": [1e400, null, true, {"b": "c"}]}, "to": {"city": "Wien"}}',
        '{"any": 7, "lines": []}',
        "{}",
    ],
)
def test_a_record_is_copied_into_the_form_with_its_types(text: str) -> None:
    made = form(JSON, COPIED)
    typed = typed_of(made, text)
    assert json_of(made, typed) == text
    assert is_copied(made, typed, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 1, "more": 2}',
        '{"to": {"city": "Wien", "street": "x"}}',
        '{"name": 7}',
        '{"name": null}',
        '{"name": "two\\nlines"}',
        '{"name": ""}',
        '{"id": "x"}',
        "[]",
        "no JSON",
    ],
)
def test_a_record_that_the_fields_cannot_hold_is_copied_as_json(text: str) -> None:
    made = form(JSON, COPIED)
    assert not is_copied(made, typed_of(made, text), text)


def test_a_number_that_protobuf_has_as_a_text_is_copied_into_its_field() -> None:
    made = form(JSON, COPIED)
    text = '{"id": "7"}'
    assert is_copied(made, typed_of(made, text), text)


WIDE: Final = 20


def recursive(kind: str) -> Any:
    """A schema of a record with WIDE fields, each of which may have the record again."""
    names = [f"f{at}" for at in range(WIDE)]
    if kind == AVRO:
        fields = [{"name": each, "type": ["null", "Node"]} for each in names]
        return {"type": "record", "name": "Node", "fields": fields}
    if kind == JSON:
        node = {"type": "object", "properties": {each: {"$ref": "#/$defs/n"} for each in names}}
        return {**node, "$defs": {"n": node}}
    found = [SimpleNamespace(name=each, type_name=".Node", type=11, label=1) for each in names]
    message = SimpleNamespace(name="Node", field=found, nested_type=[], enum_type=[])
    return SimpleNamespace(package="", message_type=[message], enum_type=[])


@pytest.mark.parametrize("kind", [AVRO, JSON, PROTOBUF])
def test_a_record_in_itself_is_given_up_before_it_is_made(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def counted(*given: Any, **more: Any) -> SchemaField:
        nonlocal made
        made += 1
        assert made <= 20 * FIELDS_MAX
        return SchemaField(*given, **more)

    monkeypatch.setattr(schema_form, "SchemaField", counted)
    assert form_of_schema(kind, recursive(kind)) is None


@pytest.mark.real
def test_records_are_sent_from_the_fields_of_each_kind_of_schema(
    moldau_broker: SyncEmbeddedBroker,
) -> None:
    servers = moldau_broker.bootstrap_servers
    schemas = {
        "avro": Schema(json.dumps(ORDER), AVRO),
        "json-schema": Schema(json.dumps(OBJECT), JSON),
        "protobuf": Schema(PROTO, PROTOBUF),
    }
    typed = {"v.id": "7", "v.state": "PAID", "v.to.city": "Wien", "v.lines": '["a"]'}

    async def run(url: str) -> None:
        async with SchemaRegistry(url) as registry:
            for kind, schema in schemas.items():
                await registry.register(f"typed-{kind}-value", schema)
        async with browser(servers, registry=url) as client:
            for kind in schemas:
                path = f"/topics/typed-{kind}/messages"
                await client.post("/topics", data={"name": f"typed-{kind}", "partitions": "1"})
                page = await client.get(path)
                assert 'name="v.to.city"' in page.text, kind
                assert "<option >PAID</option>" in page.text, kind
                more = {"v.is_gift": "true", "v.to.country": "AT"} if kind == "avro" else {}
                sent = {**typed, **more, "by": "fields", "headers": "shop: 3"}
                old = await client.post(path, data={**sent, "schema": "other 1"})
                assert "was changed meanwhile" in old.text
                sent["schema"] = f"typed-{kind}-value 1"
                answer = await client.post(path, data=sent)
                assert answer.status_code == 200, answer.text
                assert "Wien" in answer.text
                assert "PAID" in answer.text
                assert f"typed-{kind}-value 1</a>" in answer.text, "which schema wrote it"
                copy = await client.get(f"{path}?from=offset&at=0&partition=0&copy=1")
                assert 'value="Wien"' in copy.text, "the fields have the record"
                assert 'value="fields" checked' in copy.text
                assert '"Wien"' in unescape(copy.text)
                if kind != "json-schema":
                    continue
                more_of_it = '{"id": 7, "to": {}, "note": "no field"}'
                raw = {"value": more_of_it, "by": "json", "schema": sent["schema"]}
                await client.post(path, data=raw)
                copy = await client.get(f"{path}?from=offset&at=1&partition=0&copy=1")
                assert 'value="json" checked' in copy.text, "the fields would lose some of it"
        async with Consumer(
            {"bootstrap.servers": servers, "schema.registry.url": url, "value.deserializer": "avro"}
        ) as consumer:
            consumer.assign([TopicPartition("typed-avro", 0)])
            await consumer.seek_to_beginning()
            (part,) = await consumer.poll(30)
            value: Any = part.records[0].value
            assert (value["id"], value["is_gift"], value["note"]) == (7, True, None)
            assert value["lines"] == ["a"]

    with process(servers) as (_, url):
        asyncio.run(run(url))
