"""Fits values of Avro's plain types: each is unchanged, converted without loss, or rejected.

numpy's numbers and the members of an Enum count as what they hold. A whole number or a Decimal is
accepted for a `float` or `double` that can hold it exactly; no other number is converted, except
that a `float` is rounded to its 4 bytes. fastavro alone would write other values
(tests/values/avro/test_libraries.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from reprlib import Repr
from typing import Any, Final

Fit = Callable[[Any], Any]
"""Returns the value to write. Raises Misfit if the value does not fit."""

_TOLD_MAX: Final = 60
_PLAIN: Final = (type(None), bool, int, float, str, list, dict)
"""The types that are seen from a value's text: those of JSON."""
_FLOAT: Final = struct.Struct("<f")
_RANGES: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}


class Misfit(Exception):
    """A value that does not fit its schema. Each level outside adds its step to `path`."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__()
        self.expected = expected
        self.found = told(value)
        if type(value) not in _PLAIN:
            self.found += f" ({type(value).__name__})"
        self.path: list[str] = []

    def within(self, step: str) -> Misfit:
        """Add the step of the next outer level to the path. Return this error."""
        self.path.append(step)
        return self

    @property
    def at(self) -> str:
        """The position in the value, such as `lines[2].sku`; empty for the value itself."""
        return "".join(reversed(self.path)).removeprefix(".")

    def __str__(self) -> str:
        where = f"{self.at}: " if self.path else ""
        return f"{where}{self.expected}, not {self.found}"


_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = _TOLD_MAX
told: Final = _REPR.repr  # of bounded length for every value


def _null(value: Any) -> Any:
    if value is None:
        return None
    raise Misfit("null was expected", value)


def _boolean(value: Any) -> Any:
    kind = type(value)
    if kind is bool:
        return value
    if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
        return bool(value)
    raise Misfit("a boolean was expected", value)


def _whole(name: str) -> Fit:
    low, high = _RANGES[name]

    def fit(value: Any) -> Any:
        kind = type(value)
        if kind is int:
            number = value
        elif kind is not bool and isinstance(value, Integral):
            number = int(value)
        elif isinstance(value, Enum):
            return fit(value.value)
        else:
            raise Misfit(f"a whole number for {name} was expected", value)
        if low <= number <= high:
            return number
        raise Misfit(f"a number in the range of {name} was expected", value)

    return fit


def _double(value: Any) -> Any:
    if type(value) is float:
        return value
    number = _real(value, "double")
    if number != value and number == number:
        raise Misfit("a number that double can hold exactly was expected", value)
    return number


def _float(value: Any) -> Any:
    number = value if type(value) is float else _real(value, "float")
    try:
        packed = _FLOAT.pack(number)
    except OverflowError:
        raise Misfit("a number in the range of float was expected", value) from None
    is_exact = isinstance(value, Integral | Decimal) and number == number
    if is_exact and _FLOAT.unpack(packed)[0] != value:
        raise Misfit("a number that float can hold exactly was expected", value)
    return number


def _real(value: Any, name: str) -> float:
    if type(value) is not bool and isinstance(value, Real | Decimal):
        try:
            return float(value)
        except (OverflowError, ValueError):  # a signalling NaN has no float
            raise Misfit(f"a number in the range of {name} was expected", value) from None
    if isinstance(value, Enum):
        return _real(value.value, name)
    raise Misfit(f"a number for {name} was expected", value)


def string(value: Any) -> Any:
    """Return text; a UUID becomes its text."""
    if not isinstance(value, str):
        if isinstance(value, Enum):
            return string(value.value)
        if hasattr(value, "hex") and hasattr(value, "urn"):
            return str(value)  # a UUID
        raise Misfit("text was expected", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("text that UTF-8 can hold was expected", value) from None
    return value


def _bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise Misfit("bytes were expected", value)


def fixed(size: int) -> Fit:
    """Return the function that accepts bytes of exactly that size."""

    def fit(value: Any) -> Any:
        data = _bytes(value)
        if len(data) == size:
            return data
        raise Misfit(f"{size} bytes were expected", value)

    return fit


def enum(symbols: Sequence[str]) -> Fit:
    """Return the function that accepts a symbol, or a member of a Python Enum with such a value."""

    known = frozenset(symbols)

    def fit(value: Any) -> Any:
        if isinstance(value, str):
            if value in known:
                return value
        elif isinstance(value, Enum):
            return fit(value.value)
        raise Misfit(f"one of {', '.join(symbols)} was expected", value)

    return fit


PLAIN: Final[dict[str, Fit]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole("int"),
    "long": _whole("long"),
    "float": _float,
    "double": _double,
    "string": string,
    "bytes": _bytes,
}
# Of these, a value of just that type always fits: it is passed without a call.
SURE: Final[dict[Fit, type]] = {_boolean: bool, _double: float}
