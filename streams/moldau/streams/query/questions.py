"""The questions that a store answers, as plain data, and the rows of its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.problems import StreamsError

FOREVER_MS: Final = 2**63 - 1


class QueryFailed(StreamsError):
    """The question has no answer here."""


class BadQuery(QueryFailed):
    """The store does not exist, or cannot answer this question."""


class NoSuchStore(BadQuery):
    """The app has no store of this name."""


class StoreUnavailable(QueryFailed):
    """The store cannot be read now. Try again later."""


class Behind(StoreUnavailable):
    """What could be asked has not come to the position that the query wants."""


class NotHere(QueryFailed):
    """Another worker has the partition of the key."""

    def __init__(self, message: str, owner: str | None) -> None:
        super().__init__(message)
        self.owner = owner
        """The address of that worker, if it serves queries."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a store. The key of a window or session is a `Windowed`. Unpacks as (key, value)."""

    key: Any
    value: Any
    timestamp: int

    def __iter__(self) -> Iterator[Any]:
        return iter((self.key, self.value))


@dataclass(frozen=True, slots=True)
class Get:
    """Request the row of a key; in a versioned store, the one that was valid at `as_of`. With
    `partitions` the row is looked for in these, and not where the key's partitioner puts it."""

    key: Any
    as_of: int | None = None
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetch:
    """Request the windows of a key that start from `first` to `last`, both included, in that order;
    its sessions that overlap that time; its versions of that time. `limit` is the most rows;
    `partitions` as in `Get`."""

    key: Any
    first: int = 0
    last: int = FOREVER_MS
    limit: int | None = None
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Request the rows with keys from `first` to `last`, both included, in the order of the keys'
    bytes; `since` and `until` bound windows as in `Fetch`.

    With `by_time`, windows and sessions come in the order of their times, so that a limit ends the
    reading: the rows of a key-value store are in the order of their keys even then."""

    first: Any = None
    last: Any = None
    since: int = 0
    until: int = FOREVER_MS
    limit: int | None = None
    is_reverse: bool = False
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Request about how many rows there are."""


Question = Get | Fetch | Range | Count

Position = Mapping[int, int]
"""How far a store is, by partition: its rows hold all of its changelog below this offset."""


@dataclass(frozen=True, slots=True)
class PositionQuestion:
    """Ask a question of stores that have come to a position, and request how far they are. With
    `is_stale` a copy may answer, too, if the task is not running here. `partitions` are the ones to
    ask; without them all that are here."""

    question: Question
    is_stale: bool = False
    at_least: Position = field(default_factory=dict)
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PositionedAnswer:
    """The answer to a `PositionQuestion` question."""

    answer: Any
    position: Position
    is_stale: bool
    """Whether a copy gave a part of it, which may be behind the task."""
