"""The JDBC source on real databases: every row comes, in order, and goes on where it stopped."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.api import ConnectError, RetriableError
from moldau.connect.data import Logical, Type
from moldau.connectors.jdbc.source_task import JdbcSourceTask
from moldau.connectors.pace import Pace
from moldau.errors import ConfigError
from tests.connectors.contexts import Offsets, SourceContext
from tests.connectors.jdbc.tasks import drained, source_task, values
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

CREATE = (
    "CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(40), "
    "changed TIMESTAMP NOT NULL)"
)
NOON = "2024-05-01 12:00:00"


def item(number: int, changed: str = NOON) -> tuple[int, str, str]:
    return number, f"item {number}", changed


INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
TIMESTAMP = {"mode": "timestamp", "timestamp.column.name": "changed"}
BOTH = {**TIMESTAMP, **INCREMENTING, "mode": "timestamp+incrementing"}


def test_bulk_reads_a_table_again_after_each_interval(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(1), item(2)])
    task = source_task(database, **{"mode": "bulk", "poll.interval.ms": "60000"})

    first = drained(task)
    for _ in range(200):
        second = task.poll()
        if second:
            break
    task.stop()

    assert values(first, "id", "name") == [(1, "item 1"), (2, "item 2")]
    assert second is not None
    assert values(second, "id") == [(1,), (2,)]
    assert [record.source_offset for record in first] == [None, None]
    assert {record.topic for record in first} == {"db-item"}


def test_incrementing_reads_only_new_rows_in_batches(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(n) for n in range(1, 6)])
    task = source_task(database, **INCREMENTING, **{"batch.max.rows": "2", "poll.interval.ms": "0"})

    batches = [task.poll() for _ in range(3)]
    database.insert("item", [item(9)])
    later = drained(task, 1)
    task.stop()

    assert [len(batch or []) for batch in batches] == [2, 2, 1]
    assert values(later, "id") == [(9,)]
    assert later[0].source_offset == {"incrementing": 9}
    assert later[0].source_partition is not None
    assert later[0].source_partition["protocol"] == "1"
    assert later[0].source_partition["table"].split(".")[-1] == "item"


@pytest.mark.parametrize("mode", [INCREMENTING, TIMESTAMP, BOTH], ids=lambda m: m["mode"])
def test_a_new_task_goes_on_after_the_stored_offset(
    database: TestDatabase, mode: dict[str, str]
) -> None:
    database.run(CREATE)
    database.insert("item", [item(n, f"2024-05-01 12:00:0{n}") for n in (1, 2, 3)])
    offsets = Offsets()
    first = source_task(database, offsets, **mode)
    offsets.keep(drained(first))
    first.stop()
    database.insert("item", [item(4, "2024-05-01 12:00:04.25")])

    second = source_task(database, offsets, **mode)
    found = drained(second)
    second.stop()

    assert values(found, "id") == [(4,)]


def test_rows_of_one_instant_are_not_skipped_when_a_task_stops_among_them(
    database: TestDatabase,
) -> None:
    database.run(CREATE)
    database.insert("item", [item(1, "2024-05-01 11:00:00"), *(item(n) for n in (2, 3, 4, 5))])
    offsets = Offsets()
    first = source_task(database, offsets, **TIMESTAMP, **{"batch.max.rows": "3"})
    delivered = list(first.poll() or [])
    offsets.keep(delivered)
    first.stop()

    second = source_task(database, offsets, **TIMESTAMP)
    found = drained(second)
    second.stop()

    assert 1 <= len(delivered) < 5
    assert {row[0] for row in values(delivered + found, "id")} == {1, 2, 3, 4, 5}


def test_timestamp_and_incrementing_go_on_in_the_midst_of_an_instant(
    database: TestDatabase,
) -> None:
    database.run(CREATE)
    database.insert("item", [item(n) for n in range(1, 6)])
    offsets = Offsets()
    first = source_task(database, offsets, **BOTH, **{"batch.max.rows": "2"})
    offsets.keep(first.poll() or [])
    first.stop()

    second = source_task(database, offsets, **BOTH)
    found = drained(second)
    second.stop()

    assert values(found, "id") == [(3,), (4,), (5,)]
    assert found[-1].source_offset == {
        "incrementing": 5,
        "timestamp": 1_714_564_800_000,
        "timestamp_nanos": 0,
    }


def test_a_changed_row_comes_again_in_timestamp_mode(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(1), item(2)])
    task = source_task(database, **TIMESTAMP, **{"poll.interval.ms": "0"})
    drained(task, 1)

    database.run("UPDATE item SET name = 'new', changed = '2024-05-01 13:00:00.5' WHERE id = 1")
    found = drained(task, 1)
    task.stop()

    assert values(found, "id", "name") == [(1, "new")]


def test_rows_younger_than_the_delay_wait(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(1), item(2, "2037-01-01 00:00:00")])
    task = source_task(database, **TIMESTAMP, **{"timestamp.delay.interval.ms": "1000"})

    found = drained(task)
    task.stop()

    assert values(found, "id") == [(1,)]


def test_a_query_is_read_with_its_topic_and_the_types_of_its_columns(
    database: TestDatabase,
) -> None:
    database.run(CREATE)
    database.insert("item", [item(n) for n in (1, 2, 3)])
    query = "SELECT i.id AS id, i.name AS name, i.changed FROM item i"
    task = source_task(database, **INCREMENTING, query=query, **{"query.suffix": "LIMIT 2"})

    found = drained(task, 1)
    task.stop()

    assert values(found, "id", "name") == [(1, "item 1"), (2, "item 2")]
    assert {record.topic for record in found} == {"db-"}
    assert found[0].source_partition == {"query": "query"}
    assert found[0].value_schema is not None
    assert found[0].value_schema.field("name") is not None


def test_keys_come_from_named_columns_or_the_primary_key(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(1)])

    by_key = source_task(database, mode="bulk", **{"key.from.primary.key": "true"})
    by_fields = source_task(database, mode="bulk", **{"key.fields": "id,name"})
    (one,), (two,) = drained(by_key, 1), drained(by_fields, 1)
    by_key.stop()
    by_fields.stop()

    assert one.key == 1
    assert two.key.to_dict() == {"id": 1, "name": "item 1"}


@pytest.mark.databases("postgresql")
def test_postgresql_types_become_connect_types(database: TestDatabase) -> None:
    database.run(
        "CREATE TABLE every (a SMALLINT, b INT, c BIGINT, d REAL, e DOUBLE PRECISION, "
        "f NUMERIC(10,2), g TEXT, h BYTEA, i DATE, j TIME, k TIMESTAMP, l TIMESTAMPTZ, "
        "m BOOLEAN, n JSONB, o UUID, p INT[], q NUMERIC(9,0))",
        "INSERT INTO every VALUES (1, 2, 3, 1.5, 2.5, 12.30, 'x', '\\x00ff', '2024-05-01', "
        "'12:30:00', '2024-05-01 12:30:00.25', '2024-05-01 14:30:00+02', true, "
        "'{\"a\": [1]}', '11111111-2222-3333-4444-555555555555', '{1,NULL,3}', 7)",
    )
    task = source_task(database, mode="bulk", **{"numeric.mapping": "best_fit"})

    (found,) = drained(task, 1)
    task.stop()

    row: dict[str, Any] = found.value.to_dict()
    assert [row[name] for name in "abcdeg"] == [1, 2, 3, 1.5, 2.5, "x"]
    assert row["f"] == 12.3
    assert (row["h"], row["m"], row["p"], row["q"]) == (b"\x00\xff", True, [1, None, 3], 7)
    assert row["k"].isoformat() == "2024-05-01T12:30:00.250000+00:00"
    assert row["l"].isoformat() == "2024-05-01T12:30:00+00:00"
    assert (row["i"].isoformat(), row["j"].isoformat()) == ("2024-05-01", "12:30:00")
    assert (row["n"], row["o"]) == ('{"a": [1]}', "11111111-2222-3333-4444-555555555555")
    schema = found.value_schema
    assert schema is not None
    assert schema.name == "every"
    types = {field.name: field.schema.type for field in schema.fields}
    assert types["a"] is Type.INT16
    assert types["q"] is Type.INT32
    assert types["p"] is Type.ARRAY
    found.value.validate()


@pytest.mark.databases("postgresql")
def test_a_time_that_python_does_not_have_is_an_error_that_names_the_columns(
    database: TestDatabase,
) -> None:
    database.run(
        "CREATE TABLE t (id INT, since DATE, until TIMESTAMP)",
        "INSERT INTO t VALUES (1, '2024-05-01', 'infinity')",
    )
    task = source_task(database, mode="bulk")

    with pytest.raises(ConnectError, match=r"too large.*NULLIF.*since, until"):
        drained(task, 1)
    task.stop()


def test_a_decimal_keeps_its_digits(database: TestDatabase) -> None:
    declared = "DECIMAL_TEXT(30,10)" if database.kind == "sqlite" else "DECIMAL(30,10)"
    database.run(f"CREATE TABLE t (d {declared})")
    database.run("INSERT INTO t VALUES ('12345678901234567890.0123456789')")
    task = source_task(database, mode="bulk")

    (found,) = drained(task, 1)
    task.stop()

    assert found.value["d"] == Decimal("12345678901234567890.0123456789")
    assert found.value_schema is not None
    assert found.value_schema.fields[0].schema.logical is Logical.DECIMAL


def test_a_column_that_may_be_null_is_refused_for_the_mode(database: TestDatabase) -> None:
    database.run("CREATE TABLE t (id INTEGER, name VARCHAR(10))")

    with pytest.raises(ConnectError, match=r"validate\.non\.null=false"):
        source_task(database, **INCREMENTING)


def test_a_missing_incrementing_column_is_named(database: TestDatabase) -> None:
    database.run(CREATE)

    with pytest.raises(ConnectError, match=r"has no column nr -> .* the table has id, name"):
        source_task(database, mode="incrementing", **{"incrementing.column.name": "nr"})


@pytest.mark.databases("postgresql", "mariadb")
def test_the_auto_increment_column_is_found(database: TestDatabase) -> None:
    kind = "SERIAL" if database.kind == "postgresql" else "INT AUTO_INCREMENT"
    database.run(f"CREATE TABLE t (id {kind} PRIMARY KEY, name VARCHAR(10))")
    database.run("INSERT INTO t (name) VALUES ('a'), ('b')")
    task = source_task(database, mode="incrementing")

    found = drained(task, 1)
    task.stop()

    assert values(found, "id", "name") == [(1, "a"), (2, "b")]


def test_a_column_added_while_the_task_runs_appears(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(1)])
    task = source_task(database, **INCREMENTING, **{"poll.interval.ms": "0"})
    drained(task, 1)

    database.run("ALTER TABLE item ADD COLUMN size INTEGER")
    database.insert("item", [(*item(2), 7)])
    found = drained(task, 1)
    task.stop()

    assert values(found, "id", "size") == [(2, 7)]


@pytest.mark.databases("postgresql")
def test_a_lost_connection_is_retried_from_the_last_row_delivered(database: TestDatabase) -> None:
    database.run(CREATE)
    database.insert("item", [item(n) for n in range(1, 10)])
    settings = {"batch.max.rows": "2", "connection.backoff.ms": "0"}
    task = source_task(database, **INCREMENTING, **settings)
    first = list(task.poll() or [])
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    with pytest.raises(RetriableError, match="terminating connection"):  # noqa: PT012
        while True:  # the next rows may have been fetched before
            first += task.poll() or []
    found = drained(task)
    task.stop()

    assert values(first + found, "id") == [(n,) for n in range(1, 10)]


def test_settings_that_miss_are_all_named() -> None:
    task = JdbcSourceTask(Pace())
    task.initialize(SourceContext(Offsets()))

    with pytest.raises(ConfigError, match=r'"mode".*"topic\.prefix"'):
        task.start({"connection.url": "jdbc:sqlite:x.db"})


@pytest.mark.parametrize(
    "mode", ["incrementing", "timestamp", "timestamp+incrementing"], ids=lambda mode: str(mode)
)
def test_columns_of_a_mode_may_have_a_dot_in_their_names(database: TestDatabase, mode: str) -> None:
    """Beside a column that the part behind the dot would name."""
    mark = "`" if database.kind == "mariadb" else '"'
    number, changed = f"{mark}row.id{mark}", f"{mark}last.changed{mark}"
    database.run(
        f"CREATE TABLE dotted ({number} INTEGER NOT NULL PRIMARY KEY, id INTEGER, "
        f"{changed} TIMESTAMP NOT NULL, changed TIMESTAMP)"
    )
    rows = [(row, 0, f"2024-05-01 12:00:0{row}", "2000-01-01 00:00:00") for row in range(1, 5)]
    database.insert("dotted", rows[:3])
    settings = {
        "mode": mode,
        **({"incrementing.column.name": "row.id"} if "incrementing" in mode else {}),
        **({"timestamp.column.name": "last.changed"} if "timestamp" in mode else {}),
    }
    offsets = Offsets()
    task = source_task(database, offsets, **settings)
    offsets.keep(drained(task))
    task.stop()
    database.insert("dotted", rows[3:])

    again = source_task(database, offsets, **settings)
    found = drained(again)
    again.stop()

    assert values(found, "row.id") == [(4,)]
