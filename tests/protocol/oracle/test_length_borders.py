"""Lengths where a prefix changes its form: a varint of one byte, of two, of three.

For each message, in its oldest and its newest version, each string, bytes and array in turn has
such a length, while all others are short.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests import oracle
from tests.oracle import MessageSchema
from tests.protocol.oracle import our_messages, second_codec
from tests.protocol.oracle.effort import IS_THOROUGH
from tests.protocol.oracle.second_codec import Value
from tests.protocol.oracle.values import value_for

pytestmark = oracle.needs_schemas

_COUNTS = (126, 127, 128)
_SIZES = (126, 127, 128, 16382, 16383, 16384)


class OneLong:
    """A source in which only the `which`-th length is long, and how long depends on `border`.

    `is_reached` says afterwards whether there were that many lengths.
    """

    def __init__(self, which: int, border: int) -> None:
        self._which = which
        self._border = border
        self._asked = 0
        self.is_reached = False

    def is_null(self) -> bool:
        return False

    def is_default(self) -> bool:
        return False

    def count(self) -> int:
        return self._length(_COUNTS)

    def boolean(self) -> bool:
        return True

    def integer(self, low: int, high: int) -> int:
        return high

    def real(self) -> float:
        return 0.5

    def text(self) -> str:
        return "x" * self._length(_SIZES)

    def binary(self, size: int | None) -> bytes:
        return b"x" * (self._length(_SIZES) if size is None else size)

    def _length(self, lengths: tuple[int, ...]) -> int:
        is_long = self._asked == self._which
        self._asked += 1
        self.is_reached |= is_long
        return lengths[self._border % len(lengths)] if is_long else 1


def _values(schema: MessageSchema, version: int) -> Iterator[Value]:
    for which in itertools.count():
        for border in range(len(_SIZES)) if IS_THOROUGH else [which]:
            source = OneLong(which, border)
            value = value_for(source, schema, version)
            if not source.is_reached:
                return
            yield second_codec.complete(schema, value)


@pytest.mark.parametrize("name", oracle.living_messages())
def test_both_codecs_agree_where_a_length_changes_its_form(name: str) -> None:
    schema, cls = oracle.message(name), our_messages.message_class(name)
    for version in {schema.versions.lowest, schema.versions.highest}:
        for value in _values(schema, version):
            theirs = second_codec.encode(schema, version, value)
            assert our_messages.from_value(cls, value).encode(version) == theirs
            assert our_messages.to_value(cls.decode(theirs, version)) == value
