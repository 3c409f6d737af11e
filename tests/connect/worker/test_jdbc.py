"""Confluent's JDBC configs as they are: rows of one database over a topic into another, whatever is
killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.connect.worker.letter_queue import dead_letters, send
from tests.connect.worker.scene import Scene
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server
from tests.databases.fixtures import made

__all__ = ["database", "mariadb_server", "postgresql_server"]

pytestmark = pytest.mark.real

JSON = "org.apache.kafka.connect.json.JsonConverter"
TABLE = "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20), price DOUBLE)"


@pytest.fixture
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestDatabase]:
    yield from made("sqlite", request, tmp_path)


def rows(first: int, end: int) -> list[tuple[int, str, float]]:
    return [(number, f"order {number}", number / 4) for number in range(first, end)]


def source(name: str, url: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "orders",
        "topic.prefix": f"{name}-",
        "poll.interval.ms": "100",
        "batch.max.rows": "50",
        "value.converter": JSON,
    }


def sink(name: str, url: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": url,
        "topics": f"{name}-orders",
        "table.name.format": "copies",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "value.converter": JSON,
    }


@pytest.fixture
def shared_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestDatabase]:
    yield from made("duckdb", request, tmp_path)


@pytest.fixture
def shared_target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestDatabase]:
    yield from made("duckdb", request, tmp_path)


def succeeds(function: Callable[[], object]) -> bool:
    """Whether it works now: no, while another process holds the file."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        function()
    except SQLAlchemyError:
        return False
    return True


def copied(target: TestDatabase, wanted: int) -> bool:
    """Whether the table has so many rows; no, while there is no table."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return bool(target.rows("SELECT count(*) FROM copies")[0][0] >= wanted)
    except SQLAlchemyError:
        return False


@pytest.mark.databases("sqlite", "postgresql")
def test_rows_reach_the_other_database_though_tasks_and_worker_are_killed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, origin: TestDatabase,
    database: TestDatabase,
) -> None:  # fmt: skip
    scene = Scene(moldau_broker, moldau_topic, {})
    origin.run(TABLE)
    origin.insert("orders", rows(1, 101))
    with scene.worker() as worker:
        worker.create("from", source(scene.name, origin.url))
        worker.create(f"{scene.name}-to", sink(scene.name, database.url))
        wait_until(lambda: copied(database, 100), "the first rows are there", 120)

        for pid in worker.task_pids():
            os.kill(pid, signal.SIGKILL)
        origin.insert("orders", rows(101, 201))
        wait_until(lambda: copied(database, 200), "killed tasks went on", 120)

        worker.kill()
    origin.insert("orders", rows(201, 301))
    with scene.worker():
        wait_until(lambda: copied(database, 300), "a killed worker went on", 120)

    assert database.rows("SELECT * FROM copies ORDER BY id") == rows(1, 301)


@pytest.mark.databases("postgresql")
def test_a_bad_value_is_a_dead_letter_and_the_other_rows_are_written(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, database: TestDatabase
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    database.run("CREATE TABLE copies (id BIGINT PRIMARY KEY, size INTEGER)")
    name, queue = f"{scene.name}-to", f"{scene.name}-dead"
    config = {
        **sink(scene.name, database.url), "value.converter.schemas.enable": "false",
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }  # fmt: skip
    bad = b'{"id": 4, "size": true}'
    values = [b'{"id": %d, "size": 7}' % number for number in range(10)]
    values[4] = bad
    send(bootstrap, f"{scene.name}-orders", *values)
    with scene.worker() as worker:
        worker.create(name, config)
        wait_until(lambda: copied(database, 9), "the good rows are there", 120)
        wait_until(lambda: dead_letters(bootstrap, queue) == [bad], "the bad one is told")
        worker.wait_for(name, "RUNNING", "RUNNING")
        assert worker.stop() == 0
    assert database.rows("SELECT sum(id) FROM copies") == [(41,)]


@pytest.mark.databases("postgresql")
def test_a_sink_shows_what_is_not_written_and_why(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, database: TestDatabase
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    database.run("CREATE TABLE copies (id BIGINT PRIMARY KEY)")
    name = f"{scene.name}-to"
    plain = {"value.converter.schemas.enable": "false"}
    send(bootstrap, f"{scene.name}-orders", *(b'{"id": %d}' % number for number in range(100)))

    def task() -> dict[str, Any]:
        found: list[dict[str, Any]] = worker.ask("GET", "/v1/connectors")[1][name]["tasks"]
        return found[0] if found else {}

    def shown() -> str:
        found = task()
        return f"{found.get('error')} {found.get('waits_for')}"

    with scene.worker() as worker:
        with database.locked("copies"):
            worker.create(name, {**sink(scene.name, database.url), **plain})
            wait_until(lambda: task().get("lag") == 100, "the lag of a blocked put", 120)
        wait_until(lambda: copied(database, 100), "the rows are there", 120)
        wait_until(lambda: task().get("lag") == 0, "all is committed")

        database.run("DROP TABLE copies")
        worker.ask("PUT", f"/connectors/{name}/config",
                   {**sink(scene.name, database.url), **plain, "auto.create": "false"})  # fmt: skip
        send(bootstrap, f"{scene.name}-orders", b'{"id": 101}')
        wait_until(lambda: task().get("restarts", 0) >= 1, "it was restarted")
        for _ in range(50):
            assert "copies" in shown()
        worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
        for _ in range(50):
            assert "copies" in shown()
        database.run("CREATE TABLE copies (id BIGINT PRIMARY KEY)")
        wait_until(lambda: copied(database, 1), "it goes on", 120)
        wait_until(lambda: shown() == "None None", "the error is over")
        assert worker.stop() == 0


def test_duckdb_files_are_read_and_written_by_processes_in_turn(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, shared_file: TestDatabase,
    shared_target: TestDatabase,
) -> None:  # fmt: skip
    scene = Scene(moldau_broker, moldau_topic, {})
    slowly = {"poll.interval.ms": "1000", "table.poll.interval.ms": "500"}
    often = {"connection.backoff.ms": "100", "connection.attempts": "100"}
    shared_file.run(TABLE)
    shared_file.insert("orders", rows(1, 101))
    with scene.worker() as worker:
        worker.create("from", {**source(scene.name, shared_file.url), **slowly, **often})
        worker.create(f"{scene.name}-to", {**sink(scene.name, shared_target.url), **often})
        wait_until(lambda: copied(shared_target, 100), "the first rows are there")

        insert = lambda: shared_file.insert("orders", rows(101, 201))  # noqa: E731
        wait_until(lambda: succeeds(insert), "another process can write meanwhile")
        wait_until(lambda: copied(shared_target, 200), "the next rows are there")

        worker.wait_for("from", "RUNNING", "RUNNING")
        worker.wait_for(f"{scene.name}-to", "RUNNING", "RUNNING")
        assert worker.stop() == 0
    assert shared_target.rows("SELECT * FROM copies ORDER BY id") == rows(1, 201)
