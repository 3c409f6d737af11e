"""What all serdes with a Schema Registry share: the schema's id before the payload.

A serializer requests a schema once for each place (and kind of value), a deserializer once for each
schema; later calls of both return at once. A call that needs a request returns an awaitable. A
serializer that uses the latest version of a subject requests it again when `latest.cache.ttl.sec`
is over.

Invariant: the caches are bounded; a payload is written or read by the codec of the schema whose id
stands before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

from moldau.client.serdes.contract import Place, not_had
from moldau.client.serdes.registry.cache import Cache
from moldau.client.serdes.registry.client import RegistryGiven, SchemaRegistry
from moldau.client.serdes.registry.naming import DEFAULT_OPTIONS, SchemaOptions
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.serdes.remade import Remade
from moldau.client.settings import serdes as rows
from moldau.errors import ConfigError, MoldauError
from moldau.records import Headers
from moldau.values.failures import DeserializationFailed, SerializationFailed, told
from moldau.values.schema import Schema
from moldau.values.wire import ID_SIZE, SchemaKey, unframe

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
"""Headers that have the schema's prefix instead of the data."""

Write = Callable[[Any], bytes]
Read = Callable[[bytes, int], Any]


def header_of(headers: Headers, place: Place) -> bytes | None:
    """Return the schema's prefix from the record's last such header, or None if there is none."""
    name = KEY_HEADER if place.is_key else VALUE_HEADER
    for each, value in reversed(headers):
        if each == name:
            return value
    return None


class _Registered(Remade):
    """Holds the client of a registry, and closes it if it owns it."""

    def __init__(
        self, registry: RegistryGiven, options: SchemaOptions | None, owns_registry: bool
    ) -> None:
        self.registry = _asynchronous(registry)
        self.options = DEFAULT_OPTIONS if options is None else options
        self._owns_registry = owns_registry
        self._size: int = self.registry.settings[rows.cache_size]

    async def aclose(self) -> None:
        """Close the client of the registry, if this serde owns it."""
        if self._owns_registry:
            await self.registry.aclose()


def _asynchronous(given: object) -> SchemaRegistry:
    """Return the asyncio client. ConfigError shows only the type: the value may be a password."""
    registry = getattr(given, "asynchronous", None)
    if isinstance(registry, SchemaRegistry):
        return registry
    raise ConfigError(
        "a serde with schemas takes a SchemaRegistry: make one of its address, "
        'SchemaRegistry("http://localhost:8081"), or of settings',
        given=f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__,
    )


class SchemaSerializer(_Registered, ABC):
    """Writes values after the id of their schema."""

    def __init__(
        self,
        registry: RegistryGiven,
        options: SchemaOptions | None = None,
        *,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry)
        self._writers: Cache[tuple[Place, Hashable], Write] = Cache(self._size)
        self._last: tuple[Place, Hashable, Write] | None = None
        self._by_id: Cache[tuple[int, Hashable], Write] = Cache(self._size)

    @abstractmethod
    def kind_of(self, value: Any) -> Hashable:
        """Return the kind of the value: values of one kind share a schema."""

    @abstractmethod
    def subject_of(self, value: Any, place: Place) -> str:
        """Return the subject of the value's schema."""

    @abstractmethod
    def has_own(self, value: Any) -> bool:
        """Whether the value has a schema of its own; if not, it comes from the registry."""

    @abstractmethod
    async def own_schema(self, value: Any) -> Schema | None:
        """Return the value's own schema, or None if it has none."""

    @abstractmethod
    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Return a function that writes the schema's id, then a value of that kind."""

    def check_type(self, schema_id: int, schema: Schema, type: str) -> None:
        """Raise SerializationFailed for a schema of another type."""
        if schema.type != type:
            raise SerializationFailed(
                f"the subject has a schema of another kind: {schema.type}", schema=schema_id
            )

    def __call__(self, value: Any, place: Place, /) -> bytes | Awaitable[bytes]:
        write = self._known(value, place)
        return self._first(value, place) if write is None else write(value)

    def many(
        self, values: Sequence[Any], place: Place, /
    ) -> list[bytes | None] | Awaitable[list[bytes | None]]:
        """Serialize all values; None stays None."""
        written: list[bytes | None] = []
        with _naming(written):
            for value in values:
                if value is None:
                    written.append(None)
                    continue
                write = self._known(value, place)
                if write is None:
                    return self._rest(written, values, place)
                written.append(write(value))
        return written

    async def _rest(
        self, written: list[bytes | None], values: Sequence[Any], place: Place
    ) -> list[bytes | None]:
        with _naming(written):
            for value in values[len(written) :]:
                if value is None:
                    written.append(None)
                    continue
                write = self._known(value, place)
                made = await self._first(value, place) if write is None else write(value)
                written.append(made)
        return written

    def _known(self, value: Any, place: Place) -> Write | None:
        kind = self.kind_of(value)
        if self._follows_latest(value):
            return self._known_latest(value, kind, place)
        last = self._last
        if last is not None and last[0] is place and last[1] == kind:
            return last[2]
        write = self._writers.get((place, kind))
        if write is not None:
            self._last = (place, kind, write)
        return write

    def _follows_latest(self, value: Any) -> bool:
        """Whether the value uses the subject's latest schema, which may change at any time."""
        options = self.options
        return options.use_id is None and (options.use_latest or not self.has_own(value))

    def _known_latest(self, value: Any, kind: Hashable, place: Place) -> Write | None:
        """Return the writer of the latest version in the registry client's cache, or None."""
        latest = self.registry.known_latest(self.subject_of(value, place))
        return None if latest is None else self._by_id.get((latest.id, kind))

    async def _first(self, value: Any, place: Place) -> bytes:
        kind = self.kind_of(value)
        subject = self.subject_of(value, place)
        own = None if self.options.use_id is not None else await self.own_schema(value)
        schema_id, schema = await self.registry.schema_to_write(self.options, subject, own)
        write = self._by_id.get((schema_id, kind))
        if write is None:
            write = await self.writer(schema_id, schema, value)
            self._by_id.put((schema_id, kind), write)
        if not self._follows_latest(value):
            self._writers.put((place, kind), write)
        return write(value)


