"""Global tables of a worker on an embedded broker: complete, current, and kept over restarts."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest

from moldau.client import Producer
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import RecordFailed, Streams
from moldau.streams.engine.task import TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.rocks import TaskDatabase
from moldau.streams.running import make_task
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


async def put(cluster: Cluster, topic: str, rows: dict[bytes, bytes | None]) -> None:
    async with Producer(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as producer:
        for number, (key, value) in enumerate(rows.items()):
            await producer.send(topic, value, key=key, partition=number % 2)


async def prepare(name: str, broker: SyncEmbeddedBroker, runtime: Runtime) -> Cluster:
    cluster = Cluster(broker.bootstrap_servers, runtime)
    await cluster.make(f"{name}-countries", f"{name}-orders", f"{name}-out")
    return cluster


def test_rows_of_all_partitions_are_there_before_the_first_record(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    name = moldau_topic

    async def scenario(runtime: Runtime) -> None:
        cluster = await prepare(name, moldau_broker, runtime)
        rows = {b"%d" % number: b"land-%d" % number for number in range(50)}
        await put(cluster, f"{name}-countries", dict(rows))
        await cluster.write(f"{name}-orders", *(f"{at} order-{at}" for at in range(50)))
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            found = await cluster.read(f"{name}-out", lambda seen: len(seen) == 50)
            assert found["order-7"] == "order-7 to land-7"
            await put(cluster, f"{name}-countries", {b"7": b"renamed", b"new": b"newland"})
            # A write shows within a turn of the worker: ask until it does.
            for _ in range(100):
                await cluster.write(f"{name}-orders", "new again")
                found = await cluster.read(f"{name}-out", lambda seen: len(seen) >= 50)
                if "again" in found:
                    break
            await cluster.write(f"{name}-orders", "7 last")
            found = await cluster.read(f"{name}-out", lambda seen: "last" in seen)
            assert found["last"] == "last to renamed"

    run(scenario)


def test_a_restart_reads_on_where_the_table_was_stored(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = moldau_topic
    caplog.set_level(logging.INFO, "moldau.streams")

    async def scenario(runtime: Runtime) -> None:
        cluster = await prepare(name, moldau_broker, runtime)
        await put(cluster, f"{name}-countries", {b"de": b"Germany", b"cz": b"Bohemia"})
        await cluster.write(f"{name}-orders", "de a", "cz b")
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            await cluster.read(f"{name}-out", lambda seen: len(seen) == 2)
        assert any("offsets 0 to 1" in each.getMessage() for each in caplog.records)
        caplog.clear()
        await put(cluster, f"{name}-countries", {b"fr": b"France", b"cz": b"Czechia"})
        await cluster.write(f"{name}-orders", "de c", "cz d", "fr e")
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            found = await cluster.read(f"{name}-out", lambda seen: len(seen) == 5)
            assert (found["c"], found["d"]) == ("c to Germany", "d to Czechia")
        told = [each.getMessage() for each in caplog.records if "restoring" in each.getMessage()]
        assert len(told) == 2
        assert all("offsets 1 to 2" in each for each in told)

    run(scenario)


def test_rows_of_another_topic_of_the_same_name_are_dropped(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = moldau_topic

    async def scenario(runtime: Runtime) -> None:
        cluster = await prepare(name, moldau_broker, runtime)
        await put(cluster, f"{name}-countries", {b"de": b"Germany", b"cz": b"Bohemia"})
        await cluster.write(f"{name}-orders", "de a")
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            await cluster.read(f"{name}-out", lambda seen: len(seen) == 1)
        await cluster.replace(f"{name}-countries")
        await put(cluster, f"{name}-countries", {b"fr": b"France"})
        await cluster.write(f"{name}-orders", "de b", "fr c")
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            found = await cluster.read(f"{name}-out", lambda seen: "c" in seen)
        assert "b" not in found
        assert "the local rows of the global table countries do not fit" in caplog.text

    run(scenario)


def test_a_poison_record_is_named(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = moldau_topic

    async def scenario(runtime: Runtime) -> None:
        cluster = await prepare(name, moldau_broker, runtime)
        await put(cluster, f"{name}-countries", {b"de": b"Germany", b"xx": b"\xff\xfe"})
        with pytest.raises(RecordFailed) as failed:
            async with cluster.worker(plan_of(name), str(tmp_path / "one"), make_task=MAKE):
                await cluster.ended
        reason = (
            f"topic={name}-countries partition=1 offset=0 operator=countries: UnicodeDecodeError: "
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte; every worker "
            'reads it: delete the key from the topic, or set on_error="skip" on global_table(...)'
        )
        assert str(failed.value) == reason
        await cluster.write(f"{name}-orders", "de a")
        plan = plan_of(name, on_error="skip")
        async with cluster.worker(plan, str(tmp_path / "two"), make_task=MAKE):
            await cluster.read(f"{name}-out", lambda seen: len(seen) == 1)
        assert f"streams: skipped: {reason}" in caplog.text

    run(scenario)


def test_damaged_rows_are_read_again(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = moldau_topic

    async def scenario(runtime: Runtime) -> None:
        cluster = await prepare(name, moldau_broker, runtime)
        await put(cluster, f"{name}-countries", {b"de": b"Germany"})
        await cluster.write(f"{name}-orders", "de a")
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            await cluster.read(f"{name}-out", lambda seen: len(seen) == 1)
        for table in (tmp_path / name / "0" / "global").glob("*.sst"):
            table.write_bytes(b"\0" * table.stat().st_size)
        await cluster.write(f"{name}-orders", "de b")
        async with cluster.worker(plan_of(name), str(tmp_path), make_task=MAKE):
            await cluster.read(f"{name}-out", lambda seen: len(seen) == 2)
        [told] = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert told.startswith("streams: task global: the state is damaged: ")

    run(scenario)


def test_positions_of_partitions_are_kept_with_the_rows(tmp_path: Path) -> None:
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.rocks import ChangelogPosition, RocksMemory, position_name

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
