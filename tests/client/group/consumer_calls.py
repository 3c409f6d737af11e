"""Calls of a user in a game: each ends in its time, also if it is cut off, and with what it may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moldau.errors.codes import KafkaError
from moldau.runtime.simulated.simulation import Simulation
from tests.client.group.consumer_book import SLACK_S, Book, Ended, Promise, Refused


class Caller:
    """Who calls, in whatever task."""

    def __init__(self, world: Simulation, book: Book, name: str, runtime: Any) -> None:
        self.world, self.book, self.name, self.runtime = world, book, name, runtime
        self.calls = self.under_way = 0

    @property
    def now(self) -> float:
        return self.world.now

    def demand(self, is_so: bool, promise: Promise, **facts: object) -> None:
        self.book.demand(is_so, promise, who=self.name, **facts)

    @property
    def is_listener(self) -> bool:
        """Whether it is his listener that calls."""
        raise NotImplementedError

    def listened_s(self) -> float:
        """How long listeners have run."""
        raise NotImplementedError

    def is_documented(self, error: BaseException, call: str) -> bool:
        """Whether he may hear that."""
        raise NotImplementedError

    async def call(
        self,
        what: str,
        make: Callable[[], Awaitable[Any]],
        bound_s: float,
        cut_after_s: float | None = None,
        *,
        here: bool = False,
    ) -> Ended:
        """In a task of its own, or in this one; cut off after a while, perhaps."""
        self.calls += 1
        self.under_way += 1
        inside = " in listener" if self.is_listener else ""
        call = f"#{self.calls} {what}"
        self.book.note(self.name, f"{call}{inside}")
        try:
            with self._bounded(call, bound_s):
                if here:
                    return await self._call_here(call, make, cut_after_s)
                return await self._call_beside(call, make, cut_after_s)
        finally:
            self.under_way -= 1

    @contextmanager
    def _bounded(self, call: str, bound_s: float) -> Iterator[None]:
        """It may take so long, and as long as listeners take meanwhile."""
        began, listened_s = self.now, self.listened_s()

        def look() -> None:
            until = began + bound_s + self.listened_s() - listened_s + SLACK_S
            self.demand(self.now < until, Promise.ENDS_IN_TIME, call=call)
            alarms.append(self.world.after(until - self.now + 0.001, look))

        alarms = [self.world.after(bound_s + SLACK_S + 0.001, look)]
        try:
            yield
        finally:
            alarms[-1].cancel()

    async def _call_here(
        self, call: str, make: Callable[[], Awaitable[Any]], cut_after_s: float | None
    ) -> Ended:
        began, limit = self.now, asyncio.timeout(cut_after_s)
        error: BaseException | None = None
        result = None
        try:
            async with limit:
                result = await make()
        except (KafkaError, RuntimeError, Refused) as raised:
            error = raised.with_traceback(None)  # whose frames would keep a stream that is left
        except TimeoutError:
            error = asyncio.CancelledError()
        return self._ended(call, error, Ended(None, self.now - began, limit.expired(), result))

    async def _call_beside(
        self, call: str, make: Callable[[], Awaitable[Any]], cut_after_s: float | None
    ) -> Ended:
        async def made() -> Any:
            return await make()

        began, is_cut = self.now, False
        task = self.runtime.spawn(made(), name=f"user {call}", reported=False)
        try:
            if cut_after_s is not None:
                await asyncio.wait([task], timeout=cut_after_s)
                is_cut = task.cancel()
                self.book.note(self.name, f"{call} is cut off: {is_cut}")
            await asyncio.wait([task])
        finally:
            task.add_done_callback(_look_at)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        result = task.result() if error is None else None
        return self._ended(call, error, Ended(None, self.now - began, is_cut, result))

    def _ended(self, call: str, error: BaseException | None, ended: Ended) -> Ended:
        if isinstance(error, asyncio.CancelledError):
            self.book.note(self.name, f"{call}: cancelled")
            self.demand(ended.was_cut, Promise.CANCELLED_BY_USER, call=call)
            return ended._replace(error=error)
        told = "" if error is None else f" {type(error).__name__}: {error}"[:90]
        self.book.note(self.name, f"{call}: ended{told}")
        if error is None:
            if ended.was_cut:
                self.book.counts[f"swallowed a cancel: {call.split(' ', 1)[1]}"] += 1
            return ended
        self.book.counts[f"heard {_kind(error)}"] += 1
        self.demand(
            self.is_documented(error, call), Promise.DOCUMENTED_ERRORS, call=call, error=error
        )
        return ended._replace(error=error)


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _kind(error: BaseException) -> str:
    return error.code.name if isinstance(error, KafkaError) else type(error).__name__
