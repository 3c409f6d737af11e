"""Converts schemas between Connect and Avro, as Confluent's AvroConverter does.

Attributes keep what Avro cannot express: `connect.type` (int8, int16), `connect.name`,
`connect.version`, `connect.parameters`, `connect.default`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.data.schema import LOGICAL_TYPES, Logical, Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY = f"{NAMESPACE}.MapEntry"
UNION = f"{NAMESPACE}.Union"

_TO_AVRO: Mapping[Type, str] = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_TO_CONNECT: Mapping[str, Type] = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_LOGICAL: Mapping[str, Logical] = {
    "decimal": Logical.DECIMAL,
    "date": Logical.DATE,
    "time-millis": Logical.TIME,
    "timestamp-millis": Logical.TIMESTAMP,
}
_OF_LOGICAL = {logical: word for word, logical in _LOGICAL.items()}
_PRECISION = 64


def to_avro(schema: Schema) -> Any:
    """Return the Avro schema as JSON."""
    return _Writing().of(schema)


class _Writing:
    """Writes one schema. A named record is written once; later uses refer to its name."""

    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}

    def of(self, schema: Schema) -> Any:
        if schema.name == UNION:
            branches = [self._required(field.schema) for field in schema.fields]
            return ["null", *branches] if schema.optional else branches
        described = self._required(schema)
        if not schema.optional:
            return described
        has_default = schema.default is not None
        return [described, "null"] if has_default else ["null", described]

    def _required(self, schema: Schema) -> Any:
        if schema.type is Type.STRUCT:
            return self._record(schema)
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            described: dict[str, Any] = {"type": "array", "items": self.of(schema.value_schema)}
        elif schema.type is Type.MAP:
            described = self._map(schema)
        else:
            described = _primitive(schema)
        _add_traits(described, schema)
        return described["type"] if described.keys() == {"type"} else described

    def _map(self, schema: Schema) -> dict[str, Any]:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None
        assert values is not None
        if keys.type is Type.STRING and not keys.optional:
            return {"type": "map", "values": self.of(values)}
        entry = Schema.struct({"key": keys, "value": values}, name=schema.name or MAP_ENTRY)
        return {
            "type": "array",
            "items": {**self._record(entry), "connect.internal.type": "MapEntry"},
        }

    def _record(self, schema: Schema) -> Any:
        full = schema.name or DEFAULT_NAME
        known = self._named.get(full)
        if known is not None:
            if known.fields == schema.fields:
                return full
            raise DataError(f"two structs of one name have different fields: {full}")
        self._named[full] = schema
        namespace, _, name = full.rpartition(".")
        described: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            described["namespace"] = namespace
        described["fields"] = [self._field(field.name, field.schema) for field in schema.fields]
        _add_traits(described, schema)
        return described

    def _field(self, name: str, schema: Schema) -> dict[str, Any]:
        described = {"name": name, "type": self.of(schema)}
        if schema.doc is not None:
            described["doc"] = schema.doc
        if schema.default is not None:
            described["default"] = _default(schema, schema.default)
        elif schema.optional:
            described["default"] = None
        return described


def _primitive(schema: Schema) -> dict[str, Any]:
    described: dict[str, Any] = {"type": _TO_AVRO[schema.type]}
    if schema.type in (Type.INT8, Type.INT16):
        described["connect.type"] = schema.type.value
    if schema.logical is not None:
        described["logicalType"] = _OF_LOGICAL[schema.logical]
        if schema.logical is Logical.DECIMAL:
            precision = (schema.parameters or {}).get("connect.decimal.precision")
            described["scale"] = schema.scale
            described["precision"] = int(precision) if precision else _PRECISION
    return described


def _add_traits(described: dict[str, Any], schema: Schema) -> None:
    if schema.doc is not None:
        described["connect.doc"] = schema.doc
    if schema.version is not None:
        described["connect.version"] = schema.version
    if schema.parameters:
        described["connect.parameters"] = dict(schema.parameters)
    if schema.name is not None:
        described["connect.name"] = str(schema.name)


def _default(schema: Schema, value: Any) -> Any:
    """Return a default value in Avro's JSON, where bytes are a text of code points up to 255."""
    from moldau.connect.data import logical

    if value is None:
        return None
    if schema.logical is Logical.DECIMAL:
        return logical.decimal_to_bytes(value, schema.scale).decode("latin-1")
    if schema.logical is Logical.DATE:
        return logical.date_to_days(value)
    if schema.logical is Logical.TIME:
        return logical.time_to_ms(value)
    if schema.logical is Logical.TIMESTAMP:
        return logical.timestamp_to_ms(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.row, strict=True)
        return {field.name: _default(field.schema, item) for field, item in pairs}
    if isinstance(value, list) and schema.value_schema is not None:
        return [_default(schema.value_schema, item) for item in value]
    if isinstance(value, dict) and schema.value_schema is not None:
        return {name: _default(schema.value_schema, item) for name, item in value.items()}
    return value


