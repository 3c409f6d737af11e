"""Protobuf schemas: compiled by protoc, printed again, and compared by Confluent's rules."""

from __future__ import annotations

import base64

import pytest

from moldau.registry.formats import ProtobufSchema
from moldau.registry.formats import parse_protobuf as parse
from moldau.values.compatibility import InvalidSchema, TooMuchWork, Work
from moldau.values.schema import PROTOBUF, Reference, Schema

pytest.importorskip("grpc_tools", reason="protoc is in the extra registry-protobuf")

RICH = """
// A comment.
syntax = "proto3";
package shop.v1;

import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "confluent/meta.proto";

option java_package = "org.shop";

message Order {
  reserved 9, 11 to 12;
  reserved "old";
  int64 id = 1;
  optional string note = 2;
  repeated Item items = 3 [packed = false];
  map<string, Item> by_name = 4;
  oneof paid_by { string card = 5; bool cash = 6 [deprecated = true]; }
  google.protobuf.Timestamp at = 7;
  State state = 8;
  google.type.Date day = 10 [json_name = "the_day"];
  message Item { string sku = 1; }
  enum State { option allow_alias = true; UNKNOWN = 0; NEW = 1; FRESH = 1; }
}
service Orders { rpc Place (Order) returns (stream Order); }
"""
OLD = """
syntax = "proto2";
package shop;
message Old {
  required int32 id = 1;
  optional string name = 2 [default = "a\\"b"];
  extensions 100 to 199;
  optional group Part = 3 { optional int32 x = 1; }
}
extend Old { optional int32 more = 100; }
"""


def no_reference(reference: Reference) -> Schema:
    raise InvalidSchema(f"no {reference.name}")


def parsed(text: str) -> ProtobufSchema:
    return parse(Schema(text, PROTOBUF), no_reference)


def message(*fields: str, name: str = "M", more: str = "") -> str:
    lines = "\n".join(f"{each};" for each in fields)
    return f'syntax = "proto3"; {more} message {name} {{ {lines} }}'


def kinds(reader: str, writer: str) -> list[str]:
    return [each.kind for each in parsed(reader).differences(parsed(writer), Work())]


@pytest.mark.parametrize("text", [RICH, OLD, 'edition = "2023"; message M { int32 a = 1; }'])
def test_what_is_printed_means_the_same(text: str) -> None:
    schema = parsed(text)
    again = parsed(schema.identity)
    assert again.file == schema.file
    assert again.identity == schema.identity


def test_the_text_is_kept_and_a_descriptor_becomes_text() -> None:
    schema = parsed(RICH)
    assert schema.canonical == RICH
    serialized = schema.text("serialized")
    assert serialized is not None
    base64.b64decode(serialized, validate=True)
    other = parsed(serialized)
    assert other.canonical == other.identity == schema.identity
    assert other.file == schema.file


OPTIONS = """
syntax = "proto3";
import "confluent/meta.proto";
import "p/mine.proto";
option (confluent.file_meta) = { doc: "a \\"b\\" \u00e9" };
message M {
  option (p.places) = "here";
  option (p.places) = "there";
  bytes a = 1 [(confluent.field_meta) = { params: [{ key: "scale", value: "4" }], tags: "PII" }];
  E e = 2 [(p.raw) = "\\000\\377", (p.kind) = OTHER];
}
enum E { NONE = 0 [(confluent.enum_value_meta).doc = "nothing"]; }
service S { rpc Call (M) returns (M) { option deprecated = true; } }
"""
MINE = """
syntax = "proto3";
package p;
import "google/protobuf/descriptor.proto";
enum Kind { ONE = 0; OTHER = 1; }
extend google.protobuf.MessageOptions { repeated string places = 2000; }
extend google.protobuf.FieldOptions { bytes raw = 2000; Kind kind = 2001; }
"""


def test_options_that_are_extensions_are_kept() -> None:
    mine = (Reference("p/mine.proto", "mine", 1),)

    def parsed(text: str) -> ProtobufSchema:
        return parse(Schema(text, PROTOBUF, mine), lambda _: Schema(MINE, PROTOBUF))

    schema = parsed(OPTIONS)
    again, serialized = parsed(schema.identity), schema.text("serialized")
    assert again.file == schema.file
    assert serialized is not None
    assert parsed(serialized).file == schema.file
    other = parsed(OPTIONS.replace('"4"', '"5"'))
    assert other.identity != schema.identity
    assert '(confluent.field_meta) = { params { key: "scale" value: "5" }' in other.identity


