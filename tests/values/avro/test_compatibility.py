"""Avro schemas: their one text, and Avro's rules of who can read what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moldau.values.avro.printed import AvroSchema, parse
from moldau.values.compatibility import InvalidSchema, TooMuchWork, Work
from moldau.values.schema import Reference, Schema


def no_reference(reference: Reference) -> Schema:
    raise InvalidSchema(f"no {reference.name}")


def parsed(schema: Any) -> AvroSchema:
    return parse(Schema(schema if isinstance(schema, str) else json.dumps(schema)), no_reference)


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def kinds(reader: Any, writer: Any) -> list[str]:
    return [each.kind for each in parsed(reader).differences(parsed(writer), Work())]


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ('{"type": "string"}', '"string"'),
        ("int", '"int"'),
        (
            '{"name":"a.b.R","fields":[{"type":"a.b.E","name":"e"}],"type":"record"}',
            None,
        ),
        (
            '{"fields":[{"type":{"type":"enum","symbols":["A"],"name":"E","namespace":"a"},'
            '"name":"e","default":"A"}],"name":"a.R","type":"record","doc":"d","x":1}',
            '{"type":"record","name":"R","namespace":"a","doc":"d","fields":[{"name":"e","type":'
            '{"type":"enum","name":"E","symbols":["A"]},"default":"A"}],"x":1}',
        ),
        (
            '{"type":"record","name":"a.R","fields":[{"name":"r","type":["null","a.R"],'
            '"default":null}]}',
            '{"type":"record","name":"R","namespace":"a","fields":[{"name":"r","type":["null",'
            '"R"],"default":null}]}',
        ),
        (
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}',
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}',
        ),
        ('{"type":"map","values":{"type":"long"}}', '{"type":"map","values":"long"}'),
        ('{"type":"fixed","size":4,"name":"F"}', '{"type":"fixed","name":"F","size":4}'),
    ],
)
def test_the_canonical_text_is_that_of_javas_avro(given: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(InvalidSchema):
            parsed(given)
    else:
        assert parsed(given).canonical == canonical


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "7",
        "null null",
        '{"type":"record","name":"R"}',
        '{"type":"nothing"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},'
        '{"name":"a","type":"int"}]}',
        '["int","int"]',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"Missing"}]}',
        '{"type":"array"}',
        "[" * 50_000,
    ],
)
def test_what_is_no_schema_is_refused(bad: str) -> None:
    with pytest.raises(InvalidSchema):
        parsed(bad)


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("int", "int", []),
        ("long", "int", []),
        ("int", "long", ["TYPE_MISMATCH"]),
        ("double", "float", []),
        ("float", "double", ["TYPE_MISMATCH"]),
        ("string", "bytes", []),
        ("bytes", "string", []),
        ("string", "int", ["TYPE_MISMATCH"]),
        (["null", "int"], "int", []),
        ("int", ["null", "int"], ["TYPE_MISMATCH"]),
        (["null", "int"], ["null", "string"], ["MISSING_UNION_BRANCH"]),
        (["int"], "string", ["MISSING_UNION_BRANCH"]),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, ["TYPE_MISMATCH"]),
        (ENUM, {**ENUM, "symbols": ["A"]}, []),
        ({**ENUM, "symbols": ["A"]}, ENUM, ["MISSING_ENUM_SYMBOLS"]),
        ({**ENUM, "symbols": ["A"], "default": "A"}, ENUM, []),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            ["FIXED_SIZE_MISMATCH"],
        ),
        (record(field("a", "int")), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
        (record(field("a", "int", default=1)), record(), []),
        (record(), record(field("a", "int")), []),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), []),
        (record(name="S"), record(), ["NAME_MISMATCH"]),
        (record(name="S", aliases=["R"]), record(), []),
        (record(name="x.R"), record(name="y.R"), []),
        (record(field("a", "int")), record(field("a", "string")), ["TYPE_MISMATCH"]),
        (
            record(field("next", ["null", "R"]), field("v", "long")),
            record(field("next", ["null", "R"]), field("v", "int")),
            [],
        ),
    ],
)
def test_a_reader_follows_avros_rules(reader: Any, writer: Any, expected: list[str]) -> None:
    assert kinds(reader, writer) == expected


def test_a_difference_says_where_it_is() -> None:
    inner = record(field("b", "int"), name="I")
    found = parsed(record(field("a", inner))).differences(
        parsed(record(field("a", record(name="I")))), Work()
    )
    assert [each.path for each in found] == ["/fields/0/type/fields/0"]
    assert "b" in str(found[0])


def test_records_that_multiply_in_each_other_are_not_compared_without_an_end() -> None:
    """Twenty short records, a million ways from the first to the last."""
    whole: Any = record(field("v", "int"), name="R0")
    for level in range(1, 21):
        inner = f"R{level - 1}"
        whole = record(field("a", whole), field("b", inner), name=f"R{level}")
    reader, writer = parsed(whole), parsed(whole)
    with pytest.raises(TooMuchWork):
        reader.differences(writer, Work(100_000))


def test_normalizing_orders_what_has_no_order() -> None:
    one = parsed(record(name="R", y=1, x=2))
    other = parsed(record(name="R", x=2, y=1))
    assert one.canonical != other.canonical
    assert one.normalized == other.normalized
