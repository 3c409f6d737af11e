"""What a task waits for inside a batch: async functions, and the pauses of `retry(...)`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.runtime.children import Mailbox
from moldau.runtime.real import RealClock
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.engine.task import Task
from moldau.streams.worker.calls import finish_together


class AsyncCalls:
    """Awaits the async functions of a program, on one event loop until `close`: what they keep
    open, such as a session of an HTTP client, works in the next batch too."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, calls: Sequence[AsyncCall]) -> None:
        """Run all calls concurrently, and finish each."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        self._runner.run(finish_together(calls))

    def close(self) -> None:
        """End the loop, with what still runs on it."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None


def let_go_on(task: Task, calls: AsyncCalls) -> bool:
    """Wait for what keeps a task from running the records that it has. Return False if there is
    nothing to wait for."""
    waiting = task.take_calls()
    if waiting:
        calls.run(waiting)
        return True
    due_ms = task.due_ms()
    if due_ms is None:
        return False
    _pause(task, due_ms)
    return True


def flush(task: Task) -> None:
    """Flush a task, after the pauses of what is tried again."""
    while True:
        try:
            task.flush()
        except EmitsPending as pending:
            _pause(task, pending.due_ms)
        else:
            return


def _pause(task: Task, due_ms: int) -> None:
    """Wait until an attempt is due, and make those of rows that no record caused."""
    clock = RealClock()
    while (left_ms := due_ms - clock.wall_ms()) > 0:
        Mailbox[bool]().take(left_ms / 1000)
    task.punctuate(clock.wall_ms())
