"""Kafka's nine types of settings: how each is read from text, written as text, and numbered.

Every value starts as text, whatever file it was in, so that a setting means the same in
`.properties`, YAML, TOML, JSON and the environment. The rules are those of Kafka's ConfigDef:
blanks around a value are ignored, booleans are `true` and `false` in any case, lists are split at
commas and contain each item once. One rule is stricter than Kafka's: NaN and infinities are not
valid numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from moldau.config.secret import HIDDEN, Secret
from moldau.deferred import deferred_pattern

T = TypeVar("T")
V = TypeVar("V")

# What Java's String.trim removes: every character up to and including the space.
_BLANKS = "".join(map(chr, range(33)))
_WHOLE = deferred_pattern(r"[+-]?[0-9]+")
# Possessive: a run of digits is read once, and not split in every possible way.
_FRACTION = deferred_pattern(
    r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[dDfF]?"
)
_SIZE = deferred_pattern(r"([0-9]+) ?([kmgt])(?:i?b)?", re.IGNORECASE)
_DIGITS_MAX = 40


class Kind(Generic[T]):
    """One type of setting. `code` is its number in DescribeConfigs, `allowed` says what fits."""

    __slots__ = ("allowed", "code", "name", "read", "write")

    def __init__(
        self,
        name: str,
        code: int,
        allowed: str,
        read: Callable[[str], T],
        write: Callable[[T], str],
    ) -> None:
        self.name = name
        self.code = code
        self.allowed = allowed
        self.read = read
        self.write = write

    def __repr__(self) -> str:
        return f"Kind({self.name})"


def trim(text: str) -> str:
    """Return `text` without the blanks around it that Kafka ignores."""
    return text.strip(_BLANKS)


def _read_boolean(text: str) -> bool:
    value = text.lower()
    if value not in ("true", "false"):
        raise ValueError
    return value == "true"


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


def _size_hint(text: str) -> str:
    size = _SIZE.fullmatch(text)
    if size is None or len(size[1]) > _DIGITS_MAX:
        return ""
    factor = 1024 ** (1 + "kmgt".index(size[2].lower()))
    return f"sizes are plain bytes here: {int(size[1]) * factor}"


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        # Digits are counted first: int() of a very long text takes quadratic time or raises an
        # error.
        if _WHOLE.fullmatch(text) is None or len(text) > _DIGITS_MAX:
            raise ValueError(_size_hint(text))
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return read


def _read_fraction(text: str) -> float:
    number = _FRACTION.fullmatch(text)
    if number is None:
        raise ValueError
    value = float(number[1])
    if value in (float("inf"), float("-inf")):
        raise ValueError("too large for a double")
    return value


def without_repetition(items: Iterable[str]) -> tuple[str, ...]:
    """Return the items without repeated ones: Kafka keeps the first of equal items."""
    return tuple(dict.fromkeys(items))


def split_at_commas(text: str) -> tuple[str, ...]:
    """Split a list, and remove blanks around the commas; `trim` removes those at both ends."""
    if not text:
        return ()
    first, *others = text.split(",")
    if not others:
        return (first,)
    *middle, last = others
    return (first.rstrip(), *(item.strip() for item in middle), last.lstrip())


def _read_list(text: str) -> tuple[str, ...]:
    return without_repetition(split_at_commas(text))


def _hidden(value: Secret) -> str:
    return HIDDEN


def _number(name: str, code: int, bits: int) -> Kind[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    allowed = f"a whole number from {low} to {high}"
    return Kind(name, code, allowed, _whole(low, high), str)


BOOLEAN: Kind[bool] = Kind("boolean", 1, "true or false", _read_boolean, _write_boolean)
STRING: Kind[str] = Kind("string", 2, "any text", str, str)
INT = _number("int", 3, 32)
SHORT = _number("short", 4, 16)
LONG = _number("long", 5, 64)
DOUBLE: Kind[float] = Kind("double", 6, "a number", _read_fraction, repr)
LIST: Kind[tuple[str, ...]] = Kind("list", 7, "items separated by commas", _read_list, ",".join)
CLASS: Kind[str] = Kind("class", 8, "a class name or the alias of a plugin", str, str)
PASSWORD: Kind[Secret] = Kind("password", 9, "any text", Secret, _hidden)

_OF_TYPE: dict[type, Kind[Any]] = {
    bool: BOOLEAN,
    int: INT,
    float: DOUBLE,
    str: STRING,
    Secret: PASSWORD,
}


def kind_of(kind: Kind[V] | type[V]) -> Kind[V]:
    """Return the kind of a Python type, such as INT for `int`; a kind is returned as it is."""
    if isinstance(kind, Kind):
        return kind
    assert kind in _OF_TYPE, f"no setting holds a {kind.__name__}: use one of the kinds"
    return _OF_TYPE[kind]
