"""The kinds of settings, and the conversion of texts to values with Kafka's rules and messages."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from moldau.config import hiding


class ConfigType(StrEnum):
    """The types that Kafka's REST API names."""

    STRING = "STRING"
    INT = "INT"
    LONG = "LONG"
    SHORT = "SHORT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type


HIDDEN = hiding.HIDDEN
_BITS: Mapping[ConfigType, int] = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_OF_TYPE: Mapping[object, ConfigType] = {
    str: ConfigType.STRING,
    int: ConfigType.INT,
    float: ConfigType.DOUBLE,
    bool: ConfigType.BOOLEAN,
    SecretStr: ConfigType.PASSWORD,
}
_COMMAS = re.compile(r"\s*,\s*")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def without_none(annotation: object) -> object:
    """Return the annotation without None: `int | None` -> `int`."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return rest[0]
    return annotation


def kind_of(annotation: object) -> ConfigType:
    """Return the kind for a Python annotation."""
    annotation = without_none(annotation)
    if get_origin(annotation) in (list, tuple, set, frozenset):
        return ConfigType.LIST
    return _OF_TYPE.get(annotation, ConfigType.STRING)


def choices_of(annotation: object) -> tuple[str, ...]:
    """Return the texts that an Enum or a Literal allows; () for everything else."""
    annotation = without_none(annotation)
    if get_origin(annotation) is Literal:
        return tuple(str(each) for each in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(each.value) for each in annotation)
    return ()


def parsed(kind: ConfigType, choices: Sequence[str], value: object) -> object:
    """Convert a text to a value. Raise ValueError with the reason. Leave other values unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind is ConfigType.LIST:
        return _COMMAS.split(text) if text else []
    if choices:
        for choice in choices:
            if choice.lower() == text.lower():
                return choice
        raise ValueError(f"String must be one of: {', '.join(choices)}")
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return text.lower() == "true"
    if kind in _BITS:
        limit = 1 << _BITS[kind]
        if not _INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
            raise ValueError(f"Not a number of type {kind}")
        return int(text)
    if kind is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"Not a number of type {kind}") from None
    return text


def shown(kind: ConfigType, value: Any) -> str | None:
    """Return the text of a value for answers: as in a file, with passwords hidden."""
    if value is None:
        return None
    if kind is ConfigType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple)):
        return ",".join(str(item.value if isinstance(item, Enum) else item) for item in value)
    return str(value)
