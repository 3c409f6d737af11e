"""Batches into a database, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.connectors.spark.batches import QueryCheckpoint
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.database import BATCH_TABLE, DatabaseSink, database_url
from moldau.errors import ConfigError
from tests.connectors.spark.test_config import ORDERS_LAKE

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
    folder = url.removeprefix("jdbc:sqlite:///").rpartition("/")[0]
    checkpoint = QueryCheckpoint("lake", f"{folder}/gen-0/rows")
    return DatabaseSink(SparkSinkConfig.of({**ORDERS_LAKE, **given, **more}), checkpoint)


def test_a_batch_that_is_repeated_is_written_once(batch: Any, url: str, rows: Any) -> None:
    first = sink(url)
    first.write(batch((1, 1.5), (2, 2.5)), 0)
    first.write(batch((3, 3.5)), 1)
    first.close()
    again = sink(url)
    again.write(batch((3, 3.5)), 1)
    again.close()

    assert rows() == [(1, 1.5), (2, 2.5), (3, 3.5)]
    assert rows(BATCH_TABLE) == [("lake", 1)]


def test_a_table_may_be_named_with_its_schema(batch: Any, url: str, rows: Any) -> None:
    first = sink(url, **{"sink.table": "main.orders"})
    first.write(batch((1, 1.5)), 0)
    first.close()
    again = sink(url, **{"sink.table": "main.orders"})
    again.write(batch((2, 2.5)), 1)
    again.close()
    assert rows() == [(1, 1.5), (2, 2.5)]

    nowhere = sink(url, **{"sink.table": "shop.orders"})
    with pytest.raises(ConfigError, match=r"no such schema.*shop"):
        nowhere.write(batch((1, 1.5)), 2)
    nowhere.close()


def test_a_batch_that_fails_leaves_neither_rows_nor_its_number(
    spark: Any, batch: Any, url: str, rows: Any
) -> None:
    target = sink(url, **{"sink.mode": "append"})
    target.write(batch((1, 1.0)), 0)
    with pytest.raises(ConfigError, match="the table lacks columns"):
        target.write(spark.sql("SELECT 1L AS id, 'red' AS colour"), 1)
    target.close()

    assert rows() == [(1, 1.0)]
    assert rows(BATCH_TABLE) == [("lake", 0)]


def test_upsert_replaces_the_row_with_the_same_key(batch: Any, url: str, rows: Any) -> None:
    target = sink(url, **{"sink.mode": "upsert", "sink.keys": "id"})
    target.write(batch((1, 1.0), (2, 2.0)), 0)
    target.write(batch((2, 20.0)), 1)
    target.close()

    assert rows() == [(1, 1.0), (2, 20.0)]


def test_columns_that_the_table_lacks_are_added_if_they_may_be(
    spark: Any, batch: Any, url: str, rows: Any
) -> None:
    target = sink(url, **{"auto.evolve": "true"})
    target.write(batch((1, 1.0)), 0)
    target.write(spark.sql("SELECT 2L AS id, 'red' AS `main colour`, 1.5BD AS price"), 1)
    target.write(batch((3, 3.0)), 2)
    target.close()

    found = rows('(SELECT id, "main colour" FROM orders)')
    assert found == [(1, None), (2, "red"), (3, None)]
    assert rows("(SELECT id, price FROM orders)")[1] == (2, 1.5)


def test_overwrite_leaves_the_rows_of_the_last_batch(batch: Any, url: str, rows: Any) -> None:
    target = sink(url, **{"sink.mode": "overwrite", "output.mode": "complete"})
    target.write(batch((1, 1.0), (2, 2.0)), 0)
    target.write(batch((2, 20.0)), 1)
    target.close()

    assert rows() == [(2, 20.0)]


def test_a_missing_table_is_an_error_if_it_may_not_be_made(batch: Any, url: str) -> None:
    target = sink(url, **{"auto.create": "false"})

    with pytest.raises(ConfigError, match="no such table"):
        target.write(batch((1, 1.0)), 0)
    target.close()


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

    def make_first(made: sa.Table, *_: Any, **__: Any) -> None:
        if made.name == table and not others:
            others.append(table)
            engine = sa.create_engine(url.removeprefix("jdbc:"), poolclass=sa.pool.NullPool)
            made.to_metadata(sa.MetaData()).create(engine)

    sa.event.listen(sa.Table, "before_create", make_first)
    try:
        found = sink(url)
        found.write(batch((1, 1.5)), 0)
        found.close()
    finally:
        sa.event.remove(sa.Table, "before_create", make_first)

    assert others == [table]
    assert rows() == [(1, 1.5)]
    assert rows(BATCH_TABLE) == [("lake", 0)]
