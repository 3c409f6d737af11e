"""JSON as plain values or into types: dataclasses, pydantic models, msgspec structs, TypedDict, and
whatever else pydantic can validate.

It is written compactly and in UTF-8, as by Java's serializers, so that equal keys of two languages
go to the same partition. A type is validated while it is read: a value that does not fit raises an
error that names the field, and never becomes a half-made object.

Values that JSON does not have are rejected: NaN and infinities, keys that are not text, bytes,
sets. (Python's encoder would write `{None: 1}` as `{"null":1}`, and one key twice for `{1: 2, "1":
3}`.) Times, decimals, UUIDs and members of an Enum (by value) are accepted, each with one text
form; tuples become arrays. Within an object more is accepted, because its class defines its fields:
whatever pydantic (msgspec for structs) writes and reads again, such as bytes, sets and keys of
another type.

msgspec structs are read and written by msgspec, everything else with a type by pydantic; without a
type, Python's own `json` reads and writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import cache, partial
from inspect import signature
from reprlib import repr
from typing import Any, Final, TypeVar, cast

from moldau.values.annotations import reachable
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.fields import has_fields

T = TypeVar("T")

Write = Callable[[Any], bytes]


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _rendered(value: object) -> object:
    """Return plain values for objects, times, decimals and UUIDs, which the encoder rejects."""
    if has_fields(value):
        return _rendered_object(value)
    from datetime import date, time, timedelta
    from decimal import Decimal
    from enum import Enum

    if isinstance(value, Enum):
        return value.value
    is_uuid = hasattr(value, "hex") and hasattr(value, "urn")
    if is_uuid or isinstance(value, date | time | timedelta | Decimal):
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(value)
    raise SerializationFailed("JSON has nothing of that type", found=type(value).__qualname__)


def _rendered_object(value: Any) -> object:
    """Return the plain values to write. Raise SerializationFailed if JSON would change them."""
    if is_struct(type(value)):
        import msgspec

        built = msgspec.to_builtins(value)
        _refuse_changed(built, built)
        return built
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        written: object = to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise SerializationFailed(f"it cannot be made JSON: {error}") from error
    _refuse_changed(_dump()(value), written)
    return written


@cache
def _dump() -> Callable[[Any], Any]:
    """Return the function that makes plain values of an object by its class's own serializers."""
    from pydantic_core import SchemaSerializer, core_schema

    dump: Callable[[Any], Any] = SchemaSerializer(core_schema.any_schema()).to_python
    return dump


def _refuse_changed(held: Any, written: Any) -> None:
    """Raise SerializationFailed for what the libraries would change: they make null of NaN, and
    text of all keys of a dict, so that two keys may become one."""
    if isinstance(held, dict):
        if isinstance(written, dict):
            _refuse_keys(held, written)
            _refuse_changed_items(held.values(), written.values())
    elif isinstance(held, list | tuple | set | frozenset):
        if isinstance(written, list):
            _refuse_changed_items(held, written)
    elif isinstance(held, float) and held - held != 0 and not isinstance(written, str):
        raise SerializationFailed("JSON has no such number", found=repr(held))


def _refuse_changed_items(held: Collection[Any], written: Collection[Any]) -> None:
    if len(held) != len(written):
        return  # a serializer makes something else of it
    for each, other in zip(held, written, strict=True):
        kind = type(each)
        if kind is float:
            if each - each != 0 and type(other) is not str:
                raise SerializationFailed("JSON has no such number", found=repr(each))
        elif kind not in _SCALARS:
            _refuse_changed(each, other)


def _refuse_keys(held: dict[Any, Any], written: dict[Any, Any]) -> None:
    kinds = set(map(type, held))
    if kinds == _TEXT:
        return
    is_endless = kinds == {float} and any(key - key != 0 for key in held)
    if is_endless or len(kinds) > 1 or kinds & _NO_KEYS or len(written) < len(held):
        raise SerializationFailed("keys of JSON are text", keys=repr(list(held)))


