"""Columns become the same JSON as the single records, or are refused like them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.api import DataError, Schema, Struct
from moldau.connect.converters.json import JsonConverter
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT8,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
)

SCHEMA = Schema.struct(
    {
        "id": INT64,
        "a b": STRING.optionally(),
        "amount": FLOAT64.optionally(),
        "at": TIMESTAMP.optionally(),
        "price": Schema.decimal(2, optional=True),
        "raw": BYTES.optionally(),
        "day": DATE.optionally(),
        "clock": TIME.optionally(),
        "flag": BOOLEAN.optionally(),
        "small": INT8.replace(default=7),
        "tags": Schema.array(STRING.optionally(), optional=True),
    }
)
PLAIN = {"schemas.enable": "false"}


def converter(**settings: str) -> JsonConverter:
    made = JsonConverter()
    made.configure(settings)
    return made


def one_by_one(settings: Mapping[str, str], schema: Schema, rows: list[list[Any]]) -> list[Any]:
    """What single records become, parsed."""
    made = converter(**settings)
    found = [made.from_connect_data("t", None, schema, Struct.of_row(schema, r)) for r in rows]
    return [json.loads(each or b"") for each in found]


ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        st.none() | st.floats(),
        st.none() | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))])),
        st.none() | st.decimals(-(10**9), 10**9, places=2),
        st.none() | st.binary(),
        st.none() | st.dates(),
        st.none() | st.times(),
        st.none() | st.booleans(),
        st.none() | st.integers(-128, 127),
        st.none() | st.lists(st.none() | st.text("ab\n")),
    ).map(list),
    min_size=1,
    max_size=6,
)


@given(ROWS, st.sampled_from([PLAIN, {}, {"decimal.format": "NUMERIC"}]))
def test_columns_become_what_single_records_become(
    rows: list[list[Any]], settings: dict[str, str]
) -> None:
    columns = list(zip(*rows, strict=True))

    written = converter(**settings).from_connect_columns("t", SCHEMA, columns)

    parsed = [json.loads(each or b"") for each in written]
    assert parsed == one_by_one(settings, SCHEMA, rows)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8, 128),
        (INT8, -129),
        (INT64, "7"),
        (INT64, True),
        (INT64, None),
        (STRING, 7),
        (STRING, "\ud800"),
        (BOOLEAN, 1),
        (TIMESTAMP, datetime(2024, 5, 1)),
        (DATE, datetime(2024, 5, 1, tzinfo=UTC)),
        (Schema.decimal(1), Decimal("1.23")),
    ],
)
def test_a_value_that_does_not_fit_is_refused(schema: Schema, value: object) -> None:
    struct = Schema.struct({"x": schema})

    with pytest.raises(DataError):
        converter(**PLAIN).from_connect_columns("t", struct, [[value]])


def test_special_numbers_are_texts() -> None:
    struct = Schema.struct({"x": FLOAT64})

    written = converter(**PLAIN).from_connect_columns("t", struct, [[1.5, math.nan, -math.inf]])

    assert written == [b'{"x":1.5}', b'{"x":"NaN"}', b'{"x":"-Infinity"}']


def test_an_envelope_holds_the_schema_before_each_payload() -> None:
    struct = Schema.struct({"day": DATE, "at": TIME})
    made = converter()
    columns: list[list[Any]] = [[date(1970, 1, 2)] * 2, [time(0, 0, 1)] * 2]

    one = made.from_connect_data("t", None, struct, Struct.of_row(struct, [c[0] for c in columns]))

    assert made.from_connect_columns("t", struct, columns) == [one, one]
