"""A command that is kept running: its process, and its restarts after it has ended by itself.

    worker = Supervised(lambda: NodeProcess(words, None, is_leashed=True), runtime.clock)
    worker.start()
    worker.take_end(), worker.take_restart()      # asked again and again: nothing here waits
    stop_supervised([worker], 60.0)

Invariant: an end and a restart are reported once. After `stop_supervised` there is neither a
process nor a restart that is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.runtime.node_processes import NodeProcess, stop_all
from moldau.runtime.restarts import USAGE_ERROR, RestartPolicy, Restarts

if TYPE_CHECKING:
    from moldau.runtime.interface import Clock, Runtime

_LOOK_S: Final = 0.1
_STOP_S: Final = 60.0
_FAILURES_MAX: Final = 5
"""Of a group: after so many failures in a row the next start would fail as well."""


class ProcessEnd(NamedTuple):
    """How a process has ended, and when it starts again."""

    code: int
    pause_ms: int | None
    """None if it is not started again."""

    @property
    def how(self) -> str:
        """The exit code or the signal, for a message."""
        return f"exit code {self.code}" if self.code >= 0 else f"signal {-self.code}"


class Supervised:
    """One command; see the module."""

    def __init__(
        self,
        launch: Callable[[], NodeProcess],
        clock: Clock,
        policy: RestartPolicy | None = None,
    ) -> None:
        self.process: NodeProcess | None = None
        self.restarts = Restarts(policy or RestartPolicy())
        self._launch = launch
        self._clock = clock

    def start(self, *, is_up: bool = True) -> NodeProcess:
        """Start the process. `on_up` is called later unless it `is_up` at once."""
        self.process = self._launch()
        if is_up:
            self.on_up()
        return self.process

    def on_up(self) -> None:
        """Begin the steady run that ends a row of failures."""
        self.restarts.on_up(self.now_ms())

    def take_end(self, *, is_failure: Callable[[int], bool] = bool) -> ProcessEnd | None:
        """Return the end of the process, once; None while it runs. After an exit code that is a
        failure it starts again when the pause is over."""
        process = self.process
        if process is None or (code := process.exit_code) is None:
            return None
        process.wait(0)
        self.process = None
        pause_ms = self.restarts.on_failure(self.now_ms()) if is_failure(code) else None
        return ProcessEnd(code, pause_ms)

    def take_restart(self, *, is_up: bool = True) -> bool:
        """Start the process again if its pause is over; return whether it was."""
        is_due = self.restarts.take_due(self.now_ms())
        if is_due:
            self.start(is_up=is_up)
        return is_due

    def now_ms(self) -> int:
        """Return the time of the monotonic clock in milliseconds."""
        return self._clock.monotonic_ns() // 1_000_000


def stop_supervised(them: Iterable[Supervised], timeout_s: float) -> int:
    """Stop processes side by side, and return how many were killed because they did not end in
    time. None of them starts again."""
    running = []
    for each in them:
        each.restarts.forget()
        if each.process is not None:
            running.append(each.process)
            each.process = None
    return stop_all(running, timeout_s)


class SupervisedGroup:
    """Several commands that run side by side until one of them cannot run."""

    def __init__(
        self,
        launches: Iterable[Callable[[], NodeProcess]],
        runtime: Runtime,
        report: Callable[[int, ProcessEnd], None],
    ) -> None:
        """`report` is called with the number and the end of each process that ends by itself."""
        policy = RestartPolicy(failures_max=_FAILURES_MAX)
        self._all = [Supervised(each, runtime.clock, policy) for each in launches]
        self._runtime = runtime
        self._report = report
        self.failure: int | None = None
        """The exit code of the process that cannot be restarted."""
        self.killed = 0
        """How many processes did not stop in time."""

    async def run(self) -> None:
        """Run until cancelled, or until one process cannot be restarted; then stop all."""
        try:
            for each in self._all:
                each.start()
            while self.failure is None:
                await asyncio.sleep(_LOOK_S)
                for index, each in enumerate(self._all):
                    each.take_restart()
                    end = each.take_end(is_failure=lambda code: code != USAGE_ERROR)
                    if end is not None:
                        self._report(index, end)
                        if end.pause_ms is None:
                            self.failure = end.code
        finally:
            self.killed = await self._runtime.run_blocking(stop_supervised, self._all, _STOP_S)
