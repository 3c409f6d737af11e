"""The kinds of values that expressions know, and the fields of typed records."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import difflib
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

NoneType: Final = type(None)


class Kind(Enum):
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    DECIMAL = "Decimal"
    TEXT = "str"
    BYTES = "bytes"
    TIME = "datetime"
    DATE = "date"
    NULL = "null"
    # Records, lists and others: they are compared and passed on, but nothing computes with them.
    OTHER = "another type"
    # The type is not known before a record comes.
    ANY = "any"


NUMBERS: Final = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)
ORDERED: Final = (*NUMBERS, Kind.TEXT, Kind.BYTES, Kind.TIME, Kind.DATE)
_KINDS: Final[dict[Any, Kind]] = {
    bool: Kind.BOOL,
    int: Kind.INT,
    float: Kind.FLOAT,
    decimal.Decimal: Kind.DECIMAL,
    str: Kind.TEXT,
    bytes: Kind.BYTES,
    datetime.datetime: Kind.TIME,
    datetime.date: Kind.DATE,
    NoneType: Kind.NULL,
    Any: Kind.ANY,
    object: Kind.ANY,
}


def kind_of(hint: Any) -> Kind:
    """Return the kind of a type without None."""
    try:
        return _KINDS.get(hint, Kind.OTHER)
    except TypeError:
        return Kind.OTHER


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was part of it."""
    if get_origin(hint) is typing.Annotated:
        return without_none(get_args(hint)[0])
    if get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, hint is Any or hint is object
    rest = [each for each in get_args(hint) if each is not NoneType]
    inner = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
    return inner, len(rest) < len(get_args(hint))


@lru_cache(maxsize=1024)
def fields_of(record: Any) -> dict[str, Any] | None:
    """Return the fields of a type of records, with their types; None if they are not known."""
    if not isinstance(record, type):
        return None
    if issubclass(record, msgspec.Struct):
        return {each.name: each.type for each in msgspec.structs.fields(record)}
    is_typed_dict = typing.is_typeddict(record)
    if is_typed_dict or dataclasses.is_dataclass(record) or hasattr(record, "model_fields"):
        hints = get_type_hints(record)
        if dataclasses.is_dataclass(record):
            names: Any = [each.name for each in dataclasses.fields(record)]
        else:
            names = hints if is_typed_dict else record.model_fields  # type: ignore[attr-defined]
        optional: frozenset[str] = getattr(record, "__optional_keys__", frozenset())
        return {name: hints[name] | None if name in optional else hints[name] for name in names}
    return None


def record_type(fields: Mapping[str, Any]) -> Any:
    """Return the type of dictionaries with these fields, each of which may be null."""
    nullable = {name: typing.Optional[hint] for name, hint in fields.items()}  # noqa: UP045
    return typing.TypedDict("Row", nullable)  # type: ignore[operator]


def is_mapping(record: Any) -> bool:
    """Whether records of the type have their fields as items, not as attributes."""
    if typing.is_typeddict(record):
        return True
    origin = get_origin(record) or record
    return isinstance(origin, type) and issubclass(origin, Mapping)


def has_fields(record: Any) -> bool:
    """Whether values of the type can have fields."""
    return kind_of(record) is Kind.ANY or is_mapping(record) or fields_of(record) is not None


def field_type(record: Any, name: str) -> tuple[Any, bool]:
    """Return the type of a field, and whether it may be null. Raise LookupError, with what to write
    instead, if there is no such field."""
    if not has_fields(record):
        what = getattr(record, "__name__", str(record))
        raise LookupError(f"there is no field {name!r}, because {what} has no fields")
    known = fields_of(record)
    if known is None:
        arguments = get_args(record)
        return without_none(arguments[1])[0] if len(arguments) == 2 else Any, True
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        raise LookupError(f"{record.__name__} has no field {name!r}; {hint}")
    return without_none(known[name])


def unified(hints: list[Any]) -> Any:
    """Return the type that holds values of all these types. Raise TypeError if there is none."""
    real = [each for each in dict.fromkeys(hints) if each is not NoneType]
    if len(real) < 2:
        return real[0] if real else NoneType
    if any(kind_of(each) is Kind.ANY for each in real):
        return Any
    if set(real) == {int, float}:
        return float
    names = " and ".join(kind_of(each).value for each in real)
    raise TypeError(f"{names} have no common type; use cast(...)")
