"""What a serializer and a deserializer are: the seam between the clients and the formats.

A serde is called with a value and the `Place` it goes to or comes from. It answers at once, unless
something has to be fetched first (a schema that is not known yet): then it gives an awaitable of
the answer. So the usual record costs one plain call and no task.

Invariants: None is a tombstone and never handed to a serde; a place is one object a topic and side,
made once, so a serde may keep what it knows of a place in a dict by it. Whatever a serde raises
becomes `SerializationFailed` or `DeserializationFailed`, which name the place.

Two things a serde may have beside the call, both looked up once, when the client starts:
`many(values, place)` for a whole batch, and `wants_headers` for formats that keep the schema's id
in a header; records with headers then come one by one, each with a place that has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from moldau.errors import BadData, MoldauError
from moldau.records import Headers

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key or a value goes to or comes from. `headers` are the record's, for a deserializer
    that wants them; else empty."""

    topic: str
    is_key: bool
    headers: Headers = field(default=(), compare=False)

    @property
    def side(self) -> str:
        """Which half of the record."""
        return "key" if self.is_key else "value"


class Serializer(Protocol):
    """Makes bytes of what the application has. None as the answer is a tombstone."""

    def __call__(self, value: Any, place: Place, /) -> bytes | Awaitable[bytes | None] | None: ...


class Deserializer(Protocol):
    """Makes what the application wants of bytes."""

    def __call__(self, data: bytes, place: Place, /) -> Any | Awaitable[Any]: ...


class Gives(Protocol[T_co]):
    """A deserializer, by the type that it gives."""

    def __call__(self, data: bytes, place: Place, /) -> T_co | Awaitable[T_co]: ...


class Takes(Protocol[T_contra]):
    """A serializer, by the type that it takes."""

    def __call__(
        self, value: T_contra, place: Place, /
    ) -> bytes | Awaitable[bytes | None] | None: ...


@runtime_checkable
class BatchSerializer(Protocol):
    """A serializer that takes many values at once; None among them stays None."""

    def many(
        self, values: Sequence[Any], place: Place, /
    ) -> list[bytes | None] | Awaitable[list[bytes | None]]: ...


@runtime_checkable
class BatchDeserializer(Protocol):
    """A deserializer that takes many at once; None among them stays None.

    It raises for the first that is bad; the caller then asks one by one to learn which it was.
    """

    def many(
        self, data: Sequence[bytes | None], place: Place, /
    ) -> list[Any] | Awaitable[list[Any]]: ...


SerializerGiven = Serializer | Callable[[Any], bytes | None] | str | None
DeserializerGiven = Deserializer | Callable[[bytes], Any] | str | None
SerializerFrom = Takes[T] | Callable[[T], bytes | None] | str | None
DeserializerTo = Gives[T] | Callable[[bytes], T] | str | None
"""What a client takes: a serde, a function of the value alone, a name, or nothing."""


class SerializationFailed(MoldauError):
    """A key or value that its serializer could not make bytes of: nothing was sent."""


class DeserializationFailed(BadData):
    """A record was read, and its deserializer could not make sense of the key or value."""


_NOT_HAD: Final[ContextVar[dict[Hashable, Exception] | None]] = ContextVar("not_had", default=None)


@contextmanager
def asking_once() -> Iterator[None]:
    """What could not be had is not asked for again in the block, however many records want it."""
    _NOT_HAD.set({})
    try:
        yield
    finally:
        _NOT_HAD.set(None)


def not_had() -> dict[Hashable, Exception]:
    """What could not be had, and why; outside of such a block that is forgotten."""
    known = _NOT_HAD.get()
    return {} if known is None else known


def failed_to_serialize(place: Place, value: object, error: BaseException) -> SerializationFailed:
    """The error to raise `from error`."""
    if isinstance(error, SerializationFailed) and "topic" in error.context:
        return error
    facts = error.context if isinstance(error, MoldauError) else {}
    return SerializationFailed(
        f"the {place.side} cannot be serialized: {told(error)}",
        **{
            **facts,
            "topic": place.topic,
            "type": type(value).__name__,
            "setting": f"{place.side}.serializer",
        },
    )


def told(error: BaseException) -> str:
    """What an error says, with its kind where that is not ours; its facts are kept apart."""
    if isinstance(error, MoldauError):
        return error.reason
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
