"""Queries that keep state from batch to batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.connectors.spark.batches import is_stateful, is_stateful_plan

pytestmark = pytest.mark.real


STATEFUL = [
    "SELECT window.start, count(*) FROM source GROUP BY window(timestamp, '1 minute')",
    "SELECT value, max(timestamp) FROM source GROUP BY value",
    "SELECT DISTINCT value FROM source",
    "SELECT value FROM source UNION SELECT -value FROM source",
    "SELECT a.value FROM source a JOIN source b ON a.value = b.value",
    "SELECT * FROM source LIMIT 5",
]
STATELESS = [
    "SELECT value + 1 AS value FROM source WHERE value > 1",
    "SELECT value FROM source UNION ALL SELECT -value FROM source",
    "SELECT source.value FROM source JOIN names ON source.value = names.id",
    "SELECT value, '~Aggregate' AS note, explode(array(1, 2)) AS each FROM source",
]


@pytest.fixture
def source(spark: Any) -> Any:
    """A stream, in the view `source`, and the view `names` of a table with aggregates."""
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    rows.createOrReplaceTempView("source")
    spark.sql("SELECT id, count(*) AS n FROM range(5) GROUP BY id").createOrReplaceTempView("names")
    return rows


@pytest.mark.parametrize("query", STATEFUL)
def test_a_query_that_needs_other_rows_of_its_stream_has_state(
    spark: Any, source: Any, query: str
) -> None:
    assert is_stateful(spark.sql(query))


@pytest.mark.parametrize("query", STATELESS)
def test_a_query_that_takes_row_by_row_has_no_state(spark: Any, source: Any, query: str) -> None:
    assert not is_stateful(spark.sql(query))


@pytest.mark.parametrize(
    "dropped",
    [
        lambda rows: rows.dropDuplicates(["value"]),
        lambda rows: rows.dropDuplicatesWithinWatermark(["value"]),
    ],
)
def test_rows_that_are_written_once_need_state(source: Any, dropped: Callable[[Any], Any]) -> None:
    assert not is_stateful(source)
    assert is_stateful(dropped(source))


def test_functions_with_state_have_state() -> None:
    """Of the plan of an applyInPandasWithState, which needs pandas."""
    plan = "FlatMapGroupsInPandasWithState count(value#1), [value#2], Append"
    text = "== Analyzed Logical Plan ==\nvalue: bigint\n~{}\n== Optimized Logical Plan ==\n"
    assert is_stateful_plan(text.format(plan))
    assert not is_stateful_plan(text.format("FlatMapGroupsInPandas [value#2]"))
