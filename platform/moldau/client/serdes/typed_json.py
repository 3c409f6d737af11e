"""JSON, plain or into types: dataclasses, pydantic models, msgspec structs, TypedDict, and whatever
else pydantic can check.

Written compactly and in UTF-8, as Java's serializers do it, so that equal keys of two languages
meet in one partition. NaN and infinities are refused, as JSON has none. A type is checked while it
is read: what does not fit is an error that names the field, and never a half-made object.

msgspec structs are read and written by msgspec, everything else with a type by pydantic; without a
type, Python's own `json` reads and writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from moldau.client.serdes.contract import DeserializationFailed, Place

T = TypeVar("T")

Write = Callable[[Any], bytes]


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _plain(value: object) -> object:
    """What the encoder does not know: models, dataclasses, structs, times, UUIDs, decimals."""
    if hasattr(type(value), "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value)
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode
_decode: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def write_json(value: object) -> bytes:
    """Compact JSON of plain values, models, dataclasses and structs, nested as they like."""
    return _encode(value).encode()


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


def plain_fields(value: Any) -> Any:
    """A model, dataclass or struct as a dict of its fields, with times and decimals left as they
    are; anything else as it is."""
    kind = type(value)
    if kind is dict:
        return value
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value, builtin_types=_kept(), str_keys=False)
    if hasattr(kind, "model_dump"):
        return value.model_dump()
    if hasattr(kind, "__dataclass_fields__"):
        from dataclasses import asdict

        return asdict(value)
    return value


def _kept() -> tuple[type, ...]:
    from datetime import date, datetime, time, timedelta
    from decimal import Decimal

    return (bytes, bytearray, datetime, date, time, timedelta, Decimal)


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
    "plain_fields",
    "read_json",
    "write_json",
]
