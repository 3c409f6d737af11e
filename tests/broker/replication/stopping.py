"""A node whose threads work on the spot, and which dies before a given call to the disk: so that a
test can stop it before every call there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

from moldau.runtime import Runtime
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled
from tests.broker.log.machine import NOW, StoppingDisk


class _Clock:
    def wall_ms(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    def monotonic_ns(self) -> int:
        return 0


class InlineRuntime:
    """Work for threads is done at once, so that the calls to the disk can be counted; who waits for
    it goes on in the next turn of the loop."""

    def __init__(self, disk: StoppingDisk) -> None:
        self.files = disk.files(disk.incarnation)
        self.clock = _Clock()
        self.random = Random(1)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)

    def sync_data(self, files: object) -> None:
        """Threads have to do."""

    def run_blocking(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        try:
            result = function(*args)
        except Exception as error:
            loop.call_soon(_end, future, None, error)
        else:
            loop.call_soon(_end, future, result, None)
        return future


def _end(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def begin_life(disk: StoppingDisk) -> Runtime:
    """Another process on the disk."""
    disk.calls_left = None
    disk.incarnation = Incarnation("node")
    return cast(Runtime, InlineRuntime(disk))


def _forget_the_dead(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nobody asks a task of a dead node for its result, and its complaint would come whenever the
    task is collected: in the log of another test."""
    if not isinstance(context.get("exception"), NodeKilled):
        loop.default_exception_handler(context)


async def run_until_it_dies(disk: StoppingDisk, work: Coroutine[Any, Any, Any], calls: int) -> bool:
    """Whether `work` came to its end before the call of that number."""
    asyncio.get_running_loop().set_exception_handler(_forget_the_dead)
    disk.calls_left = calls
    task = asyncio.ensure_future(work)
    while not task.done() and disk.incarnation.alive:
        await asyncio.wait({task}, timeout=0)
    disk.calls_left = None
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if disk.incarnation.alive:
        task.result()
    elif not task.cancelled():
        task.exception()  # whatever it met in a dead node
    return disk.incarnation.alive
