"""`Runtime` on this machine: asyncio (or uvloop), real clocks, files, sockets and threads.

Invariant: a runtime belongs to the event loop that runs its code, and `aclose` ends all of its
threads, and all of its tasks except those that it is told to spare. `run` is the whole life of a
process: a loop, a runtime, `main`, and the end.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.runtime.interface import Runtime, Syncs
from moldau.runtime.process import LoopKind, new_event_loop
from moldau.runtime.real_files import RealFiles
from moldau.runtime.real_network import RealNetwork

if TYPE_CHECKING:
    from moldau.runtime.files import File
    from moldau.runtime.kernel_sync import KernelSync

T = TypeVar("T")

BLOCKING_THREADS = 8

FailureReport = Callable[[str, BaseException], None]


class RealClock:
    """The clocks of this machine."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000


class RealRuntime(Runtime):
    """The runtime of production."""

    def __init__(
        self,
        node: str = "local",
        *,
        on_failure: FailureReport | None = None,
    ) -> None:
        """`on_failure(name, error)` gets failures of spawned tasks; without it asyncio logs
        them."""
        self.node = node
        self.clock = RealClock()
        # From the system's entropy: nonces and ids must not be guessable.
        self.random = random.SystemRandom()
        self.files = RealFiles()
        self.network = RealNetwork()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_forked = False
        self._on_failure = on_failure
        self._kernel_sync: KernelSync | None = None
        self._has_kernel_sync = True
        self._threads = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix=f"{node}-blocking")

    def spawn(
        self, coroutine: Coroutine[Any, Any, T], *, name: str, reported: bool = True
    ) -> asyncio.Task[T]:
        """Run `coroutine` as a task that is kept until it ends. It begins in a later turn of the
        loop, since the caller must know the task before it runs. So the loop's factory does not
        create it: that may be an eager one (Python 3.12)."""
        task = asyncio.Task(coroutine, loop=asyncio.get_running_loop(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end_reported if reported else self._tasks.discard)
        if self._is_forked:
            task.cancel()
        return task

    def _end_reported(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if self._on_failure is not None:
            self._on_failure(task.get_name(), error)
            return
        task.get_loop().call_exception_handler(
            {"message": "a spawned task failed", "exception": error, "task": task}
        )

    def run_blocking(self, function: Callable[..., T], /, *args: Any) -> asyncio.Future[T]:
        """Run `function` on one of the runtime's threads."""
        return asyncio.get_running_loop().run_in_executor(self._threads, _call, function, args)

    def sync_data(self, files: Sequence[File]) -> Syncs | None:
        """Sync by the kernel's own workers, if the kernel has them and allows it."""
        if self._kernel_sync is None:
            if not self._has_kernel_sync:
                return None
            from moldau.runtime.kernel_sync import open_kernel_sync

            self._kernel_sync = open_kernel_sync(asyncio.get_running_loop())
            self._has_kernel_sync = self._kernel_sync is not None
            if self._kernel_sync is None:
                return None
        return self._kernel_sync.sync(files)

    def buggify(self, name: str, probability: float = 0.05) -> bool:
        """Return False: production has no rare paths on purpose."""
        return False

    def forked(self) -> None:
        """End all tasks in a child process, those to come too: they would do the parent's work
        again there, should its copy of the loop run."""
        self._is_forked = True
        for task in tuple(self._tasks):
            task.cancel()

    async def aclose(self, spared: Collection[asyncio.Task[Any]] = ()) -> None:
        """Cancel the running tasks, and those that they start, and wait for them all. Tasks in
        `spared`, or added to it meanwhile, end by themselves.

        Also wait for the work that threads have begun: it has no effects after this.
        """
        mine = asyncio.current_task()
        while living := [task for task in self._tasks if task is not mine and task not in spared]:
            for task in living:
                task.cancel()
            await asyncio.wait(living)
        self._threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._threads.shutdown)
        if self._kernel_sync is not None:
            self._kernel_sync.close()
            self._kernel_sync, self._has_kernel_sync = None, False

    async def __aenter__(self) -> RealRuntime:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _call(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    """Call the function on a thread. A future that gets a StopIteration would wait for ever."""
    try:
        return function(*args)
    except StopIteration as stop:
        raise RuntimeError("blocking work raised StopIteration") from stop


def run(
    main: Callable[[Runtime], Coroutine[Any, Any, T]],
    *,
    node: str = "local",
    loop: LoopKind = "auto",
) -> T:
    """Run `main(runtime)` on a new event loop until it returns; Ctrl-C cancels it."""

    async def whole() -> T:
        async with RealRuntime(node) as runtime:
            return await main(runtime)

    with asyncio.Runner(loop_factory=lambda: new_event_loop(loop)) as runner:
        return runner.run(whole())
