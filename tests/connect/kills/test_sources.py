"""kill -9 of the task, the worker and the broker at each step of a source's transaction: each row
and each line is committed once, and the stored offset is behind the last one.

`CONNECT_SOURCE_KILLS` says how often something is killed; what, and at which step, is the
next one each time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from tests.connect.committed import committed
from tests.connect.kills.held import Holds
from tests.connect.kills.held_sources import STEPS, install
from tests.connect.kills.victims import Broker, Workers, running
from tests.connect.processes import wait_until

pytestmark = [pytest.mark.real, pytest.mark.deep]

KILLS = int(os.environ.get("CONNECT_SOURCE_KILLS", "20"))
ROWS = 30
TEXT = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {
    "group.id": "kills",
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "errors.restart.backoff.ms": "100",
    "errors.restart.backoff.max.ms": "500",
    "offset.storage.partitions": "2",
    "key.converter": TEXT,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}

Add = Callable[[int, int], None]


class Scene:
    """A source between its data and a broker, and how to kill each."""

    def __init__(self, broker: Broker, workers: Workers, holds: Holds) -> None:
        self.broker = broker
        self.workers = workers
        self.holds = holds
        self.added = 0

    def records(self) -> list[str]:
        return committed(self.broker.bootstrap, "rows")

    def begin(self, config: Mapping[str, str], add: Add) -> None:
        self.add(add)
        more = {"exactly.once.support": "required", "topic.creation.default.partitions": "2",
                "topic.creation.default.replication.factor": "1"}  # fmt: skip
        self.workers.current.create("source", {**config, **more})
        wait_until(lambda: len(self.records()) >= self.added, "the first records are there")

    def add(self, add: Add) -> None:
        add(self.added, self.added + ROWS)
        self.added += ROWS

    def kill_at(self, step: str, kill: Callable[[], None], add: Add) -> None:
        """One cycle: data comes, the source stands at the step, the kill, and all is there."""
        self.holds.ask(step)
        self.add(add)
        wait_until(lambda: self.holds.is_reached(step), f"the source is at {step}")
        kill()
        self.holds.release(step)
        wait_until(lambda: len(self.records()) >= self.added, f"all records after {step}")

    def kill_on(self, add: Add, times: int) -> None:
        kills = [self.workers.kill_task, self.workers.kill, self.broker.kill]
        pairs = [(step, kill) for kill in kills for step in STEPS]
        for step, kill in islice(cycle(pairs), times):
            self.kill_at(step, kill, add)

    def offset(self) -> Any:
        _, body = self.workers.current.ask("GET", "/connectors/source/offsets")
        (found,) = body["offsets"]
        return found["offset"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with running(tmp_path, WORKER, install) as found:
        yield Scene(*found)


def test_each_row_of_a_table_is_written_once(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("PRAGMA journal_mode=WAL")
        opened.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT)")

    def add(begin: int, end: int) -> None:
        with closing(sqlite3.connect(file, timeout=60)) as opened, opened:
            rows = [(number, f"row {number}") for number in range(begin, end)]
            opened.executemany("INSERT INTO rows VALUES (?, ?)", rows)

    config = {
        "connector.class": "HeldRows",
        "connection.url": f"jdbc:sqlite:{file}?journal_mode=WAL",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "rows",
        "topic.prefix": "",
        "batch.max.rows": "7",
        "poll.interval.ms": "50",
    }
    scene.begin(config, add)
    scene.kill_on(add, KILLS)

    wanted = [f'{{"id":{number},"name":"row {number}"}}' for number in range(scene.added)]
    assert sorted(scene.records()) == sorted(wanted)
    assert scene.offset() == {"incrementing": scene.added - 1}


def test_each_line_of_a_file_is_written_once(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "lines"

    def add(begin: int, end: int) -> None:
        with file.open("a") as opened:
            opened.writelines(f"line {number}\n" for number in range(begin, end))

    config = {
        "connector.class": "HeldText",
        "file": str(file),
        "topic": "rows",
        "batch.size": "7",
        "value.converter": TEXT,
    }
    scene.begin(config, add)
    scene.kill_on(add, min(KILLS, 9))

    assert sorted(scene.records()) == sorted(f"line {number}" for number in range(scene.added))
    assert scene.offset()["position"] == file.stat().st_size
