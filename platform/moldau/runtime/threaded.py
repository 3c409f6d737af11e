"""A runtime on an event loop in a thread of its own, for callers without an event loop, or with
one that must not be held up.

    with ThreadedRuntime("broker") as threaded:
        answer = threaded.run(lambda runtime: ask(runtime))      # waits here

Invariants: all coroutines of `run` run on that one loop; after `close` the loop, its tasks and its
thread are gone. An exception that ends a coroutine is raised where `run` waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from moldau.runtime.interface import Runtime
from moldau.runtime.process import LoopKind, new_event_loop
from moldau.runtime.real import RealRuntime

T = TypeVar("T")


class ThreadedRuntime:
    """A runtime that `with` or `start` starts. Its daemon thread does not keep a program alive."""

    def __init__(self, node: str = "local", *, loop: LoopKind = "auto") -> None:
        self._loop = new_event_loop(loop)
        self._node = node
        self._runtime: RealRuntime | None = None
        self._thread = threading.Thread(target=self._serve, name=f"{node}-loop", daemon=True)

    def start(self) -> None:
        """Start the loop's thread; call it once."""
        self._thread.start()
        self._runtime = self._call(self._open())

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _open(self) -> RealRuntime:
        return RealRuntime(self._node)

    def run(self, main: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `main(runtime)`. Do not call it on the runtime's own loop."""
        runtime = self._runtime
        assert runtime is not None, "not started"
        return self._call(main(runtime))

    async def run_beside(self, main: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `main(runtime)` to a coroutine on another loop, which has its turns
        meanwhile. If that is cancelled, so is `main`, and it has ended when this raises: what it
        has opened may be closed then."""
        runtime = self._runtime
        assert runtime is not None, "not started"
        coroutine = main(runtime)
        tasks: list[asyncio.Task[T]] = []
        ended: Future[None] = Future()

        def begin() -> None:
            task = self._loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(lambda _: ended.set_result(None))

        self._loop.call_soon_threadsafe(begin)
        waiting = asyncio.wrap_future(ended)
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            await asyncio.shield(waiting)
            if not tasks[0].cancelled():
                tasks[0].exception()  # it was asked to end: how it did so is told nowhere
            raise
        return tasks[0].result()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End everything; a second call does nothing. The thread ends in any case, also after an
        error, or after Ctrl-C during the wait."""
        if self._loop.is_closed():
            return
        try:
            if self._thread.is_alive():
                self._end_tasks()
        finally:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
            self._loop.close()

    def _end_tasks(self) -> None:
        if self._runtime is not None:
            self._call(self._runtime.aclose())
        self._call(self._loop.shutdown_asyncgens())
        self._call(self._loop.shutdown_default_executor())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LoopInThread:
    """A loop in a thread, started, with what its users ask for (`moldau.runtime.threads`)."""

    def __init__(self, node: str) -> None:
        self._threaded = ThreadedRuntime(node)
        self._threaded.start()
        self.runtime, self.loop, self._thread = self._threaded.run(_where)
        self.ident = self._thread.ident

    def is_alive(self) -> bool:
        """Whether the thread runs. A callback that raises SystemExit ends it, like any loop."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the loop, its tasks and its thread."""
        self._threaded.close()


async def _where(runtime: Runtime) -> tuple[Runtime, asyncio.AbstractEventLoop, threading.Thread]:
    return runtime, asyncio.get_running_loop(), threading.current_thread()
