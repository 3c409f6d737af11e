"""JSON values as columns: types that Arrow's reader does not know, and what `from_json` reads."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.json_column import JsonColumn  # noqa: E402
from moldau.spark.unreadable import UnreadablePolicy  # noqa: E402
from moldau.testing import SyncEmbeddedBroker  # noqa: E402
from tests.spark.topics import make_topic, reader, send  # noqa: E402

TIME = pa.timestamp("us", "UTC")


def read(kind: Any, *values: bytes | None) -> Any:
    column = JsonColumn(pa.struct([("x", kind)]), UnreadablePolicy("value", "json"))
    found = column(pa.array(values, pa.binary())).to_pylist()
    return [None if each is None else (each["x"],) for each in found]


def test_maps_are_read_wherever_they_are() -> None:
    counts = pa.map_(pa.string(), pa.int64())
    assert read(counts, b'{"x":{"a":1,"b":null}}', b"{}", b'{"x":{"a":"1"}}', None) == [
        ([("a", 1), ("b", None)],), (None,), None, None
    ]  # fmt: skip
    nested = pa.map_(pa.string(), pa.struct([("tags", pa.list_(counts))]))
    assert read(nested, b'{"x":{"k":{"tags":[{"a":1}]}}}') == [([("k", {"tags": [[("a", 1)]]})],)]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.string(), '{"b": [1, 2.5]}', '{"b":[1,2.5]}'),
        (pa.string(), "5", "5"),
        (pa.string(), "1.50", "1.5"),
        (pa.string(), "true", "true"),
        (pa.binary(), '"aGk="', b"hi"),
        (TIME, '"2026-11-23T10:00:00.123456789Z"', datetime(2026, 11, 23, 10, 0, 0, 123456, UTC)),
        (TIME, '"2026-11-23T10:00:00+02:00"', datetime(2026, 11, 23, 8, tzinfo=UTC)),
        (TIME, "5", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        (pa.date32(), '"2026-11-23T10:00:00Z"', date(2026, 11, 23)),
        (pa.date32(), '"2026-1-3"', date(2026, 1, 3)),
        (pa.decimal128(10, 2), "1.005", Decimal("1.01")),
        (pa.decimal128(10, 2), '"7"', Decimal("7.00")),
        (pa.float64(), '"Infinity"', float("inf")),
        (pa.float64(), "5", 5.0),
    ],
)
def test_values_are_those_of_from_json(kind: Any, text: str, expected: Any) -> None:
    value = b'{"x":%s}' % text.encode()

    assert read(kind, value) == [(expected,)]
    assert read(kind, *[value] * 40, b"{}") == [*[(expected,)] * 40, (None,)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int64(), '"5"'),
        (pa.int64(), "5.5"),
        (pa.int64(), "true"),
        (pa.int8(), "300"),
        (pa.bool_(), "1"),
        (pa.binary(), '"***"'),
        (TIME, '"yesterday"'),
        (TIME, "9" * 30),
        (pa.date32(), "5.5"),
        (pa.decimal128(4, 2), "12345"),
        (pa.decimal128(4, 2), "1e999999999"),
        (pa.float64(), '"x"'),
        (pa.list_(pa.int64()), "{}"),
        (pa.map_(pa.string(), pa.int64()), "[]"),
        (pa.map_(pa.string(), pa.int64()), '{"a":' + "[" * 100_000),
    ],
)
def test_a_value_that_does_not_fit_is_null_alone(kind: Any, text: str) -> None:
    found = read(kind, b"{}", b'{"x":%s}' % text.encode(), b'{"x":null}')

    assert found == [(None,), None, (None,)]


@pytest.mark.parametrize(
    "kind", [pa.duration("us"), pa.map_(pa.int64(), pa.string()), pa.time64("us")]
)
def test_a_type_that_json_does_not_have_names_the_field(kind: Any) -> None:
    with pytest.raises(ConfigError, match="JSON has no value for this type") as raised:
        read(pa.struct([("inner", kind)]), b"{}")

    assert raised.value.context["option"] == "value.schema"
    assert raised.value.context["field"] == "x.inner"


@pytest.mark.real
def test_spark_and_from_json_agree(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    schema = (
        "m MAP<STRING, INT>, s STRING, b BINARY, t TIMESTAMP, d DATE, n DECIMAL(10,2), f DOUBLE, "
        "l ARRAY<STRUCT<m: MAP<STRING, STRING>>>"
    )
    texts: list[dict[str, Any]] = [
        {"m": {"a": 1}, "s": 5, "b": "aGk=", "t": "2026-11-23T10:00:00.123456789Z"},
        {"t": 5, "d": "2026-11-23", "n": 1.005, "f": 3, "l": [{"m": {"k": "v"}}, {"m": None}]},
        {"s": {"a": [1, True]}, "n": "12.3", "f": "NaN", "t": "2026-11-23 10:00:00"},
        {"d": "2026-1-3", "s": 1.50, "t": "2026-11-23T10:00:00.1234567891+02:00"},
        {},
    ]
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, [json.dumps(each).encode() for each in texts])

    options = {"value.format": "json", "value.schema": schema, "includeRaw": "true"}
    rows = reader(spark, moldau_broker, moldau_topic, **options).load()
    stock = f"from_json(CAST(rawValue AS STRING), '{schema}')"
    found = rows.orderBy("offset").selectExpr("value", f"{stock} AS stock").collect()

    assert [str(each.value) for each in found] == [str(each.stock) for each in found]
    assert found[0].value.m == {"a": 1}
