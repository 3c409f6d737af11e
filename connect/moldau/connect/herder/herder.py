"""The herder: it makes what runs on this worker match the configs, and writes the statuses.

`herder_core` decides what starts and stops; one driver asks it, and does that here. Another task
writes the statuses, in the order in which they occurred.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from moldau.connect.api import Connector
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.herder.fencing import Claim, TaskFencing
from moldau.connect.herder.herder_core import HerderCore, HerderReady, What
from moldau.connect.herder.membership import Membership
from moldau.connect.herder.plan import Assignment, ConnectorRun, RunStep, RunStepKind
from moldau.connect.herder.signing import KEY_BYTES, is_outdated
from moldau.connect.herder.status_writer import RunsHere, StatusWriter
from moldau.connect.installed.plugins import connector_class, connector_version, resolved
from moldau.connect.installed.secrets import secret_values
from moldau.connect.storage.configs import DEFAULT_ALGORITHM, RestartRequest, SessionKey
from moldau.connect.storage.keys import TargetState, TaskId
from moldau.connect.storage.statuses import ConnectorState
from moldau.connect.storage.stores import ConfigStore, OffsetStore, StatusStore
from moldau.connect.task.diagnosis import trace_of, without
from moldau.connect.task.file_places import check_files
from moldau.connect.task.membership import StopFor
from moldau.connect.task.messages import Message
from moldau.connect.task.settings import whole
from moldau.connect.worker.settings import restart_policy
from moldau.connect.worker.task_run import TaskRun
from moldau.connect.worker.worker import STARTING, Worker
from moldau.errors import MoldauError
from moldau.logging import Level, Loggers
from moldau.logging.level import ROOT
from moldau.runtime import Runtime
from moldau.runtime.driver import Driver

SendTasks = Callable[[str, SessionKey, str, list[dict[str, str]]], Coroutine[Any, Any, None]]

RETRY_S: Final = 1.0
STOP_S: Final = 1.0
REMOVAL_S: Final = 30.0
"""How long a deleted connector may try to remove its external resources."""
REMOVAL_AT_END_S: Final = 5.0


class Herder:
    """Runs this worker's connectors and tasks. It belongs to one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str],
        stores: tuple[ConfigStore, StatusStore, OffsetStore],
        membership: Membership,
        loggers: Loggers,
        worker_id: str,
    ) -> None:
        self.runtime = runtime
        self.settings = dict(settings)
        self.configs, self.statuses, self.offsets = stores
        self.membership = membership
        self.loggers = loggers
        self.worker_id = worker_id
        self.worker = Worker(runtime, settings, loggers, self)
        self.log = loggers.get("moldau.connect.herder")
        self.stage = "starting"
        self.send_tasks: SendTasks = _nobody
        self._reconciled = asyncio.Event()
        self._publishing: dict[str, asyncio.Task[None]] = {}
        here = RunsHere(self.is_here, self._version_of)
        self._told = StatusWriter(runtime, self.statuses, membership, self.log, worker_id, here)
        self.removals = Removals(self)
        self.claim = Claim(runtime.clock, settings, membership, self.configs.log)
        self.fencing = TaskFencing(
            runtime, self.settings, membership, self.configs, self.claim, self.log
        )
        self.core = HerderCore(
            membership, self.configs.image, self.statuses.image, self.fencing.applies
        )
        self._driver = Driver(
            runtime, "herder reconcile", self._next, self._reconcile, lambda _: False, reported=True
        )
        self._preparing: asyncio.Task[None] | None = None
        self.is_ready = False
        self.has_read = False
        """Whether the internal topics have been read to their ends once."""

    # Start and end

    async def start(self) -> None:
        """Read the stores, join the group, then start to reconcile."""
        self._preparing = self.runtime.spawn(self.worker.start(), name="herder prepare tasks")
        self.stage = "reading the internal topics"
        await self.statuses.log.start(self._told.apply)
        await self.offsets.log.start(self.offsets.image.apply)
        await self.configs.log.start(self._on_config)
        self.has_read = True
        self.configs.image.restarts.clear()  # old requests in the log
        self._apply_levels()
        self.stage = "joining the group of workers"
        self._told.start()
        await self.membership.start()
        self.stage = "importing what tasks need"
        await self._preparing
        self.stage = "running"
        self.is_ready = True
        self._driver.begin()

    async def aclose(self) -> None:
        """Stop all connectors and tasks, write their statuses, then leave the group."""
        self.is_ready = False
        self.stage = "stopping"
        if self._preparing is not None:
            self._preparing.cancel()
        for each in self._publishing.values():
            each.cancel()
        await self._driver.end(0)
        running = list(self.core.running)
        await self.worker.aclose()
        self.core.running.clear()
        self._reconciled.set()
        await self.removals.aclose()
        for what in running:
            self.core.on_state(what, ConnectorState.UNASSIGNED)
        self._write_statuses()
        await self._told.aclose()
        await self.membership.aclose()
        for store in (self.configs, self.offsets, self.statuses):
            await store.log.aclose()

    def _on_config(self, key: bytes, value: bytes | None) -> None:
        self.configs.image.apply(key, value)
        if self.is_ready:
            self._apply_levels()
            self.membership.on_configs_changed()
            self.wake()

    def _apply_levels(self) -> None:
        from moldau.logging import parse_level

        levels, self.configs.image.levels = self.configs.image.levels, []
        for namespace, level in levels:
            with suppress(MoldauError, ValueError):
                set_level(self.loggers, namespace, parse_level(level))

    def waits_for(self, what: What) -> str | None:
        """Return what a connector or task here waits for, without secrets; None for nothing. Until
        it has done something since its restart, that is the error before the restart."""
        cause = self.worker.waits_for(what)
        core, history = self.core, self.core.histories.get(what)
        if cause in (None, STARTING) and history is not None and isinstance(what, TaskId):
            if what in core.running and what not in core.failed and self.worker.is_running(what):
                history.on_metrics(self.now_ms(), self.worker.metrics(what))
            cause = history.last_error or cause
        name = what.connector if isinstance(what, TaskId) else what
        return None if cause is None else without(cause, self._secrets(name))

    def expect(self, config: Mapping[str, str | None]) -> None:
        """Prepare for a connector with this config, which may be created soon."""
        self.runtime.spawn(self.worker.expect(config), name="herder expect tasks")

    def is_here(self, what: What) -> bool:
        """Whether this worker runs the connector or task."""
        return what in self.core.running

    @property
    def connector_count(self) -> int:
        """The number of connectors that this worker runs."""
        return sum(not isinstance(what, TaskId) for what in self.core.running)

    def running_tasks(self) -> list[TaskId]:
        """Return the tasks that this worker runs."""
        return [what for what in self.core.running if isinstance(what, TaskId)]

    def wake(self) -> None:
        """Ask the core again, because something has changed."""
        self._write_statuses()
        self._driver.poke()

    def _write_statuses(self) -> None:
        for each in self.core.take_statuses():
            if each.state is None:
                self._told.delete(each.what)
            else:
                self._told.owe(each.what, each.state, each.trace)

    # Reconciling: make what runs match what should run

    def _next(self, _: float) -> HerderReady:
        image, core = self.configs.image, self.core
        requests, image.restarts = image.restarts, []
        for request in requests:
            core.on_restart_request(request)
        found: list[HerderReady] = []
        with self._pause_on_failure():
            found.append(core.ready(self.now_ms()))
        self._write_statuses()
        return found[0] if found else core.ready(self.now_ms())

    @contextmanager
    def _pause_on_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.log.failure("reconciling failed, trying again", error)
            self.core.on_round_failed(self.now_ms())

    async def _reconcile(self, ready: HerderReady) -> bool:
        """Do what the core wants, and return whether that was anything."""
        if ready.is_paused:
            return False
        is_done = not (ready.reloads or ready.stops or ready.begins)
        with self._pause_on_failure():
            await self._act(ready)
            if is_done:
                self._reconciled.set()
        return not is_done or self.core.is_paused

    async def _act(self, ready: HerderReady) -> None:
        await self.claim.take()
        await self._renew_session_key()
        for name in ready.reloads:
            self.log.info("values of the config are read again", connector=name)
            await self.request_restarts(RestartRequest(name, True, False))
            self.core.on_reloaded(name)
        await self._stop(ready.stops)
        for step in ready.begins:
            await self._begin(step)
        for what in ready.deletions:
            self._told.delete(what)
        self._write_statuses()

    def now_ms(self) -> int:
        """Return the time of the monotonic clock in milliseconds."""
        return self.runtime.clock.monotonic_ns() // 1_000_000

    async def _renew_session_key(self) -> None:
        if not self.membership.is_leader or self.membership.leader_url is None:
            return
        now_ms = self.runtime.clock.wall_ms()
        ttl_ms = whole(self.settings, "inter.worker.key.ttl.ms", 3_600_000)
        if is_outdated(self.configs.image.session_key, now_ms, ttl_ms):
            key = base64.b64encode(self.runtime.random.randbytes(KEY_BYTES)).decode()
            await self.configs.put_session_key(key, DEFAULT_ALGORITHM, now_ms)

    async def stopped(self, given_up: Assignment) -> None:
        """Wait until nothing of `given_up` runs on this worker."""
        self.wake()
        gone: set[What] = {*given_up.connectors, *given_up.tasks}
        while not gone.isdisjoint(self.core.running):
            self._reconciled.clear()
            await self._reconciled.wait()

    async def tasks_ended(self, name: str) -> None:
        """Wait until the connector has no tasks, at most for the time that a stop may take."""
        grace_ms = whole(self.settings, "task.shutdown.graceful.timeout.ms", 5_000)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_ms / 1000 + STOP_S):
                while self.core.has_tasks(name):
                    self._reconciled.clear()
                    await self._reconciled.wait()

    async def _stop(self, stops: Mapping[What, StopFor]) -> None:
        """Stop tasks before connectors."""
        tasks = [each for each in stops if isinstance(each, TaskId)]
        await asyncio.gather(*(self.worker.stop_task(task, stops[task]) for task in tasks))
        names = [each for each in stops if not isinstance(each, TaskId)]
        await asyncio.gather(*(self._stop_connector(name) for name in names))
        for what in stops:
            self.core.on_stopped(what)

    async def _stop_connector(self, name: str) -> None:
        publishing = self._publishing.pop(name, None)
        if publishing is not None:
            publishing.cancel()
            await asyncio.wait([publishing])
        await self.worker.stop_connector(name)

    def _version_of(self, name: str) -> str | None:
        entry = self.configs.image.get(name)
        return None if entry is None or entry.config is None else connector_version(entry.config)

    async def _begin(self, step: RunStep) -> None:
        what, run = step.what, step.run
        stays = self.core.stays_as_it_is(step)
        self.core.on_begin(step, self.now_ms())
        if stays:
            return
        if not isinstance(what, TaskId):
            assert isinstance(run, ConnectorRun)
            self._begin_connector(what, run)
            return
        assert isinstance(run, TaskRun)
        is_paused = run.target is TargetState.PAUSED
        if step.kind is RunStepKind.CHANGE_TASK and self.worker.is_running(what):
            self.worker.change_task(what, is_paused=is_paused)
        elif not self.worker.is_running(what):
            known = self.statuses.image.tasks.get(what)
            if known is None or known.state is ConnectorState.UNASSIGNED:
                # It is seen while its start does not return. A failed one keeps its trace.
                self._told.owe(what, ConnectorState.UNASSIGNED)
            spec = self.worker.spec(what, run, is_paused=is_paused)
            await self.worker.start_task(spec)

    def _begin_connector(self, name: str, run: ConnectorRun) -> None:
        old = self._publishing.get(name)
        self._publishing[name] = self.runtime.spawn(
            self._run_connector(name, run, old), name=f"connector {name}"
        )

    async def _run_connector(
        self, name: str, run: ConnectorRun, before: asyncio.Task[None] | None
    ) -> None:
        """Start the connector, unless it is paused or stopped. Have its task configs written."""
        if before is not None and not before.done():
            await asyncio.wait([before])
        if run.target is not TargetState.STARTED:
            if run.target is TargetState.STOPPED:
                await self.worker.stop_connector(name)
            self._on_state(name, ConnectorState[run.target.value])
            return
        try:
            if not self.worker.has_connector(name):
                await self.worker.start_connector(name, run.config)
            self._on_state(name, ConnectorState.RUNNING)
            self.core.history(name).last_error = None
            await self._publish(name)
        except Exception as error:
            await self.worker.stop_connector(name)
            self.on_connector_error(name, error)

    async def _publish(self, name: str) -> None:
        """Write the task configs if they are new, or if the connector config has changed."""
        entry = self.configs.image.get(name)
        if entry is None or entry.config is None:
            return
        configs = await self.worker.task_configs(name, entry.config)
        known = [entry.tasks[task.task] for task in self.configs.image.tasks(name)]
        if configs == known and entry.applied == entry.config and not entry.is_inconsistent:
            return
        await self.publish_tasks(name, configs)

    async def publish_tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        """Write the task configs, or send them to the leader. Try again until that succeeds."""
        while not self.membership.is_leader:
            url, key = self.membership.leader_url, self.configs.image.session_key
            if url is not None and key is not None:
                try:
                    await self.send_tasks(url, key, name, configs)
                    return
                except MoldauError as error:
                    self.log.warn("the leader took no task configs, trying on", error=str(error))
            await asyncio.sleep(RETRY_S)
        entry = self.configs.image.get(name)
        if entry is not None and entry.target is not TargetState.STOPPED:
            await self.fencing.put_tasks(name, configs)

    # Reports of connectors and tasks

    def on_reconfiguration(self, name: str) -> None:
        run = self.core.running.get(name)
        if isinstance(run, ConnectorRun) and run.target is TargetState.STARTED:
            self._begin_connector(name, run)

    def on_outdated(self, name: str, after_ms: int) -> None:
        """Note that a value of the config expires after `after_ms`
        (`config.action.reload=restart`)."""
        self.core.on_outdated(name, after_ms, self.now_ms())
        self.wake()

    def _on_state(self, what: What, state: ConnectorState) -> None:
        self.core.on_state(what, state)
        self.wake()

    def on_connector_error(self, name: str, error: Exception) -> None:
        if self.is_here(name):
            trace = without(trace_of(error), self._secrets(name))
            self.log.error("connector failed", connector=name, cause=trace.split("\n", 1)[0])
            self._on_failure(name, trace)

    def _secrets(self, name: str) -> set[str]:
        entry = self.configs.image.get(name)
        return set() if entry is None or entry.config is None else secret_values(entry.config)

    def on_task_state(self, task: TaskId, state: ConnectorState, trace: str | None) -> None:
        if not self.is_here(task):
            return
        if state is ConnectorState.FAILED:
            hidden = without(trace or "", self._secrets(task.connector))
            self._on_failure(task, hidden)
            return
        self.core.on_well(task, state)
        self.wake()

    def on_task_stays_failed(self, task: TaskId, trace: str | None, *, is_fenced: bool) -> None:
        """Set the task to FAILED until its config changes or a user restarts it, or, if another
        process has fenced it, until this worker has joined its group again."""
        if self.is_here(task):
            hidden = without(trace or "", self._secrets(task.connector))
            self.core.on_stays_failed(task, hidden, is_fenced=is_fenced)
            self.wake()

    def _on_failure(self, what: What, trace: str) -> None:
        name = what.connector if isinstance(what, TaskId) else what
        entry = self.configs.image.get(name)
        config = {} if entry is None or entry.config is None else entry.config
        policy, now_ms = restart_policy(self.settings, config), self.now_ms()
        self.core.on_failure(what, trace, policy, now_ms, self.runtime.random.random())
        due_ms = self.core.history(what).restarts.due_ms
        if due_ms is not None:
            self.log.warn("it is restarted by itself", what=str(what), in_ms=due_ms - now_ms)
        self.wake()

    def on_topics(self, task: TaskId, topics: list[str]) -> None:
        if self.settings.get("topic.tracking.enable", "true").lower() != "false":
            self._told.add_topics(task, topics)

    async def read_offsets(
        self, connector: str, partitions: list[dict[str, Any]]
    ) -> list[dict[str, Any] | None]:
        return await self.offsets.read(connector, partitions)

    async def on_question(self, task: TaskId, message: Message) -> Any:
        match message["what"]:
            case "offsets.read":
                return await self.offsets.read(task.connector, message["partitions"])
            case "offsets.keys":
                return self.offsets.keys(task.connector, message["partitions"])
            case "tasks.fence":
                return await self.fencing.before_start(task.connector)
            case "tasks.verify":
                return await self.fencing.verify(task, message["generation"])
            case "offsets.write":
                if not self.is_here(task):
                    raise ConnectError("the task is not this worker's any more", task=str(task))
                pairs = [(partition, offset) for partition, offset in message["offsets"]]
                await self.offsets.write(task.connector, pairs)
                return True
        raise ConnectError("a task asked an unknown question", question=message["what"])

    async def request_restarts(self, request: RestartRequest) -> None:
        """Write a restart request for a connector and its tasks on all workers."""
        await self.configs.put_restart(request)


