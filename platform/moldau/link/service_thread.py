"""The thread of a service inside a broker's process.

Invariants: the service has a loop and a thread of its own, so no computation of it holds up the
broker's loop: the two share only the interpreter, in short turns. When the block ends, however it
ends, the service is closed, and its tasks, loop and thread are gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.runtime.process import short_turns
from moldau.runtime.threaded import ThreadedRuntime

if TYPE_CHECKING:
    from moldau.link.hosted_services import RunningService
    from moldau.runtime import Runtime


@asynccontextmanager
async def in_own_thread(
    runtime: Runtime,
    name: str,
    serve: Callable[[Runtime], AbstractAsyncContextManager[RunningService]],
) -> AsyncIterator[RunningService]:
    """Serve on a loop in a thread called after `name`. `runtime` is that of the broker."""
    apart = ThreadedRuntime(name)
    serving = AsyncExitStack()

    async def begin(beside: Runtime) -> RunningService:
        return await serving.enter_async_context(serve(beside))

    try:
        apart.start()
        with short_turns():
            try:
                up = await apart.run_beside(begin)
                yield replace(up, wait=lambda: apart.run_beside(lambda _: _waited(up)))
            finally:
                await apart.run_beside(lambda _: serving.aclose())
    finally:
        await runtime.run_blocking(apart.close)


async def _waited(service: RunningService) -> None:
    await service.wait()
