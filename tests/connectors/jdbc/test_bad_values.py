"""A value that a column does not take costs its own record, whatever the type and the statement."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connect.api import DataError, Schema
from moldau.connect.data import BOOLEAN, INT64, STRING
from tests.connectors.contexts import Reporter, SinkContext, record, struct
from tests.connectors.jdbc.tasks import sink_task
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

GOOD = {
    "an_integer": ("INTEGER", 7),
    "a_bigint": ("BIGINT", 7),
    "a_number": ("DECIMAL(6,2)", 7.5),
    "a_double": ("DOUBLE PRECISION", 7.5),
    "a_boolean": ("BOOLEAN", True),
    "a_text": ("VARCHAR(5)", "seven"),
    "a_day": ("DATE", "2024-05-01"),
    "a_moment": ("TIMESTAMP", "2024-05-01T12:30:00"),
    "a_blob": ("BLOB", "AAH/"),
}
BAD: list[Any] = [
    True,
    2**63,
    -1.5,
    float("nan"),
    "word",
    "nul \0 in it",
    "alone \ud800",
    "2024-02-30",
    [5],
    [],
    {"a": 1},
    b"\xff",
]
KEYED = {"pk.mode": "record_value", "pk.fields": "id"}
UPSERT = {"insert.mode": "upsert", **KEYED}
MODES = {"insert": {}, "upsert": UPSERT, "update": {**UPSERT, "insert.mode": "update"}}


def make_table(database: TestDatabase) -> None:
    blob = "BYTEA" if database.kind == "postgresql" else "BLOB"
    types = ", ".join(f"{name} {declared}" for name, (declared, _) in GOOD.items())
    types = types.replace("BLOB", blob)
    database.run(f"CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, {types})")


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        *((mode, 4) for mode in MODES),
        pytest.param("upsert", 40, marks=pytest.mark.databases("postgresql")),
    ],
)
def test_a_bad_json_value_costs_one_record(database: TestDatabase, mode: str, count: int) -> None:
    values = {name: value for name, (_, value) in GOOD.items()}
    puts = [(column, bad) for column in values for bad in BAD]
    reporter = Reporter()
    make_table(database)
    if mode == "update":
        database.insert("orders (id)", [(number,) for number in range(count * len(puts))])
    task = sink_task(database, SinkContext(reporter), **MODES[mode])

    expected = set[int]()
    for first, (column, bad) in zip(range(0, count * len(puts), count), puts, strict=True):
        ids = range(first, first + count)
        records = [record({"id": number, **values}, offset=number) for number in ids]
        records[count // 2].value[column] = bad
        task.put(records)
        expected |= {*ids} - {first + count // 2}
    task.stop()

    reported = {each.offset for each, _ in reporter.reports}
    found = database.rows("SELECT id FROM orders WHERE an_integer = 7 AND a_text = 'seven'")
    assert expected <= {row[0] for row in found}
    assert reported
    assert not reported & expected
    assert all(isinstance(error, DataError) for _, error in reporter.reports)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("count", [4, 40])
@pytest.mark.parametrize("mode", MODES)
def test_a_value_of_another_schema_costs_its_record(
    database: TestDatabase, mode: str, count: int
) -> None:
    make_table(database)
    database.insert("orders (id)", [(number,) for number in range(count)])
    settings = MODES[mode] if mode != "insert" else UPSERT
    good = Schema.struct({"id": INT64, "an_integer": INT64})
    other = Schema.struct({"id": INT64, "an_integer": BOOLEAN})
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **settings)

    records = [record(struct(good, number, 7), offset=number) for number in range(count)]
    records[2] = record(struct(other, 2, True), offset=2)
    task.put(records)
    task.stop()

    assert database.rows("SELECT count(*) FROM orders WHERE an_integer = 7") == [(count - 1,)]
    assert [each.offset for each, _ in reporter.reports] == [2]


@pytest.mark.databases("postgresql")
def test_a_key_of_another_type_costs_its_record(database: TestDatabase) -> None:
    make_table(database)
    database.insert("orders (id)", [(1,), (2,)])
    settings = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **settings, **{"delete.enabled": "true"})

    task.put([record(None, key=key, offset=n) for n, key in enumerate([1, True, 2])])
    task.stop()

    assert database.rows("SELECT id FROM orders") == []
    assert [each.offset for each, _ in reporter.reports] == [1]


@pytest.mark.databases("postgresql")
def test_a_row_that_a_trigger_or_an_index_rejects_costs_its_record(database: TestDatabase) -> None:
    database.run(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)",
        "CREATE FUNCTION check_name() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.name = 'bad' THEN RAISE EXCEPTION 'a bad name'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER checks BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION check_name()",
        "CREATE INDEX ON orders (name)",
    )
    schema = Schema.struct({"id": INT64, "name": STRING})
    unlike = "".join(map(chr, range(0x4E00, 0x4E00 + 9000)))
    rows = [(1, "a"), (2, "bad"), (3, "b"), (4, unlike), (5, "d")]
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter))

    task.put([record(struct(schema, *row), offset=n) for n, row in enumerate(rows)])
    task.stop()

    assert database.rows("SELECT id FROM orders ORDER BY id") == [(1,), (3,), (5,)]
    assert [each.offset for each, _ in reporter.reports] == [1, 3]
