"""What a query makes of its rows before they are written."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.query import Rows
from moldau.errors import ConfigError
from tests.connectors.spark.test_config import ORDERS_LAKE


def transformed(spark: Any, rows: Any, **more: str) -> Any:
    return Rows(spark, SparkSinkConfig.of({**ORDERS_LAKE, **more}), "lake").transformed(rows)


def test_a_column_made_for_partitions_never_replaces_one_of_the_rows(spark: Any) -> None:
    made = "TIMESTAMP '2026-11-24 12:00:00' AS at, TIMESTAMP '2026-11-25 12:00:00' AS due"
    rows = spark.sql(f"SELECT {made}")

    found = transformed(spark, rows, **{"partition.by": "date(at)"})
    assert str(found.first().date) == "2026-11-24"

    for columns, partitions in (
        (f"{made}, 'mine' AS date", "date(at)"),
        (made, "date(at),date(due)"),
    ):
        with pytest.raises(ConfigError, match="makes a column date"):
            transformed(spark, spark.sql(f"SELECT {columns}"), **{"partition.by": partitions})
