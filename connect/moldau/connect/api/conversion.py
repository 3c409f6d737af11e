"""Converters: between Connect's data and the bytes in a topic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from moldau.connect.api.plugin import Plugin
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema, SchemaAndValue


class Converter(Plugin, ABC):
    """For keys or values. One instance serves one task."""

    is_key: bool = False

    def configure(self, props: Mapping[str, str], is_key: bool) -> None:
        """`props` without the prefix `key.converter.` or `value.converter.`."""
        self.is_key = is_key
        self.config = self.config_model.of(props)

    @abstractmethod
    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        """The bytes for a value; None stands for a tombstone. Raises DataError."""

    @abstractmethod
    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        """The value in these bytes. Raises DataError."""

    def close(self) -> None:
        """Release connections, such as those to a schema registry."""
        return


class HeaderConverter(Plugin, ABC):
    """For the values of headers."""

    def configure(self, props: Mapping[str, str]) -> None:
        """`props` without the prefix `header.converter.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def from_connect_header(
        self, topic: str, key: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """The bytes for the value of a header."""

    @abstractmethod
    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header."""

    def close(self) -> None:
        """Release what was opened."""
        return