def from_avro(parsed: Any) -> Schema:
    """Return the Connect schema of a parsed Avro schema, in which names are full names."""
    return _Reading().of(parsed)


class _Reading:
    """Reads one schema and keeps the named types. A recursive type has no Connect schema."""

    def __init__(self) -> None:
        self._named: dict[str, Schema | None] = {}

    def of(self, described: Any) -> Schema:
        if isinstance(described, list):
            return self._union(described)
        if isinstance(described, str):
            return self._reference(described)
        kind = described["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if kind == "record":
            return self._record(described)
        if kind == "array":
            return self._array(described)
        if kind == "map":
            values = self.of(described["values"])
            return _with_traits(Schema.map(Schema(Type.STRING), values), described)
        if kind not in _TO_CONNECT:
            return self._reference(kind)
        schema = _with_traits(_primitive_of(kind, described), described)
        if kind in ("enum", "fixed"):
            self._named[described["name"]] = schema
        return schema

    def _reference(self, name: str) -> Schema:
        if name in _TO_CONNECT:
            return Schema(_TO_CONNECT[name])
        if name not in self._named:
            raise DataError(f"the Avro type {name} has no Connect type")
        known = self._named[name]
        if known is None:
            raise DataError(f"the Avro type {name} holds itself; Connect has no such type")
        return known

    def _record(self, described: dict[str, Any]) -> Schema:
        full = described["name"]
        self._named[full] = None
        fields = {}
        for field in described["fields"]:
            part = self.of(field["type"])
            default = field.get("default")
            if default is not None:
                part = part.replace(default=_default_of(part, default))
            if field.get("doc") is not None:
                part = part.replace(doc=field["doc"])
            fields[field["name"]] = part
        name = None if full == DEFAULT_NAME else full
        schema = _with_traits(Schema.struct(fields, name=name), described)
        self._named[full] = schema
        return schema

    def _array(self, described: dict[str, Any]) -> Schema:
        items = described["items"]
        part = self.of(items)
        if isinstance(items, dict) and items.get("connect.internal.type") == "MapEntry":
            keys, values = (part.field(name) for name in ("key", "value"))
            if keys is not None and values is not None:
                return _with_traits(Schema.map(keys.schema, values.schema), described)
        return _with_traits(Schema.array(part), described)

    def _union(self, branches: list[Any]) -> Schema:
        others = [branch for branch in branches if branch != "null"]
        if len(others) == 1:
            return self.of(others[0]).optionally(len(branches) > 1)
        fields = {branch_name(each): self.of(each).optionally() for each in others}
        return Schema.struct(fields, name=UNION, optional=len(others) < len(branches))


def branch_name(branch: Any) -> str:
    """Return the name of the field that stands for one type of a union."""
    if isinstance(branch, dict):
        return str(branch.get("name", branch["type"])).rpartition(".")[2]
    return str(branch).rpartition(".")[2]


def _primitive_of(kind: str, described: Mapping[str, Any]) -> Schema:
    plain = _TO_CONNECT[kind]
    if described.get("connect.type") in (Type.INT8.value, Type.INT16.value):
        plain = Type(described["connect.type"])
    logical = _LOGICAL.get(str(described.get("logicalType")))
    if logical is None or LOGICAL_TYPES[logical] is not plain:
        return Schema(plain)
    if logical is Logical.DECIMAL:
        schema = Schema.decimal(int(described.get("scale", 0)))
        precision = described.get("precision", _PRECISION)
        if precision == _PRECISION:
            return schema
        more = {**(schema.parameters or {}), "connect.decimal.precision": str(precision)}
        return schema.replace(parameters=more)
    return Schema(plain, name=logical, version=1)


def _with_traits(schema: Schema, described: Mapping[str, Any]) -> Schema:
    parameters = described.get("connect.parameters")
    return schema.replace(
        name=described.get("connect.name", schema.name),
        version=described.get("connect.version", schema.version),
        doc=described.get("connect.doc", schema.doc),
        parameters=dict(parameters) if parameters else schema.parameters,
    )


def _default_of(schema: Schema, value: Any) -> Any:
    from moldau.connect.data import logical

    if schema.logical is Logical.DECIMAL:
        return logical.decimal_from_bytes(str(value).encode("latin-1"), schema.scale)
    if schema.logical is Logical.DATE:
        return logical.date_from_days(value)
    if schema.logical is Logical.TIME:
        return logical.time_from_ms(value)
    if schema.logical is Logical.TIMESTAMP:
        return logical.timestamp_from_ms(value)
    if schema.type is Type.BYTES:
        return str(value).encode("latin-1")
    if schema.type is Type.STRUCT and schema.name != UNION:
        pairs = {
            field.name: _default_of(field.schema, value[field.name])
            for field in schema.fields
            if value.get(field.name) is not None
        }
        return Struct(schema, pairs)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [_default_of(schema.value_schema, item) for item in value]
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(value)
    return None if schema.name == UNION else value
