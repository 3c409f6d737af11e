"""JSON Schemas: their one text, and Confluent's rules of what a reader accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moldau.values.compatibility import InvalidSchema, TooMuchWork, Work
from moldau.values.json.schemas import JsonSchema, parse
from moldau.values.schema import JSON, Reference, Schema

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
CLOSED = {**NAME, "additionalProperties": False}


def no_reference(reference: Reference) -> Schema:
    raise InvalidSchema(f"no {reference.name}")


def parsed(schema: Any) -> JsonSchema:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return parse(Schema(text, JSON), no_reference)


def kinds(reader: Any, writer: Any) -> list[str]:
    return [each.kind for each in parsed(reader).differences(parsed(writer), Work())]


def with_property(base: dict[str, Any], name: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {**base, "properties": {**base["properties"], name: schema}, **more}


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (NAME, NAME, []),
        (True, NAME, []),
        (NAME, True, ["TYPE_NARROWED"]),
        (False, NAME, ["TYPE_NARROWED"]),
        ({"type": "number"}, {"type": "integer"}, []),
        ({"type": "integer"}, {"type": "number"}, ["TYPE_CHANGED"]),
        ({"type": ["string", "null"]}, {"type": "string"}, []),
        ({"type": "string"}, {"type": ["string", "null"]}, ["TYPE_NARROWED"]),
        ({"type": "string", "maxLength": 5}, {"type": "string"}, ["MAX_LENGTH_ADDED"]),
        ({"type": "string"}, {"type": "string", "maxLength": 5}, []),
        (
            {"type": "string", "maxLength": 4},
            {"type": "string", "maxLength": 5},
            ["MAX_LENGTH_DECREASED"],
        ),
        ({"type": "integer", "minimum": 2}, {"type": "integer", "minimum": 3}, []),
        (
            {"type": "integer", "minimum": 3},
            {"type": "integer", "minimum": 2},
            ["MINIMUM_INCREASED"],
        ),
        ({"type": "integer", "multipleOf": 5}, {"type": "integer", "multipleOf": 10}, []),
        (
            {"type": "integer", "multipleOf": 10},
            {"type": "integer", "multipleOf": 5},
            ["MULTIPLE_OF_EXPANDED"],
        ),
        ({"type": "string", "pattern": "a"}, {"type": "string"}, ["PATTERN_ADDED"]),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, []),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
        ({"enum": ["a"]}, {"const": "a"}, []),
        (
            with_property(NAME, "age", {"type": "integer"}),
            NAME,
            ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"],
        ),
        (with_property(NAME, "age", {}), NAME, []),
        (NAME, with_property(NAME, "age", {"type": "integer"}), []),
        (with_property(CLOSED, "age", {"type": "integer"}), CLOSED, []),
        (
            with_property(CLOSED, "age", {"type": "integer"}, required=["age"]),
            CLOSED,
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
        ),
        (
            with_property(CLOSED, "age", {"type": "integer", "default": 1}, required=["age"]),
            CLOSED,
            [],
        ),
        (
            CLOSED,
            with_property(CLOSED, "age", {"type": "integer"}),
            ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
        ),
        (CLOSED, NAME, ["ADDITIONAL_PROPERTIES_REMOVED"]),
        (NAME, CLOSED, []),
        ({**NAME, "required": ["name"]}, NAME, ["REQUIRED_ATTRIBUTE_ADDED"]),
        (NAME, {**NAME, "required": ["name"]}, []),
        (
            with_property(NAME, "name", {"type": "integer"}),
            NAME,
            ["TYPE_CHANGED"],
        ),
        (
            {**NAME, "additionalProperties": {"type": "string"}},
            with_property({**NAME, "additionalProperties": False}, "x", {"type": "string"}),
            [],
        ),
        (
            {**NAME, "additionalProperties": {"type": "string"}},
            with_property({**NAME, "additionalProperties": False}, "x", {"type": "integer"}),
            ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
        ),
        (
            {"type": "array", "items": {"type": "number"}},
            {"type": "array", "items": {"type": "integer"}},
            [],
        ),
        (
            {"type": "array", "items": {"type": "integer"}},
            {"type": "array", "items": {"type": "string"}},
            ["TYPE_CHANGED"],
        ),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}, []),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"type": "integer"},
            ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"],
        ),
        (
            {"oneOf": [{"type": "string"}]},
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            ["SUM_TYPE_NARROWED", "TYPE_CHANGED"],
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            [],
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}, []),
        (
            {"allOf": [{"maxLength": 4}, {"minLength": 1}]},
            {"allOf": [{"maxLength": 4}, {"minLength": 1}]},
            [],
        ),
        (
            {"allOf": [{"maxLength": 4}, {"minLength": 1}]},
            {"allOf": [{"maxLength": 4}, {"pattern": "a"}]},
            ["PRODUCT_TYPE_EXTENDED"],
        ),
        ({"not": {"type": "string"}}, {}, ["TYPE_NARROWED"]),
    ],
)
def test_a_reader_accepts_what_the_writers_schema_does(
    reader: Any, writer: Any, expected: list[str]
) -> None:
    assert kinds(reader, writer) == expected


def test_references_are_followed_and_may_be_recursive() -> None:
    tree = {
        "$ref": "#/definitions/tree",
        "definitions": {
            "tree": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "left": {"$ref": "#/definitions/tree"}},
            }
        },
    }
    wider = json.loads(json.dumps(tree).replace('"integer"', '"number"'))
    assert kinds(wider, tree) == []
    assert kinds(tree, wider) == ["TYPE_CHANGED"]
    loop = {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}
    assert kinds(loop, loop) == []


@pytest.mark.parametrize(
    "bad", ["", "{", "7", '"x"', '{"type":"nothing"}', '{"minLength":-1}', '{"$ref":"missing"}']
)
def test_what_is_no_schema_is_refused(bad: str) -> None:
    with pytest.raises(InvalidSchema):
        parsed(bad)


def test_the_order_of_keys_stays_unless_it_is_normalized() -> None:
    one, other = '{"type": "string", "title": "t"}', '{"title":"t","type":"string"}'
    assert parsed(one).canonical == '{"type":"string","title":"t"}'
    assert parsed(one).normalized == parsed(other).normalized == '{"title":"t","type":"string"}'


def test_choices_within_choices_do_not_run_for_ever() -> None:
    schema: Any = {"type": "string"}
    for level in range(10):
        schema = {"oneOf": [{"type": "integer", "maximum": level + each} for each in range(6)] + [
            {"type": "object", "properties": {"x": schema}},
            {"type": "object", "properties": {"y": schema}},
        ]}  # fmt: skip
    other = json.loads(json.dumps(schema).replace('"string"', '"boolean"'))
    assert "SCHEMA_TOO_COMPLEX" in kinds(schema, other)


def test_a_pattern_that_backtracks_without_an_end_is_matched_in_time() -> None:
    """By Python's engine these thirty letters take hours, with the interpreter held."""
    name = "a" * 30 + "!"
    writer = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}}
    reader = {**writer, "properties": {name: {"type": "string"}}}
    assert kinds(reader, writer) == ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]


@pytest.mark.parametrize(
    ("reader", "writer", "parts"),
    [
        ({}, {"properties": {f"p{number}": {} for number in range(9)}}, 9),
        ({"patternProperties": {"^b": {}, "^c": {}}}, {"properties": {"a": {}}}, 20),
    ],
    ids=["properties", "patterns"],
)
def test_what_is_compared_is_counted(reader: Any, writer: Any, parts: int) -> None:
    new, old = (parsed({"type": "object", **each}) for each in (reader, writer))
    assert new.differences(old, Work()) == []
    with pytest.raises(TooMuchWork):
        new.differences(old, Work(parts))


def test_a_pattern_may_look_ahead() -> None:
    writer = {"type": "object", "patternProperties": {"^(?!x)a": {"type": "string"}}}
    reader = {**writer, "properties": {"ab": {"type": "string"}}}
    assert kinds(reader, writer) == []
