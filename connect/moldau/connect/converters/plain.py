"""Converters for texts, bytes, booleans and numbers, in the bytes of Kafka's own serializers."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from moldau.connect.api.conversion import Converter, ConverterConfig, HeaderConverter
from moldau.connect.config.model import Problem, key
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    Schema,
    SchemaAndValue,
    Type,
)
from moldau.connect.errors import DataError
from moldau.connect.java.text import java_text


class _Plain(Converter, HeaderConverter):
    """A converter that converts headers in the same way as values."""

    def configure(self, props: Any, is_key: bool = False) -> None:
        Converter.configure(self, props, is_key)

    def from_connect_header(
        self, topic: str, key: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        return self.from_connect_data(topic, None, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, None, data)

    def close(self) -> None:
        return


class StringConfig(ConverterConfig):
    """Settings of the StringConverter."""

    encoding: str = key(
        "converter.encoding",
        "UTF-8",
        doc="The character set of the bytes.",
        importance="high",
        width="medium",
        display="Encoding",
    )

    def check(self) -> Iterable[Problem]:
        try:
            codecs.lookup(self.encoding)
        except (LookupError, ValueError):
            name = "converter.encoding"
            reason = "the character set is not known"
            yield Problem(name, f"Invalid value {self.encoding} for configuration {name}: {reason}")


class StringConverter(_Plain):
    """Converts texts. Any other value is written as Java's `toString` would write it."""

    java_names = ("org.apache.kafka.connect.storage.StringConverter",)
    config_model = StringConfig

    def configure(self, props: Any, is_key: bool = False) -> None:
        super().configure(props, is_key)
        config = StringConfig.of(props)
        self._encoding = codecs.lookup(config.encoding).name

    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        if value is None:
            return None
        text = value if type(value) is str else java_text(value, schema)
        try:
            if self._encoding == "utf-16":  # as in Java: big-endian, with a byte order mark
                return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
            return text.encode(self._encoding)
        except UnicodeEncodeError as error:
            raise DataError(f"a text cannot be written in {self._encoding}: {error}") from None

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(OPTIONAL_STRING, None)
        encoding = self._encoding
        if encoding == "utf-16" and data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16-be"
        # As in Java: invalid bytes become the replacement character.
        return SchemaAndValue(OPTIONAL_STRING, data.decode(encoding, "replace"))

    def from_connect_values(
        self, topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> list[bytes | None]:
        if self._encoding != "utf-8" or set(map(type, values)) != {str}:
            return super().from_connect_values(topic, schema, values)
        try:
            return [value.encode() for value in values]
        except UnicodeEncodeError as error:
            raise DataError(f"a text cannot be written in utf-8: {error}") from None

    def to_connect_values(self, topic: str, data: Sequence[bytes | None]) -> list[Any]:
        encoding = self._encoding
        if encoding == "utf-16":  # each value has its own byte order mark
            return super().to_connect_values(topic, data)
        return [None if each is None else each.decode(encoding, "replace") for each in data]


class ByteArrayConverter(_Plain):
    """Passes bytes on without a change."""

    java_names = ("org.apache.kafka.connect.converters.ByteArrayConverter",)

    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"ByteArrayConverter writes bytes, not {schema.described()}")
        if value is None:
            return None
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise DataError(f"ByteArrayConverter writes bytes, not {type(value).__name__}")
        return bytes(value)

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_BYTES, data)

    def to_connect_values(self, topic: str, data: Sequence[bytes | None]) -> list[Any]:
        return list(data)


class BooleanConverter(_Plain):
    """Converts a boolean to and from one byte, 0 or 1."""

    java_names = ("org.apache.kafka.connect.converters.BooleanConverter",)

    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"BooleanConverter writes booleans, not {schema.described()}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter writes booleans, not {type(value).__name__}")
        return b"\x01" if value else b"\x00"

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError("a boolean is one byte, 0 or 1", size=len(data))
        return SchemaAndValue(OPTIONAL_BOOLEAN, None if data is None else data == b"\x01")


class _Number(_Plain):
    """A converter for numbers of a fixed size, big-endian."""

    schema: ClassVar[Schema]
    layout: ClassVar[struct.Struct]

    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        if value is None:
            return None
        is_integer = self.layout.format not in (">f", ">d")
        fits = isinstance(value, int if is_integer else (int, float))
        if schema is not None and schema.type is not self.schema.type:
            raise DataError(f"{type(self).__name__} cannot write {schema.described()}")
        if not fits or isinstance(value, bool):
            raise DataError(f"{type(self).__name__} cannot write {type(value).__name__}")
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError):
            raise DataError(f"{value} does not fit into {self.schema.type.value}") from None

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self.schema, None)
        if len(data) != self.layout.size:
            raise DataError(
                f"{self.schema.type.value} has {self.layout.size} bytes", size=len(data)
            )
        return SchemaAndValue(self.schema, self.layout.unpack(data)[0])


class ShortConverter(_Number):
    """Converts an int16 to and from two bytes."""

    java_names = ("org.apache.kafka.connect.converters.ShortConverter",)
    schema = OPTIONAL_INT16
    layout = struct.Struct(">h")


class IntegerConverter(_Number):
    """Converts an int32 to and from four bytes."""

    java_names = ("org.apache.kafka.connect.converters.IntegerConverter",)
    schema = OPTIONAL_INT32
    layout = struct.Struct(">i")


class LongConverter(_Number):
    """Converts an int64 to and from eight bytes."""

    java_names = ("org.apache.kafka.connect.converters.LongConverter",)
    schema = OPTIONAL_INT64
    layout = struct.Struct(">q")


class FloatConverter(_Number):
    """Converts a float32 to and from four bytes, IEEE 754."""

    java_names = ("org.apache.kafka.connect.converters.FloatConverter",)
    schema = OPTIONAL_FLOAT32
    layout = struct.Struct(">f")


class DoubleConverter(_Number):
    """Converts a float64 to and from eight bytes, IEEE 754."""

    java_names = ("org.apache.kafka.connect.converters.DoubleConverter",)
    schema = OPTIONAL_FLOAT64
    layout = struct.Struct(">d")
