"""The processes and threads that run a worker's tasks (`task.isolation`), and their supervisor.

`shared`, the default: a few processes run all tasks, each task on a thread of its own; the clients
of a process share one event loop. `process`: the task has a process of its own. `thread`: the task
runs in a thread of the worker.

Why threads in a process and not one loop: a connector's calls block (a database, a file), and Kafka
Connect's contract lets them. A waiting thread costs 0.3 MB; a process costs 15 to 20.

A process that crashes hurts its own tasks only. They start again in other processes, without a
failure (`placement`), unless the process had only one: that one has failed, and the herder restarts
it with backoff. A task that does not stop cannot be ended alone. So the other tasks of its process
are stopped in order and start again elsewhere, and then the process is killed.

Invariants: `on_message` gets the task's messages in order. `on_end` is called once, after the last
message, with the cause of the end, or None for an end in order. Both run on the worker's event
loop. Of one task never two runs exist: a task starts again when its process has ended, or when the
process has reported its end.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Final

from moldau.connect.installed.plugins import connector_class
from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.statuses import ConnectorState
from moldau.connect.task.link import Link
from moldau.connect.task.membership import StopFor
from moldau.connect.task.messages import Message, TaskSpec, dump, parse
from moldau.connect.task.settings import whole
from moldau.connect.worker.host_process import HostProcess
from moldau.connect.worker.placement import Isolation, TaskPlacement, hosts_max
from moldau.errors import MoldauError
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.children import start_thread
from moldau.runtime.forking import ForkServer
from moldau.runtime.process_figures import core_count

PRELOADED: Final = (
    "moldau.connect.task.__main__",
    "moldau.connect.task.installed",
    "moldau.connect.task.life",
    "moldau.connect.task.self_running",
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

MOVE_S: Final = 5.0
"""How long the other tasks of a process may take to stop before it is killed."""

OnMessage = Callable[[Message], None]
OnEnd = Callable[[str | None], None]


class TaskConnection(ABC):
    """The worker's connection to one task."""

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
        """End the task by force. Return False if that is not possible."""


