"""The SimpleHeaderConverter: headers are texts; their type is inferred when they are read."""

from __future__ import annotations

from typing import Any

from moldau.connect.api.conversion import HeaderConverter
from moldau.connect.data.schema import BYTES, Schema, SchemaAndValue
from moldau.connect.errors import DataError
from moldau.connect.header_converters.sniffing import sniffed
from moldau.connect.header_converters.writing import written


class SimpleHeaderConverter(HeaderConverter):
    """Converts headers to and from texts. Numbers, booleans, dates, arrays and maps are recognized;
    any other text is a string."""

    java_names = ("org.apache.kafka.connect.storage.SimpleHeaderConverter",)

    def from_connect_header(
        self, topic: str, key: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        if value is None:
            return None
        try:
            return written(value, schema).encode()
        except UnicodeEncodeError:
            raise DataError(f"the header {key!r} has half a surrogate pair") from None

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        try:
            return sniffed(data.decode("utf-8", "replace"))
        except (DataError, RecursionError):
            return SchemaAndValue(BYTES, data)
