"""Serdes of single values: the bytes that Java writes, and nothing converted silently."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from moldau.client.serdes import (
    BooleanDeserializer,
    BooleanSerializer,
    BytesDeserializer,
    BytesSerializer,
    DeserializationFailed,
    NumberDeserializer,
    NumberSerializer,
    Place,
    SerializationFailed,
    StringDeserializer,
    StringSerializer,
    UuidDeserializer,
    UuidSerializer,
)
from moldau.client.serdes.plain import VoidDeserializer, VoidSerializer

VALUE = Place("t", False)
ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")

PAIRS: list[tuple[Any, Any, Any, bytes]] = [
    (StringSerializer(), StringDeserializer(), "W\xfcrde", b"W\xc3\xbcrde"),
    (StringSerializer("latin-1"), StringDeserializer("latin-1"), "W\xfcrde", b"W\xfcrde"),
    (StringSerializer(), StringDeserializer(), "", b""),
    (BytesSerializer(), BytesDeserializer(), b"\x00\xff", b"\x00\xff"),
    (NumberSerializer("short"), NumberDeserializer("short"), -2, b"\xff\xfe"),
    (NumberSerializer("int"), NumberDeserializer("int"), 258, b"\x00\x00\x01\x02"),
    (NumberSerializer("long"), NumberDeserializer("long"), -1, b"\xff" * 8),
    (NumberSerializer("float"), NumberDeserializer("float"), 1.5, b"\x3f\xc0\x00\x00"),
    (NumberSerializer("double"), NumberDeserializer("double"), 1.5, b"\x3f\xf8" + b"\x00" * 6),
    (BooleanSerializer(), BooleanDeserializer(), True, b"\x01"),
    (BooleanSerializer(), BooleanDeserializer(), False, b"\x00"),
    (UuidSerializer(), UuidDeserializer(), ID, b"01234567-89ab-cdef-0123-456789abcdef"),
]


@pytest.mark.parametrize(("write", "read", "value", "data"), PAIRS)
def test_values_go_to_javas_bytes_and_back(write: Any, read: Any, value: Any, data: bytes) -> None:
    assert write(value, VALUE) == data
    found = read(data, VALUE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (StringSerializer(), b"bytes"),
        (StringSerializer(), 1),
        (BytesSerializer(), "text"),
        (NumberSerializer("int"), 2**31),
        (NumberSerializer("short"), -(2**15) - 1),
        (NumberSerializer("long"), True),
        (NumberSerializer("int"), 1.0),
        (NumberSerializer("float"), 1e40),
        (NumberSerializer("double"), "1.5"),
        (NumberSerializer("double"), 2**53 + 1),
        (NumberSerializer("float"), 2**24 + 1),
        (BooleanSerializer(), 1),
        (UuidSerializer(), "01234567-89ab-cdef-0123-456789abcdef"),
        (VoidSerializer(), 0),
    ],
)
def test_other_values_are_refused(write: Any, value: Any) -> None:
    with pytest.raises(SerializationFailed):
        write(value, VALUE)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (StringDeserializer(), b"\xff"),
        (NumberDeserializer("int"), b"\x00" * 3),
        (NumberDeserializer("long"), b"\x00" * 9),
        (NumberDeserializer("double"), b""),
        (BooleanDeserializer(), b"\x02"),
        (BooleanDeserializer(), b"\x00\x00"),
        (UuidDeserializer(), b"01234567-89ab-cdef-0123-456789abcdeg"),
        (UuidDeserializer(), b"0123456789abcdef0123456789abcdef"),
        (VoidDeserializer(), b""),
    ],
)
def test_other_bytes_are_refused(read: Any, data: bytes) -> None:
    with pytest.raises((DeserializationFailed, ValueError)):
        read(data, VALUE)


def test_whole_numbers_may_be_written_as_floats_that_are_the_same() -> None:
    assert NumberSerializer("double")(2**53, VALUE) == NumberSerializer("double")(2.0**53, VALUE)
    assert NumberSerializer("float")(2**24, VALUE) == NumberSerializer("float")(2.0**24, VALUE)


def test_whole_batches_keep_their_tombstones() -> None:
    assert StringSerializer().many(["a", None, ""], VALUE) == [b"a", None, b""]
    assert StringDeserializer().many([b"a", None, b""], VALUE) == ["a", None, ""]
    assert BytesSerializer().many([bytearray(b"a"), None], VALUE) == [b"a", None]
    assert BytesDeserializer().many([b"a", None], VALUE) == [b"a", None]


def test_an_unknown_encoding_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="utf-9"):
        StringDeserializer("utf-9")
