"""Schemas: the type of a value, its name, version and documentation, and whether it may be None.

A schema never changes, and its hash is computed once, so that caches can be keyed by schemas.
`Schema.optionally()` and `replace` return a changed copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from moldau.connect.errors import DataError
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Type(StrEnum):
    """The types of Connect; the values are the names in Kafka's JSON schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class Logical(StrEnum):
    """The names of schemas whose values have their own Python type."""

    DECIMAL = "org.apache.kafka.connect.data.Decimal"
    DATE = "org.apache.kafka.connect.data.Date"
    TIME = "org.apache.kafka.connect.data.Time"
    TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


LOGICAL_TYPES: Mapping[str, Type] = {
    Logical.DECIMAL: Type.BYTES,
    Logical.DATE: Type.INT32,
    Logical.TIME: Type.INT32,
    Logical.TIMESTAMP: Type.INT64,
}


class Field(NamedTuple):
    """A field of a struct."""

    name: str
    position: int
    schema: Schema


class Traits(TypedDict, total=False):
    """The properties that every schema may have beside its type."""

    optional: bool
    name: str | None
    version: int | None
    doc: str | None
    parameters: Mapping[str, str] | None
    default: Any


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """The type of a value. `fields` belongs to structs, `value_schema` to arrays and maps,
    `key_schema` to maps."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    default: Any = None
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    positions: Mapping[str, int] = dataclasses.field(init=False)
    """The index of each field of a struct, by its name."""
    logical: Logical | None = dataclasses.field(init=False)
    _hash: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "positions", {field.name: field.position for field in self.fields})
        if len(self.positions) != len(self.fields):
            raise DataError("a struct has two fields of one name", schema=self.name)
        is_logical = self.name is not None and LOGICAL_TYPES.get(self.name) is self.type
        put(self, "logical", Logical(self.name) if is_logical and self.name else None)
        put(self, "_hash", hash(self._shape()))
        if self.default is not None:
            from moldau.connect.data.validation import validate_default

            validate_default(self)

    # --- constructors -----------------------------------------------------------------------

    @staticmethod
    def of(type_: Type, **traits: Unpack[Traits]) -> Schema:
        """Return a schema of a type without fields or element schemas."""
        return Schema(type_, **traits)

    @staticmethod
    def array(items: Schema, **traits: Unpack[Traits]) -> Schema:
        return Schema(Type.ARRAY, value_schema=items, **traits)

    @staticmethod
    def map(keys: Schema, values: Schema, **traits: Unpack[Traits]) -> Schema:
        return Schema(Type.MAP, key_schema=keys, value_schema=values, **traits)

    @staticmethod
    def struct(fields: Mapping[str, Schema], **traits: Unpack[Traits]) -> Schema:
        """Return a struct schema with these fields, in order."""
        numbered = enumerate(fields.items())
        members = tuple(Field(name, index, schema) for index, (name, schema) in numbered)
        return Schema(Type.STRUCT, fields=members, **traits)

    @staticmethod
    def decimal(scale: int, *, optional: bool = False, default: Any = None) -> Schema:
        """Return the schema of a decimal number with `scale` digits after the point."""
        return Schema(
            Type.BYTES, optional, Logical.DECIMAL, 1, None, {"scale": str(scale)}, default
        )

    # --- changed copies ---------------------------------------------------------------------

    def optionally(self, optional: bool = True) -> Schema:
        """Return the same schema with `optional` set to this value."""
        return self if self.optional == optional else self.replace(optional=optional)

    def replace(self, **traits: Unpack[Traits]) -> Schema:
        """Return the same schema with these traits changed."""
        return dataclasses.replace(self, **traits)

    def replace_type(self, kind: Type) -> Schema:
        """Return a schema of another primitive type, with the same traits except the default."""
        return Schema(kind, self.optional, self.name, self.version, self.doc, self.parameters)

    # --- questions --------------------------------------------------------------------------

    def field(self, name: str) -> Field | None:
        """Return the field of that name; None if the struct has no such field."""
        position = self.positions.get(name)
        return None if position is None else self.fields[position]

    @property
    def scale(self) -> int:
        """The number of digits after the point of a Decimal schema."""
        try:
            return int((self.parameters or {})["scale"])
        except (KeyError, ValueError):
            raise DataError(
                "a Decimal schema needs the parameter `scale`, a whole number",
                parameters=dict(self.parameters or {}),
            ) from None

    def described(self) -> str:
        """Return the type in words, for messages: `int64`, `optional Decimal`, `struct order`."""
        words = "optional " if self.optional else ""
        if self.logical is not None:
            return words + self.logical.name.capitalize()
        return words + self.type.value + (f" {self.name}" if self.name else "")

    def _shape(self) -> tuple[object, ...]:
        """Return all that makes two schemas equal, except the default (it may not be hashable)."""
        parameters = tuple(sorted(self.parameters.items())) if self.parameters else None
        return (
            self.type,
            self.optional,
            self.name,
            self.version,
            self.doc,
            parameters,
            self.fields,
            self.key_schema,
            self.value_schema,
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return (
            self._hash == other._hash
            and self._shape() == other._shape()
            and self.default == other.default
        )

    def __repr__(self) -> str:
        shown = [repr(self.type.name)]
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.init and each.name not in ("type", "fields") and value not in (None, False):
                shown.append(f"{each.name}={value!r}")
        if self.fields:
            shown.append(f"fields={ {field.name: field.schema for field in self.fields} }")
        return f"Schema({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields without the hash: text hashes differ from process to process."""
        names = (each.name for each in dataclasses.fields(self) if each.init)
        return Schema, tuple(getattr(self, name) for name in names)


class SchemaAndValue(NamedTuple):
    """The result of a converter; the schema is None for data without one."""

    schema: Schema | None
    value: Any


INT8 = Schema(Type.INT8)
INT16 = Schema(Type.INT16)
INT32 = Schema(Type.INT32)
INT64 = Schema(Type.INT64)
FLOAT32 = Schema(Type.FLOAT32)
FLOAT64 = Schema(Type.FLOAT64)
BOOLEAN = Schema(Type.BOOLEAN)
STRING = Schema(Type.STRING)
BYTES = Schema(Type.BYTES)
OPTIONAL_INT8 = Schema(Type.INT8, optional=True)
OPTIONAL_INT16 = Schema(Type.INT16, optional=True)
OPTIONAL_INT32 = Schema(Type.INT32, optional=True)
OPTIONAL_INT64 = Schema(Type.INT64, optional=True)
OPTIONAL_FLOAT32 = Schema(Type.FLOAT32, optional=True)
OPTIONAL_FLOAT64 = Schema(Type.FLOAT64, optional=True)
OPTIONAL_BOOLEAN = Schema(Type.BOOLEAN, optional=True)
OPTIONAL_STRING = Schema(Type.STRING, optional=True)
OPTIONAL_BYTES = Schema(Type.BYTES, optional=True)
DATE = Schema(Type.INT32, name=Logical.DATE, version=1)
TIME = Schema(Type.INT32, name=Logical.TIME, version=1)
TIMESTAMP = Schema(Type.INT64, name=Logical.TIMESTAMP, version=1)
