"""Converters: they convert between Connect's data and the bytes in a topic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from moldau.connect.api.plugin import Plugin
from moldau.connect.config.model import ConfigModel, key
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.struct import Struct

if TYPE_CHECKING:
    from moldau.client.base.columns import BinaryColumn
    from moldau.connect.api.columns import StructColumns


class ConverterConfig(ConfigModel):
    """The settings that all converters of keys, values and headers share. The worker sets them."""

    offers_choices: ClassVar[bool] = False

    converter_type: Literal["key", "value", "header"] = key(
        "converter.type",
        doc="What the converter is used for; set by the worker.",
        importance="low",
        rank=-1,
    )

    @classmethod
    def renamed(cls, props: Mapping[str, str | None]) -> dict[str, str | None]:
        return {"converter.type": "value", **super().renamed(props)}


class Converter(Plugin, ABC):
    """Converts keys or values. One instance serves one task."""

    config_model = ConverterConfig
    is_key: bool = False
    config: ConfigModel

    def configure(self, props: Mapping[str, str], is_key: bool) -> None:
        """Set the converter up. `props` have no prefix `key.converter.` or `value.converter.`."""
        self.is_key = is_key
        self.config = self.config_model.of({**props, "converter.type": self._type(is_key)})

    @staticmethod
    def _type(is_key: bool) -> str:
        return "key" if is_key else "value"

    @abstractmethod
    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        """Return the bytes for a value; None for a tombstone. Raise DataError for a bad value."""

    @abstractmethod
    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        """Return the schema and value for these bytes. Raise DataError for bad bytes."""

    def from_connect_columns(
        self, topic: str, schema: Schema, columns: Sequence[Sequence[Any]]
    ) -> Sequence[bytes | None]:
        """Convert many structs of one schema, like `from_connect_data`; one sequence a field.

        Override it where columns can be converted faster than records. Raise DataError if one of
        the structs cannot be converted.
        """
        convert, of_row = self.from_connect_data, Struct.of_row
        return [
            convert(topic, None, schema, of_row(schema, list(row)))
            for row in zip(*columns, strict=True)
        ]

    def from_connect_values(
        self, topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> list[bytes | None]:
        """Convert many values of one schema, like `from_connect_data`.

        Override it where many values can be converted faster than one by one. Raise DataError if
        one of them cannot be converted.
        """
        convert = self.from_connect_data
        return [convert(topic, None, schema, value) for value in values]

    def to_connect_values(self, topic: str, data: Sequence[bytes | None]) -> list[Any]:
        """Convert many records without headers, like `to_connect_data`, and return no schemas.

        Override it where many values can be converted faster than one by one. Raise DataError if
        one of them cannot be converted.
        """
        convert = self.to_connect_data
        return [convert(topic, Headers(), each).value for each in data]

    @property
    def reads_columns(self) -> bool:
        """Whether `to_connect_columns` may succeed."""
        return False

    def to_connect_columns(self, topic: str, data: BinaryColumn) -> StructColumns | None:
        """Convert many records without headers, like `to_connect_data`, to columns. Return None if
        they are not structs of one schema, or one of them is bad."""
        return None

    def close(self) -> None:
        """Release connections, such as those to a schema registry."""
        return


class HeaderConverter(Plugin, ABC):
    """Converts the values of headers. One instance serves one task."""

    config: ConfigModel

    def configure(self, props: Mapping[str, str]) -> None:
        """Set the converter up. `props` have no prefix `header.converter.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def from_connect_header(
        self, topic: str, key: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """Return the bytes for the value of a header."""

    @abstractmethod
    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and value of a header."""

    def close(self) -> None:
        """Release all resources."""
        return
