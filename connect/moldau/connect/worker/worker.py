"""The worker: the connectors and tasks that run on this machine.

Invariants: a task runs at most once at a time: the old run has ended before the new one begins; a
task that does not stop within `task.shutdown.graceful.timeout.ms` is killed; each unexpected end is
reported as FAILED with its cause. A thread that cannot be killed is abandoned: nothing that it
still sends is heard, as a new run of the task may have begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, Final, Protocol

from moldau.connect.api import Connector, SinkConnector
from moldau.connect.errors import ConnectError
from moldau.connect.installed.plugins import connector_class, resolved_for_a_time
from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.statuses import ConnectorState
from moldau.connect.task.file_places import check_files
from moldau.connect.task.membership import StopFor
from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.task.settings import whole
from moldau.connect.task.token_places import check_places
from moldau.connect.worker.connector import ConnectorThread, WorkerConnectorContext
from moldau.connect.worker.eviction import evict
from moldau.connect.worker.hosts import Hosts, TaskConnection, cannot_start
from moldau.connect.worker.restarts import MOVED
from moldau.connect.worker.task_run import TaskRun
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.threads import ask_loop

KILL_S: Final = 10.0
CALL_S: Final = 60.0
STARTING: Final = "its start has not returned: does what it connects to answer?"
"""What a connector or task waits for until its start has returned, unless it says more."""
START_S: Final = 2.0
"""A start that takes less than this is no news."""
EVICT_S: Final = 10.0
QUIET_S: Final = 5.0


def cause_to_tell(waits_for: str | None, age_s: float) -> str | None:
    """Return what is told of a connector or task that began so long ago. A start that has not
    returned yet is told when it takes long."""
    return None if waits_for == STARTING and age_s < START_S else waits_for


class Listener(Protocol):
    """The interface to the herder, which handles the reports of tasks and connectors."""

    def on_task_state(self, task: TaskId, state: ConnectorState, trace: str | None) -> None: ...

    def on_task_stays_failed(self, task: TaskId, trace: str | None, *, is_fenced: bool) -> None: ...

    def on_connector_error(self, name: str, error: Exception) -> None: ...

    def on_reconfiguration(self, name: str) -> None: ...

    def on_outdated(self, name: str, after_ms: int) -> None: ...

    def on_topics(self, task: TaskId, topics: list[str]) -> None: ...

    async def on_question(self, task: TaskId, message: Message) -> Any: ...

    async def read_offsets(
        self, connector: str, partitions: list[dict[str, Any]]
    ) -> list[dict[str, Any] | None]: ...


@dataclass(slots=True)
class _Task:
    connection: TaskConnection
    spec: TaskSpec
    begun_at: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    state: ConnectorState = ConnectorState.UNASSIGNED
    is_stopping: bool = False
    has_left: bool = False
    """Whether the task reported that it has left its consumer group."""
    metrics: dict[str, float] = field(default_factory=dict)
    told_at: float = 0.0
    rate: float | None = None
    waits_for: str | None = STARTING
    """Why the task retries something, in one line; None if it does not."""


class Worker:
    """Starts and stops connectors and tasks. It belongs to one event loop."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, str], loggers: Loggers, listener: Listener
    ) -> None:
        self._runtime = runtime
        self._settings = dict(settings)
        self._loggers = loggers
        self._log = loggers.get("moldau.connect.worker")
        self._listener = listener
        self._grace_s = whole(settings, "task.shutdown.graceful.timeout.ms", 5_000) / 1000
        self._connectors: dict[str, ConnectorThread] = {}
        self._tasks: dict[TaskId, _Task] = {}
        self._kept: dict[TaskId, TaskSpec] = {}
        """Tasks that were stopped to begin again at once: they kept their places in groups."""
        self._hosts = Hosts(runtime, settings, loggers)

    async def start(self) -> None:
        """Prepare the processes of tasks. On return tasks can start without delay."""
        await self._hosts.prepare()

    async def expect(self, config: Mapping[str, str | None]) -> None:
        """Import what a connector's tasks need before they are started."""
        await self._hosts.prepare({k: value for k, value in config.items() if value is not None})

    # Connectors

    async def start_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Start an instance. Its errors are raised here."""
        thread = ConnectorThread(name, CALL_S)
        self._connectors[name] = thread
        loop = asyncio.get_running_loop()

        def ask(partitions: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
            asked = self._listener.read_offsets(name, partitions)
            return ask_loop(loop, asked, CALL_S)

        context = WorkerConnectorContext(
            loop,
            lambda: self._listener.on_reconfiguration(name),
            lambda error: self._listener.on_connector_error(name, error),
            lambda cause: setattr(thread, "waits_for", cause),
            ask,
        )

        def start() -> None:
            props, _, ttl_ms = resolved_for_a_time(config, self._settings)
            check_places(props, self._settings)
            check_files(props, self._settings)
            if ttl_ms is not None and config.get("config.action.reload", "restart") == "restart":
                loop.call_soon_threadsafe(self._listener.on_outdated, name, ttl_ms)
            connector = connector_class(config)()
            connector.initialize(context)
            thread.connector, thread.props = connector, props
            try:
                connector.start(props)
            finally:
                if thread.waits_for == STARTING:
                    thread.waits_for = None

        thread.waits_for, thread.begun_at = STARTING, self._runtime.clock.monotonic()
        await thread.run("start", start)

    def has_connector(self, name: str) -> bool:
        """Whether there is an instance of this connector."""
        return name in self._connectors

    async def stop_connector(self, name: str) -> None:
        """Stop the instance, if there is one. If it does not stop in time, or its start has not
        returned, it is abandoned: it stops when it can, and nothing else waits for it."""
        thread = self._connectors.pop(name, None)
        if thread is None:
            return
        try:
            connector = thread.connector
            if connector is not None:
                is_starting = thread.waits_for == STARTING
                await thread.run("stop", connector.stop, 0.0 if is_starting else self._grace_s)
        except Exception as error:
            self._log.warn("a connector did not stop in order", connector=name, error=str(error))
        finally:
            thread.end()

    async def task_configs(self, name: str, config: Mapping[str, str]) -> list[dict[str, str]]:
        """Return the task configs of the running connector, ready for the config topic."""
        thread = self._connectors.get(name)
        connector = None if thread is None else thread.connector
        if thread is None or connector is None:
            raise ConnectError("the connector is not running", connector=name)
        running = connector
        tasks_max = whole(config, "tasks.max", 1)
        found = await thread.run("task_configs", lambda: running.task_configs(tasks_max))
        if len(found) > tasks_max and config.get("tasks.max.enforce", "true") != "false":
            raise ConnectError(
                "the connector made more tasks than tasks.max allows",
                connector=name,
                tasks=len(found),
                tasks_max=tasks_max,
            )
        return [
            _with_task_keys(with_references(each, config, thread.props), running, config)
            for each in found
        ]

    # Tasks

    def spec(self, task: TaskId, run: TaskRun, *, is_paused: bool) -> TaskSpec:
        """Return the TaskSpec for a run of this task."""
        return TaskSpec(
            task.connector,
            task.task,
            self._settings,
            dict(run.connector_config),
            dict(run.config),
            is_paused,
            cluster=self._settings.get("group.id", "standalone"),
            generation=run.generation,
        )

    async def start_task(self, spec: TaskSpec) -> None:
        """Start the task. Its states are reported to the listener."""
        task = spec.id
        assert task not in self._tasks, "a task runs once at a time"
        self._kept.pop(task, None)
        run: _Task

        def on_message(message: Message) -> None:
            if self._tasks.get(task) is run:
                self._on_message(task, run, message)

        def on_end(cause: str | None) -> None:
            if self._tasks.get(task) is run:
                self._on_end(task, run, cause)

        connection = self._hosts.connection(spec.connector_config, on_message, on_end)
        run = self._tasks[task] = _Task(connection, spec, self._runtime.clock.monotonic())
        try:
            await connection.start(spec)
        except OSError as error:
            self._tasks.pop(task)
            self._listener.on_task_state(task, ConnectorState.FAILED, cannot_start(error))

    def _on_message(self, task: TaskId, run: _Task, message: Message) -> None:
        match message["type"]:
            case "state":
                run.state = ConnectorState(message["state"])
                if run.waits_for == STARTING:
                    run.waits_for = None
                if not run.is_stopping or run.state is ConnectorState.FAILED:
                    self._report_state(task, message)
            case "metrics":
                self._on_metrics(run, message["values"])
            case "waiting":
                run.waits_for = message["cause"]
            case "left":
                run.has_left = True
            case "topics":
                self._listener.on_topics(task, message["topics"])
            case "ask":
                self._runtime.spawn(self._answer(task, run, message), name=f"answer {task}")

    def _report_state(self, task: TaskId, message: Message) -> None:
        state, trace = ConnectorState(message["state"]), message.get("trace")
        is_fenced = bool(message.get("is_fenced"))
        if is_fenced or message.get("is_permanent"):
            self._listener.on_task_stays_failed(task, trace, is_fenced=is_fenced)
        else:
            self._listener.on_task_state(task, state, trace)

    def _on_metrics(self, run: _Task, metrics: dict[str, float]) -> None:
        now = self._runtime.clock.monotonic()
        before, passed_s = run.metrics, now - run.told_at
        if before and passed_s > 0:
            moved = sum(metrics.get(name, 0.0) - before.get(name, 0.0) for name in MOVED)
            run.rate = max(0.0, moved / passed_s)
        run.metrics, run.told_at = metrics, now

    async def _answer(self, task: TaskId, run: _Task, message: Message) -> None:
        answer: Message = {"type": "answer", "id": message["id"]}
        try:
            answer["value"] = await self._listener.on_question(task, message)
        except Exception as error:
            answer["error"] = str(error)
        run.connection.send(answer)

    def _on_end(self, task: TaskId, run: _Task, cause: str | None) -> None:
        run.ended.set()
        if run.is_stopping:
            return
        del self._tasks[task]
        if run.state is not ConnectorState.FAILED:
            told = cause or "the task ended by itself -> look at the worker's log"
            self._listener.on_task_state(task, ConnectorState.FAILED, told)

    def change_task(self, task: TaskId, *, is_paused: bool) -> None:
        """Pause or resume the task. It reports its new state afterwards."""
        run = self._tasks.get(task)
        if run is not None:
            run.connection.send({"type": "pause" if is_paused else "resume"})

    async def stop_task(self, task: TaskId, why: StopFor) -> None:
        """Stop the task, if it runs. On return it has ended, in order or by force. One that has
        ended to begin again, and does not, gives up the place in its group that it kept."""
        run = self._tasks.get(task)
        kept = self._kept.pop(task, None)
        if run is None:
            if kept is not None:
                await self._evict(kept, why)
            return
        run.is_stopping = True
        run.connection.send({"type": "stop", "why": why.value})
        try:
            async with asyncio.timeout(self._grace_s):
                await run.ended.wait()
        except TimeoutError:
            is_killed = run.connection.kill()
            self._log.warn("a task did not stop in time", task=str(task), killed=is_killed)
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_S):
                    await run.ended.wait()
            await self._evict(run.spec, why)
        else:
            if why is StopFor.END and not run.has_left:
                await self._evict(run.spec, why)
        self._tasks.pop(task, None)
        if why is StopFor.RESTART:
            self._kept[task] = run.spec
        if why is StopFor.END:
            self._hosts.forget(task)

    async def _evict(self, spec: TaskSpec, why: StopFor) -> None:
        try:
            async with asyncio.timeout(EVICT_S):
                await evict(spec, why, self._settings, self._runtime)
        except (MoldauError, OSError, TimeoutError) as error:
            self._log.warn(
                "a task keeps its place in its group until its session ends",
                task=str(spec.id),
                error=str(error),
            )

    def is_running(self, task: TaskId) -> bool:
        """Whether the task has a process or thread."""
        return task in self._tasks

    def metrics(self, task: TaskId) -> dict[str, float]:
        """Return the task's last reported metrics."""
        run = self._tasks.get(task)
        return {} if run is None else run.metrics

    def rate(self, task: TaskId) -> float | None:
        """Return the recent records a second; None before the task has reported twice."""
        run = self._tasks.get(task)
        if run is None or run.rate is None:
            return None
        is_old = self._runtime.clock.monotonic() - run.told_at > QUIET_S
        return 0.0 if is_old else run.rate

    def waits_for(self, what: str | TaskId) -> str | None:
        """Return what a connector waits for, or why a task retries, in one line; else None."""
        run = self._tasks.get(what) if isinstance(what, TaskId) else self._connectors.get(what)
        if run is None:
            return None
        return cause_to_tell(run.waits_for, self._runtime.clock.monotonic() - run.begun_at)

    def pid(self, task: TaskId) -> int | None:
        """Return the id of the process that runs the task; None if it is the worker itself."""
        run = self._tasks.get(task)
        return None if run is None else run.connection.pid

    async def aclose(self) -> None:
        """Stop all tasks, then all connectors."""
        await asyncio.gather(*(self.stop_task(task, StopFor.MOVE) for task in list(self._tasks)))
        await asyncio.gather(*(self.stop_connector(name) for name in list(self._connectors)))
        await self._hosts.aclose()


def with_references(
    task: Mapping[str, str], config: Mapping[str, str], props: Mapping[str, str]
) -> dict[str, str]:
    """Put the connector's references back in place of resolved values in a task config."""
    return {
        name: config[name] if name in config and value == props.get(name) else value
        for name, value in task.items()
    }


def _with_task_keys(
    config: Mapping[str, str], connector: Connector, connector_config: Mapping[str, str]
) -> dict[str, str]:
    """Return the task config with the keys that Kafka Connect adds."""
    kind = connector.task_class()
    found = {**config, "task.class": kind.java_name or f"{kind.__module__}.{kind.__qualname__}"}
    if isinstance(connector, SinkConnector):
        for name in ("topics", "topics.regex"):
            if name in connector_config:
                found[name] = connector_config[name]
    return found
