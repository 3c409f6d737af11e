"""A sink with offsets of its own, which reads rejected records again after a restart: none of them
is in the dead letter queue twice, and none that is bad for the first time is left out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.worker.letter_queue import dead_letters, send
from tests.connect.worker.scene import Scene
from tests.connect.worker.task_failure import JSON

pytestmark = pytest.mark.real

NUMBER = "org.apache.kafka.connect.converters.IntegerConverter"
ALL = 11
"""Records of the first test: none of them is in a file when its second worker starts."""


def tolerant(topic: str, queue: str) -> dict[str, str]:
    """The settings of a sink that sends values that are no JSON to the queue."""
    return {
        "topics": topic,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }


def unread(worker: Worker, name: str) -> float | None:
    """How many records the only task has not read; None if it has read nothing since its start."""
    details = worker.ask("GET", "/v1/tasks")[1].get(f"{name}/0", {})
    metrics = details.get("metrics", {})
    read: float | None = metrics.get("sink-record-unread")
    return read if metrics.get("sink-record-read-total", 0) else None


def read(worker: Worker, name: str) -> float:
    """How many records the only task has read since its start."""
    details = worker.ask("GET", "/v1/tasks")[1].get(f"{name}/0", {})
    return float(details.get("metrics", {}).get("sink-record-read-total", 0))


def items(shop: Path) -> list[int]:
    """The rows of the sink's table."""
    with closing(sqlite3.connect(shop)) as database:
        return [row[0] for row in database.execute("SELECT id FROM item ORDER BY id")]


def restarts(worker: Worker, name: str) -> int:
    """How often the only task has been started again."""
    count: int = worker.ask("GET", "/v1/tasks")[1].get(f"{name}/0", {}).get("restarts", 0)
    return count


def test_a_rejected_record_is_one_dead_letter_over_restarts(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene, folder = Scene(moldau_broker, moldau_topic, {}), tmp_path / "out"
    name = f"{scene.name}-letters"
    queue = f"{name}-dead"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {
        **tolerant(name, queue), "connector.class": "FileStreamSink",
        "directory": str(folder), "format": "jsonl", "flush.size": "6",
    }  # fmt: skip
    send(bootstrap, name, b"1", b"bad one", b"2", b"bad two", b"1234")
    with scene.worker(task_isolation="thread") as worker:
        worker.create(name, config)
        wait_until(lambda: len(dead_letters(bootstrap, queue)) == 2, "both are dead letters")
        wait_until(lambda: unread(worker, name) == 0, "all is read")
        worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
        send(bootstrap, name, b"bad three")
        wait_until(lambda: b"bad three" in dead_letters(bootstrap, queue), "it reads on")
        assert worker.stop() == 0
    assert dead_letters(bootstrap, queue) == [b"bad one", b"bad two", b"bad three"]

    with scene.worker(task_isolation="thread") as worker:
        send(bootstrap, name, b"3", b"4", b"5", b"bad four")
        wait_until(lambda: b"bad four" in dead_letters(bootstrap, queue), "another worker goes on")
        wait_until(lambda: len(list(folder.rglob("*.jsonl"))) == 1, "the file is there")
        (file,) = folder.rglob("*.jsonl")
        assert file.read_text().split() == ["1", "2", "1234", "3", "4", "5"]
        letters = [b"bad one", b"bad two", b"bad three", b"bad four"]
        assert dead_letters(bootstrap, queue) == letters

        # Good until now and in no file yet; with another converter it is bad for the first time.
        send(bootstrap, name, b"6")
        wait_until(lambda: read(worker, name) == ALL, "all is read")
        changed = {**config, "value.converter": NUMBER}
        worker.ask("PUT", f"/connectors/{name}/config", changed)
        wait_until(lambda: dead_letters(bootstrap, queue) == [*letters, b"6"], "it is told")
        assert worker.stop() == 0
    assert dead_letters(bootstrap, queue) == [*letters, b"6"]


def test_a_task_that_fails_again_and_again_sends_a_dead_letter_once(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene, shop = Scene(moldau_broker, moldau_topic, {}), tmp_path / "shop.db"
    name = f"{scene.name}-failing"
    queue = f"{name}-dead"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {
        **tolerant(name, queue), "connector.class": "JdbcSink",
        "connection.url": f"jdbc:sqlite:{shop}", "table.name.format": "item",
    }  # fmt: skip
    sqlite3.connect(shop).close()
    send(bootstrap, name, b'{"id": 1}', b"bad one", b'{"id": 2}')
    with scene.worker(task_isolation="thread") as worker:
        worker.create(name, config)
        wait_until(lambda: restarts(worker, name) >= 2, "it fails, as there is no table")
        with sqlite3.connect(shop) as database:
            database.execute("CREATE TABLE item (id INTEGER)")
        database.close()
        wait_until(lambda: items(shop) == [1, 2], "it goes on")
        assert worker.stop() == 0
    assert items(shop) == [1, 2]
    assert dead_letters(bootstrap, queue) == [b"bad one"]
