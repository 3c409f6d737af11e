"""Columns that come from a topic as such: what is written of them, and what is left to `put`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from moldau.connect.api import (
    RetriableError,
    Schema,
    SinkColumns,
    SinkRecord,
    Struct,
    StructColumns,
)
from moldau.connect.data import INT64, OPTIONAL_INT64, OPTIONAL_STRING, STRING, TIMESTAMP
from tests.connectors.contexts import TOPIC, Reporter, SinkContext, at, committed
from tests.connectors.jdbc.tasks import sink_task
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

ORDER = Schema.struct(
    {"id": INT64, "name": OPTIONAL_STRING, "size": OPTIONAL_INT64, "moment": TIMESTAMP.optionally()}
)
KEY = Schema.struct({"key": INT64})
COLUMNS = "id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), size INT, moment TIMESTAMP"
TABLE = f"CREATE TABLE orders ({COLUMNS})"
MOMENT = datetime(2024, 5, 1, 12, 30, 0, 250_000, UTC)
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
COUNT = 50


def part(rows: Sequence[Sequence[Any]], keys: Sequence[Any] = (), start: int = 0) -> SinkColumns:
    """Consecutive records with these rows, from an offset on."""
    keys = keys or [None] * len(rows)
    first_key = keys[0]
    key_schema = first_key.schema if isinstance(first_key, Struct) else None
    if isinstance(first_key, str):
        key_schema = STRING
    value = Struct.of_row(ORDER, list(rows[0]))
    first = SinkRecord(TOPIC, 0, key_schema, first_key, ORDER, value, start)
    columns = StructColumns(ORDER, [list(each) for each in zip(*rows, strict=True)])
    return SinkColumns(TOPIC, 0, range(start, start + len(rows)), keys, columns, first)


def orders(count: int = COUNT, **changed: Any) -> list[list[Any]]:
    """Rows; `at_N` is what row N has as its size."""
    return [
        [n, None if n % 7 == 0 else f"name {n}", changed.get(f"at_{n}", n), MOMENT]
        for n in range(count)
    ]


def written(database: TestDatabase) -> list[int]:
    return [row[0] for row in database.rows("SELECT id FROM orders ORDER BY id")]


def test_columns_are_written_in_batches(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database, **{"batch.size": "20"})

    assert task.put_columns(part(orders())) == COUNT
    task.stop()

    assert database.rows("SELECT id, name, size FROM orders ORDER BY id") == [
        (n, None if n % 7 == 0 else f"name {n}", n) for n in range(COUNT)
    ]
    assert len(database.rows("SELECT DISTINCT moment FROM orders")) == 1


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("mode", [{}, UPSERT], ids=["insert", "upsert"])
def test_a_view_takes_columns_and_records(database: TestDatabase, mode: dict[str, str]) -> None:
    database.run(f"CREATE TABLE kept ({COLUMNS})")
    database.run("CREATE VIEW orders AS SELECT id, name, size, moment FROM kept")
    task = sink_task(database, **mode, **{"batch.size": "30"})

    assert task.put_columns(part(orders()[:40])) == 40
    rest = orders()[40:]
    task.put(
        [SinkRecord(TOPIC, 0, None, None, ORDER, Struct.of_row(ORDER, row), 40) for row in rest]
    )
    task.stop()

    assert written(database) == list(range(COUNT))


def test_a_table_is_created_and_evolves_for_columns(database: TestDatabase) -> None:
    database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
    task = sink_task(database, **{**UPSERT, "auto.create": "true", "auto.evolve": "true"})

    assert task.put_columns(part(orders())) == COUNT
    task.stop()

    assert len(database.rows("SELECT name, size, moment FROM orders")) == COUNT


def test_the_last_row_of_a_key_stays(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database, **UPSERT)
    again = [[n, "again", None, MOMENT] for n in range(25)]

    assert task.put_columns(part([*orders(), *again])) == COUNT + 25
    task.stop()

    assert database.rows("SELECT count(*) FROM orders WHERE name = 'again'") == [(25,)]
    assert written(database) == list(range(COUNT))


@pytest.mark.databases("postgresql", "mariadb")
def test_rows_before_the_batch_of_a_bad_value_are_written(database: TestDatabase) -> None:
    database.run(TABLE)
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **{"batch.size": "20"})
    bad = orders(at_45=2**40)

    count = task.put_columns(part(bad))
    rest = [
        SinkRecord(TOPIC, 0, None, None, ORDER, Struct.of_row(ORDER, row), offset)
        for offset, row in enumerate(bad)
    ][count:]
    task.put(rest)
    task.stop()

    assert count == 40
    assert written(database) == [n for n in range(COUNT) if n != 45]
    assert [record.original_offset for record, _ in reporter.reports] == [45]


KEYS: list[tuple[str, dict[str, str], list[Any], list[Any]]] = [
    (
        "key BIGINT",
        {"pk.mode": "record_key"},
        [Struct.of_row(KEY, [n + 100]) for n in range(COUNT)],
        [(n + 100,) for n in range(COUNT)],
    ),
    (
        "key TEXT",
        {"pk.mode": "record_key", "pk.fields": "key"},
        [f"key {n}" for n in range(COUNT)],
        [(f"key {n}",) for n in range(COUNT)],
    ),
    (
        "t TEXT, p INT, o BIGINT",
        {"pk.mode": "kafka", "pk.fields": "t,p,o"},
        [None] * COUNT,
        [(TOPIC, 0, n) for n in range(COUNT)],
    ),
]


@pytest.mark.databases("postgresql", "sqlite")
@pytest.mark.parametrize(("columns", "settings", "keys", "wanted"), KEYS)
def test_keys_are_columns(
    database: TestDatabase, columns: str, settings: dict[str, str], keys: list[Any],
    wanted: list[Any],
) -> None:  # fmt: skip
    database.run(f"{TABLE[:-1]}, {columns})")
    task = sink_task(database, **settings)

    assert task.put_columns(part(orders(), keys)) == COUNT
    task.stop()

    names = ", ".join(each.split()[0] for each in columns.split(", "))
    assert database.rows(f"SELECT {names} FROM orders ORDER BY id") == wanted


def plain(rows: Sequence[Sequence[Any]], start: int = 0) -> SinkColumns:
    """The same as JSON without a schema: times are milliseconds."""
    names = tuple(ORDER.positions)
    columns = [list(each) for each in zip(*rows, strict=True)]
    columns[3] = [int(each.timestamp() * 1000) for each in columns[3]]
    value = {name: column[0] for name, column in zip(names, columns, strict=True)}
    first = SinkRecord(TOPIC, 0, None, None, None, value, start)
    offsets = range(start, start + len(rows))
    return SinkColumns(TOPIC, 0, offsets, [None] * len(rows), StructColumns(None, columns), first)


def test_dicts_are_written_once_their_shape_is_known(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database, **UPSERT)
    few = plain(orders(2))

    assert task.put_columns(few) == 0
    task.put([few.first])
    assert task.put_columns(plain(orders())) == COUNT
    task.stop()

    assert database.rows("SELECT id, name, size FROM orders ORDER BY id") == [
        (n, None if n % 7 == 0 else f"name {n}", n) for n in range(COUNT)
    ]
    assert len(database.rows("SELECT DISTINCT moment FROM orders")) == 1


@pytest.mark.databases("postgresql")
def test_keys_of_two_kinds_are_left_to_records(database: TestDatabase) -> None:
    database.run(f"{TABLE[:-1]}, key TEXT)")
    task = sink_task(database, **{"pk.mode": "record_key", "pk.fields": "key"})
    keys = [f"key {n}" if n else 7 for n in range(COUNT)]

    assert task.put_columns(part(orders(), list(reversed(keys)))) == 0
    task.stop()


def test_offsets_are_stored_with_the_columns(database: TestDatabase) -> None:
    database.run(TABLE)
    settings = {"exactly.once": "true", "batch.size": "20"}
    task = sink_task(database, **settings)
    task.open([at(TOPIC, 0)])
    assert task.put_columns(part(orders())) == COUNT
    assert task.pre_commit({at(TOPIC, 0): committed(COUNT)}) == {at(TOPIC, 0): committed(COUNT)}
    task.stop()

    again = sink_task(database, **settings)
    again.open([at(TOPIC, 0)])
    assert again.put_columns(part(orders())) == 0  # some are stored: records are chosen one by one
    again.stop()

    assert written(database) == list(range(COUNT))


@pytest.mark.databases("postgresql")
def test_a_lost_server_asks_for_the_same_columns_again(database: TestDatabase) -> None:
    database.run(TABLE)
    context = SinkContext()
    task = sink_task(database, context)
    assert task.put_columns(part(orders(20))) == 20
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    more = part([[n + 20, *row[1:]] for n, row in enumerate(orders(20))], start=20)

    with pytest.raises(RetriableError):
        task.put_columns(more)
    assert context.timeouts
    assert task.put_columns(more) == 20
    task.stop()

    assert written(database) == list(range(40))


def test_a_row_without_its_key_is_left_to_records(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database, **{**UPSERT, "batch.size": "20"})
    rows: list[list[Any]] = orders()
    rows[30] = [None, "no key", 1, MOMENT]

    assert task.put_columns(part(rows)) == 20
    task.stop()

    assert written(database) == list(range(20))


FAILS_ONCE = (
    "CREATE SEQUENCE tries",
    """
    CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.id = 30 AND nextval('tries') = 1 THEN
            RAISE EXCEPTION 'busy' USING ERRCODE = '40001';
        END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER busy BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION fail_once()",
)
"""Makes the first write of row 30 fail, with an error that a retry may solve."""


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("has_schema", [True, False])
def test_a_retry_goes_on_after_the_last_batch_that_was_written(
    database: TestDatabase, has_schema: bool
) -> None:
    database.run(TABLE.replace(" PRIMARY KEY", ""))
    task = sink_task(database, **{"batch.size": "20"})
    rows = orders()
    if has_schema:
        columns = part(rows)
    else:
        columns = plain(rows)
        task.put(records_of(columns, 0, 1))  # a shape without a schema is known from records
        database.run("DELETE FROM orders")
    for statement in FAILS_ONCE:
        database.run(statement)

    with pytest.raises(RetriableError):
        task.put_columns(columns)
    assert written(database) == list(range(20))
    count = task.put_columns(columns)
    assert count == (COUNT if has_schema else 20)
    task.put(records_of(columns, count, COUNT))
    task.stop()

    assert written(database) == list(range(COUNT))


def records_of(part: SinkColumns, start: int, end: int) -> list[SinkRecord]:
    """Some of these records, as the worker makes them for `put`."""
    names = list(ORDER.positions)
    found = []
    for offset in range(start, end):
        row = [column[offset] for column in part.value.columns]
        value = dict(zip(names, row, strict=True))
        made = Struct.of_row(ORDER, row) if part.value.schema else value
        found.append(SinkRecord(TOPIC, 0, None, None, part.value.schema, made, offset))
    return found


@pytest.mark.databases("postgresql")
def test_a_retry_of_records_goes_on_after_the_last_batch_that_was_written(
    database: TestDatabase,
) -> None:
    database.run(TABLE.replace(" PRIMARY KEY", ""))
    for statement in FAILS_ONCE:
        database.run(statement)
    task = sink_task(database, **{"batch.size": "20"})
    records = records_of(part(orders()), 0, COUNT)

    with pytest.raises(RetriableError):
        task.put(records)
    assert written(database) == list(range(20))
    task.put(records)
    task.put(records_of(part(orders()), 0, 1))  # the next call begins anew
    task.stop()

    assert written(database) == sorted([*range(COUNT), 0])
