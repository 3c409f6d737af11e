"""Batches into a database, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.connectors.spark import database as database_sink
from moldau.connectors.spark.batches import QueryCheckpoint
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.database import BATCH_TABLE, DatabaseSink
from moldau.connectors.spark.database_table import DatabaseTable
from moldau.connectors.spark.engines import database_url
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable
from tests.connectors.spark.orders_lake import ORDERS_LAKE
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

pa = pytest.importorskip("pyarrow")

AT = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def batch(spark: Any) -> Callable[..., Any]:
    """Makes a data frame of orders."""
    kinds = [("id", pa.int64()), ("amount", pa.float64()), ("at", pa.timestamp("us", "UTC"))]

    def make(*rows: tuple[int, float]) -> Any:
        found = [{"id": number, "amount": amount, "at": AT} for number, amount in rows]
        return spark.createDataFrame(pa.Table.from_pylist(found, pa.schema(kinds)))

    return make


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"jdbc:sqlite:///{tmp_path}/orders.db"


@pytest.fixture
def rows(url: str) -> Iterator[Any]:
    engine = sa.create_engine(url.removeprefix("jdbc:"))

    def read(table: str = "orders") -> list[tuple[Any, ...]]:
        with engine.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1")
            return [tuple(each)[:2] for each in found]

    yield read
    engine.dispose()


def sink(url: str, **more: str) -> DatabaseSink:
    given = {"sink.format": "jdbc", "sink.table": "orders", "jdbc.url": url}
    folder = more.pop("folder", url.removeprefix("jdbc:sqlite:///").rpartition("/")[0])
    checkpoint = QueryCheckpoint("lake", f"{folder}/gen-0/rows")
    return DatabaseSink(SparkSinkConfig.of({**ORDERS_LAKE, **given, **more}), checkpoint)


def test_a_batch_that_is_repeated_is_written_once(batch: Any, url: str, rows: Any) -> None:
    first = sink(url)
    first.write(batch((1, 1.5), (2, 2.5)), 0)
    first.write(batch((3, 3.5)), 1)
    again = sink(url)
    again.write(batch((3, 3.5)), 1)

    assert rows() == [(1, 1.5), (2, 2.5), (3, 3.5)]
    assert rows(BATCH_TABLE) == [("lake orders", 1)]


def test_numbers_of_batches_belong_to_a_query_and_its_table(
    batch: Any, url: str, rows: Any
) -> None:
    first = sink(url)
    first.write(batch((1, 1.5)), 7)
    other = sink(url, **{"sink.table": "others"})
    other.write(batch((2, 2.5)), 0)
    other.write(batch((2, 2.5)), 0)

    assert rows("others") == [(2, 2.5)]
    assert rows(BATCH_TABLE) == [("lake orders", 7), ("lake others", 0)]


def test_a_number_of_an_earlier_version_counts_until_the_next_batch(
    batch: Any, url: str, rows: Any
) -> None:
    first = sink(url)
    first.write(batch((1, 1.5)), 3)
    engine = sa.create_engine(url.removeprefix("jdbc:"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {BATCH_TABLE} SET query = 'lake'")
    engine.dispose()
    again = sink(url)
    again.write(batch((1, 1.5)), 3)
    again.write(batch((2, 2.5)), 4)

    assert rows() == [(1, 1.5), (2, 2.5)]
    assert rows(BATCH_TABLE) == [("lake orders", 4)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**62], pa.timestamp("us", "UTC")),
        pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=["a time after the year 9999", "a map with a key twice"],
)
def test_a_value_that_python_cannot_hold_is_told_as_one_of_the_rows(values: Any) -> None:
    batch = pa.RecordBatch.from_arrays([values], ["value"])
    rows: Any = SimpleNamespace(batches=lambda: iter([batch]))
    with pytest.raises(ConfigError, match=r"a value does not fit .* in transforms\.sql"):
        list(database_sink._pieces(rows, ["value"], []))


def test_a_table_may_be_named_with_its_schema(batch: Any, url: str, rows: Any) -> None:
    first = sink(url, **{"sink.table": "main.orders"})
    first.write(batch((1, 1.5)), 0)
    again = sink(url, **{"sink.table": "main.orders"})
    again.write(batch((2, 2.5)), 1)
    assert rows() == [(1, 1.5), (2, 2.5)]

    nowhere = sink(url, **{"sink.table": "shop.orders"})
    with pytest.raises(ConfigError, match=r"no such table: shop\.orders"):
        nowhere.write(batch((1, 1.5)), 2)


def test_a_batch_that_fails_leaves_neither_rows_nor_its_number(
    spark: Any, batch: Any, url: str, rows: Any
) -> None:
    target = sink(url, **{"sink.mode": "append"})
    target.write(batch((1, 1.0)), 0)
    with pytest.raises(ConfigError, match=r"no column colour -> add it, .* or select"):
        target.write(spark.sql("SELECT 1L AS id, 'red' AS colour"), 1)

    assert rows() == [(1, 1.0)]
    assert rows(BATCH_TABLE) == [("lake orders", 0)]


def test_upsert_replaces_the_row_with_the_same_key(
    batch: Any, database: TestDatabase, tmp_path: Path
) -> None:
    upsert = {"sink.mode": "upsert", "sink.keys": "id"}
    target = sink(database.url, folder=str(tmp_path), **upsert)
    target.write(batch((1, 1.0), (2, 2.0), (2, 2.5)), 0)
    target.write(batch((2, 20.0)), 1)
    again = sink(database.url, folder=str(tmp_path), **upsert)
    again.write(batch((2, 0.0)), 1)
    again.write(batch((3, 30.0)), 2)

    assert database.rows("SELECT id, amount FROM orders ORDER BY id") == [
        (1, 1.0), (2, 20.0), (3, 30.0),
    ]  # fmt: skip
    assert database.rows(f"SELECT query, batch FROM {BATCH_TABLE}") == [("lake orders", 2)]


def test_the_last_row_of_a_key_counts_in_a_batch_of_several_pieces(
    batch: Any, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_sink, "_ROWS", 30)
    target = sink(database.url, folder=str(tmp_path), **{"sink.mode": "upsert", "sink.keys": "id"})
    target.write(batch(*((each % 40, float(each)) for each in range(100))), 0)

    assert database.rows("SELECT id, amount FROM orders ORDER BY id") == [
        (each, float(each + (80 if each < 20 else 40))) for each in range(40)
    ]


@pytest.mark.databases("postgresql", "sqlite", "mariadb")
def test_an_upsert_into_a_table_without_such_a_key_is_refused(
    batch: Any, database: TestDatabase, tmp_path: Path
) -> None:
    database.run("CREATE TABLE orders (id BIGINT, amount FLOAT, at TIMESTAMP NULL)")
    target = sink(database.url, folder=str(tmp_path), **{"sink.mode": "upsert", "sink.keys": "id"})
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"(?i)unique"):
            target.write(batch((1, 1.0)), 0)

    assert database.rows("SELECT * FROM orders") == []


def test_a_column_has_the_type_and_the_values_that_the_jdbc_sink_writes(
    spark: Any, database: TestDatabase, tmp_path: Path
) -> None:
    rows = spark.sql(
        "SELECT 1L AS id, CAST(2 AS TINYINT) AS small, 1.50BD AS price, DATE '2026-11-23' AS day, "
        "true AS sure, X'01' AS raw, array('a', 'b') AS tags, map('k', 1.5BD) AS sizes, "
        "named_struct('x', 1, 'y', TIMESTAMP_NTZ '2026-11-23 10:00:00') AS place"
    )
    target = sink(database.url, folder=str(tmp_path), **{"sink.mode": "upsert", "sink.keys": "id"})
    target.write(rows, 0)

    (found,) = database.rows("SELECT * FROM orders")
    number, small, price, _, sure, raw, tags, sizes, place = found
    assert (number, small, Decimal(price), bool(sure), raw) == (1, 2, Decimal("1.50"), True, b"\1")
    assert (tags if isinstance(tags, list) else json.loads(tags)) == ["a", "b"]
    as_json = [each if isinstance(each, dict) else json.loads(each) for each in (sizes, place)]
    assert as_json == [{"k": "1.5"}, {"x": 1, "y": "2026-11-23T10:00:00"}]


@pytest.mark.databases("postgresql", "sqlite", "duckdb")
def test_a_row_that_the_database_rejects_leaves_the_batch_unwritten(
    batch: Any, database: TestDatabase, tmp_path: Path
) -> None:
    database.run('CREATE TABLE orders (id BIGINT PRIMARY KEY, amount FLOAT, "at" TIMESTAMP)')
    target = sink(database.url, folder=str(tmp_path))
    with pytest.raises(ConfigError, match="the database rejects a row: ") as told:
        target.write(batch((1, 1.0), (1, 2.0)), 0)

    assert not isinstance(told.value, Unavailable)
    assert database.rows(f"SELECT * FROM {BATCH_TABLE}") == []
    assert database.rows("SELECT * FROM orders") == []


def test_columns_that_the_table_lacks_are_added_if_they_may_be(
    spark: Any, batch: Any, url: str, rows: Any
) -> None:
    target = sink(url, **{"auto.evolve": "true"})
    target.write(batch((1, 1.0)), 0)
    target.write(spark.sql("SELECT 2L AS id, 'red' AS `main colour`, 1.5BD AS price"), 1)
    target.write(batch((3, 3.0)), 2)

    found = rows('(SELECT id, "main colour" FROM orders)')
    assert found == [(1, None), (2, "red"), (3, None)]
    assert rows("(SELECT id, price FROM orders)")[1] == (2, "1.5")


def test_overwrite_leaves_the_rows_of_the_last_batch(batch: Any, url: str, rows: Any) -> None:
    target = sink(url, **{"sink.mode": "overwrite", "output.mode": "complete"})
    target.write(batch((1, 1.0), (2, 2.0)), 0)
    target.write(batch((2, 20.0)), 1)

    assert rows() == [(2, 20.0)]


def test_a_missing_table_is_an_error_if_it_may_not_be_made(batch: Any, url: str) -> None:
    target = sink(url, **{"auto.create": "false"})

    with pytest.raises(ConfigError, match=r"table orders does not exist -> create it"):
        target.write(batch((1, 1.0)), 0)


def test_a_java_address_is_one_of_sqlalchemy() -> None:
    given = {"jdbc.url": "jdbc:postgresql://db:5432/shop", "sink.table": "t", "sink.format": "jdbc"}
    login = {"jdbc.user": "u", "jdbc.password": "p@ss"}
    config = SparkSinkConfig.of({**ORDERS_LAKE, **given, **login})

    assert str(database_url(config)) == "postgresql+psycopg://u:***@db:5432/shop"
    assert database_url(config).password == "p@ss"  # noqa: S105 - of nobody


@pytest.mark.parametrize("table", ["orders", BATCH_TABLE])
def test_a_table_that_another_query_makes_at_this_moment_is_used(
    batch: Any, url: str, rows: Any, table: str
) -> None:
    others: list[str] = []

    def make_first(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith(f'CREATE TABLE "{table}"') and not others:
            others.append(table)
            engine = sa.create_engine(url.removeprefix("jdbc:"), poolclass=sa.pool.NullPool)
            with engine.begin() as connection:
                connection.exec_driver_sql(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", make_first)
    try:
        sink(url).write(batch((1, 1.5)), 0)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", make_first)

    assert others == [table]
    assert rows() == [(1, 1.5)]
    assert rows(BATCH_TABLE) == [("lake orders", 0)]


NEW_YORK = {
    "postgresql": "ALTER DATABASE {name} SET timezone = 'America/New_York'",
    "mariadb": "SET GLOBAL time_zone = '-05:00'",
}
"""What makes another zone than UTC that of each new connection."""
COLUMNS = {
    "postgresql": "plain TIMESTAMP, zoned TIMESTAMP WITH TIME ZONE",
    "mariadb": "plain DATETIME, zoned TIMESTAMP",
}


@pytest.fixture
def in_new_york(database: TestDatabase) -> Iterator[TestDatabase]:
    """A database whose server is in New York, with a table of orders."""
    name = sa.engine.make_url(database.url).database
    database.run(
        f"CREATE TABLE orders (id BIGINT, {COLUMNS[database.kind]})",
        NEW_YORK[database.kind].format(name=name),
    )
    yield database
    if database.kind == "mariadb":
        database.run("SET GLOBAL time_zone = 'SYSTEM'")


@pytest.mark.databases("postgresql", "mariadb")
def test_instants_stay_the_same_on_a_server_of_another_time_zone(
    spark: Any, in_new_york: TestDatabase, tmp_path: Path
) -> None:
    at = datetime(2026, 11, 23, 10, tzinfo=UTC)
    zone = pa.timestamp("us", "America/New_York")  # as of spark.conf.sql.session.timeZone
    kinds = [("id", pa.int64()), ("plain", zone), ("zoned", zone)]
    rows = pa.Table.from_pylist([{"id": 1, "plain": at, "zoned": at}], pa.schema(kinds))
    target = sink(in_new_york.url, folder=str(tmp_path))
    target.write(spark.createDataFrame(rows), 0)

    given = {"topic": "t", "checkpoint.location": str(tmp_path), "source.format": "jdbc",
             "source.table": "orders", "jdbc.url": in_new_york.url}  # fmt: skip
    table = DatabaseTable(SparkSourceConfig.of(given))
    with table.rows(None, None) as found:
        (batch,) = found.batches()
    (row,) = batch.to_pylist()
    assert row["plain"] == at.replace(tzinfo=None)
    if in_new_york.kind == "postgresql":
        assert row["zoned"] == at
        stored = "SELECT extract(epoch FROM zoned)::bigint, plain::text FROM orders"
    else:
        assert row["zoned"] == at.replace(tzinfo=None)  # MySQL has no type with a zone
        stored = "SELECT unix_timestamp(zoned), CAST(plain AS CHAR) FROM orders"
    assert in_new_york.rows(stored) == [(int(at.timestamp()), "2026-11-23 10:00:00")]


@pytest.mark.databases("postgresql")
def test_no_connection_rests_between_two_batches(
    batch: Any, database: TestDatabase, tmp_path: Path
) -> None:
    """A server or a proxy may close one that does."""
    target = sink(database.url, folder=str(tmp_path))
    for number in range(2):
        target.write(batch((number, 1.0)), number)
        resting = database.rows(
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
        assert resting == []

    assert database.rows("SELECT id FROM orders ORDER BY id") == [(0,), (1,)]


def test_a_database_that_does_not_answer_is_told_in_one_line(batch: Any, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    target = sink("jdbc:postgresql://127.0.0.1:1/shop", folder=str(tmp_path))

    with pytest.raises(ConfigError, match="cannot connect to ") as told:
        target.write(batch((1, 1.0)), 0)
    assert len(str(told.value).splitlines()) == 1
    assert "sqlalche.me" not in str(told.value)