class Hosts:
    """The processes of one worker. It belongs to the worker's event loop."""

    def __init__(self, runtime: Runtime, settings: Mapping[str, str], loggers: Loggers) -> None:
        self.runtime = runtime
        self._isolation = settings.get("task.isolation", Isolation.SHARED.value)
        self._loggers = loggers
        self._log = loggers.get("moldau.connect.worker")
        self._forks = ForkServer(PRELOADED, self._on_no_fork)
        setting = whole(settings, "task.hosts.max", -1)
        self._placement = TaskPlacement(hosts_max(setting, core_count()))
        self._processes: dict[int, HostProcess] = {}
        self._runs = count(1)
        self._inside: dict[int, dict[TaskId, HostedTask]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def _on_no_fork(self, why: str) -> None:
        self._log.warn("tasks start slower, in fresh interpreters", why=why)

    def isolation(self, config: Mapping[str, str]) -> Isolation:
        """Return the isolation of a connector's tasks: its own setting, else the worker's."""
        return Isolation(config.get("task.isolation") or self._isolation)

    async def prepare(self, config: Mapping[str, str] | None = None) -> None:
        """Prepare for the first process, which has imported what this connector's tasks need. On
        return tasks can start without delay."""
        if self.isolation(config or {}) is Isolation.THREAD:
            return
        imports: Sequence[str] = ()
        if config is not None:
            imports = await self.runtime.run_blocking(imports_of, config)
        await self._forks.prepare(imports)

    def connection(
        self, config: Mapping[str, str], on_message: OnMessage, on_end: OnEnd
    ) -> TaskConnection:
        """Return a connection to a task that is not started yet."""
        isolation = self.isolation(config)
        if isolation is Isolation.THREAD:
            return ThreadTask(self.runtime, self._loggers, on_message, on_end)
        return HostedTask(self, isolation is Isolation.PROCESS, on_message, on_end)

    # Tasks come and go

    async def admit(self, task: HostedTask) -> tuple[int, HostProcess, int]:
        """Find or create a process for the task. Return its number, the process, and the number of
        the run. Raise OSError if no process can be created."""
        imports = imports_of(task.spec.connector_config)
        while True:
            number, is_new = self._placement.place(
                task.spec.id, is_isolated=task.is_isolated, now_ms=self._now_ms()
            )
            if is_new:
                on_crash = partial(self._on_crash, number)
                self._processes[number] = HostProcess(self.runtime, self._forks, imports, on_crash)
                self._inside[number] = {}
            process = self._processes[number]
            try:
                await process.started()
            except OSError:
                self._placement.remove(number, task.spec.id)
                self._processes.pop(number, None)
                raise
            if self._placement.is_open(number):  # else it has ended meanwhile
                self._inside[number][task.spec.id] = task
                return number, process, next(self._runs)

    def _now_ms(self) -> int:
        return self.runtime.clock.monotonic_ns() // 1_000_000

    def leave(self, number: int, task: TaskId) -> None:
        """Remove a task that has ended. Its process ends if it is empty."""
        self._inside.get(number, {}).pop(task, None)
        if self._placement.remove(number, task):
            process = self._processes.pop(number)
            del self._inside[number]
            self._end_later(process)

    def _end_later(self, process: HostProcess) -> None:
        ending = self.runtime.spawn(process.end(), name="end a host of tasks")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _on_crash(self, number: int, cause: str) -> None:
        again = self._placement.on_crash(number, self._now_ms())
        self._processes.pop(number, None)
        inside = self._inside.pop(number, {})
        if again:
            names = ", ".join(sorted(map(str, again)))
            self._log.warn(
                "a process of several tasks has ended, they start again in others",
                cause=cause,
                tasks=names,
            )
        for task_id, task in inside.items():
            task.on_process_end(cause, starts_again=task_id in again)

    def end_by_force(self, number: int, task: TaskId) -> None:
        """End the process of a task that does not stop, after the other tasks have left it."""
        process = self._processes.get(number)
        if process is None or not self._placement.is_open(number):
            return  # it has ended, or another task has caused this already
        self._placement.close(number)
        others = [each for each in self._inside[number].values() if each.spec.id != task]
        for each in others:
            each.move()
        self.runtime.spawn(self._kill_when_left(number, process), name="end a host by force")

    async def _kill_when_left(self, number: int, process: HostProcess) -> None:
        others = [each for each in self._inside.get(number, {}).values() if each.is_moving]
        if others:
            names = ", ".join(sorted(str(each.spec.id) for each in others))
            self._log.warn("tasks move, because one of their process does not stop", tasks=names)
            left = [self.runtime.spawn(each.moved.wait(), name="move a task") for each in others]
            _, pending = await asyncio.wait(left, timeout=MOVE_S)
            for waiting in pending:
                waiting.cancel()
        process.kill()

    def forget(self, task: TaskId) -> None:
        """Forget what is known of a task that no longer exists."""
        self._placement.forget(task)

    async def aclose(self) -> None:
        """End all processes. Their tasks have ended, or cannot be stopped."""
        for number, process in list(self._processes.items()):
            self._placement.close(number)
            if self._inside.get(number):
                process.kill()
            self._end_later(process)
        if self._ending:
            await asyncio.wait(self._ending)
        await self._forks.aclose()


class HostedTask(TaskConnection):
    """A task in a process."""

    spec: TaskSpec

    def __init__(
        self, hosts: Hosts, is_isolated: bool, on_message: OnMessage, on_end: OnEnd
    ) -> None:
        super().__init__(self._pass_on, on_end)
        self._hosts = hosts
        self._to_worker = on_message
        self.is_isolated = is_isolated
        self.is_moving = False
        self.moved = asyncio.Event()
        """Set when the task has left the process that it was to leave."""
        self._is_stopping = False
        self._has_failed = False
        self._at: tuple[int, HostProcess, int] | None = None

    async def start(self, spec: TaskSpec) -> None:
        self.spec = spec
        await self._enter()

    async def _enter(self) -> None:
        at = number, process, run = await self._hosts.admit(self)
        if self._is_stopping:  # while it was between two processes
            self._hosts.leave(number, self.spec.id)
            self.on_end(None)
            return
        self._at, self.pid = at, process.pid
        process.add(run, self, {**self.spec.message(), "is_alone": self.is_isolated})

    async def _start_again(self) -> None:
        try:
            await self._enter()
        except OSError as error:
            self.on_end(cannot_start(error))

    def _on_started_again(self, starting: asyncio.Task[None]) -> None:
        fault = None if starting.cancelled() else starting.exception()
        if fault is not None:
            self.on_end(f"the task cannot be started again: {fault!r} -> look at the worker's log")

    def send(self, message: Message) -> None:
        match message["type"]:
            case "stop":
                self._is_stopping = True
            case "pause" | "resume":
                self.spec = replace(self.spec, is_paused=message["type"] == "pause")
        if self._at is not None:
            _, process, run = self._at
            process.send(run, message)

    def _pass_on(self, message: Message) -> None:
        if message["type"] == "state" and message["state"] == ConnectorState.FAILED.value:
            self._has_failed = True
        self._to_worker(message)

    def move(self) -> None:
        """Stop the task, and start it again in another process."""
        self.is_moving = True
        if self._at is not None and not self._is_stopping:
            _, process, run = self._at
            process.send(run, {"type": "stop", "why": StopFor.RESTART.value})

    def on_ended(self) -> None:
        """Called when the process has reported the end of the run."""
        assert self._at is not None
        self._hosts.leave(self._at[0], self.spec.id)
        self._left(None, starts_again=self.is_moving)

    def on_process_end(self, cause: str, *, starts_again: bool) -> None:
        """Called when the process has ended."""
        self._left(cause, starts_again=starts_again or self.is_moving)

    def _left(self, cause: str | None, *, starts_again: bool) -> None:
        self._at = self.pid = None
        self.is_moving = False
        self.moved.set()
        if not starts_again or self._is_stopping or self._has_failed:
            self.on_end(cause)
            return
        self.moved = asyncio.Event()
        again = self._start_again()
        starting = self._hosts.runtime.spawn(again, name=f"start task {self.spec.id} again")
        starting.add_done_callback(self._on_started_again)

    def kill(self) -> bool:
        if self._at is not None:
            self._hosts.end_by_force(self._at[0], self.spec.id)
        return True


class ThreadTask(TaskConnection):
    """A task in a thread of the worker. A task that hangs stays until the worker ends."""

    def __init__(
        self, runtime: Runtime, loggers: Loggers, on_message: OnMessage, on_end: OnEnd
    ) -> None:
        super().__init__(on_message, on_end)
        self._clock = runtime.clock
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

            live(spec, link, self._loggers, self._clock)
            loop.call_soon_threadsafe(self.on_end, None)

        start_thread(run, f"task {spec.id}")

    def send(self, message: Message) -> None:
        if self._link is not None:
            self._link.deliver(parse(dump(message)))

    def kill(self) -> bool:
        return False


def imports_of(config: Mapping[str, str]) -> Sequence[str]:
    """Return the modules that a connector's tasks need; none if the class is not known."""
    try:
        return connector_class(config).task_modules
    except MoldauError:
        return ()  # validation, or the task, reports the error


def cannot_start(error: OSError) -> str:
    """Return the trace of a task for which no process can be created."""
    return f"the task's process cannot be started: {error} -> free memory or processes"
