"""Rows of every kind of source, on a real Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.connectors.spark.records import RecordLayout
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.connectors.spark.source_rows import SourceRows
from moldau.errors import ConfigError

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.real

TABLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


def source_rows(session: Any, folder: Path, **more: str) -> SourceRows:
    base = {"topic": "t", "checkpoint.location": str(folder)}
    return SourceRows(session, SparkSourceConfig.of({**base, **more}))


def ids(rows: Any) -> list[int]:
    return sorted(row.id for row in rows.collect())


def test_each_kind_of_table_is_read_whole(spark: Any, tmp_path: Path) -> None:
    import deltalake
    import pyarrow.parquet as pq

    pq.write_table(TABLE, tmp_path / "rows.parquet")
    deltalake.write_deltalake(str(tmp_path / "delta"), TABLE)
    spark.createDataFrame(TABLE).createOrReplaceTempView("names")
    url = f"sqlite:///{tmp_path}/names.db"
    _fill(url)
    given: list[dict[str, str]] = [
        {"source.format": "parquet", "source.path": str(tmp_path / "rows.parquet")},
        {"source.format": "delta", "source.path": str(tmp_path / "delta")},
        {"source.format": "table", "source.table": "names"},
        {"query": "SELECT id, upper(name) AS name FROM names"},
        {"source.format": "jdbc", "source.table": "names", "jdbc.url": f"jdbc:{url}"},
    ]

    assert [ids(source_rows(spark, tmp_path, **each).all_rows()) for each in given] == [
        [1, 2, 3]
    ] * len(given)


def test_an_iceberg_table_is_read_whole(spark: Any, tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog", reason="pyiceberg is not installed")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db",
                  "warehouse": f"file://{tmp_path}/w"}  # fmt: skip
    catalog = catalogs.load_catalog("moldau", **properties)
    catalog.create_namespace("shop")
    catalog.create_table("shop.names", schema=TABLE.schema).append(TABLE)
    catalog.close()
    more = {f"source.option.{name}": text for name, text in properties.items()}
    given = {"source.format": "iceberg", "source.table": "shop.names", **more}

    assert ids(source_rows(spark, tmp_path, **given).all_rows()) == [1, 2, 3]
    with pytest.raises(ConfigError, match="there is no such table: check"):
        source_rows(spark, tmp_path, **{**given, "source.table": "shop.other"}).all_rows()


def _fill(url: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE names (id BIGINT, name TEXT, at TIMESTAMP)")
        for row in TABLE.to_pylist():
            connection.exec_driver_sql(
                "INSERT INTO names VALUES (?, ?, ?)",
                (row["id"], row["name"], f"2026-11-2{row['id']} 10:00:00.000000"),
            )


@pytest.mark.parametrize(
    ("column", "offsets"),
    [("id", ["3", "4"]), ("at", ["2026-11-23T10:00:00", "2026-11-24T10:00:00"])],
)
def test_a_database_gives_what_is_above_the_offset(
    spark: Any, tmp_path: Path, column: str, offsets: list[str]
) -> None:
    url = f"sqlite:///{tmp_path}/names.db"
    _fill(url)
    given = {"source.format": "jdbc", "source.table": "names", "jdbc.url": f"jdbc:{url}",
             "mode": "incremental", "incremental.column": column}  # fmt: skip
    source = source_rows(spark, tmp_path, **given)

    first = source.rows_above(None)
    assert first is not None
    assert (ids(first.rows), first.highest) == ([1, 2, 3], offsets[0])
    assert source.rows_above(first.highest) is None

    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO names VALUES (4, 'd', '2026-11-24 10:00:00.000000')"
        )
    then = source.rows_above(first.highest)
    assert then is not None
    assert (ids(then.rows), then.highest) == ([4], offsets[1])
    with pytest.raises(ConfigError, match="lacks the column of incremental"):
        source_rows(spark, tmp_path, **{**given, "incremental.column": "no"}).rows_above(None)


def test_rows_above_an_offset_are_transformed(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(TABLE).createOrReplaceTempView("names")
    given = {"source.format": "table", "source.table": "names", "mode": "incremental",
             "incremental.column": "id",
             "transforms.sql": "SELECT id * 10 AS id FROM source"}  # fmt: skip

    found = source_rows(spark, tmp_path, **given).rows_above("1")

    assert found is not None
    assert (ids(found.rows), found.highest) == ([20, 30], "3")
    with pytest.raises(ConfigError, match="lacks the column"):
        source_rows(spark, tmp_path, **{**given, "incremental.column": "no"}).rows_above(None)


def test_columns_become_keys_headers_and_timestamps(spark: Any) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, 'de' AS country, TIMESTAMP '2026-11-23T10:00:00Z' AS at, 'x' AS text"
    )

    layout = RecordLayout(
        key_columns=["id", "country"], timestamp_column="at", header_columns=["country"]
    )
    found = layout.to_records(rows).first()
    assert json.loads(found.value)["text"] == "x"
    assert json.loads(found.key) == {"id": 1, "country": "de"}
    assert [(each.key, bytes(each.value)) for each in found.headers] == [("country", b"de")]
    assert found.timestamp.astimezone(UTC) == datetime(2026, 11, 23, 10, tzinfo=UTC)

    one = (
        RecordLayout("string", key_columns=["id", "country"], timestamp_column="at")
        .to_records(rows)
        .first()
    )
    assert one.value == "x"
    with pytest.raises(ConfigError, match="needs one column beside"):
        RecordLayout("string").to_records(rows)
    with pytest.raises(ConfigError, match="the rows lack columns"):
        RecordLayout(key_columns=["no"]).to_records(rows)
