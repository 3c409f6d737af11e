"""The supervisor: starts the workers' processes, stops them, and restarts dead ones.

Workers are new processes and never forks, because a process that has used RocksDB cannot fork. A
Ctrl-C in the terminal reaches only the supervisor, which stops the workers; and they are leashed:
they end when the supervisor ends, for whatever reason.

The number of workers may change meanwhile: a worker sends the number that a user asks for
(`ask_for_workers`), and SIGTTIN and SIGTTOU add and remove one. Workers are numbered from 0, those
with the highest numbers go first, and each number has a state directory of its own.

Invariant: of one number there is never more than one process. A number that is wanted again while
its process still ends starts when that has ended.
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
from moldau.runtime.signals import counted_signals, send_to_parent
from moldau.runtime.supervised import ProcessEnd, Supervised, stop_supervised
from moldau.streams.query.supervised import WORKERS_MAX, change_of_count

STOP_S: Final = 60.0
LOG: Final = logging.getLogger("moldau.streams")
_ENDS: Final = (USAGE_ERROR, STAYS_ENDED)
_WORKERS: Final = "workers"
_LOOK_S: Final = 0.1


class Supervisor:
    """Runs workers until it is cancelled."""

    def __init__(self, words: Callable[[int], Sequence[str]], count: int, runtime: Runtime) -> None:
        """`words(index)` is the command of worker number `index`, without `moldau`."""
        self._words = words
        self._runtime = runtime
        self._count = count
        self._workers: list[Supervised] = []
        self._added: set[int] = set()
        """The numbers that came later. If one of them cannot run, the others go on without it."""
        self._stayed_ended: set[int] = set()
        self._kill_ms: dict[int, int] = {}
        """When a worker that ends because there are fewer is killed."""
        self.code = 0
        """The exit code of the supervisor's process."""

    async def run(self) -> None:
        """Run until cancelled, until one worker cannot be restarted, or all are to stay ended; then
        stop all workers."""
        with counted_signals(lambda step: self.set_count(self._count + step)):
            try:
                while self.code == 0:
                    self._look()
                    await asyncio.sleep(_LOOK_S)
            finally:
                killed = await self._runtime.run_blocking(stop_supervised, self._workers, STOP_S)
                if killed:
                    LOG.error("streams: %d workers did not stop in %.0f s: killed", killed, STOP_S)

    def set_count(self, count: int) -> None:
        """Run this many workers from now on, at least one. Those that stayed ended start again: a
        user has acted."""
        count = min(max(count, 1), WORKERS_MAX)
        if count != self._count:
            LOG.info("streams: %s", change_of_count(self._count, count))
            self._added.update(range(self._count, count))
            self._count = count
            self._stayed_ended.clear()

    def _look(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                for line in worker.process.take_sent():
                    name, _, text = line.partition(" ")
                    if name == _WORKERS and text.isdecimal():
                        self.set_count(int(text))
        for index in range(len(self._workers), self._count):
            launch = partial(_launch, self._words, index)
            self._workers.append(Supervised(launch, self._runtime.clock))
        for index, worker in enumerate(self._workers):
            if index < self._count and index not in self._kill_ms:
                self._keep(index, worker)
            else:
                self._end(index, worker)
        if self._stayed_ended.issuperset(range(self._count)):
            self.code = STAYS_ENDED

    def _keep(self, index: int, worker: Supervised) -> None:
        end = worker.take_end(is_failure=lambda code: code not in _ENDS)
        if end is not None:
            self._on_end(index, end)
        elif worker.process is None and index not in self._stayed_ended:
            if worker.restarts.due_ms is None:
                worker.start()
            else:
                worker.take_restart()

    def _on_end(self, index: int, end: ProcessEnd) -> None:
        if end.code == STAYS_ENDED:
            LOG.error("streams: worker %d has stopped for good, as the app wants it", index)
            self._stayed_ended.add(index)
        elif end.pause_ms is not None:
            LOG.error(
                "streams: worker %d has ended (%s); it starts again in %.1f s",
                index,
                end.how,
                end.pause_ms / 1000,
            )
        else:
            LOG.error("streams: worker %d cannot run with these arguments", index)
            if index in self._added:
                self.set_count(index)
            else:
                self.code = USAGE_ERROR

    def _end(self, index: int, worker: Supervised) -> None:
        """End a worker that is not wanted any more; it commits and leaves its group."""
        end = worker.take_end(is_failure=lambda _: False)
        worker.restarts.forget()
        if end is not None:
            self._kill_ms.pop(index, None)
            LOG.info("streams: worker %d has stopped (%s)", index, end.how)
        elif worker.process is None:
            return
        elif index not in self._kill_ms:
            self._kill_ms[index] = worker.now_ms() + round(STOP_S * 1000)
            worker.process.terminate()
        elif worker.now_ms() >= self._kill_ms[index]:
            LOG.error("streams: worker %d did not stop in %.0f s: killed", index, STOP_S)
            worker.process.kill()


def ask_for_workers(count: int) -> None:
    """Ask the supervisor of this worker for this many workers. Raise OSError if that fails."""
    send_to_parent(f"{_WORKERS} {count}")


def _launch(words: Callable[[int], Sequence[str]], index: int) -> NodeProcess:
    process = NodeProcess(words(index), None, is_leashed=True, shares_output=True)
    LOG.info("streams: worker %d has process id %d", index, process.pid)
    return process
