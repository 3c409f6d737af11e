"""Batches into an Iceberg table, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.iceberg import iceberg_batch
from moldau.errors import ConfigError
from tests.connectors.spark.test_config import ORDERS_LAKE

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")


class Batch:
    """A data frame, as far as the sink looks at it."""

    def __init__(self, *ids: int) -> None:
        self._ids = list(ids)

    def toArrow(self) -> Any:
        return pa.table({"id": pa.array(self._ids, pa.int64())})


def config(folder: Path, **more: str) -> SparkSinkConfig:
    given = {
        "sink.format": "iceberg",
        "sink.table": "shop.orders",
        "sink.option.type": "sql",
        "sink.option.uri": f"sqlite:///{folder}/catalog.db",
        "sink.option.warehouse": f"file://{folder}/warehouse",
    }
    return SparkSinkConfig.of({**ORDERS_LAKE, **given, **more})


def ids_in(given: SparkSinkConfig) -> list[int]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("moldau", **given.with_prefix("sink.option."))
    try:
        found = catalog.load_table("shop.orders").scan().to_arrow().column("id").to_pylist()
    finally:
        catalog.close()
    return sorted(found)


def test_a_batch_that_is_repeated_is_written_once(tmp_path: Path) -> None:
    given = config(tmp_path)
    write = iceberg_batch(given, "lake")
    write(Batch(1, 2), 0)
    write(Batch(3), 1)
    iceberg_batch(given, "lake")(Batch(3), 1)
    iceberg_batch(given, "another")(Batch(4), 1)

    assert ids_in(given) == [1, 2, 3, 4]


def test_a_missing_table_is_an_error_if_it_may_not_be_made(tmp_path: Path) -> None:
    write = iceberg_batch(config(tmp_path, **{"auto.create": "false"}), "lake")

    with pytest.raises(ConfigError, match="no such table"):
        write(Batch(1), 0)


def test_a_table_is_partitioned_by_its_columns(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    given = config(tmp_path, **{"partition.by": "id"})
    iceberg_batch(given, "lake")(Batch(1, 2), 0)

    assert ids_in(given) == [1, 2]
    catalog = load_catalog("moldau", **given.with_prefix("sink.option."))
    try:
        files = catalog.load_table("shop.orders").inspect.files().num_rows
    finally:
        catalog.close()
    assert files == 2
