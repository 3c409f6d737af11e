"""Fences the producers of older tasks before tasks of new configs start (KIP-618).

Each commit of task configs begins a new generation of tasks, and a task of an older one may still
run on a worker that cannot be reached. Before a task starts, its worker asks the leader, which
fences the producers of as many tasks as the last task-count record of the connector says, then
writes the new count.

Sequence that needs the record: (1) a connector goes from three tasks to one; (2) the one starts and
fences itself by its transactional id; (3) without the record the other two write on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from moldau.client import Admin, KafkaError, TransactionAdmin
from moldau.connect.api import SelfWritingSourceTask, SourceConnector
from moldau.connect.config.exactly_once import is_exactly_once, transactional_id
from moldau.connect.errors import ConnectError
from moldau.connect.herder.membership import Membership
from moldau.connect.herder.plan import fence_due
from moldau.connect.herder.refusals import BadRequest, NotFound
from moldau.connect.installed.plugins import connector_class, resolved
from moldau.connect.storage.configs import SessionKey
from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.log import KeyedLog
from moldau.connect.storage.stores import ConfigStore
from moldau.connect.task.clients import settings_for
from moldau.connect.task.settings import whole
from moldau.errors import MoldauError
from moldau.logging import Logger
from moldau.runtime import Runtime
from moldau.runtime.interface import Clock

AskLeader = Callable[[str, SessionKey, str], Coroutine[Any, Any, None]]
"""Ask the leader at this URL, with this key, to fence the tasks of this connector."""


def is_fenced_source(config: Mapping[str, str]) -> bool:
    """Whether tasks of a connector have transactional producers of the worker."""
    try:
        kind = connector_class(config)
    except MoldauError:
        return False
    if not issubclass(kind, SourceConnector):
        return False
    connector = kind()
    connector.props = dict(config)
    try:
        return not issubclass(connector.task_class(), SelfWritingSourceTask)
    except MoldauError:
        return True


class Claim:
    """A leader's claim to write configs.

    A new generation of the group claims again. A leader that was fenced without one (by an earlier
    leader that did not know of it, or after a long stall) waits for a session of the group first:
    by then it knows whether it still leads.
    """

    def __init__(
        self, clock: Clock, settings: Mapping[str, str], membership: Membership, log: KeyedLog
    ) -> None:
        self._clock = clock
        self._membership = membership
        self._log = log
        self._session_ns = whole(settings, "session.timeout.ms", 10_000) * 1_000_000
        self._lock = asyncio.Lock()
        self._generation: int | None = None
        self._lost_ns: int | None = None

    async def take(self) -> None:
        """Claim the log, if this worker leads and has to."""
        async with self._lock:
            if not self._membership.is_leader:
                self._generation = None
            elif self._generation != self._membership.generation:
                await self._take()
            elif self._log.is_claimed:
                self._lost_ns = None
            elif self._lost_ns is None:
                self._lost_ns = self._clock.monotonic_ns()
            elif self._clock.monotonic_ns() - self._lost_ns >= self._session_ns:
                await self._take()

    async def _take(self) -> None:
        generation = self._membership.generation
        await self._log.claim()
        self._generation, self._lost_ns = generation, None


class TaskFencing:
    """The fencing of one worker's tasks, and if it is the leader, of all tasks."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str],
        membership: Membership,
        configs: ConfigStore,
        claim: Claim,
        log: Logger,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._membership = membership
        self._configs = configs
        self._claim = claim
        self._log = log
        self._locks: dict[str, asyncio.Lock] = {}
        self.is_on = is_exactly_once(settings)
        self.ask_leader: AskLeader | None = None

    def applies(self, config: Mapping[str, str]) -> bool:
        """Whether the tasks of a connector with this config are fenced."""
        return self.is_on and is_fenced_source(config)

    async def before_start(self, name: str) -> str | None:
        """Have the older tasks of a connector fenced. Return the cause, in one line, if that is not
        possible at present: the same call may work later."""
        membership = self._membership
        await membership.settled()
        if not membership.is_leader:
            url, key = membership.leader_url, self._configs.image.session_key
            if url is None or key is None or self.ask_leader is None:
                return "the workers have no leader at present -> wait"
            asking = self.ask_leader(url, key, name)
        else:
            asking = self.fence(name)
        try:
            await asking
        except (ConnectError, KafkaError, OSError, TimeoutError) as error:
            cause = str(error) or "no answer in time"
            self._log.warn("older tasks are not fenced, trying on", connector=name, error=cause)
            return f"the producers of older tasks are not fenced yet: {cause}"
        return None

    def _alone(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    async def put_tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        """Write the task configs of a connector, as the leader. Not during a fencing: the count
        that it records must not be of fewer tasks than run afterwards."""
        await self._claim.take()
        async with self._alone(name):
            await self._configs.put_tasks(name, configs)

    async def fence(self, name: str) -> None:
        """Fence the older tasks of a connector, as the leader, if that is due."""
        await self._claim.take()
        async with self._alone(name):
            await self._configs.log.read_to_end()
            entry = self._configs.image.get(name)
            if entry is None or entry.config is None:
                raise NotFound(f"Connector {name} not found")
            if not issubclass(connector_class(entry.config), SourceConnector):
                raise BadRequest(f"Connector {name} is not a source connector")
            fence = fence_due(entry)
            if fence is None:
                return
            if fence.producers:
                await self._fence_producers(name, entry.config, fence.producers)
            await self._configs.put_task_count(name, fence.tasks)

    async def _fence_producers(self, name: str, config: Mapping[str, str], count: int) -> None:
        props, _ = resolved(config, self._settings)
        worker, _ = resolved(self._settings, self._settings)
        settings = settings_for(props, worker, "admin")
        async with Admin(settings, runtime=self._runtime) as admin:
            transactions = TransactionAdmin(admin)
            cluster = self._settings["group.id"]
            ids = [transactional_id(cluster, name, number) for number in range(count)]
            await asyncio.gather(*(transactions.fence(each) for each in ids))
        self._log.info("older tasks are fenced", connector=name, producers=count)

    async def verify(self, task: TaskId, generation: int) -> None:
        """Raise ConnectError unless the task is this worker's, and of the newest task configs."""
        await self._configs.log.read_to_end()
        await self._membership.settled()
        entry = self._configs.image.get(task.connector)
        mine = self._membership.assignment(self._configs.image).tasks
        if entry is None or task not in mine or entry.commits != generation:
            raise ConnectError(
                "the task is superseded: its connector has newer task configs, or another worker "
                "has it -> nothing has to be done",
                task=str(task),
            )
