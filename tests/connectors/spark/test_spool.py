"""Rows of a batch, brought to the process that writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.connectors.spark import spool as spool_module  # noqa: E402
from moldau.connectors.spark.spool import SpooledRows, spooled_rows  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402


def ids_in(rows: SpooledRows) -> list[int]:
    return [each for batch in rows.batches() for each in batch.column("id").to_pylist()]


def test_few_rows_come_back_without_a_file(spark: Any, tmp_path: Path) -> None:
    spool = tmp_path / "gen-0" / "spool"
    with spooled_rows(spark.range(0, 100, numPartitions=3), str(spool)) as spooled:
        assert not spool.exists()
        assert ids_in(spooled) == list(range(100))


def test_many_rows_come_in_their_order_out_of_the_spool(spark: Any, tmp_path: Path) -> None:
    spool = tmp_path / "gen-0" / "spool"
    (spool / "left").mkdir(parents=True)
    (spool / "left" / "by-a-crash.arrow").touch()
    rows = spark.range(0, 1_000_000, numPartitions=3)
    with spooled_rows(rows, str(spool)) as spooled:
        assert len(list(spool.iterdir())) == 3
        batches = list(spooled.batches())
        assert max(each.nbytes for each in batches) < 200_000
        assert ids_in(spooled) == list(range(1_000_000))
        assert spooled.reader().read_all().column("id").to_pylist() == list(range(1_000_000))
        assert ids_in(spooled) == spooled.table().column("id").to_pylist()
    assert not spool.exists()


def test_tables_have_a_limited_size(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "TABLE_BYTES", 500_000)
    with spooled_rows(spark.range(0, 300_000, numPartitions=2), str(tmp_path / "spool")) as spooled:
        tables = list(spooled.tables())
    assert [each for one in tables for each in one.column("id").to_pylist()] == list(range(300_000))
    assert max(each.nbytes for each in tables) < 700_000

    with spooled_rows(spark.range(0).limit(0), str(tmp_path / "spool")) as spooled:
        (empty,) = spooled.tables()
    assert empty.schema.names == ["id"]


def test_columns_are_of_the_types_that_spark_gives_a_driver(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql(
        "SELECT 1L AS id, TIMESTAMP '2026-11-23 10:00:00' AS at, DATE '2026-11-23' AS day, "
        "1.50BD AS price, ARRAY('a') AS tags, NAMED_STRUCT('x', 1) AS inner, X'00' AS raw"
    )
    with spooled_rows(rows, str(tmp_path / "spool")) as spooled:
        assert spooled.table().to_pylist() == rows.toArrow().to_pylist()
        assert spooled.schema.types == rows.toArrow().schema.types


def test_a_task_that_fails_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    spool = tmp_path / "gen-0" / "spool"
    rows = spark.range(0, 1_000_000, numPartitions=2).selectExpr(
        "id", "assert_true(id != 999999, 'no such order')"
    )
    with pytest.raises(Exception, match="no such order"), spooled_rows(rows, str(spool)):
        pytest.fail("there are no rows")
    assert not spool.exists()


def test_rows_come_at_once_where_nothing_can_keep_them(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rows = spark.range(0, 300_000, numPartitions=2)
    with spooled_rows(rows, "unknown://bucket/gen-0/spool") as spooled:
        assert ids_in(spooled) == list(range(300_000))
        assert ids_in(spooled) == list(range(300_000))
    assert "a batch is held in memory" in caplog.text


def test_a_spool_that_this_process_does_not_see_is_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(0, 300_000, numPartitions=1)
    spool = tmp_path / "spool"

    class Elsewhere:
        """The rows of a cluster whose machines have a directory of this name, each its own."""

        def mapInArrow(self, function: Any, schema: str) -> Any:
            found = rows.mapInArrow(function, schema).collect()
            for each in spool.iterdir():
                each.unlink()
            return rows.sparkSession.createDataFrame(found, schema)

    told = pytest.raises(ConfigError, match=r"checkpoint\.location has to be a place")
    with told, spooled_rows(Elsewhere(), str(spool)):
        pytest.fail("there are no rows")


def test_rows_come_at_once_where_only_spark_may_write(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoLogin(Exception):
        """As libraries behind fsspec raise it: no OSError."""

    def refuse(system: Any, path: str) -> None:
        raise NoLogin("unable to locate credentials")

    monkeypatch.setattr(spool_module, "remove_folder", refuse)
    rows = spark.range(0, 300_000, numPartitions=2)
    with spooled_rows(rows, str(tmp_path / "spool")) as spooled:
        assert ids_in(spooled) == list(range(300_000))
    assert "kept beside the checkpoint: unable to locate credentials" in caplog.text
