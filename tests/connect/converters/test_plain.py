"""Texts, bytes, booleans and numbers, byte for byte as Kafka's serializers write them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.api import Converter
from moldau.connect.converters.plain import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from moldau.connect.data import BOOLEAN, BYTES, FLOAT32, INT32, INT64, STRING, Schema, Struct
from moldau.connect.errors import DataError
from moldau.errors import ConfigError

POINT = Schema.struct({"x": INT32, "y": FLOAT32.optionally()})


def made(cls: type[Converter], **props: str) -> Converter:
    converter = cls()
    converter.configure({name.replace("_", "."): text for name, text in props.items()}, False)
    return converter


@pytest.mark.parametrize(
    ("cls", "value", "data"),
    [
        (StringConverter, "\xe4", b"\xc3\xa4"),
        (ByteArrayConverter, b"\x00", b"\x00"),
        (BooleanConverter, True, b"\x01"),
        (BooleanConverter, False, b"\x00"),
        (ShortConverter, -2, b"\xff\xfe"),
        (IntegerConverter, 1, b"\x00\x00\x00\x01"),
        (LongConverter, -1, b"\xff" * 8),
        (FloatConverter, 0.5, b"\x3f\x00\x00\x00"),
        (DoubleConverter, 1.5, b"\x3f\xf8" + bytes(6)),
    ],
)
def test_there_and_back(cls: type[Converter], value: Any, data: bytes) -> None:
    converter = made(cls)

    assert converter.from_connect_data("t", None, None, value) == data
    schema, found = converter.to_connect_data("t", None, data)
    assert found == value
    assert schema is not None
    assert schema.optional
    assert converter.from_connect_data("t", None, schema, None) is None
    assert converter.to_connect_data("t", None, None) == (schema, None)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (None, 5, "5"),
        (None, True, "true"),
        (None, 1.0, "1.0"),
        (None, 1e7, "1.0E7"),
        (None, 123456.789e-10, "1.23456789E-5"),
        (None, -0.0, "-0.0"),
        (None, math.inf, "Infinity"),
        (FLOAT32, 0.1, "0.1"),
        (FLOAT32, 16777216.0, "1.6777216E7"),
        (None, Decimal("1E+3"), "1E+3"),
        (None, {"a": 1, "b": [None, "x"]}, "{a=1, b=[null, x]}"),
        (POINT, Struct(POINT, {"x": 1}), "Struct{x=1}"),
        (POINT, Struct(POINT, {"x": 1, "y": 0.1}), "Struct{x=1,y=0.1}"),
    ],
)
def test_other_values_are_written_as_java_prints_them(
    schema: Schema | None, value: Any, text: str
) -> None:
    assert made(StringConverter).from_connect_data("t", None, schema, value) == text.encode()


def test_another_character_set() -> None:
    latin = made(StringConverter, converter_encoding="ISO-8859-1")

    assert latin.from_connect_data("t", None, STRING, "\xe4") == b"\xe4"
    with pytest.raises(DataError, match="cannot be written in iso8859-1"):
        latin.from_connect_data("t", None, STRING, "\u20ac")
    with pytest.raises(ConfigError, match="character set is not known"):
        made(StringConverter, converter_encoding="klingon")


def test_bytes_that_are_no_text_are_read_with_replacements() -> None:
    assert made(StringConverter).to_connect_data("t", None, b"a\xff").value == "a\ufffd"


@pytest.mark.parametrize(
    ("cls", "schema", "value"),
    [
        (StringConverter, BYTES, b"x"),
        (ByteArrayConverter, STRING, "x"),
        (ByteArrayConverter, None, "x"),
        (BooleanConverter, STRING, "true"),
        (BooleanConverter, BOOLEAN, 1),
        (IntegerConverter, INT64, 1),
        (IntegerConverter, None, "1"),
        (IntegerConverter, None, True),
        (IntegerConverter, None, 2**31),
        (DoubleConverter, None, "1"),
    ],
)
def test_what_a_converter_cannot_write(
    cls: type[Converter], schema: Schema | None, value: Any
) -> None:
    with pytest.raises(DataError):
        made(cls).from_connect_data("t", None, schema, value)


@pytest.mark.parametrize(
    ("cls", "data"),
    [
        (BooleanConverter, b"\x02"),
        (BooleanConverter, b""),
        (IntegerConverter, b"\x00" * 3),
        (LongConverter, b"\x00" * 9),
    ],
)
def test_bytes_of_the_wrong_size_are_refused(cls: type[Converter], data: bytes) -> None:
    with pytest.raises(DataError):
        made(cls).to_connect_data("t", None, data)
