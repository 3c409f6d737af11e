"""Null where the schema has none: refused by both codecs, in the bytes and in the value.

For each message, in its oldest and its newest version, each string, bytes, records and array
field in turn is null. A schema that allows it everywhere lets the second codec write such bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import pytest

from moldau.errors import MalformedMessage
from moldau.protocol.failures import UnencodableMessage
from tests import oracle
from tests.oracle import NO_UPPER_BOUND, FieldSchema, MessageSchema, StructSchema, Versions
from tests.protocol.oracle import our_messages, second_codec
from tests.protocol.oracle.second_codec import Refused, Value
from tests.protocol.oracle.values import value_for

pytestmark = oracle.needs_schemas


class OneNull:
    """A source in which only the `which`-th field that may be null is; see `is_reached`."""

    def __init__(self, which: int) -> None:
        self._which = which
        self._asked = 0
        self.is_reached = False

    def is_null(self) -> bool:
        is_it = self._asked == self._which
        self._asked += 1
        self.is_reached |= is_it
        return is_it

    def is_default(self) -> bool:
        return False

    def count(self) -> int:
        return 1

    def boolean(self) -> bool:
        return True

    def integer(self, low: int, high: int) -> int:
        return high

    def real(self) -> float:
        return 0.5

    def text(self) -> str:
        return "text"

    def binary(self, size: int | None) -> bytes:
        return b"x" * (size or 3)


@pytest.mark.parametrize("name", oracle.living_messages())
def test_both_codecs_refuse_null_in_the_same_places(name: str) -> None:
    schema, cls = oracle.message(name), our_messages.message_class(name)
    lenient = _lenient(schema)
    for version in {schema.versions.lowest, schema.versions.highest}:
        for value in _values(lenient, version):
            data = second_codec.encode(lenient, version, value)
            message = our_messages.from_value(cls, value)
            try:
                allowed = second_codec.encode(schema, version, value)
            except Refused:
                with pytest.raises(MalformedMessage, match="null"):
                    cls.decode(data, version)
                with pytest.raises(UnencodableMessage):
                    message.encode(version)
            else:
                assert data == allowed == message.encode(version)
                assert cls.decode(data, version) == message


def _values(schema: MessageSchema, version: int) -> Iterator[Value]:
    for which in itertools.count():
        source = OneNull(which)
        value = value_for(source, schema, version)
        if not source.is_reached:
            return
        yield second_codec.complete(schema, value)


def _lenient(schema: MessageSchema) -> MessageSchema:
    """The schema with everything nullable that has a length; a struct would need a mark more."""
    structs = {
        name: StructSchema(name, struct.versions, _lenient_fields(struct.fields))
        for name, struct in schema.structs.items()
    }
    return dataclasses.replace(schema, fields=_lenient_fields(schema.fields), structs=structs)


def _lenient_fields(fields: Sequence[FieldSchema]) -> tuple[FieldSchema, ...]:
    always = Versions(0, NO_UPPER_BOUND)
    return tuple(
        dataclasses.replace(field, nullable=always)
        if field.is_array or field.type in ("string", "bytes", "records")
        else field
        for field in fields
    )
