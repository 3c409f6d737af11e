"""Queries, offsets and records of a source, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.api import SourceRecord
from moldau.connect.errors import DataError
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.dialects import dialect_of
from moldau.connectors.jdbc.layout import Mapping, RowLayout, instant_ns
from moldau.connectors.jdbc.progress import BadOffset, ReadProgress, from_offset, known_partitions
from moldau.connectors.jdbc.query import Criteria, Mode, build_select
from moldau.connectors.jdbc.reading import Route, TableCursor
from moldau.connectors.jdbc.selection import divided, selected, tables_from_text, tables_to_text
from moldau.connectors.jdbc.source_settings import SourceConfig

SOURCE = "SELECT * FROM t"
SQLITE = dialect_of("duckdb")
START = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (Mode.BULK, ""),
        (Mode.INCREMENTING, ' WHERE "id" > ? ORDER BY "id" ASC'),
        (Mode.TIMESTAMP,
         ' WHERE COALESCE("a", "b") > ? AND COALESCE("a", "b") < ?'
         ' ORDER BY COALESCE("a", "b") ASC'),
        (Mode.TIMESTAMP_INCREMENTING,
         ' WHERE COALESCE("a", "b") < ? AND ((COALESCE("a", "b") = ? AND "id" > ?)'
         ' OR COALESCE("a", "b") > ?) ORDER BY COALESCE("a", "b"), "id" ASC'),
    ],
)  # fmt: skip
def test_each_mode_has_its_query(mode: Mode, text: str) -> None:
    select = build_select(SQLITE, SOURCE, Criteria(mode, ("a", "b"), "id"), "LIMIT 5")

    assert select.text == f"{SOURCE}{text} LIMIT 5"
    assert len(select.bounds) == text.count("?")


@pytest.mark.parametrize(
    ("offset", "progress"),
    [
        (None, ReadProgress()),
        ({"incrementing": 7}, ReadProgress(7)),
        ({"timestamp": 1500, "timestamp_nanos": 500_000_001}, ReadProgress(None, 1_500_000_001)),
        ({"timestamp": 1500}, ReadProgress(None, 1_500_000_000)),
        ({"timestamp": -1, "timestamp_nanos": 999_000_000}, ReadProgress(None, -1_000_000)),
    ],
)
def test_confluents_offsets_are_read(offset: dict[str, Any] | None, progress: ReadProgress) -> None:
    assert from_offset(offset) == progress


@given(st.integers(-(10**18), 4 * 10**18), st.none() | st.integers())
def test_offsets_come_back_as_they_went(instant: int, number: int | None) -> None:
    progress = ReadProgress(number, instant)

    assert from_offset(progress.to_offset()) == progress


@pytest.mark.parametrize(
    "offset", [{"incrementing": "7"}, {"timestamp": 1.5}, {"timestamp": 1, "timestamp_nanos": -1}]
)
def test_offsets_of_another_shape_are_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(BadOffset):
        from_offset(offset)


def test_offsets_are_looked_for_under_all_names_of_a_table() -> None:
    assert known_partitions("db", "public", "t") == [
        {"protocol": "1", "table": "db.public.t"},
        {"protocol": "1", "table": "public.t"},
        {"protocol": "1", "table": "t"},
        {"table": "t"},
    ]


def reading(progress: ReadProgress | None = None) -> TableCursor:
    criteria = Criteria(Mode.TIMESTAMP, ("at",))
    select = build_select(SQLITE, SOURCE, criteria)
    made = TableCursor(Route("topic", {"table": "t"}), select, criteria, progress or ReadProgress())
    columns = [
        Column("id", ColumnType(ColumnKind.INT64)),
        Column("at", ColumnType(ColumnKind.TIMESTAMP)),
    ]
    made.begin(RowLayout("t", columns, Mapping()))
    return made


@given(st.lists(st.integers(0, 3), max_size=30).map(sorted), st.integers(1, 7), st.integers(0, 30))
def test_a_stop_anywhere_skips_no_row_of_an_instant(
    instants: list[int], batch: int, delivered: int
) -> None:
    rows = [(n, START + timedelta(seconds=at)) for n, at in enumerate(instants)]
    read = reading()
    records: list[SourceRecord] = []
    for start in range(0, len(rows) + 1, batch):
        part = rows[start : start + batch]
        found = read.records(part, is_last=len(part) < batch)
        if found is not None:
            records += found
            assert found.last_offset == records[-1].source_offset
    assert [record.value["id"] for record in records] == list(range(len(rows)))

    kept = records[:delivered]
    offset = kept[-1].source_offset if kept else None
    since = from_offset(offset).timestamp_ns or 0
    again = {number for number, at in rows if instant_ns(at, UTC) > since}

    assert {record.value["id"] for record in kept} | again == set(range(len(rows)))


def test_a_result_that_broke_off_is_read_again_from_the_last_complete_instant() -> None:
    read = reading()
    rows = [(1, START), (2, START + timedelta(seconds=1)), (3, START + timedelta(seconds=1))]
    first = read.records(rows, is_last=False)

    assert first is not None
    assert [record.value["id"] for record in first] == [1, 2]
    assert read.progress.timestamp_ns == instant_ns(START, UTC)


def test_a_row_without_a_timestamp_is_an_error_and_not_skipped() -> None:
    with pytest.raises(DataError, match="a row has no timestamp in at"):
        reading().records([(1, None)], is_last=True)


def ids(*names: str) -> list[TableId]:
    return [TableId("db", "public", name) for name in names]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["a", "b", "ab"]),
        ({"table.whitelist": "a, public.b"}, ["a", "b"]),
        ({"table.blacklist": "db.public.a"}, ["b", "ab"]),
        ({"table.include.list": ".*a.*", "table.exclude.list": r"public\.ab"}, ["a"]),
    ],
)
def test_tables_are_selected(settings: dict[str, str], names: list[str]) -> None:
    config = SourceConfig.read({"connection.url": "jdbc:duckdb:", "mode": "bulk", **settings})

    assert selected(config, ids("a", "b", "ab")) == ids(*names)


def test_tables_are_divided_evenly_and_come_back_from_a_setting() -> None:
    tables = ids("a", "b", "c", "d", 'odd","name')
    groups = divided(tables, 2)

    assert [len(group) for group in groups] == [2, 3]
    assert [t for group in groups for t in tables_from_text(tables_to_text(group))] == tables
    assert len(divided(tables[:1], 8)) == 1
