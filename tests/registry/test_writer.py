"""The way of writes to the log, beside a log in memory: an id is given once, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from moldau.client.serdes.registry.schemas import Schema
from moldau.logging import Loggers
from moldau.registry.catalogue import Catalogue
from moldau.registry.decisions import Decisions, Outcome
from moldau.registry.log import SchemasLog
from moldau.registry.records import Entry
from moldau.registry.refusals import Refusal
from moldau.registry.requests import Registration
from moldau.registry.store import Store
from moldau.registry.writer import Writer
from moldau.runtime.real import RealRuntime

URL = "http://one:8081"


class LateLog(SchemasLog):
    """A log that takes all records; while it is late, they are not read back."""

    def __init__(self, store: Store) -> None:
        self.entries: list[Entry] = []
        self.late: type[BaseException] | None = None
        self.is_cancelled = False
        """Whether the request ends before this log has stepped down."""
        self.starts = 0
        self._store = store
        self._read = 0

    async def lead(self, transactional_id: str) -> None:
        self.starts += 1
        self._replay()

    async def step_down(self) -> None:
        if self.is_cancelled:
            raise asyncio.CancelledError

    async def append(self, entries: Sequence[Entry]) -> None:
        self.entries += entries
        if self.late is not None:
            raise self.late
        self._replay()

    def _replay(self) -> None:
        for each in self.entries[self._read :]:
            self._store.replay(*each)
        self._read = len(self.entries)


class Instance:
    """A writer that leads, its store and its log."""

    def __init__(self, clock: Any) -> None:
        self.store = Store()
        self.log = LateLog(self.store)
        self._decisions = Decisions(self.store, Catalogue(self.store))
        logger = Loggers(clock, lambda line: None).get("registry")
        self.writer = Writer(self.log, URL, "one", logger)
        self.elections = 0
        self.writer.on_fenced = self._elect

    def _elect(self) -> None:
        self.elections += 1

    async def register(self, subject: str, schema: str) -> int:
        """Return the id that a schema gets."""
        asked = Registration(Schema(schema))
        decide: partial[Outcome] = partial(
            self._decisions.register, subject, asked, normalize=False
        )
        return int((await self.writer.write(decide))["id"])


def test_after_a_write_that_was_not_read_back_an_instance_writes_only_when_elected_again() -> None:
    async def scenario() -> None:
        async with RealRuntime("writer") as runtime:
            one = Instance(runtime.clock)
            await one.writer.follow(URL)
            assert await one.register("a-value", '"int"') == 1
            one.log.late = TimeoutError
            with pytest.raises(Refusal):
                await one.register("b-value", '"long"')
            one.log.late = None
            assert (one.writer.is_leading, one.elections) == (False, 1)
            with pytest.raises(Refusal):
                await one.register("c-value", '"string"')
            await one.writer.follow(URL)
            assert await one.register("c-value", '"string"') == 3, "2 is that of b-value"
            assert await one.register("b-value", '"long"') == 2

    asyncio.run(scenario())


def test_after_a_cancelled_write_an_instance_reads_the_log_before_it_writes() -> None:
    async def scenario() -> None:
        async with RealRuntime("writer") as runtime:
            one = Instance(runtime.clock)
            await one.writer.follow(URL)
            one.log.late = asyncio.CancelledError
            with pytest.raises(asyncio.CancelledError):
                await one.register("a-value", '"int"')
            one.log.late = None
            assert await one.register("b-value", '"long"') == 2
            assert await one.register("a-value", '"int"') == 1
            assert one.log.starts == 2, "once at the election, and once after the cancelled write"

    asyncio.run(scenario())


def test_a_request_that_is_cancelled_while_its_instance_resigns_leaves_an_election() -> None:
    async def scenario() -> None:
        async with RealRuntime("writer") as runtime:
            one = Instance(runtime.clock)
            await one.writer.follow(URL)
            one.log.late = TimeoutError
            one.log.is_cancelled = True
            with pytest.raises(asyncio.CancelledError):
                await one.register("a-value", '"int"')
            assert (one.writer.is_leading, one.elections) == (False, 1)

    asyncio.run(scenario())