def test_an_option_is_found_from_a_package_with_a_part_of_its_name() -> None:
    more = 'package com.confluent; import "confluent/meta.proto";'
    schema = parsed(message('int32 a = 1 [(.confluent.field_meta) = { doc: "d" }]', more=more))
    assert parsed(schema.identity).file == schema.file
    assert "(.confluent.field_meta)" in schema.identity


def test_normalizing_orders_fields_by_number() -> None:
    one, other = message("int32 a = 1", "int32 b = 2"), message("int32 b = 2", "int32 a = 1")
    assert parsed(one).identity != parsed(other).identity
    assert parsed(one).normalized == parsed(other).normalized


@pytest.mark.parametrize(
    "bad",
    [
        "message {",
        'syntax = "proto3"; message M { Missing a = 1; }',
        'syntax = "proto3"; import "missing.proto"; message M {}',
        'syntax = "proto3"; import "../../../etc/hostname"; message M {}',
        'syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }',
        "\ud800",
    ],
)
def test_what_is_no_schema_is_refused(bad: str) -> None:
    with pytest.raises(InvalidSchema):
        parsed(bad)


def test_an_error_says_where_it_is() -> None:
    with pytest.raises(InvalidSchema, match=r'schema:2:\d+: "Missing" is not defined'):
        parsed('syntax = "proto3";\nmessage M { Missing a = 1; }')


def test_a_referenced_file_is_imported_and_stays_in_its_folder() -> None:
    part = Schema('syntax = "proto3"; package p; message Part { int32 x = 1; }', PROTOBUF)
    text = 'syntax = "proto3"; import "p/part.proto"; message M { p.Part part = 1; }'
    reference = Reference("p/part.proto", "part", 1)
    found = parse(Schema(text, PROTOBUF, (reference,)), lambda _: part)
    assert found.file.dependency == ["p/part.proto"]
    escaping = Reference("../part.proto", "part", 1)
    with pytest.raises(InvalidSchema, match="no name of a file"):
        parse(Schema(text, PROTOBUF, (escaping,)), lambda _: part)


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (message("int32 a = 1"), message("int32 a = 1"), []),
        (message("int32 a = 1", "int32 b = 2"), message("int32 a = 1"), []),
        (message(), message("int32 a = 1"), []),
        (message("int32 b = 1"), message("int32 a = 1"), []),
        (message("int64 a = 1"), message("int32 a = 1"), []),
        (message("bool a = 1"), message("uint32 a = 1"), []),
        (message("bytes a = 1"), message("string a = 1"), []),
        (message("sint32 a = 1"), message("int32 a = 1"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("string a = 1"), message("int32 a = 1"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("M a = 1"), message("int32 a = 1"), ["FIELD_KIND_CHANGED"]),
        (message("repeated int32 a = 1"), message("int32 a = 1"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
        (message("repeated string a = 1"), message("string a = 1"), []),
        (message(name="N"), message(name="M"), ["MESSAGE_REMOVED"]),
        (message(more="package p;"), message(), ["PACKAGE_CHANGED"]),
        (
            message("oneof o { int32 a = 1; int32 b = 2; }"),
            message("int32 a = 1", "int32 b = 2"),
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (message("oneof o { int32 a = 1; }"), message("int32 a = 1"), []),
        (
            message("oneof o { int32 a = 1; int32 b = 2; }"),
            message("oneof o { int32 a = 1; }", "int32 b = 2"),
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (
            message("oneof o { int32 a = 1; }"),
            message("oneof o { int32 a = 1; int32 b = 2; }"),
            ["ONEOF_FIELD_REMOVED"],
        ),
        (
            'syntax = "proto2"; message M { required int32 a = 1; }',
            'syntax = "proto2"; message M { }',
            ["REQUIRED_FIELD_ADDED"],
        ),
        (
            'syntax = "proto2"; message M { }',
            'syntax = "proto2"; message M { required int32 a = 1; }',
            ["REQUIRED_FIELD_REMOVED"],
        ),
    ],
)
def test_a_reader_follows_confluents_rules(reader: str, writer: str, expected: list[str]) -> None:
    assert kinds(reader, writer) == expected


def test_what_is_compared_is_counted() -> None:
    schema = parsed(message(*(f"int32 f{number} = {number};" for number in range(1, 6))))
    assert schema.differences(schema, Work(11)) == []
    with pytest.raises(TooMuchWork):
        schema.differences(schema, Work(10))
