"""A merge gets one row of each key: the last."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.connectors.spark.delta import last_row_per_key  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402


def test_the_last_row_of_each_key_is_left_in_the_order_of_the_rows() -> None:
    rows = [("a", 1, 1), ("b", 1, 2), ("a", 1, 3), ("a", 2, 4), ("b", 1, 5)]
    columns = zip(*rows, strict=True)
    data = pa.table(dict(zip(("key", "part", "place"), map(list, columns), strict=True)))

    found = last_row_per_key(data, ["key", "part"])

    assert found.to_pylist() == [
        {"key": "a", "part": 1, "place": 3},
        {"key": "a", "part": 2, "place": 4},
        {"key": "b", "part": 1, "place": 5},
    ]
    assert found.schema == data.schema
    assert len(last_row_per_key(data.slice(0, 0), ["key"])) == 0


def test_a_key_that_the_rows_lack_is_named() -> None:
    with pytest.raises(ConfigError, match=r"sink\.keys.*id"):
        last_row_per_key(pa.table({"a": [1]}), ["id"])
