"""What a query makes of its rows before they are written."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.query import Rows
from moldau.errors import ConfigError
from tests.connectors.spark.orders_lake import ORDERS_LAKE


def transformed(spark: Any, rows: Any, **more: str) -> Any:
    return Rows(spark, SparkSinkConfig.of({**ORDERS_LAKE, **more}), "lake").transform(rows)


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


class _Columns:
    """Rows of which only the names of the columns are asked."""

    columns: tuple[str, ...] = ("id", "At", "_topic", "_timestamp")

    def drop(self, *names: str) -> _Columns:
        rest = _Columns()
        rest.columns = tuple(each for each in self.columns if each not in names)
        return rest


JDBC = {"sink.format": "jdbc", "sink.table": "t", "jdbc.url": "sqlite://"}


@pytest.mark.parametrize(
    ("setting", "more"),
    [
        ("dedup.columns", {"dedup.columns": "id,nid"}),
        ("watermark", {"watermark": "nid, 10 minutes"}),
        ("partition.by", {"partition.by": "nid"}),
        ("partition.by", {"partition.by": "date(nid)"}),
        ("sink.keys", {**JDBC, "sink.mode": "upsert", "sink.keys": "nid"}),
    ],
)
def test_columns_that_the_rows_lack_are_named_with_those_they_have(
    setting: str, more: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=f"{setting} names columns that the rows lack") as raised:
        transformed(None, _Columns(), **more)

    assert "missing='nid'" in str(raised.value)
    assert "id, At" in str(raised.value)


def test_a_column_is_found_in_any_case_and_metadata_only_where_they_are_written() -> None:
    transformed(None, _Columns(), **{"partition.by": "AT"})
    with pytest.raises(ConfigError, match=r"partition\.by names columns"):
        transformed(None, _Columns(), **{"partition.by": "_topic"})


def records(spark: Any, *values: bytes) -> Any:
    rows = [(None, bytearray(value), "orders", 0, offset) for offset, value in enumerate(values)]
    names = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
    return spark.createDataFrame(rows, names).selectExpr("*", "current_timestamp() AS timestamp")


def valid_ids(spark: Any, given: Any, **more: str) -> list[int]:
    config = SparkSinkConfig.of({**ORDERS_LAKE, "errors.tolerance": "all", **more})
    found = Rows(spark, config, "lake").valid_rows(given).select("id").collect()
    return [row.id for row in found]


def test_text_after_a_json_value_makes_it_unreadable(spark: Any) -> None:
    values = [
        b'{"id": 0}',
        b'{"id": 1} junk',
        b'{"id": 2}{"id": 3}',
        b'{"id": 4}}',
        b'{"id": 5},"_moldau_end":1}',
        b' {"id": 6} \n',
        b'{"id": 7},',
        b'[{"id": 8}]',
        b"null",
        b"",
        b'{"id": "text"}',
        b'{"id": 11, "amount": 1.5, "more": {"deep": [1]}}',
        b'{"amount": 2}',
        b'"id"',
        b'{"id": 14}]',
        b'{"id": 15} {}',
        b'{"id": 16',
        b'{"id": 17,}',
        b'{"more": {"id": 18}',
        b'[{"id": 19}',
        ' {"id": 20, "more": "\u00fc"}'.encode(),
        b"{ } ",
        b"{}{}",
        b"{} junk}",
        b"}",
        b"x",
        b'1 {"id": 26}',
        b'null {"id": 27}',
        b'"text" {"id": 28}',
        b'[] {"id": 29}',
        b'[1, {"id": 30}',
        b'{"id": 31, "more": "}"}',
        b'{"id": 32, "more": "} junk"} junk}',
    ]
    assert valid_ids(spark, records(spark, *values)) == [0, 6, 11, None, 20, None, 31]


def test_lines_of_csv_are_rows(spark: Any) -> None:
    values = [b"0,1.5,2026-11-23T10:00:00Z", b"1,many,2026-11-23T10:00:00Z", b"2", b"", b"3,,"]
    assert valid_ids(spark, records(spark, *values), **{"value.format": "csv"}) == [0, 3]

    given = records(spark, b"4;1.5;2026-11-23 10:00")
    more = {"value.option.sep": ";", "value.option.timestampFormat": "yyyy-MM-dd HH:mm"}
    assert valid_ids(spark, given, **{"value.format": "csv", **more}) == [4]
