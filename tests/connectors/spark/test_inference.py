"""Columns out of the first records."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from moldau.connectors.spark.jobs import infer_columns
from moldau.errors import ConfigError


def test_columns_have_the_types_of_what_is_there() -> None:
    values = [
        b'{"id": 1, "amount": 2, "at": "2026-11-23T10:00:00Z", "tags": ["a"], "place": {"x": 1}}',
        b"no json",
        None,
        b'{"id": 2, "amount": 2.5, "gone": null, "ok": true}',
    ]

    assert infer_columns(values) == (
        "`id` BIGINT, `amount` DOUBLE, `at` TIMESTAMP, `tags` ARRAY<STRING>, "
        "`place` STRUCT<`x`: BIGINT>, `gone` STRING, `ok` BOOLEAN"
    )


def test_no_object_and_no_agreement_are_one_line() -> None:
    with pytest.raises(ConfigError, match="send some records first"):
        infer_columns([b"1", None])
    with pytest.raises(ConfigError, match="do not agree in a field") as raised:
        infer_columns([b'{"id": 1}', b'{"id": {"x": 1}}'])
    assert "\n" not in str(raised.value)
