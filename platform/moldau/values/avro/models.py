"""Makes an Avro schema of a dataclass, a pydantic model or a msgspec struct.

The schema is one that the Avro serializer writes instances with: `int` is a long, an optional field
a union with null, a datetime a long with a logical type. A field with a plain default keeps it, so
that adding the field is compatible.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
from collections import abc
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from moldau.errors import ConfigError
from moldau.values.annotations import field_types, is_union

_PLAIN: Final[dict[Any, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
}
_UUID: Final = {"type": "string", "logicalType": "uuid"}
_LISTS: Final = (list, set, frozenset, tuple, abc.Sequence, abc.Set, abc.Collection)
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)
_NONE: Final = object()


def avro_of_type(type: Any) -> dict[str, Any]:
    """Return the schema of a class. Raise ConfigError for a field that Avro has no type for."""
    made = _Models().schema(type, type.__name__)
    if not isinstance(made, dict) or made.get("type") != "record":
        raise ConfigError("an Avro record is made of a class with fields", given=type.__name__)
    return made


class _Models:
    """Makes the schemas of one class and of those in its fields; each is defined once."""

    def __init__(self) -> None:
        self._defined: dict[str, Any] = {}

    def schema(self, annotation: Any, where: str) -> Any:
        """Return the schema of an annotation; `where` is for errors."""
        if hasattr(annotation, "__value__"):  # an alias
            return self.schema(annotation.__value__, where)
        if annotation in _PLAIN:
            return _PLAIN[annotation]
        if getattr(annotation, "__qualname__", "") == "UUID" and annotation.__module__ == "uuid":
            return _UUID
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.schema(arguments[0], where)
        if is_union(annotation):
            return self._union(arguments, where)
        if origin is Literal and all(isinstance(each, str) for each in arguments):
            return "string"
        if origin in _LISTS:
            return self._array(origin, arguments, where)
        if origin in _MAPS and arguments[0] is str:
            return {"type": "map", "values": self.schema(arguments[1], where)}
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return self._enum(annotation, where)
        if isinstance(annotation, type) and not issubclass(annotation, decimal.Decimal):
            fields = list(field_types(annotation))
            if fields:
                return self._record(annotation, fields, where)
        raise ConfigError(
            "this field has no type in Avro: give the serializer a schema of its own",
            field=where,
            type=str(annotation),
        )

    def _union(self, parts: tuple[Any, ...], where: str) -> list[Any]:
        made = [self.schema(each, where) for each in parts]
        return sorted(made, key=lambda each: each != "null")

    def _array(self, origin: Any, arguments: tuple[Any, ...], where: str) -> dict[str, Any]:
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):
            raise ConfigError(
                "a tuple of fixed length has no type in Avro: use a list or a class",
                field=where,
            )
        return {"type": "array", "items": self.schema(arguments[0], where)}

    def _enum(self, kind: type[enum.Enum], where: str) -> Any:
        symbols = [each.value for each in kind]
        if not all(isinstance(each, str) and each.isidentifier() for each in symbols):
            raise ConfigError("the values of an enum must be names in Avro", field=where)
        return self._once(kind, {"type": "enum", "name": kind.__name__, "symbols": symbols})

    def _once(self, kind: type[Any], schema: dict[str, Any]) -> Any:
        """Return a schema at its first use, and later its name."""
        known = self._defined.setdefault(kind.__name__, kind)
        if known is not kind:
            raise ConfigError("two classes have one name, which Avro does not allow",
                              name=kind.__name__)  # fmt: skip
        return schema

    def _record(self, kind: type[Any], fields: list[tuple[str, list[str], Any]], where: str) -> Any:
        name = kind.__name__
        if self._defined.get(name) is kind:
            return name
        made: dict[str, Any] = self._once(kind, {"type": "record", "name": name, "fields": []})
        defaults = dict(_defaults(kind))
        for field, _, annotation in fields:
            part = {"name": field, "type": self.schema(annotation, f"{where}.{field}")}
            default = _plain(defaults.get(field, _NONE))
            if default is not _NONE:
                part["type"] = _first(part["type"], default)
                part["default"] = default
            made["fields"].append(part)
        return made


def _defaults(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields that have a default, with it."""
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            if each.default is not dataclasses.MISSING:
                yield each.name, each.default
            elif each.default_factory in (list, dict):
                yield each.name, each.default_factory()
    elif hasattr(kind, "model_fields"):
        for name, info in kind.model_fields.items():
            if not info.is_required():
                yield name, info.get_default(call_default_factory=True)
    elif hasattr(kind, "__struct_fields__"):
        names, values = kind.__struct_fields__, kind.__struct_defaults__
        yield from zip(names[len(names) - len(values) :], values, strict=True)


def _plain(value: Any) -> Any:
    """Return a default as JSON has it; _NONE for one that it does not have."""
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, float, str)) or value in ([], {}):
        return value
    return _NONE


def _first(schema: Any, default: Any) -> Any:
    """Return a union with the branch first that the default is of, as Avro wants it."""
    if not isinstance(schema, list):
        return schema
    is_null = default is None
    return sorted(schema, key=lambda each: (each == "null") is not is_null)
