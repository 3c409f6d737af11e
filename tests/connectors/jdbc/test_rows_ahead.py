"""PostgreSQL's rows are fetched while the batch before them is used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from moldau.connect.api import ConnectError
from tests.connectors.jdbc.tasks import drained, source_task
from tests.databases import TestDatabase, database, postgresql_server

__all__ = ["database", "postgresql_server"]

pytestmark = pytest.mark.databases("postgresql")

TABLE = "CREATE TABLE numbers (n INT PRIMARY KEY)"
SETTINGS = {"mode": "bulk", "topic.prefix": "numbers", "batch.max.rows": "5"}


def query(database: TestDatabase, text: str, rows: int = 12) -> dict[str, str]:
    database.run(TABLE)
    database.run(f"INSERT INTO numbers SELECT generate_series(0, {rows - 1})")
    return {**SETTINGS, "query": text}


@pytest.mark.parametrize("rows", [4, 5, 10, 12])
def test_all_rows_come_in_order(database: TestDatabase, rows: int) -> None:
    task = source_task(database, **query(database, "SELECT n FROM numbers ORDER BY n", rows))

    found = [record.value["n"] for record in drained(task, 6)]
    task.stop()

    assert found[:rows] == list(range(rows))


def test_an_error_of_later_rows_comes_after_the_rows_before(database: TestDatabase) -> None:
    failing = "SELECT n, 1 / (7 - n) AS x FROM numbers"
    task = source_task(database, **query(database, failing))

    first = task.poll()
    assert first is not None
    assert [record.value["n"] for record in first] == [0, 1, 2, 3, 4]
    with pytest.raises(ConnectError, match="division by zero"):
        task.poll()
    task.stop()


def test_a_task_stops_while_rows_are_being_computed(database: TestDatabase) -> None:
    slow = "SELECT n, CASE WHEN n > 6 THEN pg_sleep(600)::text END AS x FROM numbers"
    task = source_task(database, **query(database, slow))
    assert task.poll() is not None

    begun = time.monotonic()
    task.stop()

    assert time.monotonic() - begun < 60


def test_a_task_stops_though_its_fetch_reaches_the_server_after_the_request_to_cancel_it(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "SELECT n, CASE WHEN n > 6 THEN pg_sleep(20)::text END AS x FROM numbers"
    task = source_task(database, **query(database, slow))
    fetch: Callable[..., list[Any]] = psycopg.ServerCursor.fetchmany
    cancel: Callable[[Any], None] = psycopg.Connection.cancel
    is_asked = threading.Event()

    def fetchmany(cursor: Any, size: int = 0) -> list[Any]:
        if threading.current_thread() is not threading.main_thread():
            is_asked.wait()
        return fetch(cursor, size)

    def cancel_and_tell(connection: Any) -> None:
        cancel(connection)
        is_asked.set()

    monkeypatch.setattr(psycopg.ServerCursor, "fetchmany", fetchmany)
    monkeypatch.setattr(psycopg.Connection, "cancel", cancel_and_tell)
    assert task.poll() is not None

    begun = time.monotonic()
    task.stop()

    assert time.monotonic() - begun < 30


def test_an_error_of_another_kind_skips_no_rows(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = source_task(database, **query(database, "SELECT n FROM numbers ORDER BY n", 30))
    fetch: Callable[..., list[Any]] = psycopg.ServerCursor.fetchmany
    calls = []

    def fetchmany(cursor: Any, size: int = 0) -> list[Any]:
        calls.append(size)
        rows = fetch(cursor, size)
        if len(calls) == 2:
            raise ZeroDivisionError("a fault in a loader")
        return rows

    monkeypatch.setattr(psycopg.ServerCursor, "fetchmany", fetchmany)
    first = task.poll()
    assert first is not None
    assert [record.value["n"] for record in first] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        task.poll()
    task.stop()


def test_a_bad_row_leaves_no_rows_on_their_way(database: TestDatabase) -> None:
    text = "SELECT n, CASE WHEN n > 6 THEN pg_sleep(600)::text END AS x FROM numbers"
    task = source_task(database, **query(database, text), **{"key.fields": "missing"})

    with pytest.raises(ConnectError, match="no column missing"):
        task.poll()

    assert "rows ahead" not in {thread.name for thread in threading.enumerate()}
    task.stop()