def set_level(loggers: Loggers, namespace: str, level: Level) -> None:
    """Set the level of a logger and of all beneath it, also of those with their own level."""
    beneath = [
        name for name in loggers.levels() if namespace == ROOT or name.startswith(f"{namespace}.")
    ]
    loggers.set_levels({**dict.fromkeys(beneath), namespace: level})


class Removals:
    """The removals of what deleted connectors have left outside Kafka."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, config: Mapping[str, str]) -> None:
        """Begin to remove what the connector has left. Called by the worker that has deleted it."""
        removal = self._remove(name, config)
        self._tasks[name] = self._herder.runtime.spawn(removal, name=f"removal of {name}")

    async def is_over(self, name: str) -> bool:
        """Wait for a pending removal of this name. Return False if it takes too long."""
        task = self._tasks.get(name)
        if task is not None:
            await asyncio.wait([task], timeout=REMOVAL_S)
        return task is None or task.done()

    async def _remove(self, name: str, config: Mapping[str, str]) -> None:
        herder, secrets = self._herder, secret_values(config)
        await herder.tasks_ended(name)
        until_ms = herder.now_ms() + int(REMOVAL_S * 1000)
        while True:
            removing = herder.runtime.run_blocking(remove, name, config, herder.settings, secrets)
            # A connector may raise any error: it is logged.
            [failure] = await asyncio.gather(removing, return_exceptions=True)
            if failure is None:
                return
            if not isinstance(failure, RetriableError) or herder.now_ms() >= until_ms:
                told = without(str(failure) or repr(failure), secrets)
                herder.log.warn("a deleted connector left something", connector=name, error=told)
                return
            await asyncio.sleep(RETRY_S)

    async def aclose(self) -> None:
        """Wait briefly for pending removals, then cancel them."""
        tasks = [each for each in self._tasks.values() if not each.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=REMOVAL_AT_END_S)
        for each in tasks:
            each.cancel()


def remove(
    name: str, config: Mapping[str, str], worker: Mapping[str, str], secrets: set[str]
) -> None:
    """Call a deleted connector's `removed`, on a thread. Add resolved values to `secrets`."""
    kind = connector_class(config)
    if kind.removed is not Connector.removed:
        props, found = resolved(config, worker)
        secrets |= found
        check_files(props, worker)
        kind().removed({**props, "name": name})


async def _nobody(url: str, key: SessionKey, name: str, configs: list[dict[str, str]]) -> None:
    raise ConnectError("this worker has no way to the leader", leader=url)


async def forever() -> None:
    """Wait until the task is cancelled."""
    await asyncio.get_running_loop().create_future()
