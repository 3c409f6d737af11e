"""Shows keys and values that were written with a schema of a registry: Avro, JSON Schema, Protobuf.

Invariant: a record that cannot be decoded is shown as its bytes, with the reason; a registry that
does not answer is asked once for each schema while a page is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING

from moldau.client.base.given import resolve
from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import header_of
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.settings.serdes import REGISTRY_SETTINGS
from moldau.console.pages.texts import cut, text_of
from moldau.errors import MoldauError
from moldau.values.wire import ID_SIZE, unframe

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry
    from moldau.client.serdes.texts import Decoded, TextDeserializer


class Decoder:
    """Decodes by the schema that the id before a payload, or in a header of the record, names."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` are those of the registry's client and of serdes, such as its address and
        `data.contract.rules`. Raise ConfigError."""
        self._settings = resolve(REGISTRY_SETTINGS, settings, {})
        self.options = SchemaOptions.of(self._settings, is_key=False)
        self._registry: SchemaRegistry | None = None
        self._deserializers: dict[str, TextDeserializer] = {}

    async def text(
        self, data: bytes | None, place: Place, failed: dict[bytes, str], most: int
    ) -> str:
        """Return a key or a value as text, with `most` bytes or characters of it. `failed` keeps
        why schemas could not be had."""
        decoded = await self.decoded(data, place, failed)
        if decoded is not None:
            return cut(decoded.text, most)
        if data is None or not _may_have_schema(data, place):
            return text_of(data, most)
        return f"{text_of(data, most)} (not decoded: {failed[_prefix(data, place)]})"

    async def decoded(
        self, data: bytes | None, place: Place, failed: dict[bytes, str]
    ) -> Decoded | None:
        """Return what the schema says of a key or a value. None without a schema, or with one that
        could not be had; `failed` has why."""
        if data is None or not _may_have_schema(data, place):
            return None
        key = _prefix(data, place)
        if key not in failed:
            try:
                return await self._value(bytes(data), place)
            except (MoldauError, ValueError) as error:
                failed[key] = str(error)
        return None

    def schema_of(self, data: bytes | None, place: Place) -> str:
        """Return the id, or the GUID, that names the schema of a key or a value; or an empty
        text."""
        if data is None or not _may_have_schema(data, place):
            return ""
        header = header_of(place.headers, place)
        try:
            return str(unframe(data if header is None else header)[0])
        except (MoldauError, ValueError):
            return ""

    async def _value(self, data: bytes, place: Place) -> Decoded:
        header = header_of(place.headers, place)
        key, _ = unframe(data if header is None else header)
        registry = self.registry()
        if isinstance(key, int):
            schema = await registry.schema(key)
        else:
            schema = await registry.schema_by_guid(key)
        deserializer = self._deserializers.get(schema.type)
        if deserializer is None:
            from moldau.client.serdes.texts import TextDeserializer

            deserializer = TextDeserializer(schema.type, registry, options=self.options)
            self._deserializers[schema.type] = deserializer
        found = deserializer(data, place)
        decoded: Decoded = await found if isawaitable(found) else found
        return decoded

    def registry(self) -> SchemaRegistry:
        """Return the client of the registry."""
        if self._registry is None:
            from moldau.client.serdes.registry.client import SchemaRegistry

            self._registry = SchemaRegistry(self._settings)
        return self._registry

    async def aclose(self) -> None:
        """Close the client of the registry."""
        if self._registry is not None:
            await self._registry.aclose()


def _prefix(data: bytes, place: Place) -> bytes:
    """Return what names the schema of a key or a value."""
    return header_of(place.headers, place) or bytes(data[:ID_SIZE])


def _may_have_schema(data: bytes, place: Place) -> bool:
    is_framed = len(data) >= ID_SIZE and data[0] <= 1
    return is_framed or header_of(place.headers, place) is not None
