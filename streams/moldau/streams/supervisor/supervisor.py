"""The supervisor's shell: starts the workers' processes, stops them, and restarts dead ones.

Workers are new processes and never forks, because a process that has used RocksDB cannot fork. Each
has a session of its own, so that a Ctrl-C in the terminal reaches only the supervisor, which stops
the workers; and each reads a pipe that ends when the supervisor ends, for whatever reason.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, BinaryIO, Final

from moldau.runtime import Runtime
from moldau.streams.supervisor.restarts import MISUSED, Restarts

LOG: Final = logging.getLogger("moldau.streams")
STOP_S: Final = 60.0


class Supervisor:
    """Runs workers until it is cancelled."""

    def __init__(
        self, command: Callable[[int], Sequence[str]], count: int, runtime: Runtime
    ) -> None:
        """`command(index)` is the command line of worker number `index`."""
        self._command = command
        self._count = count
        self._runtime = runtime
        self._processes: dict[int, Process] = {}
        self._is_stopping = False
        self.code = 0
        """The exit code of the supervisor's process."""

    async def run(self) -> None:
        """Run until cancelled, or until one worker cannot be restarted; then stop all workers."""
        keeping = [
            self._runtime.spawn(self._keep(index), name=f"worker-{index}", reported=False)
            for index in range(self._count)
        ]
        try:
            await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop(keeping)

    async def _keep(self, index: int) -> None:
        restarts = Restarts()
        while not self._is_stopping:
            restarts.on_start(self._runtime.clock.monotonic())
            code = await self._run(index)
            if self._is_over():
                return
            pause_s = restarts.on_end(code, self._runtime.clock.monotonic())
            if pause_s is None:
                LOG.error("streams: worker %d cannot run with these arguments", index)
                self.code = MISUSED
                return
            LOG.error(
                "streams: worker %d has ended (%s); it starts again in %.1f s",
                index,
                f"exit code {code}" if code >= 0 else f"signal {-code}",
                pause_s,
            )
            await asyncio.sleep(pause_s)

    def _is_over(self) -> bool:
        return self._is_stopping

    async def _run(self, index: int) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command(index), stdin=PIPE, start_new_session=True
        )
        self._processes[index] = process
        LOG.info("streams: worker %d has process id %d", index, process.pid)
        try:
            return await process.wait()
        finally:
            del self._processes[index]

    async def _stop(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        self._is_stopping = True
        waiting = []
        for process in list(self._processes.values()):
            process.terminate()
            waiting.append(asyncio.ensure_future(process.wait()))
        if waiting:
            _, slow = await asyncio.wait(waiting, timeout=STOP_S)
            if slow:
                LOG.error("streams: %d workers did not stop in %.0f s: killed", len(slow), STOP_S)
                for process in list(self._processes.values()):
                    process.kill()
                await asyncio.wait(slow)
        for task in keeping:
            task.cancel()
        await asyncio.wait(keeping)


async def unless_orphaned(work: Coroutine[Any, Any, None], source: BinaryIO) -> None:
    """Run a worker until it ends, or until the pipe held by its supervisor ends."""
    running = asyncio.ensure_future(work)
    orphaned = asyncio.ensure_future(_end_of(source))
    try:
        await asyncio.wait([running, orphaned], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            LOG.error("streams: the supervisor has ended: this worker stops")
    finally:
        orphaned.cancel()
        running.cancel()
        await asyncio.wait([running, orphaned])
    if not running.cancelled():
        running.result()


async def _end_of(source: BinaryIO) -> None:
    """Wait until the pipe that the supervisor holds ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), source
    )
    try:
        while await reader.read(1024):
            pass
    finally:
        transport.close()
