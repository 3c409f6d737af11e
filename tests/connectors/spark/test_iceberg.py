"""Batches into an Iceberg table, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.batches import QueryCheckpoint
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.iceberg import iceberg_writer
from moldau.errors import ConfigError
from tests.connectors.spark.test_config import ORDERS_LAKE

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")


def batch(spark: Any, *ids: int) -> Any:
    return spark.createDataFrame(pa.table({"id": pa.array(ids, pa.int64())}))


def at(folder: Path, query: str = "lake") -> QueryCheckpoint:
    return QueryCheckpoint(query, str(folder / "gen-0" / "rows"))


def config(folder: Path, **more: str) -> SparkSinkConfig:
    given = {
        "sink.format": "iceberg",
        "sink.table": "shop.orders",
        "sink.option.type": "sql",
        "sink.option.uri": f"sqlite:///{folder}/catalog.db",
        "sink.option.warehouse": f"file://{folder}/warehouse",
    }
    return SparkSinkConfig.of({**ORDERS_LAKE, **given, **more})


def rows_in(given: SparkSinkConfig) -> list[dict[str, Any]]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("moldau", **given.with_prefix("sink.option."))
    try:
        found: list[dict[str, Any]] = (
            catalog.load_table("shop.orders").scan().to_arrow().to_pylist()
        )
    finally:
        catalog.close()
    return found


def ids_in(given: SparkSinkConfig) -> list[int]:
    return sorted(each["id"] for each in rows_in(given))


def test_a_batch_that_is_repeated_is_written_once(spark: Any, tmp_path: Path) -> None:
    given = config(tmp_path)
    write = iceberg_writer(given, at(tmp_path))
    write(batch(spark, 1, 2), 0)
    write(batch(spark, 3), 1)
    killed = tmp_path / "spool"  # what it leaves if it is killed after it has written
    killed.mkdir()
    (killed / "0-0-0.arrow").touch()
    iceberg_writer(given, at(tmp_path))(batch(spark, 3), 1)
    assert not killed.exists()
    iceberg_writer(given, at(tmp_path, "another"))(batch(spark, 4), 1)

    assert ids_in(given) == [1, 2, 3, 4]


def test_a_batch_of_several_pieces_is_one_commit(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.connectors.spark.spool.TABLE_BYTES", 80_000)
    given = config(tmp_path)
    write = iceberg_writer(given, at(tmp_path))
    write(spark.range(0, 50_000, numPartitions=2), 0)
    write(spark.range(0, 50_000, numPartitions=2), 0)

    assert ids_in(given) == list(range(50_000))


def test_a_missing_table_is_an_error_if_it_may_not_be_made(spark: Any, tmp_path: Path) -> None:
    write = iceberg_writer(config(tmp_path, **{"auto.create": "false"}), at(tmp_path))

    with pytest.raises(ConfigError, match="no such table"):
        write(batch(spark, 1), 0)


def test_a_table_is_partitioned_by_its_columns(spark: Any, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    given = config(tmp_path, **{"partition.by": "id"})
    iceberg_writer(given, at(tmp_path))(batch(spark, 1, 2), 0)

    assert ids_in(given) == [1, 2]
    catalog = load_catalog("moldau", **given.with_prefix("sink.option."))
    try:
        files = catalog.load_table("shop.orders").inspect.files().num_rows
    finally:
        catalog.close()
    assert files == 2


def test_columns_that_the_table_lacks_are_added_if_they_may_be(spark: Any, tmp_path: Path) -> None:
    given = config(tmp_path, **{"auto.evolve": "true"})
    write = iceberg_writer(given, at(tmp_path))
    write(batch(spark, 1), 0)
    write(spark.sql("SELECT 2L AS id, 'red' AS colour"), 1)
    write(batch(spark, 3), 2)

    assert sorted((each["id"], each["colour"]) for each in rows_in(given)) == [
        (1, None), (2, "red"), (3, None)
    ]  # fmt: skip


def test_a_column_that_the_table_lacks_is_an_error_otherwise(spark: Any, tmp_path: Path) -> None:
    given = config(tmp_path)
    write = iceberg_writer(given, at(tmp_path))
    write(batch(spark, 1), 0)
    with pytest.raises(ConfigError, match=r"the table lacks columns.*colour"):
        write(spark.sql("SELECT 2L AS id, 'red' AS colour"), 1)

    assert ids_in(given) == [1]


def test_overwrite_leaves_the_rows_of_the_last_batch(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.connectors.spark.spool.TABLE_BYTES", 80_000)
    given = config(tmp_path, **{"sink.mode": "overwrite", "output.mode": "complete"})
    write = iceberg_writer(given, at(tmp_path))
    write(spark.range(0, 30_000, numPartitions=2), 0)
    write(spark.range(100, 30_100, numPartitions=2), 1)

    assert ids_in(given) == list(range(100, 30_100))
