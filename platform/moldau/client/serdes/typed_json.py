"""JSON, plain or into types: dataclasses, pydantic models, msgspec structs, TypedDict, and whatever
else pydantic can check.

Written compactly and in UTF-8, as Java's serializers do it, so that equal keys of two languages
meet in one partition. A type is checked while it is read: what does not fit is an error that names
the field, and never a half-made object.

What JSON does not have is refused: NaN and infinities, keys that are not text, bytes, sets. (Else
Python's encoder writes `{None: 1}` as `{"null":1}`, and one key twice for `{1: 2, "1": 3}`.) Taken,
as one text for each, are times, decimals, UUIDs and members of an Enum (its value); tuples are
arrays. Within an object more is taken, because its class knows what its fields are: whatever
pydantic (msgspec for structs) writes and reads again, such as bytes, sets and keys of another type.

msgspec structs are read and written by msgspec, everything else with a type by pydantic; without a
type, Python's own `json` reads and writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import cache, partial
from inspect import signature
from reprlib import repr
from typing import Any, Final, Generic, TypeVar, cast

from moldau.client.serdes.annotations import reachable
from moldau.client.serdes.contract import DeserializationFailed, Place, SerializationFailed
from moldau.client.serdes.fields import has_fields
from moldau.client.serdes.remade import Remade

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
    """What the encoder does not know: objects, times, decimals, UUIDs."""
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
    """What is written of it, held against the same before it became JSON."""
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
    """What gives the plain values of an object, with what its class says about its writing."""
    from pydantic_core import SchemaSerializer, core_schema

    dump: Callable[[Any], Any] = SchemaSerializer(core_schema.any_schema()).to_python
    return dump


def _refuse_changed(held: Any, written: Any) -> None:
    """What the libraries would change in an object: they make null of NaN, and text of all keys of
    a dict, by which two may become one."""
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
    """Whether it is of JSON's own types all the way down. SerializationFailed for a key that is no
    text, which the encoder would make text of."""
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
    """Compact JSON of plain values, models, dataclasses and structs, nested as they like."""
    return write_looked_at(value)[0]


def write_looked_at(value: object) -> tuple[bytes, bool]:
    """The JSON, and whether it was of JSON's own types, so that reading it would give the same."""
    try:
        is_plain = _is_plain(value)
        return _encode(value).encode(), is_plain
    except RecursionError:
        raise SerializationFailed("it is nested too deeply, or contains itself") from None


def read_json(data: bytes) -> Any:
    """Plain values."""
    return _decode(data.decode())


class JsonSerializer:
    """Makes JSON of plain values and of models, dataclasses and structs."""

    def __call__(self, value: Any, place: Place, /) -> bytes:
        return write_json(value)


class JsonDeserializer(Remade, Generic[T]):
    """Makes plain values of JSON, or an instance of `type`."""

    def __init__(self, type: type[T] | None = None) -> None:
        self._read: Callable[[bytes], T] = read_json if type is None else json_reader(type)

    def __call__(self, data: bytes, place: Place, /) -> T:
        return self._read(data)


def json_reader(type: type[T]) -> Callable[[bytes], T]:
    """What reads JSON into that type."""
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
    """What makes an instance of that type of plain values (an Avro record as a dict)."""
    if is_struct(type):
        import msgspec

        def convert(value: Any) -> T:
            return msgspec.convert(value, type)

        return convert
    from pydantic import TypeAdapter, ValidationError

    validate: Callable[..., T] = TypeAdapter(type).validate_python
    # Avro has the fields' own names; pydantic can be told to take them since 2.11.
    if "by_name" in signature(validate).parameters:
        validate = _by_names(type, validate)

    def read(value: Any) -> T:
        try:
            return validate(value)
        except ValidationError as error:
            raise DeserializationFailed(_first_of(error), type=_name(type)) from error

    return read


def _by_names(type: Any, validate: Callable[..., T]) -> Callable[[Any], T]:
    """Reads a field by its name or its alias; where an alias is also another field's name, by the
    names, or if that fails by both."""
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
    """The names of a model's fields, and what else some are read as. Not where a model is written
    under its aliases: then no name is meant by one."""
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
    """Whether it is msgspec's."""
    return hasattr(type, "__struct_fields__")


def _first_of(error: Any) -> str:
    first = cast("list[dict[str, Any]]", error.errors(include_url=False, include_input=False))[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _name(type: object) -> str:
    return str(type) if hasattr(type, "__args__") else getattr(type, "__qualname__", str(type))


__all__ = [
    "JsonDeserializer",
    "JsonSerializer",
    "is_struct",
    "json_reader",
    "object_reader",
    "read_json",
    "write_json",
    "write_looked_at",
]