@contextmanager
def _naming(written: Sequence[object]) -> Iterator[None]:
    """Add to an error of a value its index among those that are written together."""
    try:
        yield
    except (SerializationFailed, LookupError, TypeError, ValueError) as error:
        facts = error.context if isinstance(error, MoldauError) else {}
        raise SerializationFailed(told(error), **{**facts, "index": len(written)}) from error


class SchemaDeserializer(_Registered, ABC):
    """Reads values that stand after the id of their schema."""

    wants_headers = True

    def __init__(
        self,
        registry: RegistryGiven,
        options: SchemaOptions | None = None,
        *,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry)
        self._readers: Cache[SchemaKey, Read] = Cache(self._size)
        self._last: tuple[bytes, Read] = _NEVER

    @abstractmethod
    async def reader(self, key: SchemaKey) -> Read:
        """Return a function that reads payloads of that schema, from the data and a position."""

    def framed(self, header: bytes, data: bytes) -> bytes:
        """Return the data with the schema's header before it."""
        return header + data

    def __call__(self, data: bytes, place: Place, /) -> Any:
        if place.headers:
            header = header_of(place.headers, place)
            if header is not None:
                data = self.framed(header, data)
        prefix = data[:ID_SIZE]
        last, read_last = self._last
        if prefix == last:
            return read_last(data, ID_SIZE)
        key, at = unframe(data)
        read = self._readers.get(key)
        if read is None:
            return self._first(key, data, at)
        if at == ID_SIZE:
            self._last = (prefix, read)
        return read(data, at)

    def many(
        self, data: Sequence[bytes | None], place: Place, /
    ) -> list[Any] | Awaitable[list[Any]]:
        """Deserialize all values; None stays None."""
        found: list[Any] = []
        prefix, read = self._last
        for each in data:
            if each is None:
                found.append(None)
                continue
            if each[:ID_SIZE] != prefix:
                key, at = unframe(each)
                known = self._readers.get(key)
                if known is None:
                    return self._rest(found, data)
                if at != ID_SIZE:
                    found.append(known(each, at))
                    continue
                prefix, read = self._last = each[:ID_SIZE], known
            found.append(read(each, ID_SIZE))
        return found

    async def _rest(self, found: list[Any], data: Sequence[bytes | None]) -> list[Any]:
        for each in data[len(found) :]:
            if each is None:
                found.append(None)
                continue
            key, at = unframe(each)
            read = self._readers.get(key)
            found.append(await self._first(key, each, at) if read is None else read(each, at))
        return found

    async def _first(self, key: SchemaKey, data: bytes, at: int) -> Any:
        read = self._readers.get(key)
        if read is None:
            read = self._readers.put(key, await self._asked(key))
        return read(data, at)

    async def _asked(self, key: SchemaKey) -> Read:
        """Return the reader. In one poll, a request that failed is not sent again."""
        failures = not_had()
        failure = failures.get((self.registry, key))
        if failure is not None:
            raise copy(failure)
        try:
            return await self.reader(key)
        except RegistryError as error:
            failures[self.registry, key] = copy(error)
            raise

    async def schema_of(self, key: SchemaKey, type: str, *, format: str | None = None) -> Schema:
        """Return the schema. Raise DeserializationFailed if it has another type."""
        schema = await self.registry.schema_to_read(self.options, key, format=format)
        if schema.type != type:
            raise DeserializationFailed(
                f"it was written with a schema of another kind: {schema.type}, not {type}",
                schema=key,
            )
        return schema


def _read_nothing(data: bytes, at: int) -> Any:
    raise AssertionError("no prefix is as long")


_NEVER = (b"\0" * (ID_SIZE + 1), _read_nothing)
