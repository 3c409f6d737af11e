"""The host of a task: a process of its own, or a thread of the worker (`task.isolation`).

Invariants: `on_message` gets the task's messages in order. `on_end` is called once, after the last
message, with the cause of the end, or None for an end in order. Both run on the worker's event
loop.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec, dump, parse
from moldau.connect.worker.plugins import connector_class
from moldau.errors import MoldauError
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.children import Child, start_thread
from moldau.runtime.forking import ForkServer

MODULE: Final = "moldau.connect.task"
PRELOADED: Final = (
    "moldau.connect.task.__main__",
    "moldau.connect.task.installed",
    "moldau.connect.task.life",
    "moldau.connect.task.self_reading",
    "moldau.connect.task.self_writing",
    "moldau.connect.task.sink",
    "moldau.connect.task.source",
    "moldau.connect.converters.json",
    "moldau.connect.converters.plain",
    "moldau.connect.header_converters.simple",
    "moldau.client.serdes.resolve",
    "moldau.config.resolution",
    "moldau.protocol.codec",
    "moldau.protocol.codegen",
    "encodings.idna",
    "uvloop",
)

OnMessage = Callable[[Message], None]
OnEnd = Callable[[str | None], None]


class Host(ABC):
    """The process or thread of one task."""

    pid: int | None = None

    def __init__(self, on_message: OnMessage, on_end: OnEnd) -> None:
        self.on_message = on_message
        self.on_end = on_end

    @abstractmethod
    async def start(self, spec: TaskSpec) -> None:
        """Start the task. Raise OSError if no process can be created."""

    @abstractmethod
    def send(self, message: Message) -> None:
        """Send a message to the task. It is lost if the task has ended."""

    @abstractmethod
    def kill(self) -> bool:
        """End the task at once. Return False if that is not possible."""


class ProcessHost(Host):
    """A process of its own, forked from one that has imported what tasks need."""

    def __init__(
        self, runtime: Runtime, server: ForkServer, on_message: OnMessage, on_end: OnEnd
    ) -> None:
        super().__init__(on_message, on_end)
        self._runtime = runtime
        self._server = server
        self._child: Child | None = None

    async def start(self, spec: TaskSpec) -> None:
        child = await self._server.start_child(MODULE, _imports(spec))
        self._child = child
        self.pid = child.pid
        child.send(dump(spec.message()))
        self._runtime.spawn(self._listen(child), name=f"task {spec.id}")

    async def _listen(self, child: Child) -> None:
        try:
            while (line := await child.read_line()) is not None:
                self.on_message(parse(line))
            code = await child.wait()
            self.on_end(None if code == 0 else ended_by(code))
        finally:
            child.kill()

    def send(self, message: Message) -> None:
        if self._child is not None:
            self._child.send(dump(message))

    def kill(self) -> bool:
        if self._child is not None:
            self._child.kill()
        return True


def _imports(spec: TaskSpec) -> Sequence[str]:
    try:
        return connector_class(spec.connector_config).task_modules
    except MoldauError:
        return ()  # the task will report the error


class ThreadHost(Host):
    """A thread of the worker. A task that hangs stays until the worker ends."""

    def __init__(self, loggers: Loggers, on_message: OnMessage, on_end: OnEnd) -> None:
        super().__init__(on_message, on_end)
        self._loggers = loggers
        self._link: Link | None = None

    async def start(self, spec: TaskSpec) -> None:
        loop = asyncio.get_running_loop()

        def send(message: Message) -> None:
            # Convert to text and back, as between processes: nothing is shared by accident.
            loop.call_soon_threadsafe(self.on_message, parse(dump(message)))

        link = self._link = Link(send)

        def run() -> None:
            from moldau.connect.task.life import live

            live(spec, link, self._loggers)
            loop.call_soon_threadsafe(self.on_end, None)

        start_thread(run, f"task {spec.id}")

    def send(self, message: Message) -> None:
        if self._link is not None:
            self._link.deliver(parse(dump(message)))

    def kill(self) -> bool:
        return False


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
