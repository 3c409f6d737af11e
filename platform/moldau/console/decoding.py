"""Shows keys and values that were written with a schema of a registry: Avro, JSON Schema, Protobuf.

Invariant: a record that cannot be decoded is shown as its bytes, with the reason; a registry that
does not answer is asked once for each schema while a page is made.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from moldau.cli.commands.consume_format import text as text_of_value
from moldau.cli.commands.registry_place import URL
from moldau.client.serdes.contract import Place
from moldau.client.serdes.wire import ID_SIZE, header_of, unframe
from moldau.console.texts import cut, text_of
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client.serdes.framed import SchemaDeserializer
    from moldau.client.serdes.registry.client import SchemaRegistry


class Decoder:
    """Decodes by the schema that the id before a payload, or in a header of the record, names."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._registry: SchemaRegistry | None = None
        self._deserializers: dict[str, SchemaDeserializer] = {}

    async def text(
        self, data: bytes | None, place: Place, failed: dict[bytes, str], most: int
    ) -> str:
        """Return a key or a value as text, with `most` bytes or characters of it. `failed` keeps
        why schemas could not be had."""
        if data is None or not _may_have_schema(data, place):
            return text_of(data, most)
        key = header_of(place.headers, place) or bytes(data[:ID_SIZE])
        reason = failed.get(key)
        if reason is None:
            try:
                return cut(text_of_value(await self._value(bytes(data), place)), most)
            except (MoldauError, ValueError) as error:
                reason = str(error)
                failed[key] = reason
        return f"{text_of(data, most)} (not decoded: {reason})"

    async def _value(self, data: bytes, place: Place) -> Any:
        header = header_of(place.headers, place)
        key, _ = unframe(data if header is None else header)
        registry = self.registry()
        if isinstance(key, int):
            schema = await registry.schema(key)
        else:
            schema = await registry.schema_by_guid(key)
        deserializer = self._deserializers.get(schema.type)
        if deserializer is None:
            deserializer = self._deserializers[schema.type] = _deserializer(schema.type, registry)
        found = deserializer(data, place)
        return await found if isawaitable(found) else found

    def registry(self) -> SchemaRegistry:
        """Return the client of the registry."""
        if self._registry is None:
            from moldau.client.serdes.registry.client import SchemaRegistry

            self._registry = SchemaRegistry({URL: self._url})
        return self._registry

    async def aclose(self) -> None:
        """Close the client of the registry."""
        if self._registry is not None:
            await self._registry.aclose()


def _may_have_schema(data: bytes, place: Place) -> bool:
    is_framed = len(data) >= ID_SIZE and data[0] <= 1
    return is_framed or header_of(place.headers, place) is not None


def _deserializer(kind: str, registry: SchemaRegistry) -> SchemaDeserializer:
    """Return the deserializer of a type of schemas. Raise ConfigError if its package is missing."""
    if kind == "AVRO":
        from moldau.client.serdes.avro import AvroDeserializer

        return AvroDeserializer(registry)
    if kind == "JSON":
        from moldau.client.serdes.json_schema import JsonSchemaDeserializer

        return JsonSchemaDeserializer(registry)
    if kind == "PROTOBUF":
        from moldau.client.serdes.protobuf import ProtobufDeserializer

        return ProtobufDeserializer(registry)
    raise MoldauError(f"schemas of the type {kind} are not known here")
