"""Lake tables of a worker on an embedded broker: a real Delta table that changes while it runs."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.streams import Streams, StreamsError
from moldau.streams.engine.task import TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.running import make_task
from tests.streams.worker.running import Cluster

pa = pytest.importorskip("pyarrow")
delta = pytest.importorskip("deltalake")
MAKE = partial(make_task, TaskSettings())
PATIENCE_S = 120


def plan_of(name: str, path: Path) -> Plan:
    """Orders are "customer number"; they come out by number with the name of the customer."""
    app = Streams(name)
    customers = app.lake_table("customers", format="delta", path=path, key="id", refresh="20ms")
    orders = app.stream(f"{name}-orders", str)
    named = orders.left_join(
        customers,
        lambda order, row: f"{order.split()[1]} {'nobody' if row is None else row['name']}",
        key=lambda order: order.split()[0],
    )
    named.select_key(lambda text: text.split()[0]).to(f"{name}-out")
    return app.plan()


def write(path: Path, **names: str) -> None:
    rows = pa.table({"id": list(names), "name": list(names.values())})
    delta.write_deltalake(str(path), rows, mode="overwrite")


@pytest.fixture
def name(moldau_topic: str) -> str:
    """What the names of the topics begin with."""
    return moldau_topic


class Lines(logging.Handler):
    """Tells a coroutine that there is another line in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.arrived.set()


async def told(cluster: Cluster, caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Wait until a worker that runs has logged this."""
    log, lines = logging.getLogger("moldau.streams"), Lines()
    log.addHandler(lines)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while text not in caplog.text:
                assert not cluster.ended.done(), cluster.ended
                lines.arrived.clear()
                line: asyncio.Future[Any] = asyncio.ensure_future(lines.arrived.wait())
                either: list[asyncio.Future[Any]] = [line, cluster.ended]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                line.cancel()
    finally:
        log.removeHandler(lines)


async def test_orders_meet_the_version_that_the_table_has(
    cluster: Cluster, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="moldau.streams")

    await cluster.make(f"{name}-orders", f"{name}-out")
    path = tmp_path / "customers"
    await asyncio.to_thread(partial(write, path, a="ada", b="bob"))
    async with cluster.worker(plan_of(name, path), str(tmp_path / "state"), make_task=MAKE):
        await cluster.write(f"{name}-orders", "a 1", "b 2", "c 3", "a 4")
        found = await cluster.read(f"{name}-out", lambda rows: len(rows) == 4)
        assert found == {"1": "1 ada", "2": "2 bob", "3": "3 nobody", "4": "4 ada"}

        await asyncio.to_thread(partial(write, path, a="anna", c="carl"))
        await told(cluster, caplog, "lake table customers: version 1@")
        await cluster.write(f"{name}-orders", "a 5", "b 6", "c 7")
        found = await cluster.read(f"{name}-out", lambda rows: len(rows) == 7)
        assert [found[each] for each in "567"] == ["5 anna", "6 nobody", "7 carl"]


async def test_a_version_that_cannot_be_read_leaves_the_rows_and_is_told(
    cluster: Cluster, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="moldau.streams")

    await cluster.make(f"{name}-orders", f"{name}-out")
    path = tmp_path / "customers"
    await asyncio.to_thread(partial(write, path, a="ada"))
    async with cluster.worker(plan_of(name, path), str(tmp_path / "state"), make_task=MAKE):
        await told(cluster, caplog, "lake table customers: version 0@")
        twice = pa.table({"id": ["a", "a"], "name": ["x", "y"]})
        await asyncio.to_thread(delta.write_deltalake, str(path), twice, mode="overwrite")
        await told(
            cluster, caplog, "more than one row with id='a': keys must be unique; the rows of"
        )
        await cluster.write(f"{name}-orders", "a 1")
        found = await cluster.read(f"{name}-out", lambda rows: "1" in rows)
        assert found["1"] == "1 ada"
        await asyncio.to_thread(partial(write, path, a="anna"))
        await told(cluster, caplog, "lake table customers: version 2@")
        await cluster.write(f"{name}-orders", "a 2")
        found = await cluster.read(f"{name}-out", lambda rows: "2" in rows)
        assert found["2"] == "2 anna"


async def test_a_worker_does_not_start_without_the_table(
    cluster: Cluster, name: str, tmp_path: Path
) -> None:
    await cluster.make(f"{name}-orders", f"{name}-out")
    plan = plan_of(name, tmp_path / "none")
    with pytest.raises(StreamsError, match="lake table customers: there is no Delta table at"):
        async with cluster.worker(plan, str(tmp_path / "state"), make_task=MAKE):
            await asyncio.wait([cluster.ended])
