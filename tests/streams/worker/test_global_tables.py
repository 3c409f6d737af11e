"""Global tables of a worker on an embedded broker: complete, current, and kept over restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Producer
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.runtime.real_files import RealFiles
from moldau.streams import RecordFailed, Streams
from moldau.streams.engine.task import TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.rocks import (
    ChangelogPosition,
    RocksMemory,
    StoreCorrupted,
    TaskDatabase,
    position_name,
)
from moldau.streams.running import make_task
from moldau.streams.worker.reports import Reports
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster

MAKE = partial(make_task, TaskSettings())


def plan_of(name: str, on_error: str = "fail") -> Plan:
    """Orders are "country text"; they come out with the country's name."""
    app = Streams(name)
    countries = app.global_table(
        f"{name}-countries", str, key=str, name="countries", on_error=on_error
    )
    orders = app.stream(f"{name}-orders", str)
    named = orders.join(
        countries,
        lambda order, name: f"{order.split()[1]} to {name}",
        key=lambda order: order.split()[0],
    )
    named.select_key(lambda text: text.split()[0]).to(f"{name}-out")
    return app.plan()


@dataclass
class Shop:
    """Orders and countries of one test, and the worker that joins them."""

    name: str
    directory: Path
    cluster: Cluster

    async def countries(self, rows: Mapping[bytes, bytes | None]) -> None:
        cluster = self.cluster
        async with Producer(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as producer:
            for number, (key, value) in enumerate(rows.items()):
                await producer.send(f"{self.name}-countries", value, key=key, partition=number % 2)

    async def orders(self, *values: str) -> None:
        await self.cluster.write(f"{self.name}-orders", *values)

    async def joined(self, is_enough: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        return await self.cluster.read(f"{self.name}-out", is_enough)

    def worker(
        self, folder: str = "", on_error: str = "fail"
    ) -> AbstractAsyncContextManager[object]:
        directory = str(self.directory / folder)
        return self.cluster.worker(plan_of(self.name, on_error), directory, make_task=MAKE)


Scenario = Callable[[Shop], Coroutine[Any, Any, None]]


@pytest.fixture
def play(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> Callable[[Scenario], None]:
    """Runs a scenario with topics of its own."""

    def played(scenario: Scenario) -> None:
        async def whole(runtime: Runtime) -> None:
            cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
            name = moldau_topic
            await cluster.make(f"{name}-countries", f"{name}-orders", f"{name}-out")
            await scenario(Shop(name, tmp_path, cluster))

        run(whole)

    return played


def count(wanted: int) -> Callable[[dict[str, str]], bool]:
    return lambda seen: len(seen) >= wanted


def test_rows_of_all_partitions_are_there_before_the_first_record(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(shop: Shop) -> None:
        await shop.countries({b"%d" % number: b"land-%d" % number for number in range(50)})
        await shop.orders(*(f"{at} order-{at}" for at in range(50)))
        async with shop.worker():
            found = await shop.joined(count(50))
            assert found["order-7"] == "order-7 to land-7"
            await shop.countries({b"7": b"renamed", b"new": b"newland"})
            # A write shows within a turn of the worker: ask until it does.
            for _ in range(100):
                await shop.orders("new again")
                if "again" in await shop.joined(count(50)):
                    break
            await shop.orders("7 last")
            found = await shop.joined(lambda seen: "last" in seen)
            assert found["last"] == "last to renamed"

    play(scenario)


def test_a_record_that_damage_of_a_global_table_has_stopped_is_done_once(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(shop: Shop) -> None:
        path = f"{shop.directory}/{shop.name}/0/global"
        is_damaged = True

        def joined(order: str, name: str) -> str:
            nonlocal is_damaged
            if is_damaged and order == "de b":
                is_damaged = False
                raise StoreCorrupted("the state is damaged", path=path)
            return order

        app = Streams(shop.name)
        countries = app.global_table(f"{shop.name}-countries", str, key=str, name="countries")
        orders = app.stream(f"{shop.name}-orders", str)
        orders.to(f"{shop.name}-copy")
        orders.join(countries, joined, key=lambda _: "de").to(f"{shop.name}-out")
        await shop.cluster.make(f"{shop.name}-copy")
        await shop.countries({b"de": b"Germany"})
        await shop.orders("de a", "de a", "de b", "de b", "de c", "de c")
        plan, state = app.plan(), str(shop.directory)
        async with shop.cluster.worker(plan, state, make_task=MAKE) as worker:
            while await shop.cluster.values(f"{shop.name}-out") != sorted(
                2 * ["de a", "de b", "de c"]
            ):
                assert worker.tasks is not None
        found = await shop.cluster.values(f"{shop.name}-copy")
        assert found == sorted(2 * ["de a", "de b", "de c"])
        assert not is_damaged

    play(scenario)


def test_a_restart_reads_on_where_the_table_was_stored(
    play: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "moldau.streams")

    async def scenario(shop: Shop) -> None:
        await shop.countries({b"de": b"Germany", b"cz": b"Bohemia"})
        await shop.orders("de a", "cz b")
        async with shop.worker():
            await shop.joined(count(2))
        assert any("offsets 0 to 1" in each.getMessage() for each in caplog.records)
        caplog.clear()
        await shop.countries({b"fr": b"France", b"cz": b"Czechia"})
        await shop.orders("de c", "cz d", "fr e")
        async with shop.worker():
            found = await shop.joined(count(5))
            assert (found["c"], found["d"]) == ("c to Germany", "d to Czechia")
        told = [each.getMessage() for each in caplog.records if "restoring" in each.getMessage()]
        assert len(told) == 2
        assert all("offsets 1 to 2" in each for each in told)

    play(scenario)


def test_rows_of_another_topic_of_the_same_name_are_dropped(
    play: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(shop: Shop) -> None:
        await shop.countries({b"de": b"Germany", b"cz": b"Bohemia"})
        await shop.orders("de a")
        async with shop.worker():
            await shop.joined(count(1))
        await shop.cluster.replace(f"{shop.name}-countries")
        await shop.countries({b"fr": b"France"})
        await shop.orders("de b", "fr c")
        async with shop.worker():
            found = await shop.joined(lambda seen: "c" in seen)
        assert "b" not in found
        assert "the local rows of the global table countries do not fit" in caplog.text

    play(scenario)


def test_a_poison_record_is_named(
    play: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(shop: Shop) -> None:
        await shop.countries({b"de": b"Germany", b"xx": b"\xff\xfe"})
        with pytest.raises(RecordFailed) as failed:
            async with shop.worker("one"):
                await shop.cluster.ended
        reason = (
            f"topic={shop.name}-countries partition=1 offset=0 operator=countries: "
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start "
            "byte; every worker reads it: delete the key from the topic, or set "
            'on_error="skip" on global_table(...)'
        )
        assert str(failed.value) == reason
        await shop.orders("de a")
        async with shop.worker("two", on_error="skip"):
            await shop.joined(count(1))
        assert f"streams: skipped: {reason}" in caplog.text

    play(scenario)


def test_damaged_rows_are_read_again(
    play: Callable[[Scenario], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(shop: Shop) -> None:
        await shop.countries({b"de": b"Germany"})
        await shop.orders("de a")
        async with shop.worker():
            await shop.joined(count(1))
        tables = list((tmp_path / shop.name / "0" / "global").glob("*.sst"))
        assert tables
        for table in tables:
            table.write_bytes(b"\0" * table.stat().st_size)
        await shop.orders("de b")
        async with shop.worker():
            await shop.joined(count(2))
        [told] = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert told.startswith("streams: task global: the state is damaged: ")

    play(scenario)


def test_a_worker_without_tasks_stores_what_it_reads(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = TaskDatabase.commit

    async def scenario(shop: Shop) -> None:
        begun, stored, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

        def noted(database: TaskDatabase, positions: Mapping[str, ChangelogPosition]) -> None:
            commit(database, positions)
            if sum(each.offset for each in positions.values()) == 2:
                loop.call_soon_threadsafe(stored.set)

        monkeypatch.setattr(TaskDatabase, "commit", noted)
        monkeypatch.setattr(Reports, "started", lambda *_: begun.set())
        app = Streams(shop.name)
        app.global_table(f"{shop.name}-countries", str, key=str, name="countries")
        async with shop.cluster.worker(app.plan(), str(shop.directory), make_task=MAKE) as worker:
            async with asyncio.timeout(60):
                await begun.wait()
                await shop.countries({b"de": b"Germany", b"cz": b"Czechia"})
                await stored.wait()
            assert worker.readiness.waits_for is None

    play(scenario)


def test_positions_of_partitions_are_kept_with_the_rows(tmp_path: Path) -> None:
    kinds = {"table": "key-value"}
    database = TaskDatabase.open(str(tmp_path), kinds, RocksMemory(), RealFiles())
    database.backing("table").write([(b"key", b"value")])
    database.commit({position_name("table", each): ChangelogPosition(each + 5) for each in (0, 1)})
    database.close()
    database = TaskDatabase.open(str(tmp_path), kinds, RocksMemory(), RealFiles())
    found = [database.position(position_name("table", each)) for each in range(3)]
    [size] = database.sizes()
    database.close()
    assert found == [ChangelogPosition(5), ChangelogPosition(6), None]
    assert size.offset == 11
