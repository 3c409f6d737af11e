"""Expressions on Arrow data: the values of the reference, by kernels."""

from __future__ import annotations

import datetime
import sys
from typing import Any, Final

import pytest
from hypothesis import example, given, settings

from moldau.streams import Column, StreamsError, TopologyError, coalesce, col, concat, lit, when
from moldau.streams.expressions.python import evaluated
from moldau.streams.expressions.typed import checked
from tests.streams.expressions.random_columns import ROWS, SLOW, columns, comparable

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from moldau.streams.expressions import arrow  # noqa: E402

SCHEMA: Final = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("s", pa.string()),
        ("u", pa.string()),
        ("t", pa.timestamp("us", "Asia/Tokyo")),
        ("n", pa.timestamp("us")),
        ("d", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("b", pa.bool_()),
        ("raw", pa.binary()),
    ]
)
RECORD: Final = arrow.record_of(SCHEMA)
ROW: Final[dict[str, Any]] = {
    "i": 7,
    "j": None,
    "x": 2.5,
    "y": None,
    "s": " Ann ",
    "u": None,
    "t": datetime.datetime(2024, 2, 29, 23, 59, 59, tzinfo=datetime.UTC),
    "n": datetime.datetime(1969, 12, 31, 23, 59, 59),
    "d": None,
    "day": datetime.date(2024, 3, 1),
    "b": None,
    "raw": b"\x00",
}


def reference(column: Column, rows: list[dict[str, Any]]) -> tuple[list[Any], list[int]]:
    """Return the values, and the numbers of the rows that have none."""
    found: list[Any] = []
    failed = []
    for at, row in enumerate(rows):
        try:
            found.append(comparable(evaluated(column.node, RECORD, row)))
        except (ArithmeticError, ValueError):
            failed.append(at)
    return found, failed


@example(-when(lit(None)).then(col("d")), [ROW])
@example(when(lit(None)).then(col("d")) > 1, [ROW])
@given(columns(), ROWS)
@settings(SLOW, max_examples=150)
def test_arrow_has_the_values_of_the_reference(column: Column, rows: list[dict[str, Any]]) -> None:
    wanted, failed = reference(column, rows)

    if failed:
        with pytest.raises(StreamsError, match=f": row {failed[0]}: "):
            column.arrow(pa.Table.from_pylist(rows, SCHEMA))
    good = [row for at, row in enumerate(rows) if at not in failed]
    found = column.arrow(pa.Table.from_pylist(good, SCHEMA)).to_pylist()
    assert [comparable(each) for each in found] == wanted


BY_KERNELS: Final = [
    col("i") + col("j"),
    (-col("i") // 2) % 3,
    col("i") / col("x"),
    col("d") * 2 - col("d"),
    (col("x") > col("i")) & (col("s") != col("u")) | ~col("b"),
    col("d") >= lit(3),
    col("n") < col("t"),
    col("s").strip().upper().length(),
    concat(col("s"), col("u").lower()).substring(1, 2),
    col("s").contains("n") | col("s").starts_with(" "),
    col("t").dt.hour * 3600 + col("t").dt.second,
    col("n").dt.truncate("1h"),
    col("t").dt.date == col("day"),
    col("t").cast(int).cast(datetime.datetime),
    col("x").cast(int).cast(float),
    col("i").cast(str),
    when(col("i") == 0).then(0.5).when(col("b")).then(col("i")).otherwise(1 / col("i")),
    coalesce(col("j"), col("i") + 1),
    col("raw").is_null(),
]


@pytest.mark.parametrize("column", BY_KERNELS, ids=repr)
def test_the_kernels_alone_compute_it(column: Column) -> None:
    rows = [ROW, {**ROW, "j": 3, "b": False, "u": "Bob", "i": 0 if "when" in repr(column) else -7}]
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)

    found = arrow.ColumnEvaluator(batch).array(checked(column.node, RECORD, "test")).to_pylist()

    assert ([comparable(each) for each in found], []) == reference(column, rows)


def test_other_types_of_columns_are_taken_as_those_of_their_kind() -> None:
    inner = pa.array([{"b": 1}, None], pa.struct([("b", pa.int16())]))
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.uint8()),
            "half": pa.array([0.5, 1.5], pa.float32()),
            "name": pa.array(["a", "b"]).dictionary_encode(),
            "at": pa.array([1_999, None], pa.timestamp("ns", "UTC")),
            "a": inner,
            "tags": pa.array([["x"], None]),
        }
    )

    assert (col("small") + 255).arrow(table).to_pylist() == [256, 257]
    assert (col("half") * 2).arrow(table).to_pylist() == [1.0, 3.0]
    assert col("name").upper().arrow(table).to_pylist() == ["A", "B"]
    assert col("at").arrow(table).cast(pa.int64()).to_pylist() == [1, None]
    assert (col("a.b") + 1).arrow(table).to_pylist() == [2, None]
    assert coalesce(col("tags"), col("tags")).arrow(table).to_pylist() == [["x"], None]


def test_the_chunks_of_a_table_and_a_table_without_rows_are_computed() -> None:
    table = pa.concat_tables([pa.table({"a": [1]}), pa.table({"a": [2, 3]})])

    assert (col("a") * 2).arrow(table).to_pylist() == [2, 4, 6]
    assert (col("a") * 2).arrow(table.slice(0, 0)).type == pa.int64()
    assert lit(1).arrow(table).to_pylist() == [1, 1, 1]
    assert (col("a") * 2).arrow(table.to_batches()[1]).to_pylist() == [4, 6]


def test_what_does_not_fit_is_refused() -> None:
    table = pa.table({"amount": [1]})

    with pytest.raises(TopologyError, match="did you mean 'amount'"):
        col("amuont").arrow(table)
    with pytest.raises(StreamsError, match="list is no Arrow table"):
        col("amount").arrow([1])
    with pytest.raises(StreamsError, match="two columns have one name"):
        col("a").arrow(pa.table([[1], [2]], names=["a", "a"]))


def test_a_missing_pyarrow_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "moldau.streams.expressions.arrow")

    with pytest.raises(StreamsError, match=r"needs pyarrow: pip install 'moldau"):
        col("a").arrow(None)
