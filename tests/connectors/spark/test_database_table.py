"""Tables of a database, read piece by piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.database_table import DatabaseTable
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.errors import ConfigError
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

pa = pytest.importorskip("pyarrow")

UUID = "2f1e3c5a-7b6d-4c1e-9a0f-0123456789ab"


def table(database: TestDatabase, name: str, folder: Path) -> DatabaseTable:
    given = {"topic": "t", "checkpoint.location": str(folder), "source.format": "jdbc"}
    where = {"source.table": name, "jdbc.url": database.url}
    return DatabaseTable(SparkSourceConfig.of({**given, **where}))


def values(source: DatabaseTable) -> Iterator[dict[str, Any]]:
    with source.rows(None, None) as rows:
        for batch in rows.batches():
            yield from batch.to_pylist()


@pytest.mark.databases("sqlite", "postgresql")
def test_rows_come_in_batches(database: TestDatabase, tmp_path: Path) -> None:
    database.run("CREATE TABLE orders (id BIGINT)")
    database.insert("orders", [(each,) for each in range(12_000)])

    with table(database, "orders", tmp_path).rows("id", "999", "10999") as rows:
        batches = list(rows.batches())

    assert [len(each) for each in batches] == [5_000, 5_000]
    assert [each for one in batches for each in one["id"].to_pylist()] == list(range(1000, 11_000))


@pytest.mark.databases("postgresql")
def test_a_server_keeps_the_rows_that_are_not_read_yet(
    database: TestDatabase, tmp_path: Path
) -> None:
    """The server would take minutes to compute all rows, and ends a statement before that."""
    name = database.rows("SELECT current_database()")[0][0]
    database.run(
        "CREATE VIEW many AS SELECT generate_series(1, 10000000000) AS id",
        f"ALTER DATABASE {name} SET statement_timeout = '10s'",
    )

    with table(database, "many", tmp_path).rows(None, None) as rows:
        first = next(rows.batches())

    assert first["id"].to_pylist() == list(range(1, 5_001))


@pytest.mark.databases("postgresql")
def test_columns_of_types_that_spark_lacks_are_text(database: TestDatabase, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE orders (id UUID, about JSONB, plain JSON, tags TEXT[], place INET, "
        "at TIME, large NUMERIC(50, 2), price NUMERIC(10, 2))",
        f"INSERT INTO orders VALUES ('{UUID}', '{{\"a\": [1, null]}}', '[1]', '{{x,y}}', "
        "'10.0.0.1', '10:00', 12.50, 12.50)",
        "INSERT INTO orders (id) VALUES (NULL)",
    )

    first, nulls = values(table(database, "orders", tmp_path))

    assert set(nulls.values()) == {None}
    assert str(first.pop("price")) == "12.50"
    assert first == {
        "id": UUID,
        "about": '{"a": [1, null]}',
        "plain": "[1]",
        "tags": "{x,y}",
        "place": "10.0.0.1/32",
        "at": "10:00:00",
        "large": "12.50",
    }


@pytest.mark.databases("mariadb")
def test_columns_of_mariadb_that_spark_lacks_are_text(
    database: TestDatabase, tmp_path: Path
) -> None:
    database.run(
        "CREATE TABLE orders (id UUID, about JSON, at TIME, in_year YEAR)",
        f"INSERT INTO orders VALUES ('{UUID}', '[1]', '10:00', 2026)",
    )

    (row,) = values(table(database, "orders", tmp_path))

    assert row == {"id": UUID, "about": "[1]", "at": "10:00:00", "in_year": "2026"}


@pytest.mark.databases("postgresql")
def test_a_number_with_too_many_decimals_is_told_with_its_column(
    database: TestDatabase, tmp_path: Path
) -> None:
    database.run(
        "CREATE TABLE orders (price NUMERIC)",
        "INSERT INTO orders VALUES (1.5), (1.0000000000000000001)",
    )

    told = re.escape("a number with more than 18 decimals or 38 digits to text")
    with pytest.raises(ConfigError, match=rf"{told}.*price"):
        list(values(table(database, "orders", tmp_path)))

    database.run("DELETE FROM orders WHERE price < 1.5")
    assert [str(each["price"]) for each in values(table(database, "orders", tmp_path))] == [
        "1.500000000000000000"
    ]
