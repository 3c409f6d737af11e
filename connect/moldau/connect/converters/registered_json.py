"""The JsonSchemaConverter: the id of a JSON Schema, then JSON, in Confluent's wire format.

Confluent's attributes keep what JSON Schema cannot express: `connect.type`, `connect.index`,
`connect.version`, `connect.parameters`; the `title` is the name of a schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import orjson

from moldau.connect.config.model import key
from moldau.connect.converters.json import exactly, parsed
from moldau.connect.converters.json_values import JsonTraits, Readers, Writers, has_decimal
from moldau.connect.converters.registered import (
    Read,
    RegisteredConfig,
    RegisteredConverter,
    Write,
)
from moldau.connect.data.schema import Schema, Type
from moldau.connect.errors import DataError
from moldau.values.schema import Schema as RegistrySchema

_TO_JSON: Mapping[Type, tuple[str, str]] = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
    Type.BOOLEAN: ("boolean", ""),
    Type.STRING: ("string", ""),
    Type.BYTES: ("string", "bytes"),
}
_WORDS = {word: kind for kind, (_, word) in _TO_JSON.items() if word}
_TO_CONNECT = {
    "integer": Type.INT64,
    "number": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
}


class JsonSchemaConfig(RegisteredConfig):
    """Settings of the JsonSchemaConverter."""

    decimal_format: Literal["BASE64", "NUMERIC"] = key(
        "decimal.format", "BASE64", doc="Write decimals as base64 of their bytes, or as numbers."
    )


class JsonSchemaConverter(RegisteredConverter):
    """Converts values with a schema to and from JSON with a registered JSON Schema, in the wire
    format of Confluent's schema registry."""

    java_names = ("io.confluent.connect.json.JsonSchemaConverter",)
    libraries = (("jsonschema_rs", "json-schema"),)
    config_model = JsonSchemaConfig

    def configure(self, props: Mapping[str, str], is_key: bool) -> None:
        super().configure(props, is_key)
        config = JsonSchemaConfig.of(props)
        self._traits = JsonTraits(config.decimal_format == "NUMERIC")

    def registered(self, schema: Schema | None, value: Any) -> tuple[RegistrySchema, str | None]:
        if schema is None:
            raise DataError(
                "JsonSchemaConverter needs a schema, and this value has none; "
                "use JsonConverter with schemas.enable=false, or give it a schema"
            )
        described = to_json_schema(schema, numeric_decimals=self._traits.numeric_decimals)
        return RegistrySchema(json.dumps(described), "JSON"), schema.name

    def writer(self, schema: Schema | None, registered: RegistrySchema) -> Write:
        assert schema is not None
        convert = Writers(self._traits).of(schema)

        def write(value: Any) -> bytes:
            try:
                return orjson.dumps(convert(value))
            except orjson.JSONEncodeError as error:
                raise DataError(f"a value cannot be written to JSON: {error}") from None

        return write

    def reader(self, registered: RegistrySchema) -> tuple[Schema | None, Read]:
        schema = from_json_schema(json.loads(registered.text))
        convert = Readers(self._traits).of(schema)
        parse = exactly if has_decimal(schema) else parsed
        return schema, lambda data, start: convert(parse(data[start:]))


def to_json_schema(schema: Schema, *, numeric_decimals: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a Connect schema."""
    described = _required(schema, numeric_decimals)
    if schema.doc is not None:
        described["description"] = schema.doc
    if schema.name is not None:
        described["title"] = str(schema.name)
    if schema.version is not None:
        described["connect.version"] = schema.version
    if schema.parameters:
        described["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        described["default"] = Writers(JsonTraits(numeric_decimals)).of(schema)(schema.default)
    if schema.optional:
        return {"oneOf": [{"type": "null"}, described]}
    return described


def _required(schema: Schema, numeric_decimals: bool) -> dict[str, Any]:
    def part(of: Schema | None) -> dict[str, Any]:
        assert of is not None
        return to_json_schema(of, numeric_decimals=numeric_decimals)

    if schema.type is Type.STRUCT:
        return {
            "type": "object",
            "properties": {
                field.name: {**part(field.schema), "connect.index": field.position}
                for field in schema.fields
            },
        }
    if schema.type is Type.ARRAY:
        return {"type": "array", "items": part(schema.value_schema)}
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        if schema.key_schema.type is Type.STRING:
            values = part(schema.value_schema)
            return {"type": "object", "connect.type": "map", "additionalProperties": values}
        entry = {"key": part(schema.key_schema), "value": part(schema.value_schema)}
        items = {"type": "array", "prefixItems": [entry["key"], entry["value"]], **_PAIR}
        return {"type": "array", "connect.type": "map", "items": items}
    kind, word = _TO_JSON[schema.type]
    if schema.logical is not None and schema.type is Type.BYTES and numeric_decimals:
        kind = "number"
    return {"type": kind, "connect.type": word} if word else {"type": kind}


_PAIR = {"minItems": 2, "maxItems": 2}


def from_json_schema(described: Any) -> Schema:
    """Return the Connect schema of a JSON Schema. Raise DataError if there is none."""
    if not isinstance(described, dict):
        raise DataError("a JSON Schema that is no object has no Connect schema")
    for word in ("oneOf", "anyOf"):
        if word in described:
            return _alternatives(described[word])
    kind = described.get("type")
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) != 1:
            raise DataError(f"the JSON types {kind} have no single Connect type")
        return from_json_schema({**described, "type": others[0]}).optionally(len(kind) > 1)
    schema = _typed(described, kind)
    version = described.get("connect.version")
    schema = schema.replace(
        name=described.get("title"),
        version=version if isinstance(version, int) else None,
        doc=described.get("description"),
        parameters=described.get("connect.parameters"),
    )
    default = described.get("default")
    if default is None:
        return schema
    return schema.replace(default=Readers(JsonTraits()).of(schema)(default))


def _alternatives(branches: list[Any]) -> Schema:
    others = [branch for branch in branches if branch != {"type": "null"}]
    if len(others) != 1:
        raise DataError("a JSON Schema with several alternatives has no single Connect type")
    return from_json_schema(others[0]).optionally(len(others) < len(branches))


def _typed(described: dict[str, Any], kind: Any) -> Schema:
    word = described.get("connect.type")
    if kind == "object" and word == "map":
        values = from_json_schema(described["additionalProperties"])
        return Schema.map(Schema(Type.STRING), values)
    if kind == "array" and word == "map":
        keys, values = (from_json_schema(each) for each in described["items"]["prefixItems"])
        return Schema.map(keys, values)
    if kind == "object":
        properties = described.get("properties", {})
        ordered = sorted(
            properties.items(), key=lambda item: item[1].get("connect.index", len(properties))
        )
        required = described.get("required")
        fields = {}
        for name, part in ordered:
            schema = from_json_schema(part)
            is_missing_allowed = required is not None and name not in required
            fields[name] = schema.optionally() if is_missing_allowed else schema
        return Schema.struct(fields)
    if kind == "array":
        return Schema.array(from_json_schema(described.get("items", {})))
    if word in _WORDS:
        return Schema(_WORDS[word])
    if kind in _TO_CONNECT:
        return Schema(_TO_CONNECT[kind])
    if "enum" in described and all(isinstance(each, str) for each in described["enum"]):
        return Schema(Type.STRING)
    raise DataError(f"the JSON type {kind!r} has no Connect type")
