"""kill -9 of the task, the worker, the database and the broker at each step of a sink: no row is
lost, and where exactly-once is promised none is there twice.

`MOLDAU_CONNECT_KILLS` says how often each is killed; the step is the next one each time.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from moldau.client.sync import Producer
from tests.connect.kills import victims
from tests.connect.kills.held import STEPS, Holds, install
from tests.connect.kills.victims import Broker, Workers, running, running_database
from tests.connect.processes import wait_until
from tests.databases import TestDatabase

pytestmark = [pytest.mark.real, pytest.mark.deep]

CYCLES = int(os.environ.get(victims.CYCLES, "2"))
ROWS = 20
TEXT = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {
    "group.id": "kills",
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": "100",
    "errors.restart.backoff.ms": "100",
    "errors.restart.backoff.max.ms": "500",
    "consumer.session.timeout.ms": "30000",
    "key.converter": TEXT,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


class Scene:
    """A sink between a broker and its target, and how to kill each."""

    def __init__(self, broker: Broker, workers: Workers, holds: Holds) -> None:
        self.broker = broker
        self.workers = workers
        self.holds = holds
        self.sent = 0

    def produce(self) -> None:
        with Producer({"bootstrap.servers": self.broker.bootstrap}) as producer:
            for number in range(self.sent, self.sent + ROWS):
                row = json.dumps({"id": number, "name": f"row {number}"})
                producer.send("rows", row.encode(), key=str(number).encode())
            producer.flush()
        self.sent += ROWS

    def kill_at(self, step: str, kill: Callable[[], None], found: Callable[[], list[int]]) -> None:
        """One cycle: records come, the sink stands at the step, the kill, and all is there."""
        self.holds.ask(step)
        if step == "rebalance":
            self.workers.current.ask("POST", "/connectors/sink/tasks/0/restart")
        self.produce()
        wait_until(lambda: self.holds.is_reached(step), f"the sink is at {step}")
        kill()
        self.holds.release(step)
        wait_until(lambda: set(found()) >= set(range(self.sent)), f"all rows after {step}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for the database's socket, and open to its user."""
    with TemporaryDirectory(prefix="moldau-kills-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def scene(folder: Path) -> Iterator[Scene]:
    with running(folder, WORKER, install) as found:
        yield Scene(*found)


def begin(scene: Scene, config: Mapping[str, str], found: Callable[[], list[int]]) -> None:
    scene.produce()
    scene.workers.current.create("sink", {"topics": "rows", **config})
    wait_until(lambda: len(found()) >= ROWS, "the first rows are there")


def test_rows_of_a_database_are_neither_lost_nor_doubled(scene: Scene, folder: Path) -> None:
    with running_database(folder) as database:
        config = {
            "connector.class": "HeldTable",
            "connection.url": database.url,
            "table.name.format": "copies",
            "auto.create": "true",
            "exactly.once": "true",
            "max.retries": "100",
            "retry.backoff.ms": "100",
        }
        copies = Copies(database.url)
        begin(scene, config, copies)
        kills: list[Callable[[], None]] = [
            scene.workers.kill_task,
            scene.workers.kill,
            database.kill,
            scene.broker.kill,
        ]
        for cycle in range(CYCLES):
            for number, kill in enumerate(kills):
                scene.kill_at(STEPS[(cycle + number) % len(STEPS)], kill, copies)

        twice = {number for number, count in Counter(copies()).items() if count > 1}
        assert not twice


class Copies:
    """The ids in the table; none while there is no table or no database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> list[int]:
        from sqlalchemy.exc import SQLAlchemyError

        target = TestDatabase("postgresql", self._url)
        try:
            return [row[0] for row in target.rows("SELECT id FROM copies")]
        except SQLAlchemyError:
            return []
        finally:
            target.close()


def test_lines_of_rolled_files_are_neither_lost_nor_doubled(scene: Scene, folder: Path) -> None:
    target = folder / "files"

    def found() -> list[int]:
        return [
            json.loads(line)["id"]
            for path in sorted(target.rglob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]

    config = {
        "connector.class": "HeldFiles",
        "directory": str(target),
        "format": "jsonl",
        "flush.size": "7",
        "rotate.interval.ms": "300",
    }
    begin(scene, config, found)
    kills = [scene.workers.kill_task, scene.workers.kill, scene.broker.kill]
    steps = [step for step in STEPS if step != "write"]
    for cycle in range(CYCLES):
        for number, kill in enumerate(kills):
            scene.kill_at(steps[(cycle + number) % len(steps)], kill, found)

    assert sorted(found()) == list(range(scene.sent))
