"""The supervisor: starts the workers' processes, stops them, and restarts dead ones.

Workers are new processes and never forks, because a process that has used RocksDB cannot fork. A
Ctrl-C in the terminal reaches only the supervisor, which stops the workers; and they are leashed:
they end when the supervisor ends, for whatever reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from moldau.runtime import Runtime
from moldau.runtime.node_processes import NodeProcess
from moldau.runtime.restarts import STAYS_ENDED, USAGE_ERROR
from moldau.runtime.supervised import Supervised, stop_supervised

_ENDS: Final = (USAGE_ERROR, STAYS_ENDED)
LOG: Final = logging.getLogger("moldau.streams")
STOP_S: Final = 60.0
_LOOK_S: Final = 0.1


class Supervisor:
    """Runs workers until it is cancelled."""

    def __init__(self, words: Callable[[int], Sequence[str]], count: int, runtime: Runtime) -> None:
        """`words(index)` is the command of worker number `index`, without `moldau`."""
        self._runtime = runtime
        self._workers = [
            Supervised(partial(_launch, words, index), runtime.clock) for index in range(count)
        ]
        self._stopped = 0
        self.code = 0
        """The exit code of the supervisor's process."""

    async def run(self) -> None:
        """Run until cancelled, until one worker cannot be restarted, or all are to stay ended; then
        stop all workers."""
        try:
            for worker in self._workers:
                worker.start()
            while self.code == 0:
                await asyncio.sleep(_LOOK_S)
                for index, worker in enumerate(self._workers):
                    self._watch(index, worker)
        finally:
            killed = await self._runtime.run_blocking(stop_supervised, self._workers, STOP_S)
            if killed:
                LOG.error("streams: %d workers did not stop in %.0f s: killed", killed, STOP_S)

    def _watch(self, index: int, worker: Supervised) -> None:
        worker.take_restart()
        end = worker.take_end(is_failure=lambda code: code not in _ENDS)
        if end is None:
            return
        if end.code == STAYS_ENDED:
            LOG.error("streams: worker %d has stopped for good, as the app wants it", index)
            self._stopped += 1
            if self._stopped == len(self._workers):
                self.code = STAYS_ENDED
        elif end.pause_ms is None:
            LOG.error("streams: worker %d cannot run with these arguments", index)
            self.code = USAGE_ERROR
        else:
            LOG.error(
                "streams: worker %d has ended (%s); it starts again in %.1f s",
                index,
                end.how,
                end.pause_ms / 1000,
            )


def _launch(words: Callable[[int], Sequence[str]], index: int) -> NodeProcess:
    process = NodeProcess(words(index), None, is_leashed=True, shares_output=True)
    LOG.info("streams: worker %d has process id %d", index, process.pid)
    return process
