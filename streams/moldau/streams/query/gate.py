"""Bring questions from other threads and coroutines to the stores of a worker.

`Gate` admits one thread at a time to the stores. A question waits for the work in progress and is
answered in the next break: between two slices of records, or when the work is over.

`Running` is an app's handle on its worker in this process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import CancelledError as Cancelled
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from moldau.errors import without_frames
from moldau.runtime import Runtime
from moldau.streams.durations import Duration
from moldau.streams.problems import StreamsError
from moldau.streams.query.lifecycle import Lifecycle
from moldau.streams.query.questions import NotHere, PositionQuestion, Question, StoreUnavailable
from moldau.streams.rocks import StoreCorrupted

T = TypeVar("T")
_AGAIN_S: Final = 0.02


class _StoreRead(NamedTuple):
    read: Callable[[], Any]
    future: asyncio.Future[Any]


class Gate:
    """Access to the stores. Invariant: what runs here has all stores of the worker to itself."""

    def __init__(self, runtime: Runtime) -> None:
        self.damage: StoreCorrupted | None = None
        """The corruption that a question found, if any; the worker repairs it."""
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._asked: deque[_StoreRead] = deque()
        self._free = asyncio.Event()
        self._free.set()
        self._answering: asyncio.Task[None] | None = None

    async def run(self, function: Callable[..., T], /, *arguments: Any) -> T:
        """Run a function on a thread, alone with the stores."""
        async with self._lock:
            return await self._runtime.run_blocking(function, *arguments)

    async def wait_until(self, wall_ms: int) -> int:
        """Wait until `wall_ms` and return the time. Questions are answered meanwhile."""
        now_ms = self._runtime.clock.wall_ms()
        await asyncio.sleep(max(0, wall_ms - now_ms) / 1000)
        return max(wall_ms, self._runtime.clock.wall_ms())

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Let questions wait: what a reader of the output already sees comes into the stores."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    async def ask(self, read: Callable[[], T]) -> T:
        """Run a read in the next break, and return its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append(_StoreRead(read, future))
        if self._answering is None:
            self._answering = self._runtime.spawn(self._answer_all(), name="streams-queries")
        return await future

    async def _answer_all(self) -> None:
        try:
            while self._asked:
                await self._free.wait()
                await self.run(self.answer)
        finally:
            self._answering = None

    def answer(self) -> None:
        """Answer the waiting questions on the thread that has the stores; free if none wait."""
        while self._asked:
            read, future = self._asked.popleft()
            loop = future.get_loop()
            try:
                result = read()
            except Exception as error:
                if isinstance(error, StoreCorrupted):
                    self.damage = without_frames(error)
                loop.call_soon_threadsafe(_fail, future, without_frames(error))
            else:
                loop.call_soon_threadsafe(_succeed, future, result)

    def close(self) -> None:
        """Fail the waiting questions with StoreUnavailable: the worker has stopped."""
        while self._asked:
            _fail(self._asked.popleft().future, StoreUnavailable("the worker has stopped"))


def _succeed(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(without_frames(error))


class QueriedWorker(Protocol):
    """A worker, as its app queries it."""

    async def ask(self, store: str, question: Question | PositionQuestion) -> Any: ...


class AsksApps(Protocol):
    """What sends requests for an app, and waits for replies."""

    async def ask(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        type: Any = Any,
        timeout: Duration = "30s",  # noqa: ASYNC109 - it has its own error
    ) -> Any: ...


class _Worker(NamedTuple):
    answers: QueriedWorker
    asker: AsksApps | None
    loop: asyncio.AbstractEventLoop
    asking: set[asyncio.Task[Any]]


class Running:
    """The worker of an app in this process, if one runs."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._worker: Future[_Worker] = Future()
        self.life = Lifecycle(app)
        """The state of the app here, and what its user says about it."""

    def attach(self, answers: QueriedWorker, asker: AsksApps | None = None) -> None:
        """Send questions to this worker, and requests with `asker`, on this event loop, from now
        on."""
        self._worker.set_result(_Worker(answers, asker, asyncio.get_running_loop(), set()))

    def detach(self) -> None:
        """Remove the worker, which stops, and cancel its open questions."""
        worker, self._worker = self._worker, Future()
        if worker.done():
            for task in worker.result().asking:
                task.cancel()

    def ask(self, store: str, question: Question | PositionQuestion, wait_s: float) -> Any:
        """Query a store from a thread without an event loop; wait up to `wait_s` for it."""
        try:
            worker = self._worker.result(wait_s)
        except TimeoutError:
            raise self._not_running() from None
        if _running_loop() is worker.loop:
            raise StreamsError(
                f"app={self._app}: this is the worker's own event loop: "
                "use app.query_async(...) and await its answers"
            )
        work = self._tracked(worker, _patiently(worker.answers, store, question, wait_s))
        try:
            return asyncio.run_coroutine_threadsafe(work, worker.loop).result()
        except Cancelled:
            raise self._not_running() from None

    async def ask_later(
        self, store: str, question: Question | PositionQuestion, wait_s: float
    ) -> Any:
        """Query a store from a coroutine on any event loop; wait up to `wait_s` for it."""
        clock = asyncio.get_running_loop().time
        end = clock() + wait_s
        worker = await self._started(end)
        work = _patiently(worker.answers, store, question, end - clock())
        return await self._on_loop(worker, work)

    async def request(
        self, send: Callable[[AsksApps], Coroutine[Any, Any, Any]], wait_s: float
    ) -> Any:
        """Send a request with the asker of the worker, from a coroutine on any event loop; wait up
        to `wait_s` until it runs."""
        worker = await self._started(asyncio.get_running_loop().time() + wait_s)
        assert worker.asker is not None, "a worker that is attached to its app has an asker"
        return await self._on_loop(worker, send(worker.asker))

    async def _started(self, end: float) -> _Worker:
        """Return the worker as soon as it runs. Raise StoreUnavailable if that is not before `end`,
        by the clock of this event loop."""
        while not self._worker.done():
            if asyncio.get_running_loop().time() >= end:
                raise self._not_running()
            await asyncio.sleep(_AGAIN_S)
        return self._worker.result()

    async def _on_loop(self, worker: _Worker, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the event loop of the worker."""
        tracked = self._tracked(worker, work)
        if _running_loop() is worker.loop:
            return await tracked
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(tracked, worker.loop))

    async def _tracked(self, worker: _Worker, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something that ends with the worker; runs on its event loop."""
        task = asyncio.ensure_future(work)
        worker.asking.add(task)
        task.add_done_callback(worker.asking.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
            raise

    def _not_running(self) -> StoreUnavailable:
        return StoreUnavailable(f"app={self._app}: no worker of it runs in this process")


async def _patiently(
    answers: QueriedWorker, store: str, question: Question | PositionQuestion, wait_s: float
) -> Any:
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_s
    while True:
        try:
            return await answers.ask(store, question)
        except (StoreUnavailable, NotHere):
            if loop.time() >= end:
                raise
            await asyncio.sleep(_AGAIN_S)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
