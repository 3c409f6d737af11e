"""Shows keys and values that were written with a schema of a registry: Avro, JSON Schema, Protobuf.

Invariants: a record that cannot be decoded is shown as its bytes, with the reason, and says nothing
of the next one with its schema. What the registry has refused is asked again after REFUSED_S, and a
registry that did not answer is left alone for DOWN_S, so that no page waits for it meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from moldau.client.base.given import resolve
from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import header_of
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.settings.serdes import REGISTRY_SETTINGS
from moldau.console.pages.texts import cut, text_of
from moldau.errors import MoldauError
from moldau.runtime.real import RealClock
from moldau.values.wire import ID_SIZE, unframe

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry
    from moldau.client.serdes.texts import DecodedText, TextDeserializer
    from moldau.runtime import Clock
    from moldau.values.schema import Schema

REFUSED_S: Final = 5.0
DOWN_S: Final = 5.0
T = TypeVar("T")


class Refusal(NamedTuple):
    """Why a schema could not be had, and until when the registry is not asked for it again."""

    error: RegistryError
    until_s: float


Refusals: TypeAlias = dict[bytes, Refusal]
"""By what names the schema."""


class Decoder:
    """Decodes by the schema that the id before a payload, or in a header of the record, names."""

    def __init__(self, settings: Mapping[str, str], clock: Clock | None = None) -> None:
        """`settings` are those of the registry's client and of serdes, such as its address and
        `data.contract.rules`. Raise ConfigError."""
        self._settings = resolve(REGISTRY_SETTINGS, settings, {})
        self.options = SchemaOptions.of(self._settings, is_key=False)
        self._clock = RealClock() if clock is None else clock
        self._registry: SchemaRegistry | None = None
        self._down: Refusal | None = None
        self._deserializers: dict[str, TextDeserializer] = {}

    async def text(self, data: bytes | None, place: Place, refused: Refusals, most: int) -> str:
        """Return a key or a value as text, with `most` bytes or characters of it. `refused` keeps
        what the registry has refused."""
        if data is None or not _may_have_schema(data, place):
            return text_of(data, most)
        try:
            decoded = await self._read(data, place, refused)
        except (MoldauError, ValueError) as error:
            return f"{text_of(data, most)} (not decoded: {error})"
        return cut(decoded.text, most)

    async def decoded(
        self, data: bytes | None, place: Place, refused: Refusals
    ) -> DecodedText | None:
        """Return what the schema says of a key or a value. None without a schema, or if it cannot
        be read by it."""
        if data is None or not _may_have_schema(data, place):
            return None
        try:
            return await self._read(data, place, refused)
        except (MoldauError, ValueError):
            return None

    async def _read(self, data: bytes, place: Place, refused: Refusals) -> DecodedText:
        """Return what the schema says. Raise MoldauError or ValueError; for REFUSED_S the same
        RegistryError again."""
        name, now_s = _prefix(data, place), self._clock.monotonic()
        known = refused.get(name)
        if known is not None and now_s < known.until_s:
            raise copy(known.error)
        try:
            return await self._value(bytes(data), place)
        except RegistryError as error:
            refused[name] = Refusal(copy(error), self._clock.monotonic() + REFUSED_S)
            raise

    async def asked(self, asking: Callable[[SchemaRegistry], Awaitable[T]]) -> T:
        """Return what the registry answers. Raise RegistryError: at once for DOWN_S after one that
        did not answer."""
        down = self._down
        if down is not None and self._clock.monotonic() < down.until_s:
            raise copy(down.error)
        try:
            found = await asking(self.registry())
        except RegistryError as error:
            if not error.status:
                self._down = Refusal(copy(error), self._clock.monotonic() + DOWN_S)
            raise
        self._down = None
        return found

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

    async def _value(self, data: bytes, place: Place) -> DecodedText:
        header = header_of(place.headers, place)
        key, _ = unframe(data if header is None else header)
        registry = self.registry()
        schema = registry.known_schema(key)
        if schema is None:
            schema = await self.asked(lambda it: _schema_of(it, key))
        deserializer = self._deserializers.get(schema.type)
        if deserializer is None:
            from moldau.client.serdes.texts import TextDeserializer

            deserializer = TextDeserializer(schema.type, registry, options=self.options)
            self._deserializers[schema.type] = deserializer
        found = deserializer(data, place)
        decoded: DecodedText = await found if isawaitable(found) else found
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


async def _schema_of(registry: SchemaRegistry, key: int | str) -> Schema:
    return await (registry.schema(key) if isinstance(key, int) else registry.schema_by_guid(key))


def _prefix(data: bytes, place: Place) -> bytes:
    """Return what names the schema of a key or a value."""
    return header_of(place.headers, place) or bytes(data[:ID_SIZE])


def _may_have_schema(data: bytes, place: Place) -> bool:
    is_framed = len(data) >= ID_SIZE and data[0] <= 1
    return is_framed or header_of(place.headers, place) is not None
