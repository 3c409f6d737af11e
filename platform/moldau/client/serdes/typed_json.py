"""JSON, plain or into types: dataclasses, pydantic models, msgspec structs, TypedDict, and whatever
else pydantic can check.

Written compactly and in UTF-8, as Java's serializers do it, so that equal keys of two languages
meet in one partition. A type is checked while it is read: what does not fit is an error that names
the field, and never a half-made object.

What JSON does not have is refused: NaN and infinities, keys that are not text, bytes, sets. (Else
Python's encoder writes `{None: 1}` as `{"null":1}`, and one key twice for `{1: 2, "1": 3}`.) Taken,
as one text for each, are times, decimals, UUIDs and members of an Enum (its value); tuples are
arrays.
Within an object, whose class knows what its fields are, more is taken: whatever pydantic (msgspec
for structs) writes and reads again, such as bytes, sets and keys of another type.

msgspec structs are read and written by msgspec, everything else with a type by pydantic; without a
type, Python's own `json` reads and writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from reprlib import repr
from typing import Any, Final, Generic, TypeVar, cast

from moldau.client.serdes.contract import DeserializationFailed, Place, SerializationFailed
from moldau.client.serdes.fields import fields_of, has_fields

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
        _refuse_changed(value)
        if is_struct(type(value)):
            import msgspec

            return msgspec.to_builtins(value)
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(value)
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


def _refuse_changed(value: Any) -> None:
    """What the libraries would change in an object: they make null of NaN, and text of all keys of
    a dict, by which two of several types may become one."""
    if isinstance(value, dict):
        kinds = set(map(type, value))
        if len(kinds) > 1 or type(None) in kinds:
            raise SerializationFailed("keys of JSON are text", keys=repr(list(value)))
        inside: Any = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    elif has_fields(value):
        inside = vars(value).values() if hasattr(value, "__dict__") else _fields(value)
    elif isinstance(value, float) and value - value != 0:
        raise SerializationFailed("JSON has no such number", found=repr(value))
    else:
        return
    for each in inside:
        _refuse_changed(each)


def _fields(value: Any) -> Any:
    return (fields_of(value) or {}).values()


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


class JsonDeserializer(Generic[T]):
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

    validate = TypeAdapter(type).validate_python

    def read(value: Any) -> T:
        try:
            return validate(value)
        except ValidationError as error:
            raise DeserializationFailed(_first_of(error), type=_name(type)) from error

    return read


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
