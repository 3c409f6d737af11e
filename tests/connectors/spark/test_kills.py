"""kill -9 of a runner, of Spark's Java, of Python workers and of the broker in mid-batch: what the
connector wrote holds the topic exactly.

`MOLDAU_SPARK_KILLS=10` kills each of the four ten times for each sink; by default each is killed
once, the four shared by the sinks. Values are so large that each task's part of a batch lies in the
spool, and every other cycle kills while files are there.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from moldau.runtime.node_processes import free_ports
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.connectors.spark.runners import SMALL, Events, ids_in, need_spark, orders_lake, running
from tests.databases.servers import postgresql_address
from tests.peers.eventually import eventually
from tests.spark.topics import make_topic, send

pytestmark = pytest.mark.real

CYCLES: Final = int(os.environ.get("MOLDAU_SPARK_KILLS", "0"))
ROWS: Final = 1800
BATCH: Final = 300
NOTE: Final = "large " * 2000
TOPIC: Final = "killed"


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


@dataclass
class Broker:
    """A broker's process that can be killed and started again on its port and directory."""

    home: Path
    port: int
    bootstrap_servers: str
    process: BrokerProcess | None = None

    @contextmanager
    def up(self) -> Iterator[None]:
        place = ("--listen", f"127.0.0.1:{self.port}", "--data", str(self.home / "data"))
        with broker_process(self.home, *place) as self.process:
            yield

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()


def large_orders(count: int, start: int) -> list[bytes]:
    return [json.dumps({"id": each, "note": NOTE}).encode() for each in range(start, start + count)]


def children(pid: int) -> list[int]:
    """The processes that it has started."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                status = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(status[1]) == pid:
                found.append(int(place.name))
    return found


def java_of(runner: int) -> int:
    """Spark's Java: the script that starts it has become it."""
    (found,) = (
        each for each in children(runner) if b"java" in Path(f"/proc/{each}/cmdline").read_bytes()
    )
    return found


def python_workers(runner: int) -> list[int]:
    """What Spark's Python daemon has forked: workers, and the planner of the source."""
    return [worker for daemon in children(java_of(runner)) for worker in children(daemon)]


def kill(victim: str, events: Events) -> bool:
    """SIGKILL. A runner or its Java is gone then; the loss of a worker may end the query, or the
    query survives it: whether it has read everything."""
    runner = events.process.pid
    if victim == "runner":
        events.process.kill()
    elif victim == "driver":
        os.kill(java_of(runner), signal.SIGKILL)
        assert "Java process has died" in events.until("failed")["cause"]
    elif victim == "worker":
        workers = python_workers(runner)
        assert workers
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        return events.until_over() == "finished"
    return False


def _parquet(folder: Path, address: str) -> list[int]:
    return ids_in(folder / "orders")


def _delta(folder: Path, address: str) -> list[int]:
    delta = pytest.importorskip("deltalake")
    table = delta.DeltaTable(str(folder / "orders")).to_pyarrow_table()
    return sorted(table.column("id").to_pylist())


def _database(folder: Path, address: str) -> list[int]:
    engine = sa.create_engine(address, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return list(connection.exec_driver_sql("SELECT id FROM orders ORDER BY id").scalars())


Read = Callable[[Path, str], list[int]]
SINKS: Final[dict[str, tuple[Read, list[str]]]] = {
    "parquet": (_parquet, ["runner", "broker"]),
    "delta": (_delta, ["driver"]),
    "jdbc": (_database, ["worker", "broker"]),
}
ALL: Final = ["runner", "driver", "worker", "broker"]


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """PostgreSQL's address, for the sink that needs one."""
    if request.node.callspec.params["kind"] != "jdbc":
        yield ""
        return
    with postgresql_address() as address:
        yield address


@pytest.mark.parametrize("kind", SINKS)
def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, kind: str, database: str) -> None:
    read, victims = SINKS[kind]
    victims = ALL * CYCLES or victims
    port = free_ports(1)[0]
    broker = Broker(tmp_path, port, f"127.0.0.1:{port}")
    config = orders_lake(
        TOPIC,
        tmp_path,
        **{
            "value.schema": "id BIGINT, note STRING",
            "sink.format": kind,
            "sink.table": "orders",
            "jdbc.url": database,
            "max.offsets.per.trigger": str(BATCH),
            **SMALL,
        },
    )
    total = 0
    with broker.up():
        make_topic(broker, TOPIC, 2)
    is_over = False
    for number, victim in enumerate(victims):
        has_spool = kind != "parquet" and number // len(ALL) % 2 == 0
        with broker.up():
            for partition in range(2):
                send(broker, TOPIC, large_orders(ROWS // 2, total), partition)
                total += ROWS // 2
            left = spool_files(tmp_path)  # by the runner that was killed before
            with running(broker, TOPIC, config) as events:
                events.until("progress")
                if has_spool:
                    eventually(lambda left=left: spool_files(tmp_path) - left)  # type: ignore[misc]
                if victim == "broker":
                    broker.kill()
                    with broker.up():
                        events.until("finished")
                    is_over = True
                else:
                    is_over = kill(victim, events)
    if not is_over:
        with broker.up(), running(broker, TOPIC, config) as events:
            events.until("finished")

    assert read(tmp_path, database) == list(range(total)), json.dumps(victims)
    assert not spool_files(tmp_path)


def spool_files(folder: Path) -> set[tuple[str, int]]:
    """Parts of the batch that is written now, each with the time of its last change."""
    found = set()
    for each in (folder / "checkpoints" / TOPIC / "spool").glob("*.arrow"):
        with suppress(FileNotFoundError):  # its batch has ended
            found.add((each.name, each.stat().st_mtime_ns))
    return found
