"""Batches that are written by columns come to the same rows as records one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.api import Schema, SinkRecord, Struct
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
)
from moldau.connectors.jdbc.copy_data import copy_data
from moldau.connectors.jdbc.writing import CopyWriter
from tests.connectors.contexts import Reporter, SinkContext, record, struct
from tests.connectors.jdbc.tasks import sink_task
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

INT8_OID, TEXT_OID, FLOAT8_OID, TIMESTAMP_OID, NUMERIC_OID = 20, 25, 701, 1114, 1700
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
MOMENT = datetime(2024, 5, 1, 12, 30, 0, 250_001, UTC)
WIDE = Schema.struct(
    {
        "id": INT64,
        "name": OPTIONAL_STRING,
        "small": INT16.optionally(),
        "middle": INT32,
        "ratio": FLOAT64.optionally(),
        "rough": FLOAT32,
        "paid": BOOLEAN,
        "data": BYTES.optionally(),
        "day": DATE,
        "moment": TIMESTAMP.optionally(),
        "note": STRING.replace(default="none"),
    }
)


class Watched:
    """Counts what a writer has written by columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: list[bool] = []
        original = CopyWriter.write_columns

        def counted(writer: CopyWriter, *given: Any) -> bool:
            self.counts.append(original(writer, *given))
            return self.counts[-1]

        monkeypatch.setattr(CopyWriter, "write_columns", counted)


def wide(number: int) -> Struct:
    is_odd = number % 2 == 1
    return struct(
        WIDE, number, None if is_odd else f"n\t\u00e9\\{number}", -number if is_odd else None,
        number, None if is_odd else number / 7, 0.5, is_odd, None if is_odd else bytes([number]),
        date(2024, 5, 1 + number % 20), None if is_odd else MOMENT, None if is_odd else "x",
    )  # fmt: skip


def twice(
    database: TestDatabase, records: list[SinkRecord], query: str, **settings: str
) -> tuple[list[Any], list[Any]]:
    """The rows of a table after whole batches, and after batches of one record."""
    found = []
    for size in ("3000", "1"):
        database.run("DROP TABLE IF EXISTS orders")
        task = sink_task(database, **settings, **{"auto.create": "true", "batch.size": size})
        task.put(records[:1])
        task.put(records[1:])
        task.stop()
        found.append(database.rows(query))
    return found[0], found[1]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["insert", "upsert"])
def test_every_type_arrives_as_it_does_record_by_record(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    watched = Watched(monkeypatch)
    records = [record(wide(number), offset=number) for number in range(61)]

    whole, single = twice(database, records, "SELECT * FROM orders ORDER BY id", **settings)

    assert whole == single
    assert len(whole) == 61
    assert whole[1][1] is None
    assert whole[1][-1] == "none"
    assert watched.counts.count(True) == 1


@pytest.mark.databases("postgresql")
def test_the_last_write_of_each_key_counts(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    schema = Schema.struct({"id": INT64, "name": OPTIONAL_STRING})
    records = [record(struct(schema, n * 7 % 30, f"v{n}"), offset=n) for n in range(95)]

    whole, single = twice(database, records, "SELECT * FROM orders ORDER BY id", **UPSERT)

    assert whole == single
    assert len(whole) == 30
    assert watched.counts.count(True) == 1


@pytest.mark.databases("postgresql")
def test_a_bad_value_is_found_among_the_columns(database: TestDatabase) -> None:
    schema = Schema.struct({"id": INT64, "name": STRING})
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **{**UPSERT, "auto.create": "true"})
    task.put([record(struct(schema, 0, "first"))])

    bad = {30: "with a zero \0 byte", 41: 7}
    task.put([record(struct(schema, n, bad.get(n, f"v{n}")), offset=n) for n in range(1, 60)])
    task.stop()

    assert [each.original_offset for each, _ in reporter.reports] == [30]
    rows = dict(database.rows("SELECT id, name FROM orders"))
    assert rows.keys() == set(range(60)) - {30}
    assert rows[41] == "7"


@pytest.mark.databases("postgresql")
def test_a_type_without_a_plain_binary_form_is_written_as_text(database: TestDatabase) -> None:
    database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, size NUMERIC)")
    schema = Schema.struct({"id": INT64, "size": INT64})
    task = sink_task(database, **UPSERT)
    for start in range(0, 150, 30):
        task.put([record(struct(schema, n, n)) for n in range(start, start + 30)])
    task.stop()

    assert database.rows("SELECT COUNT(*), SUM(size) FROM orders") == [(150, sum(range(150)))]


@pytest.mark.databases("postgresql")
def test_a_type_that_was_changed_meanwhile_costs_no_record(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, size BIGINT)")
    schema = Schema.struct({"id": INT64, "size": INT64})
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter))
    task.put([record(struct(schema, -1, 1))])
    for start in range(0, 150, 30):
        if start == 60:
            database.run("ALTER TABLE orders ALTER COLUMN size TYPE INTEGER")
        task.put([record(struct(schema, n, n)) for n in range(start, start + 30)])
    task.stop()

    assert database.rows("SELECT COUNT(*) FROM orders") == [(151,)]
    assert reporter.reports == []
    assert watched.counts == [True] * 4


@pytest.mark.parametrize(
    ("column", "oid"),
    [
        ([1, True], INT8_OID),
        ([1, 2**63], INT8_OID),
        ([1.5, 1], FLOAT8_OID),
        (["a", "\ud800"], TEXT_OID),
        ([MOMENT, MOMENT.replace(tzinfo=None)], TIMESTAMP_OID),
        ([1], NUMERIC_OID),
    ],
)
def test_what_is_unusual_is_left_to_the_driver(column: list[Any], oid: int) -> None:
    assert copy_data([column], [oid]) is None


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.binary()), min_size=1))
def test_rows_are_packed_as_postgresql_reads_them(rows: list[tuple[int, bytes | None]]) -> None:
    found = copy_data(list(zip(*rows, strict=True)), [INT8_OID, 17])

    assert found is not None
    assert len(found) == len(rows)
    assert unpacked(found.data) == rows


def unpacked(data: bytes) -> list[tuple[int, bytes | None]]:
    """By the description of the format in PostgreSQL's manual."""
    assert data[:19] == b"PGCOPY\n\xff\r\n\0" + bytes(8)
    at, rows = 19, []
    while (count := int.from_bytes(data[at : at + 2], "big", signed=True)) != -1:
        at += 2
        row: list[bytes | None] = []
        for _ in range(count):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            row.append(None if size < 0 else data[at : at + size])
            at += max(0, size)
        number, value = row
        assert number is not None
        rows.append((int.from_bytes(number, "big", signed=True), value))
    assert data[at:] == b"\xff\xff"
    return rows
