"""Batches into a Delta or Iceberg table, each once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.batches import QueryCheckpoint
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.lake_tables import delta_writer, iceberg_writer
from moldau.errors import ConfigError
from tests.connectors.spark.orders_lake import ORDERS_LAKE

pa = pytest.importorskip("pyarrow")
LIBRARIES = {"delta": "deltalake", "iceberg": "pyiceberg"}


@dataclass
class Lake:
    """A table of one kind below a folder."""

    kind: str
    folder: Path

    def config(self, **more: str) -> SparkSinkConfig:
        given = {"sink.format": self.kind}
        if self.kind == "delta":
            given["sink.path"] = str(self.folder / "orders")
        else:
            given |= {
                "sink.table": "shop.orders",
                "sink.option.type": "sql",
                "sink.option.uri": f"sqlite:///{self.folder}/catalog.db",
                "sink.option.warehouse": f"file://{self.folder}/warehouse",
            }
        return SparkSinkConfig.of({**ORDERS_LAKE, **given, **more})

    def writer(self, query: str = "lake", **more: str) -> Any:
        make = delta_writer if self.kind == "delta" else iceberg_writer
        checkpoint = QueryCheckpoint(query, str(self.folder / "gen-0" / "rows"))
        return make(self.config(**more), checkpoint)

    @contextmanager
    def iceberg_table(self) -> Iterator[Any]:
        from pyiceberg.catalog import load_catalog

        options = self.config().with_prefix("sink.option.")
        with closing(load_catalog("moldau", **options)) as catalog:
            yield catalog.load_table("shop.orders")

    def rows(self) -> list[tuple[Any, ...]]:
        if self.kind == "delta":
            from deltalake import DeltaTable

            found = DeltaTable(str(self.folder / "orders")).to_pyarrow_table().to_pylist()
        else:
            with self.iceberg_table() as table:
                found = table.scan().to_arrow().to_pylist()
        return sorted(tuple(each.values()) for each in found)

    def ids(self) -> list[int]:
        return [row[0] for row in self.rows()]


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    library = LIBRARIES[request.param]
    pytest.importorskip(library, reason=f"{library} is not installed")
    return Lake(request.param, tmp_path)


only_iceberg = pytest.mark.parametrize("lake", ["iceberg"], indirect=True)


def batch(spark: Any, *ids: int) -> Any:
    return spark.createDataFrame(pa.table({"id": pa.array(ids, pa.int64())}))


def test_a_batch_that_is_repeated_is_written_once(spark: Any, lake: Lake) -> None:
    write = lake.writer()
    write(batch(spark, 1, 2), 0)
    write(batch(spark, 3), 1)
    killed = lake.folder / "spool"  # what it leaves if it is killed after it has written
    killed.mkdir()
    (killed / "0-0-0.arrow").touch()
    lake.writer()(batch(spark, 3), 1)
    assert not killed.exists()
    lake.writer("another")(batch(spark, 4), 1)

    assert lake.ids() == [1, 2, 3, 4]


@only_iceberg
def test_a_batch_of_several_pieces_is_one_commit(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.connectors.spark.spool.TABLE_BYTES", 80_000)
    write = lake.writer()
    write(spark.range(0, 50_000, numPartitions=2), 0)
    write(spark.range(0, 50_000, numPartitions=2), 0)

    assert lake.ids() == list(range(50_000))


@only_iceberg
def test_a_missing_table_is_an_error_if_it_may_not_be_made(spark: Any, lake: Lake) -> None:
    write = lake.writer(**{"auto.create": "false"})

    with pytest.raises(ConfigError, match="no such table"):
        write(batch(spark, 1), 0)


@only_iceberg
def test_a_table_is_partitioned_by_its_columns(spark: Any, lake: Lake) -> None:
    lake.writer(**{"partition.by": "id"})(batch(spark, 1, 2), 0)

    assert lake.ids() == [1, 2]
    with lake.iceberg_table() as table:
        assert table.inspect.files().num_rows == 2


@pytest.mark.parametrize(
    ("lake", "mode"),
    [("delta", "append"), ("delta", "upsert"), ("iceberg", "append")],
    indirect=["lake"],
)
def test_columns_that_the_table_lacks_are_added_if_they_may_be(
    spark: Any, lake: Lake, mode: str
) -> None:
    keys = {"sink.mode": mode, "sink.keys": "id"} if lake.kind == "delta" else {}
    write = lake.writer(**keys, **{"auto.evolve": "true"})
    write(batch(spark, 1), 0)
    write(spark.sql("SELECT 2L AS id, 'red' AS colour"), 1)
    write(batch(spark, 3), 2)

    assert lake.rows() == [(1, None), (2, "red"), (3, None)]


def test_a_column_that_the_table_lacks_is_an_error_otherwise(spark: Any, lake: Lake) -> None:
    write = lake.writer()
    write(batch(spark, 1), 0)
    with pytest.raises(ConfigError, match=r"the table lacks columns.*colour"):
        write(spark.sql("SELECT 2L AS id, 'red' AS colour"), 1)

    assert lake.rows() == [(1,)]


def test_overwrite_leaves_the_rows_of_the_last_batch(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.connectors.spark.spool.TABLE_BYTES", 80_000)
    write = lake.writer(**{"sink.mode": "overwrite", "output.mode": "complete"})
    write(spark.range(0, 30_000, numPartitions=2), 0)
    write(spark.range(100, 30_100, numPartitions=2), 1)

    assert lake.ids() == list(range(100, 30_100))