def _is_plain(value: Any) -> bool:
    """Whether the value has only JSON's own types, at all levels. Raise SerializationFailed for a
    key that is not text, because the encoder would convert it."""
    kind = type(value)
    if kind is dict or isinstance(value, dict):
        is_plain = kind is dict
        for key, each in value.items():
            if type(key) is not str:
                if not isinstance(key, str):
                    raise SerializationFailed("keys of JSON are text", key=repr(key))
                is_plain = False
            if type(each) not in _SCALARS:
                is_plain = _is_plain(each) and is_plain
        return is_plain
    if kind is list or isinstance(value, list | tuple):
        is_plain = kind is list
        for each in value:
            if type(each) not in _SCALARS:
                is_plain = _is_plain(each) and is_plain
        return is_plain
    return kind in _SCALARS


_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_TEXT: Final = {str}
_NO_KEYS: Final = {type(None), tuple}
_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_rendered
).encode
_decode: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


def write_json(value: object) -> bytes:
    """Return compact JSON of plain values, models, dataclasses and structs, however nested."""
    return write_looked_at(value)[0]


def write_looked_at(value: object) -> tuple[bytes, bool]:
    """Return the JSON, and whether the value is plain, so that reading the JSON gives it again."""
    try:
        is_plain = _is_plain(value)
        return _encode(value).encode(), is_plain
    except RecursionError:
        raise SerializationFailed("it is nested too deeply, or contains itself") from None


def read_json(data: bytes) -> Any:
    """Return the plain values of a JSON text."""
    return _decode(data.decode())


def json_reader(type: type[T]) -> Callable[[bytes], T]:
    """Return a function that reads JSON into the type."""
    if is_struct(type):
        import msgspec

        return msgspec.json.Decoder(type).decode
    from pydantic import TypeAdapter, ValidationError

    validate = TypeAdapter(type).validate_json

    def read(data: bytes) -> T:
        try:
            return validate(data)
        except ValidationError as error:
            raise DeserializationFailed(_first_of(error), type=_name(type)) from error

    return read


def object_reader(type: type[T]) -> Callable[[Any], T]:
    """Return a function that makes the type of plain values (an Avro record is a dict)."""
    if is_struct(type):
        import msgspec

        def convert(value: Any) -> T:
            return msgspec.convert(value, type)

        return convert
    from pydantic import TypeAdapter, ValidationError

    validate: Callable[..., T] = TypeAdapter(type).validate_python
    # Avro has the fields' own names; pydantic has an option to accept them since 2.11.
    if "by_name" in signature(validate).parameters:
        validate = _by_names(type, validate)

    def read(value: Any) -> T:
        try:
            return validate(value)
        except ValidationError as error:
            raise DeserializationFailed(_first_of(error), type=_name(type)) from error

    return read


def _by_names(type: Any, validate: Callable[..., T]) -> Callable[[Any], T]:
    """Return a function that reads each field by its name or alias. If an alias is also another
    field's name, it reads by the names only, and if that fails by both."""
    from pydantic import ValidationError

    aliases = list(map(_aliases_of, reachable(type, lambda part: False)))
    if not any(held for _, held in aliases):
        return validate
    by_both = partial(validate, by_alias=True, by_name=True)
    if all(names.isdisjoint(held) for names, held in aliases):
        return by_both

    def by_name(value: Any) -> T:
        try:
            return validate(value, by_alias=False, by_name=True)
        except ValidationError as error:
            try:
                return by_both(value)
            except ValidationError:
                raise error from None

    return by_name


def _aliases_of(part: Any) -> tuple[set[str], set[str]]:
    """Return the names of a model's fields and their other aliases. There are no names for a model
    that is written by its aliases: there an alias never means a name."""
    fields = getattr(part, "__pydantic_fields__", None) or {}
    aliases = set[str]()
    for name, info in fields.items():
        alias = info.validation_alias
        for each in getattr(alias, "choices", [alias]):
            text = getattr(each, "path", [each])[0]
            if isinstance(text, str) and text != name:
                aliases.add(text)
    config = getattr(part, "model_config", None) or getattr(part, "__pydantic_config__", None)
    return set() if (config or {}).get("serialize_by_alias") else set(fields), aliases


def is_struct(type: object) -> bool:
    """Whether the type is a msgspec struct."""
    return hasattr(type, "__struct_fields__")


def _first_of(error: Any) -> str:
    first = cast("list[dict[str, Any]]", error.errors(include_url=False, include_input=False))[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _name(type: object) -> str:
    return str(type) if hasattr(type, "__args__") else getattr(type, "__qualname__", str(type))
