"""The interface of serializers and deserializers, between the clients and the formats.

A serde is called with a value and the `Place` it goes to or comes from. It returns the result at
once, unless it must fetch something first (a schema that is not cached yet): then it returns an
awaitable of the result. So the usual record costs one plain call and no task.

Invariants: None is a tombstone and never passed to a serde; there is one place object for each
topic and side, so a serde may use places as the keys of a dict. Any error of a serde becomes
`SerializationFailed` or `DeserializationFailed`, which name the place.

A serde may have two more attributes, both read once, when the client starts: `many(values, place)`
for a whole batch, and `wants_headers` for formats that keep the schema's id in a header; records
with headers then come one by one, each with a place that has its headers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.records import Headers
from moldau.values.failures import SerializationFailed, told

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Place:
    """The topic and the side (key or value) that data goes to or comes from. `headers` are the
    record's for a deserializer with `wants_headers`, else empty."""

    topic: str
    is_key: bool
    headers: Headers = field(default=(), compare=False)

    @property
    def side(self) -> str:
        """The side of the record: `key` or `value`."""
        return "key" if self.is_key else "value"


class Serializer(Protocol):
    """Converts a value to bytes. The result None is a tombstone."""

    def __call__(self, value: Any, place: Place, /) -> bytes | Awaitable[bytes | None] | None: ...


class Deserializer(Protocol):
    """Converts bytes to a value."""

    def __call__(self, data: bytes, place: Place, /) -> Any | Awaitable[Any]: ...


class Gives(Protocol[T_co]):
    """A deserializer, typed by what it returns."""

    def __call__(self, data: bytes, place: Place, /) -> T_co | Awaitable[T_co]: ...


class Takes(Protocol[T_contra]):
    """A serializer, typed by what it accepts."""

    def __call__(
        self, value: T_contra, place: Place, /
    ) -> bytes | Awaitable[bytes | None] | None: ...


@runtime_checkable
class BatchSerializer(Protocol):
    """A serializer that accepts many values at once; None among them stays None."""

    def many(
        self, values: Sequence[Any], place: Place, /
    ) -> list[bytes | None] | Awaitable[list[bytes | None]]: ...


@runtime_checkable
class BatchDeserializer(Protocol):
    """A deserializer that accepts many values at once; None among them stays None.

    It raises for the first bad value; the caller then converts them one by one to find that value.
    """

    def many(
        self, data: Sequence[bytes | None], place: Place, /
    ) -> list[Any] | Awaitable[list[Any]]: ...


SerializerGiven = Serializer | Callable[[Any], bytes | None] | str | None
DeserializerGiven = Deserializer | Callable[[bytes], Any] | str | None
SerializerFrom = Takes[T] | Callable[[T], bytes | None] | str | None
DeserializerTo = Gives[T] | Callable[[bytes], T] | str | None
"""What a client accepts: a serde, a function of the value alone, a name, or None."""


_NOT_HAD: Final[ContextVar[dict[Hashable, Exception] | None]] = ContextVar("not_had", default=None)


@contextmanager
def asking_once() -> Iterator[None]:
    """Remember failed requests in the block, so that none of them is sent again."""
    _NOT_HAD.set({})
    try:
        yield
    finally:
        _NOT_HAD.set(None)


def not_had() -> dict[Hashable, Exception]:
    """Return failed requests and their errors. They are kept only in an `asking_once` block."""
    known = _NOT_HAD.get()
    return {} if known is None else known


def failed_to_serialize(place: Place, value: object, error: BaseException) -> SerializationFailed:
    """Return the error that names the place, to be raised `from error`. `value` may be a column of
    values, one of which has the `index` of the error's context."""
    if isinstance(error, SerializationFailed) and "topic" in error.context:
        return error
    facts = dict(error.context) if isinstance(error, MoldauError) else {}
    if not isinstance(error, MoldauError) or isinstance(error, SerializationFailed):
        index = facts.get("index")
        failed = value[index] if isinstance(index, int) and isinstance(value, Sequence) else value
        facts["type"] = type(failed).__name__
    facts |= {"topic": place.topic, "setting": f"{place.side}.serializer"}
    return SerializationFailed(f"the {place.side} cannot be serialized: {told(error)}", **facts)
