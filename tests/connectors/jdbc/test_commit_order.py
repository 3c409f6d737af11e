"""Transactions that commit in another order than they took ids and times, beside a source."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.connectors.jdbc.source_task import JdbcSourceTask
from tests.connectors.jdbc.tasks import drained, source_task, values
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

pytestmark = pytest.mark.databases("postgresql", "mariadb")

COUNT = 200
OPEN = 20
POLL_EVERY = 8
CREATE = {
    "postgresql": "CREATE TABLE item (id BIGSERIAL PRIMARY KEY, n INT NOT NULL, "
    "changed TIMESTAMP NOT NULL DEFAULT now())",
    "mariadb": "CREATE TABLE item (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, "
    "changed DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
}
INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
TIMESTAMP = {"mode": "timestamp", "timestamp.column.name": "changed"}
BOTH = {**TIMESTAMP, **INCREMENTING, "mode": "timestamp+incrementing"}
QUERY = {**INCREMENTING, "query": "SELECT n, id FROM item", "topic.prefix": "items"}
SOON = {"poll.interval.ms": "0"}
MODES = pytest.mark.parametrize(
    "mode", [INCREMENTING, TIMESTAMP, BOTH, QUERY], ids=["number", "time", "both", "query"]
)


@contextmanager
def begun(database: TestDatabase) -> Iterator[sa.Connection]:
    """A transaction that has read and not written yet."""
    with database.session() as session:
        session.exec_driver_sql("SELECT COUNT(*) FROM item").fetchall()
        yield session


def insert(session: sa.Connection, number: int) -> None:
    session.exec_driver_sql(f"INSERT INTO item (n) VALUES ({number})")


def read_beside_writers(database: TestDatabase, task: JdbcSourceTask) -> list[int]:
    """Write COUNT rows in transactions of random length, read now and then, and at the end."""
    chance = random.Random(20)
    found: list[int] = []
    open_now: list[tuple[sa.Connection, int]] = []
    reading: list[sa.Connection] = []
    written = step = 0
    while written < COUNT or open_now:
        step += 1
        if written < COUNT and len(open_now) < OPEN and chance.random() < 0.6:
            if not reading:
                reading = [database.session() for _ in range(3)]
                for each in reading:
                    each.exec_driver_sql("SELECT 1").fetchall()
            session = reading.pop()
            insert(session, written)
            open_now.append((session, written))
            written += 1
        elif open_now:
            session, _ = open_now.pop(chance.randrange(len(open_now)))
            session.commit()
            session.close()
        if step % POLL_EVERY == 0:
            found += [n for (n,) in values(task.poll() or [], "n")]
    for each in reading:
        each.close()
    for _ in range(3):
        found += [n for (n,) in values(drained(task), "n")]
    return found


@MODES
def test_rows_that_commit_in_random_order_come_once(
    database: TestDatabase, mode: dict[str, str]
) -> None:
    database.run(CREATE[database.kind])
    task = source_task(database, **{**SOON, **mode})

    found = read_beside_writers(database, task)
    task.stop()

    assert sorted(found) == list(range(COUNT))


@MODES
def test_rows_that_commit_late_are_lost_where_a_wait_of_0_accepts_it(
    database: TestDatabase, mode: dict[str, str]
) -> None:
    database.run(CREATE[database.kind])
    task = source_task(database, **{**SOON, **mode, "late.commits.wait.ms": "0"})

    found = read_beside_writers(database, task)
    task.stop()

    assert set(found) < set(range(COUNT))


@MODES
def test_a_row_is_read_at_the_next_poll_when_nothing_is_open(
    database: TestDatabase, mode: dict[str, str]
) -> None:
    database.run(CREATE[database.kind])
    task = source_task(database, **{**SOON, **mode})

    found: list[Any] = []
    for number in range(3):
        database.run(f"INSERT INTO item (n) VALUES ({number})")
        found.append(values(task.poll() or [], "n"))
    task.stop()

    assert found == [[(0,)], [(1,)], [(2,)]]


@MODES
def test_a_transaction_that_stays_open_holds_rows_back_for_a_bounded_time(
    database: TestDatabase, mode: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    database.run(CREATE[database.kind])
    settings = {**mode, "late.commits.wait.ms": "60000", "poll.interval.ms": "20000"}
    task = source_task(database, **settings)
    with begun(database) as session, caplog.at_level(logging.WARNING):
        insert(session, 1)
        database.run("INSERT INTO item (n) VALUES (2)")
        held = drained(task, 1)
        found = [values(task.poll() or [], "n") for _ in range(200)]
    task.stop()

    assert held == []
    assert [each for each in found if each] == [[(2,)]]
    assert "pid" in caplog.text
    assert "late.commits.wait.ms=60000" in caplog.text


@pytest.mark.databases("mariadb")
def test_a_second_is_read_when_it_is_over_where_times_are_whole_seconds(
    database: TestDatabase,
) -> None:
    database.run(
        "CREATE TABLE item (n INT PRIMARY KEY, changed TIMESTAMP NOT NULL "
        "DEFAULT CURRENT_TIMESTAMP)"
    )
    task = source_task(database, **SOON, **TIMESTAMP)
    found = []
    for number in range(40):
        database.run(f"INSERT INTO item (n) VALUES ({number})")
        found += drained(task, 1)
    database.run("DO SLEEP(1.1)")
    found += drained(task)
    task.stop()

    assert sorted(values(found, "n")) == [(number,) for number in range(40)]


@pytest.mark.databases("mariadb")
def test_a_user_without_the_right_to_see_transactions_reads_on_with_a_warning(
    database: TestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    database.run(
        CREATE[database.kind],
        "INSERT INTO item (n) VALUES (1)",
        "CREATE OR REPLACE USER blind@localhost IDENTIFIED BY 'x'",
        "GRANT SELECT ON *.* TO blind@localhost",
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        task = source_task(
            database, **SOON, **INCREMENTING,
            **{"connection.user": "blind", "connection.password": "x"},
        )  # fmt: skip
        found = drained(task)
        task.stop()

    assert values(found, "n") == [(1,)]
    assert "GRANT PROCESS" in caplog.text


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements of all connections, without the query that reads rows."""
    found: list[str] = []

    def add(_: object, __: object, statement: str, *___: object) -> None:
        found.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", add)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", add)


