"""Values for a (message, version), made from the schema alone.

One walk (`value_for`) draws its choices from a `Source`; there are two: `SeededSource` (the same
values on every machine, for golden data and the Java comparison) and hypothesis (`values`, which
shrinks). Fields that the version lacks are left out, so they are at their defaults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hypothesis import strategies as st

from tests.oracle import FieldSchema, MessageSchema
from tests.protocol.oracle.second_codec import Value

_INTEGER_BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
# One, two, three and four bytes of UTF-8 a character.
_ALPHABET = 'aZ09-_. "\\\x00\u00e9\u010d\u20ac\u6f22\U0001f30a'
_LONG_TEXT = "moldau-" * 19  # 133 bytes: a length that takes two bytes as a varint


class Source(Protocol):
    """Where the choices come from."""

    def is_null(self) -> bool: ...
    def is_default(self) -> bool: ...
    def count(self) -> int: ...
    def boolean(self) -> bool: ...
    def integer(self, low: int, high: int) -> int: ...
    def real(self) -> float: ...
    def text(self) -> str: ...
    def binary(self, size: int | None) -> bytes: ...


def value_for(source: Source, schema: MessageSchema, version: int) -> Value:
    """A value that this version can carry whole."""
    return _struct(source, schema, version, schema.fields)


def seeded(schema: MessageSchema, version: int, seed: int) -> Value:
    """The value of that seed; seed 0 is full: nothing null, empty or left at its default."""
    source = SeededSource(random.Random(f"{schema.name} {version} {seed}"), full=seed == 0)
    return value_for(source, schema, version)


def bare(schema: MessageSchema, version: int) -> Value:
    """The least that fills every field: null where it may be, else zero, empty or one element."""
    return value_for(_BareSource(), schema, version)


def values(schema: MessageSchema, version: int) -> st.SearchStrategy[Value]:
    """Hypothesis values for this (message, version)."""
    return _drawn_values(schema, version)


@st.composite
def _drawn_values(draw: st.DrawFn, schema: MessageSchema, version: int) -> Value:
    return value_for(_DrawnSource(draw), schema, version)


class SeededSource:
    """Choices of a seeded generator."""

    def __init__(self, generator: random.Random, *, full: bool) -> None:
        self._random = generator
        self._full = full

    def is_null(self) -> bool:
        return not self._full and self._random.random() < 0.3

    def is_default(self) -> bool:
        return not self._full and self._random.random() < 0.2

    def count(self) -> int:
        return self._random.choice((1, 1, 2)) if self._full else self._random.choice((0, 1, 2))

    def boolean(self) -> bool:
        return self._full or self._random.random() < 0.5

    def integer(self, low: int, high: int) -> int:
        edge = self._random.random()
        if edge < 0.2:
            return self._random.choice((low, high))
        if edge < 0.5:
            return self._random.randint(max(low, -200), min(high, 300))
        return self._random.randint(low, high)

    def real(self) -> float:
        return self._random.choice((1.5, -2.25e100, self._random.random()))

    def text(self) -> str:
        if self._random.random() < 0.03:
            return _LONG_TEXT
        return "".join(self._random.choices(_ALPHABET, k=self._random.randint(1, 5)))

    def binary(self, size: int | None) -> bytes:
        return self._random.randbytes(self._random.randint(1, 5) if size is None else size)


class _BareSource:
    def is_null(self) -> bool:
        return True

    def is_default(self) -> bool:
        return False

    def count(self) -> int:
        return 1

    def boolean(self) -> bool:
        return False

    def integer(self, low: int, high: int) -> int:
        return 0

    def real(self) -> float:
        return 0.0

    def text(self) -> str:
        return ""

    def binary(self, size: int | None) -> bytes:
        return bytes(size or 0)


_CHANCES = st.integers(0, 9)
_COUNTS = st.integers(0, 2)
_TEXTS = st.one_of(st.text(max_size=4), st.just(_LONG_TEXT))
_BINARIES = st.binary(max_size=5)
_UUIDS = st.binary(min_size=16, max_size=16)
_REALS = st.floats(allow_nan=False)
_INTEGERS = {bounds: st.integers(*bounds) for bounds in _INTEGER_BOUNDS.values()}


class _DrawnSource:
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def is_null(self) -> bool:
        return bool(self._draw(_CHANCES) > 6)

    def is_default(self) -> bool:
        return bool(self._draw(_CHANCES) > 7)

    def count(self) -> int:
        return int(self._draw(_COUNTS))

    def boolean(self) -> bool:
        return bool(self._draw(st.booleans()))

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(_INTEGERS[low, high]))

    def real(self) -> float:
        return float(self._draw(_REALS))

    def text(self) -> str:
        return str(self._draw(_TEXTS))

    def binary(self, size: int | None) -> bytes:
        return bytes(self._draw(_BINARIES if size is None else _UUIDS))


def _struct(
    source: Source, schema: MessageSchema, version: int, fields: Sequence[FieldSchema]
) -> Value:
    return {
        field.name: _field(source, schema, version, field)
        for field in fields
        if version in field.versions
        and not (_can_be_default(field, version) and source.is_default())
    }


def _can_be_default(field: FieldSchema, version: int) -> bool:
    return field.default is not None or version in field.nullable


def _field(source: Source, schema: MessageSchema, version: int, field: FieldSchema) -> Any:
    if version in field.nullable and source.is_null():
        return None
    if field.is_array:
        return [_element(source, schema, version, field) for _ in range(source.count())]
    return _element(source, schema, version, field)


def _element(source: Source, schema: MessageSchema, version: int, field: FieldSchema) -> Any:
    kind = field.element_type
    if kind in _INTEGER_BOUNDS:
        return source.integer(*_INTEGER_BOUNDS[kind])
    if kind == "bool":
        return source.boolean()
    if kind == "float64":
        return source.real()
    if kind == "string":
        return source.text()
    if kind == "uuid":
        return source.binary(16)
    if kind in ("bytes", "records"):
        return source.binary(None)
    return _struct(source, schema, version, schema.struct_of(field).fields)
