"""The query objects of users: `Query` for threads and the test driver, `AsyncQuery` for coroutines.

Both build a question and pass it to a function that finds the store. Of a query with bounds, its
`position` and `is_stale` are those of its last answer: such an object is for one thread or task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from moldau.deferred import dataclass
from moldau.streams.query.questions import (
    FOREVER_MS,
    Count,
    Fetch,
    Get,
    Position,
    PositionedAnswer,
    PositionQuestion,
    Question,
    Range,
    Row,
)

Ask = Callable[[Question | PositionQuestion], Any]
AskLater = Callable[[Question | PositionQuestion], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a query allows and demands: answers of copies, and a position."""

    is_stale: bool = False
    at_least: Position = field(default_factory=dict)

    @classmethod
    def of(cls, stale: bool, at_least: Mapping[int, int] | None) -> Bounds | None:
        """Return the bounds that a user gives; None for a query without any."""
        if not stale and at_least is None:
            return None
        return cls(stale, dict(at_least or {}))


class _BoundedQuery:
    """What both kinds of queries know of their last answer."""

    def __init__(self, bounds: Bounds | None) -> None:
        self._bounds = bounds
        self.position: Position = {}
        """How far the last answer was, by partition: give it as `at_least` to another query, which
        then answers with all that this one has seen. Empty without `stale` and `at_least`."""
        self.is_stale = False
        """Whether a copy gave a part of the last answer."""

    def _bounded(self, question: Question) -> Question | PositionQuestion:
        bounds = self._bounds
        if bounds is None:
            return question
        return PositionQuestion(question, bounds.is_stale, bounds.at_least)

    def _taken(self, found: Any) -> Any:
        if not isinstance(found, PositionedAnswer):
            return found
        self.position, self.is_stale = found.position, found.is_stale
        return found.answer


class Query(_BoundedQuery):
    """The current rows of a store, including those that no commit has written yet."""

    def __init__(self, ask: Ask, bounds: Bounds | None = None) -> None:
        super().__init__(bounds)
        self._find = ask

    def _ask(self, question: Question) -> Any:
        return self._taken(self._find(self._bounded(question)))

    def get(self, key: Any, *, as_of: int | None = None) -> Any:
        """Return the value of a key, or None. `as_of` is for a versioned table: the value that was
        valid at that time."""
        row = self._ask(Get(key, as_of))
        return None if row is None else row.value

    def row(self, key: Any, *, as_of: int | None = None) -> Row | None:
        """Return the row of a key, as `get` does, with the time of the value."""
        found: Row | None = self._ask(Get(key, as_of))
        return found

    def range(
        self,
        first: Any = None,
        last: Any = None,
        *,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Row]:
        """Return rows with keys from `first` to `last`, both included, in the order of bytes."""
        rows: list[Row] = self._ask(Range(first, last, limit=limit, is_reverse=reverse))
        return rows

    def all(self) -> list[Row]:
        """Return all rows."""
        return self.range()

    def approximate_count(self) -> int:
        """Return about how many rows there are."""
        count: int = self._ask(Count())
        return count

    def fetch(self, key: Any, first: int = 0, last: int = FOREVER_MS) -> list[Row]:
        """Return the windows of a key that start from `first` to `last`, its sessions that overlap
        that time, or its versions of that time. Both ends are included."""
        rows: list[Row] = self._ask(Fetch(key, first, last))
        return rows

    def windows(
        self,
        first: Any = None,
        last: Any = None,
        *,
        since: int = 0,
        until: int = FOREVER_MS,
        limit: int | None = None,
    ) -> list[Row]:
        """Return windows or sessions: keys from `first` to `last`, times `since` to `until`."""
        rows: list[Row] = self._ask(Range(first, last, since, until, limit))
        return rows


class AsyncQuery(_BoundedQuery):
    """The same as `Query`, with coroutines."""

    def __init__(self, ask: AskLater, bounds: Bounds | None = None) -> None:
        super().__init__(bounds)
        self._find = ask

    async def _ask(self, question: Question) -> Any:
        return self._taken(await self._find(self._bounded(question)))

    async def get(self, key: Any, *, as_of: int | None = None) -> Any:
        """See `Query.get`."""
        row = await self._ask(Get(key, as_of))
        return None if row is None else row.value

    async def row(self, key: Any, *, as_of: int | None = None) -> Row | None:
        """See `Query.row`."""
        found: Row | None = await self._ask(Get(key, as_of))
        return found

    async def range(
        self,
        first: Any = None,
        last: Any = None,
        *,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Row]:
        """See `Query.range`."""
        rows: list[Row] = await self._ask(Range(first, last, limit=limit, is_reverse=reverse))
        return rows

    async def all(self) -> list[Row]:
        """See `Query.all`."""
        return await self.range()

    async def approximate_count(self) -> int:
        """See `Query.approximate_count`."""
        count: int = await self._ask(Count())
        return count

    async def fetch(self, key: Any, first: int = 0, last: int = FOREVER_MS) -> list[Row]:
        """See `Query.fetch`."""
        rows: list[Row] = await self._ask(Fetch(key, first, last))
        return rows

    async def windows(
        self,
        first: Any = None,
        last: Any = None,
        *,
        since: int = 0,
        until: int = FOREVER_MS,
        limit: int | None = None,
    ) -> list[Row]:
        """See `Query.windows`."""
        rows: list[Row] = await self._ask(Range(first, last, since, until, limit))
        return rows