def test_a_table_without_new_rows_costs_one_lookup_and_no_list_of_transactions(
    database: TestDatabase,
) -> None:
    database.run(CREATE[database.kind], "INSERT INTO item (n) VALUES (1)")
    task = source_task(database, **SOON, **INCREMENTING)

    with statements() as first:
        found = drained(task, 1)
    with statements() as idle:
        nothing = drained(task, 1)
    task.stop()

    assert values(found, "n") == [(1,)]
    assert len(first) == {"postgresql": 2, "mariadb": 4}[database.kind]
    assert nothing == []
    assert [each.rpartition(" ORDER BY ")[2].split()[1:] for each in idle] == [
        ["DESC", "LIMIT", "1"]
    ]


@pytest.mark.databases("mariadb")
def test_tables_that_are_due_together_share_a_list_of_transactions(database: TestDatabase) -> None:
    for name in ("a", "b", "c"):
        database.run(
            f"CREATE TABLE {name} (n INT, changed DATETIME(6) NOT NULL)",
            f"INSERT INTO {name} VALUES (1, '2024-05-01 12:00:00')",
        )
    task = source_task(database, **TIMESTAMP)

    with statements() as run:
        found = drained(task, 3)
    task.stop()

    assert sorted(record.topic for record in found) == ["db-a", "db-b", "db-c"]
    assert len([each for each in run if "innodb_trx" in each]) == 1


@pytest.mark.databases("postgresql")
def test_a_user_without_rights_on_others_sees_a_transaction_that_has_only_begun(
    database: TestDatabase,
) -> None:
    database.run(
        CREATE[database.kind],
        "DROP ROLE IF EXISTS plain",
        "CREATE ROLE plain LOGIN PASSWORD 'x'",
        "GRANT SELECT ON item TO plain",
    )
    login = {"connection.user": "plain", "connection.password": "x"}
    task = source_task(database, **SOON, **TIMESTAMP, **login)
    with begun(database) as session:
        database.run("INSERT INTO item (n) VALUES (2)")
        held = drained(task, 1)
        insert(session, 1)
        session.commit()
    found = drained(task)
    task.stop()
    database.run("DROP OWNED BY plain", "DROP ROLE plain")

    assert held == []
    assert values(found, "n") == [(1,), (2,)]
