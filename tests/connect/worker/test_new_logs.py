"""Sinks that promise exactly-once, and a topic that is deleted and made again: its records are
never taken for old ones with the same offsets."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moldau.client.sync import Admin, Producer
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.worker.test_bad_input import JSON, cause
from tests.connect.worker.test_end_to_end import Scene

pytestmark = pytest.mark.real

PLAIN = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def produce(bootstrap: dict[str, str], topic: str, ids: range) -> None:
    with Producer(bootstrap) as producer:
        for each in ids:
            producer.send(topic, f'{{"id": {each}}}'.encode())


def ids_in(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        try:
            return [row[0] for row in connection.execute("SELECT id FROM target ORDER BY id")]
        except sqlite3.OperationalError:
            return []


def fails_and_goes_on(worker: Worker, name: str, repair: str) -> None:
    """The task says what happened and what to do."""
    wait_until(lambda: "begins anew at offset 0" in cause(worker, name), f"{name} fails")
    assert repair in cause(worker, name)


def test_rows_of_a_topic_that_was_made_again_are_not_dropped(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene, path = Scene(moldau_broker, moldau_topic, {}), tmp_path / "target.db"
    name = f"{scene.name}-again"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {"connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{path}",
              "topics": name, "table.name.format": "target", "auto.create": "true",
              "connection.user": "nobody", "exactly.once": "true",
              "errors.restart.backoff.ms": "600000", **PLAIN}  # fmt: skip
    with scene.worker(task_isolation="thread") as worker, Admin(bootstrap) as admin:
        produce(bootstrap, name, range(5))
        worker.create(name, config)
        wait_until(lambda: ids_in(path) == [*range(5)], "all rows are there")
        admin.delete_topics([name])
        produce(bootstrap, name, range(10, 12))
        fails_and_goes_on(worker, name, "__connect_offsets")

        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM __connect_offsets")
            connection.commit()
        worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
        wait_until(lambda: ids_in(path) == [*range(5), 10, 11], "the new rows are there, too")


def test_lines_of_a_topic_that_was_made_again_are_not_dropped(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    name, folder = f"{scene.name}-rolled", tmp_path / "out"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {"connector.class": "FileStreamSink", "directory": str(folder), "format": "jsonl",
              "flush.size": "2", "topics": name, "errors.restart.backoff.ms": "600000",
              **PLAIN}  # fmt: skip
    with scene.worker(task_isolation="thread") as worker, Admin(bootstrap) as admin:
        produce(bootstrap, name, range(4))
        worker.create(name, config)
        wait_until(lambda: len([*folder.rglob("*.jsonl")]) == 2, "all lines are there")
        admin.delete_topics([name])
        produce(bootstrap, name, range(10, 12))
        fails_and_goes_on(worker, name, "move the topic's files")
