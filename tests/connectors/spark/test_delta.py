"""Batches into a Delta table: columns that come later, and whole results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

delta = pytest.importorskip("deltalake", reason="deltalake is not installed")

from moldau.connectors.spark.batches import QueryCheckpoint  # noqa: E402
from moldau.connectors.spark.config import SparkSinkConfig  # noqa: E402
from moldau.connectors.spark.delta import delta_writer  # noqa: E402
from tests.connectors.spark.test_config import ORDERS_LAKE  # noqa: E402


def writer(folder: Path, **more: str) -> Any:
    given = {"sink.format": "delta", "sink.path": str(folder / "orders")}
    config = SparkSinkConfig.of({**ORDERS_LAKE, **given, **more})
    return delta_writer(config, QueryCheckpoint("lake", str(folder / "gen-0" / "rows")))


def rows(folder: Path) -> list[tuple[Any, ...]]:
    found = delta.DeltaTable(str(folder / "orders")).to_pyarrow_table().to_pylist()
    return sorted(tuple(each.values()) for each in found)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_columns_that_the_table_lacks_are_added_if_they_may_be(
    spark: Any, tmp_path: Path, mode: str
) -> None:
    more = {"sink.mode": mode, "sink.keys": "id", "auto.evolve": "true"}
    write = writer(tmp_path, **more)
    write(spark.sql("SELECT 1L AS id"), 0)
    write(spark.sql("SELECT 2L AS id, 'red' AS colour"), 1)
    write(spark.sql("SELECT 3L AS id"), 2)

    assert rows(tmp_path) == [(1, None), (2, "red"), (3, None)]


def test_a_column_that_the_table_lacks_is_an_error_otherwise(spark: Any, tmp_path: Path) -> None:
    write = writer(tmp_path)
    write(spark.sql("SELECT 1L AS id"), 0)
    with pytest.raises(Exception, match=r"the table lacks columns.*colour"):
        write(spark.sql("SELECT 2L AS id, 'red' AS colour"), 1)

    assert rows(tmp_path) == [(1,)]


def test_overwrite_leaves_the_rows_of_the_last_batch(spark: Any, tmp_path: Path) -> None:
    write = writer(tmp_path, **{"sink.mode": "overwrite", "output.mode": "complete"})
    write(spark.range(0, 30, numPartitions=2), 0)
    write(spark.range(10, 300_000, numPartitions=2), 1)
    killed = tmp_path / "spool"  # what it leaves if it is killed after it has written
    killed.mkdir()
    (killed / "0-0-0.arrow").touch()
    write(spark.range(1), 1)

    assert not killed.exists()
    assert rows(tmp_path) == [(each,) for each in range(10, 300_000)]
