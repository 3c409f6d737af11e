"""Writes the statuses of what runs on this worker, and the topics that connectors use.

Invariants: statuses are written in the order in which they occurred; a write that the topic refuses
is tried again; a status that an earlier owner replaces, because it learns late that it lost a
connector or task, is written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.connect.herder.membership import Membership
from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.statuses import ConnectorState, Status
from moldau.connect.storage.stores import StatusStore
from moldau.errors import MoldauError
from moldau.logging import Logger
from moldau.runtime import Runtime

What = str | TaskId

RETRY_S: Final = 1.0
LAST_S: Final = 5.0
"""How long a closing worker waits until its last statuses are written."""


class RunsHere(NamedTuple):
    """What this worker knows of its connectors and tasks."""

    is_running: Callable[[What], bool]
    version_of: Callable[[str], str | None]
    """Returns the version of a connector's class, by the connector's name."""


class StatusWriter:
    """The writer of one worker. It belongs to the herder's event loop."""

    def __init__(
        self,
        runtime: Runtime,
        store: StatusStore,
        membership: Membership,
        log: Logger,
        worker_id: str,
        here: RunsHere,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._membership = membership
        self._log = log
        self._worker_id = worker_id
        self._here = here
        self._owed: asyncio.Queue[tuple[What, Status | None]] = asyncio.Queue()
        self._writing: asyncio.Task[None] | None = None
        self._adding: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to write."""
        self._writing = self._runtime.spawn(self._write_forever(), name="herder statuses")

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the status topic."""
        replaced = self._store.apply(key, value)
        if replaced is not None and self._here.is_running(replaced[0]):
            what, mine = replaced
            self._owed.put_nowait((what, replace(mine, generation=self._membership.generation)))

    def owe(self, what: What, state: ConnectorState, trace: str | None = None) -> None:
        """Write a status of a connector or task soon."""
        name = what.connector if isinstance(what, TaskId) else what
        version = self._here.version_of(name)
        status = Status(state, self._worker_id, self._membership.generation, trace, version)
        self._owed.put_nowait((what, status))

    def delete(self, what: What) -> None:
        """Delete the status of a connector or task soon."""
        self._owed.put_nowait((what, None))

    async def _write_forever(self) -> None:
        while True:
            batch = [await self._owed.get()]
            while not self._owed.empty():
                batch.append(self._owed.get_nowait())
            while True:
                try:
                    await self._store.put(dict(batch))
                    break
                except (MoldauError, OSError, TimeoutError) as error:
                    self._log.warn("statuses cannot be written, trying on", error=str(error))
                    await asyncio.sleep(RETRY_S)
            for _ in batch:
                self._owed.task_done()

    def add_topics(self, task: TaskId, topics: list[str]) -> None:
        """Note soon that the connector uses these topics."""
        adding = self._runtime.spawn(
            self._add_topics(task, topics, self._runtime.clock.wall_ms()), name=f"topics of {task}"
        )
        self._adding.add(adding)
        adding.add_done_callback(self._adding.discard)

    async def _add_topics(self, task: TaskId, topics: list[str], now_ms: int) -> None:
        while True:
            try:
                return await self._store.add_topics(task, topics, now_ms)
            except (MoldauError, OSError, TimeoutError) as error:
                self._log.warn("topics cannot be noted, trying on", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def aclose(self) -> None:
        """Wait briefly for what is owed, then write no more."""
        for each in self._adding:
            each.cancel()
        if self._writing is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._owed.join()
            self._writing.cancel()
            await asyncio.wait([self._writing])
