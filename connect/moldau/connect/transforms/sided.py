"""What the transforms of keys and of values share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

from moldau.connect.api.record import ConnectRecord
from moldau.connect.api.transformation import R, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data.schema import Field, Schema, SchemaAndValue, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError

T = TypeVar("T")
_SCHEMAS_MAX = 64
JAVA_PACKAGE = "org.apache.kafka.connect.transforms."


class KeyOrValueTransform(Transformation):
    """The base of transforms that change the key (if the subclass sets `on_key`) or the value."""

    on_key: ClassVar[bool] = False

    def apply(self, record: R) -> R | None:
        if self.on_key:
            changed = self.change(record, record.key_schema, record.key)
            if changed is None:
                return record
            copy = record.copy()
            copy.key_schema, copy.key = changed
            return copy
        changed = self.change(record, record.value_schema, record.value)
        if changed is None:
            return record
        copy = record.copy()
        copy.value_schema, copy.value = changed
        return copy

    @abstractmethod
    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        """Return the new key or value; None leaves the record unchanged."""


class NullReplacement(ConfigModel):
    """The setting that transforms which copy fields share."""

    offers_choices: ClassVar[bool] = False

    replace_null_with_default: bool = key(
        "replace.null.with.default",
        True,
        doc="Write the default of a field where it is null.",
        rank=1,
    )


class BySchema(Generic[T]):
    """A cache of results by schema. It compares identities: comparing schemas costs more than most
    transforms, and converters return the same schema object again and again."""

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        self._known: dict[int, tuple[Schema, T]] = {}

    def __call__(self, schema: Schema) -> T:
        known = self._known.get(id(schema))
        if known is None:
            if len(self._known) >= _SCHEMAS_MAX:
                self._known.clear()
            known = self._known[id(schema)] = (schema, self._make(schema))
        return known[1]


class StructReader:
    """Reads the values of structs, with or without the defaults of their fields."""

    def __init__(self, replace_nulls: bool) -> None:
        self._replace = replace_nulls
        self._defaults = BySchema(_defaults_of)

    def of(self, struct: Struct) -> list[Any]:
        """Return a new list with one value for each field."""
        defaults = self._defaults(struct.schema) if self._replace else None
        if defaults is None:
            return struct.row.copy()
        return [
            default if value is None else value
            for value, default in zip(struct.row, defaults, strict=True)
        ]


def _defaults_of(schema: Schema) -> list[Any] | None:
    defaults = [field.schema.default for field in schema.fields]
    return None if all(default is None for default in defaults) else defaults


def basics(schema: Schema, fields: Iterable[tuple[str, Schema]]) -> Schema:
    """Return a required struct schema with name, version, doc and parameters of `schema`."""
    members = tuple(Field(name, at, part) for at, (name, part) in enumerate(fields))
    return Schema(
        Type.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=members,
    )


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """Return the value. Raise DataError if it is no map: one without a schema must be a map."""
    if not isinstance(value, dict):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}], "
            f"found: {type(value).__name__}"
        )
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    """Return the value. Raise DataError if it is no struct: one with a schema must be a struct."""
    if not isinstance(value, Struct):
        raise DataError(
            f"Only Struct objects supported for [{purpose}], found: {type(value).__name__}"
        )
    return value


def names_of(name: str, values: list[str], *, may_be_empty: bool = False) -> Iterable[Problem]:
    """Yield a problem for an empty list of names, and for an empty name. Duplicates are allowed."""
    shown = f"[{', '.join(values)}]"
    prefix = f"Invalid value {shown} for configuration {name}: "
    if not values and not may_be_empty:
        yield Problem(name, f"{prefix}Configuration '{name}' must not be empty. Valid values: any")
    if any(not value for value in values):
        yield Problem(name, f"{prefix}Configuration '{name}' values must not be empty.")
