"""Expressions as Spark's columns: the values of the reference, without Python in Spark."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from moldau.streams import Column, TopologyError, coalesce, col, lit, when
from moldau.streams import count as count_of
from moldau.streams.expressions.python import evaluated
from tests.client.guides import programs
from tests.streams.expressions.random_columns import NAMES, ROW, SLOW, columns, comparable

SCHEMA: Final = (
    "row INT, i BIGINT, j BIGINT, x DOUBLE, y DOUBLE, s STRING, u STRING, t TIMESTAMP, "
    "n TIMESTAMP_NTZ, d DECIMAL(12, 2), day DATE, b BOOLEAN, raw BINARY"
)
NAN: Final = float("nan")


@pytest.fixture(scope="module")
def zoned(spark: Any) -> Any:
    """A session in a zone with a summer time: nothing may depend on it."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def collected(frame: Any) -> list[dict[str, Any]]:
    """Return the rows, with times in UTC: `collect` uses the zone of the machine."""
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


def reference(column: Column, record: Any, rows: list[dict[str, Any]]) -> dict[int, Any]:
    """Return the values by the number of the row, without rows that have none."""
    found = {}
    for at, row in enumerate(rows):
        try:
            found[at] = comparable(evaluated(column.node, record, row))
        except (ArithmeticError, ValueError):
            continue
    return found


@given(st.lists(columns(2), min_size=20, max_size=30), st.lists(ROW, min_size=3, max_size=6))
@settings(SLOW, max_examples=4, phases=[Phase.generate])
def test_spark_has_the_values_of_the_reference(
    zoned: Any, given_columns: list[Column], rows: list[dict[str, Any]]
) -> None:
    from pyspark.sql import functions as F

    from moldau.streams.expressions import spark as back_end

    frame = zoned.createDataFrame(
        [(at, *(row[name] for name in NAMES)) for at, row in enumerate(rows)], SCHEMA
    )
    record = back_end.record_of(frame.schema)
    wanted: dict[str, dict[int, Any]] = {}
    chosen: list[Any] = []
    for column in given_columns:
        name = f"c{len(chosen)}"
        try:
            translated = column.spark(frame)
        except TopologyError as error:
            if "digits" not in str(error):
                raise
            continue
        wanted[name] = reference(column, record, rows)
        is_good = F.col("row").isin(list(wanted[name]))
        chosen.append(F.when(is_good, translated).alias(name))

    found = collected(frame.select("row", *chosen))

    for row in found:
        for name, values in wanted.items():
            if row["row"] in values:
                assert comparable(row[name]) == values[row["row"]], name


@pytest.mark.parametrize(
    "column",
    [
        col("i") + 1,
        col("i") // 0,
        col("x") / 0.0,
        col("x").cast(int),
        col("s").cast(int),
        col("s").cast(float),
        col("i").cast(datetime.datetime),
    ],
    ids=repr,
)
def test_what_has_no_value_fails_in_spark_too(zoned: Any, column: Column) -> None:
    from pyspark.errors import PySparkException

    frame = zoned.createDataFrame([(2**63 - 1, 2.0**63, " 7")], "i BIGINT, x DOUBLE, s STRING")

    with pytest.raises(PySparkException):
        frame.select(column.spark(frame).alias("found")).collect()


def test_aggregates_are_those_of_agg(spark: Any) -> None:
    frame = spark.createDataFrame(
        [("a", 1, 1.5), ("a", 2, NAN), ("a", None, 0.5), ("b", None, NAN), ("b", None, None)],
        "k STRING, i INT, x DOUBLE",
    )
    aggregates = {
        "n": count_of(),
        "i_n": col("i").count(),
        "i_sum": col("i").sum(),
        "i_mean": (col("i") + 1).mean(),
        "x_min": col("x").min(),
        "x_max": col("x").max(),
    }
    chosen = [each.spark(frame).alias(name) for name, each in aggregates.items()]

    found = {row["k"]: row for row in collected(frame.groupBy("k").agg(*chosen))}

    values = {key: [comparable(row[name]) for name in aggregates] for key, row in found.items()}
    assert values == {
        "a": [comparable(each) for each in (3, 2, 3, 2.5, 0.5, 1.5)],
        "b": [comparable(each) for each in (2, 0, None, None, NAN, NAN)],
    }


def test_a_translated_column_runs_in_java(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    frame = spark.range(3)
    large = when(col("id") > 1).then("large").otherwise("small")

    chosen = frame.filter((col("id") >= 1).spark(frame)).select(large.spark(frame).alias("size"))
    chosen.explain()

    assert [row["size"] for row in chosen.collect()] == ["small", "large"]
    assert "Python" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (col("amuont"), "did you mean 'amount'"),
        (col("amount") / 2, "the quotient of Decimals"),
        (col("amount") * col("amount") * col("amount"), "may have 38 digits"),
        (coalesce(col("amount"), lit(Decimal("1E+26"))) > 1, "may have 29 digits"),
        (col("tags") == col("tags"), "compared in another way"),
    ],
    ids=repr,
)
def test_what_spark_computes_in_another_way_is_refused(
    spark: Any, column: Column, why: str
) -> None:
    frame = spark.createDataFrame([], "amount DECIMAL(12, 2), tags ARRAY<STRING>")

    with pytest.raises(TopologyError, match=why):
        column.spark(frame)


def test_a_session_that_hides_errors_is_refused(spark: Any) -> None:
    frame = spark.range(1)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(TopologyError, match=r'spark\.conf\.set\("spark\.sql\.ansi\.enabled"'):
            (col("id") + 1).spark(frame)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_a_schema_stands_for_its_rows(spark: Any) -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL("id BIGINT")

    assert [row[0] for row in spark.range(2).select((col("id") + 1).spark(schema)).collect()] == [
        1,
        2,
    ]
    with pytest.raises(TopologyError, match="str is no DataFrame"):
        col("id").spark("id BIGINT")


def test_the_program_of_the_guide_runs(spark: Any) -> None:
    *_, program = programs("columns.md")

    exec(compile(program, "columns.md", "exec"), {"__name__": "guide"})  # noqa: S102
