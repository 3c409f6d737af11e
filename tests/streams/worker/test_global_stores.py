"""Global stores of a worker on an embedded broker: each record is processed once for the rows, and
again only where the rows are made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Producer
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Context, Record, RecordFailed, StateStore, Streams
from moldau.streams.engine.task import TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.query.questions import Range, StoreUnavailable
from moldau.streams.running import make_task
from moldau.streams.worker.worker import Worker
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster

MAKE = partial(make_task, TaskSettings())


@dataclass
class Ledger:
    """A topic of numbers, and the workers that add them up by key in a global store."""

    name: str
    directory: Path
    cluster: Cluster
    processed: list[str] = field(default_factory=list)
    poison: str = ""

    def plan(self, *, has_table: bool) -> Plan:
        ledger = self

        class Totals:
            def __init__(self, context: Context) -> None:
                self.totals = context.store("totals")

            def process(self, record: Record) -> None:
                self.totals[record.key] = self.totals.get(record.key, 0) + int(record.value)
                if record.value == ledger.poison:
                    raise ValueError("poison")
                ledger.processed.append(record.value)

        app = Streams(self.name)
        store = StateStore("totals", key=str, value=int)
        app.global_store(f"{self.name}-numbers", str, key=str, store=store, make=Totals)
        if has_table:
            app.global_table(f"{self.name}-numbers", str, key=str, name="last")
        return app.plan()

    async def write(self, rows: Mapping[str, list[int]]) -> None:
        cluster = self.cluster
        async with Producer(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as producer:
            for key, values in rows.items():
                for value in values:
                    await producer.send(
                        f"{self.name}-numbers",
                        str(value).encode(),
                        key=key.encode(),
                        partition=ord(key) % 2,
                    )

    @asynccontextmanager
    async def worker(
        self,
        folder: str = "",
        *,
        has_table: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> AsyncIterator[Worker]:
        plan, directory = self.plan(has_table=has_table), str(self.directory / folder)
        async with self.cluster.worker(
            plan, directory, make_task=MAKE, settings=settings
        ) as worker:
            yield worker

    async def totals(self, worker: Worker, wanted: Mapping[str, int]) -> None:
        found: dict[str, int] = {}
        async with asyncio.timeout(60):
            while found != wanted:
                try:
                    rows = await worker.queries.ask("totals", Range())
                except StoreUnavailable:
                    await asyncio.wait([self.cluster.ended], timeout=0.05)
                    continue
                assert rows is not None
                found = {key: value for key, value, *_ in rows}


Scenario = Callable[[Ledger], Coroutine[Any, Any, None]]


@pytest.fixture
def play(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> Callable[[Scenario], None]:
    """Runs a scenario with topics of its own."""

    def played(scenario: Scenario) -> None:
        async def whole(runtime: Runtime) -> None:
            cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
            await cluster.make(f"{moldau_topic}-numbers")
            await scenario(Ledger(moldau_topic, tmp_path, cluster))

        run(whole)

    return played


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_restart_processes_what_is_new_and_an_empty_directory_all(
    play: Callable[[Scenario], None], guarantee: str
) -> None:
    async def scenario(ledger: Ledger) -> None:
        settings = {"processing.guarantee": guarantee}
        await ledger.write({"a": [1, 2], "b": [3]})
        async with ledger.worker(settings=settings) as worker:
            await ledger.totals(worker, {"a": 3, "b": 3})
            await ledger.write({"b": [4]})
            await ledger.totals(worker, {"a": 3, "b": 7})
        await ledger.write({"a": [5]})
        ledger.processed.clear()
        async with ledger.worker(settings=settings) as worker:
            await ledger.totals(worker, {"a": 8, "b": 7})
        assert ledger.processed == ["5"]
        ledger.processed.clear()
        async with ledger.worker("empty", settings=settings) as worker:
            await ledger.totals(worker, {"a": 8, "b": 7})
        assert sorted(ledger.processed) == ["1", "2", "3", "4", "5"]

    play(scenario)


def test_what_a_failing_record_left_is_not_kept(play: Callable[[Scenario], None]) -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.write({"a": [1, 2], "b": [3]})
        async with ledger.worker() as worker:
            await ledger.totals(worker, {"a": 3, "b": 3})
        await ledger.write({"a": [10, 13, 20]})
        ledger.poison = "13"
        with pytest.raises(RecordFailed, match=r"operator=totals: ValueError: poison; .*global_st"):
            async with ledger.worker():
                await ledger.cluster.ended
        ledger.poison = ""
        ledger.processed.clear()
        async with ledger.worker() as worker:
            await ledger.totals(worker, {"a": 46, "b": 3})
        assert ledger.processed == ["10", "13", "20"]

    play(scenario)


def test_another_table_of_the_topic_does_not_process_records_again(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.write({"a": [1, 2], "b": [3]})
        async with ledger.worker() as worker:
            await ledger.totals(worker, {"a": 3, "b": 3})
        for expected in ({"a": 3, "b": 3}, {"a": 3, "b": 7}):
            async with ledger.worker(has_table=True) as worker:
                await ledger.write({"b": [4]} if expected["b"] == 7 else {})
                await ledger.totals(worker, expected)
                rows = await worker.queries.ask("last", Range())
                assert rows is not None
                assert tuple(next(iter(rows)))[:2] == ("a", "2")
        assert sorted(ledger.processed) == ["1", "2", "3", "4"]

    play(scenario)


def test_damaged_rows_are_processed_again(play: Callable[[Scenario], None]) -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.write({"a": [1, 2], "b": [3]})
        async with ledger.worker() as worker:
            await ledger.totals(worker, {"a": 3, "b": 3})
        tables = list((ledger.directory / ledger.name / "0" / "global").glob("*.sst"))
        assert tables
        for table in tables:
            table.write_bytes(b"\0" * table.stat().st_size)
        await ledger.write({"a": [4]})
        async with ledger.worker() as worker:
            await ledger.totals(worker, {"a": 7, "b": 3})
            await ledger.write({"a": [5]})
            await ledger.totals(worker, {"a": 12, "b": 3})

    play(scenario)
