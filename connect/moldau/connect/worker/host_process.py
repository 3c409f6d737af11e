"""A process that runs tasks, each on a thread of its own, as its worker sees it.

Invariants: lines are JSON objects `{"run": NUMBER, "message": MESSAGE}`, where the number is that
of one start of one task, so a message never reaches a later start; a run gets `on_ended` once, when
the process reports its end or ends itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from moldau.connect.task.messages import Message, dump, parse
from moldau.runtime import Runtime
from moldau.runtime.children import Child
from moldau.runtime.forking import ForkServer

MODULE: Final = "moldau.connect.task"
END_S: Final = 10.0


class Run(Protocol):
    """One start of one task."""

    def on_message(self, message: Message) -> None: ...

    def on_ended(self) -> None: ...


class HostProcess:
    """One process and the runs of tasks in it. It belongs to the worker's event loop."""

    def __init__(
        self,
        runtime: Runtime,
        forks: ForkServer,
        imports: Sequence[str],
        on_crash: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._on_crash = on_crash
        self._runs: dict[int, Run] = {}
        self._child: Child | None = None
        self._is_ending = False
        self._starting = runtime.spawn(
            self._start(forks, imports), name="start a host of tasks", reported=False
        )
        self._ended = asyncio.Event()

    async def _start(self, forks: ForkServer, imports: Sequence[str]) -> None:
        self._child = await forks.start_child(MODULE, imports)
        self._runtime.spawn(self._listen(self._child), name="a host of tasks")

    async def started(self) -> None:
        """Wait until the process exists. Raise OSError if it cannot be started."""
        await asyncio.shield(self._starting)

    @property
    def pid(self) -> int | None:
        """The process id; None before the process exists."""
        return None if self._child is None else self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._ended.is_set()

    def add(self, number: int, run: Run, start: Message) -> None:
        """Start a task in this process, which exists."""
        self._runs[number] = run
        self.send(number, start)

    def send(self, number: int, message: Message) -> None:
        """Send a message to a run. It is lost if the process has ended."""
        if self._child is not None:
            self._child.send(dump({"run": number, "message": message}))

    async def _listen(self, child: Child) -> None:
        hearing = self._runtime.spawn(self._hear(child), name="hear a host of tasks")
        try:
            await asyncio.wait([hearing])
            fault = None if hearing.cancelled() else hearing.exception()
            if fault is not None:
                child.kill()
            cause = ended_by(await child.wait())  # its tasks may start again: none runs twice
        finally:
            child.kill()
            hearing.cancel()
            self._ended.set()
        if fault is not None:
            cause = (
                f"a message of the task's process cannot be handled: {fault!r} -> look at the "
                "worker's log"
            )
        if not self._is_ending:
            self._on_crash(cause)

    async def _hear(self, child: Child) -> None:
        while (line := await child.read_line()) is not None:
            self._receive(parse(line))

    def _receive(self, line: Message) -> None:
        number, message = line["run"], line["message"]
        run = self._runs.get(number)
        if run is None:
            return
        if message["type"] == "ended":
            del self._runs[number]
            run.on_ended()
        else:
            run.on_message(message)

    async def end(self) -> None:
        """End the process in order; after some time by force. It has no tasks."""
        self._is_ending = True
        if self._child is None:
            with suppress(OSError):
                await self._starting
        if self._child is None:
            return
        self._child.send(dump({"run": 0, "message": {"type": "end"}}))
        try:
            await asyncio.wait_for(self._ended.wait(), END_S)
        except TimeoutError:
            self.kill()
            await self._ended.wait()

    def kill(self) -> None:
        """End the process at once."""
        if self._child is not None:
            self._child.kill()


def ended_by(code: int) -> str:
    """Return what an exit code of a task's process means, with a hint."""
    if code < 0:
        hint = (
            "out of memory, perhaps: look at the system's log"
            if code == -9
            else "a library crashed: look at the worker's log"
        )
        return f"the task's process was ended by signal {-code} -> {hint}"
    return f"the task's process ended with exit code {code} -> look at the worker's log"
