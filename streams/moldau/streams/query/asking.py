"""The query objects of users: `Query` for threads and the test driver, `AsyncQuery` for coroutines.

Both build a question and pass it to a function that finds the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from moldau.streams.query.questions import FOREVER_MS, Count, Fetch, Get, Question, Range, Row

Ask = Callable[[Question], Any]
AskLater = Callable[[Question], Awaitable[Any]]


class Query:
    """The current rows of a store, including those that no commit has written yet."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

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


class AsyncQuery:
    """The same as `Query`, with coroutines."""

    def __init__(self, ask: AskLater) -> None:
        self._ask = ask

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
