"""What expressions mean, on records with a type and on plain dictionaries."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from moldau.streams import Column, coalesce, col, concat, lit, when
from moldau.streams.expressions.python import evaluated

UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=2))
AT = datetime.datetime(2024, 3, 1, 1, 59, 30, tzinfo=EAST)


class Inner(msgspec.Struct):
    b: int | None


class Order(msgspec.Struct):
    user: str = "Ann "
    amount: float = 1.5
    item: int = 7
    few: int | None = None
    is_paid: bool | None = None
    at: datetime.datetime = AT
    price: Decimal = Decimal("2.50")
    a: Inner | None = None


VALUES: list[tuple[Column, Any]] = [
    (col("item") + 1, 8),
    (1 - col("item"), -6),
    (col("item") * 2.0, 14.0),
    (col("item") / 2, 3.5),
    (-col("item") // 2, -4),
    (-col("item") % 4, 1),
    (col("price") * 2, Decimal("5.00")),
    (col("few") + 1, None),
    (col("few") > 1, None),
    (col("few") > col("item") / 0, None),
    (col("few") == None, None),  # noqa: E711
    ((col("few") > 1) & (col("item") > 9), False),
    ((col("few") > 1) & (col("item") > 1), None),
    ((col("few") > 1) | (col("item") > 1), True),
    ((col("few") > 1) | (col("item") > 9), None),
    (~(col("few") > 1), None),
    (~col("is_paid"), None),
    (col("few").is_null(), True),
    (col("item").is_null(), False),
    (coalesce(col("few"), col("item")), 7),
    (coalesce(col("few"), lit(None)), None),
    (
        when(col("few") > 1).then("some").when(col("item") == 7).then("seven").otherwise("x"),
        "seven",
    ),
    (when(col("few") > 1).then(1), None),
    (when(col("item") == 0).then(0).otherwise(1 / col("item")), 1 / 7),
    (when(col("item") > 0).then(1).otherwise(0.5), 1.0),
    (col("user").strip().upper(), "ANN"),
    (col("user").lower().contains("nn"), True),
    (col("user").starts_with("B"), False),
    (col("user").length(), 4),
    (col("user").substring(1, 2), "nn"),
    (concat(col("user"), "{x}", lit("!")), "Ann {x}!"),
    (col("at").dt.hour, 23),
    (col("at").dt.minute, 59),
    (col("at").dt.date, datetime.date(2024, 2, 29)),
    (col("at").dt.truncate("1h"), datetime.datetime(2024, 2, 29, 23, tzinfo=UTC)),
    (col("at").cast(int), 1709251170000),
    (col("at") > datetime.datetime(2024, 2, 29, 23, 59), True),
    (col("item").cast(datetime.datetime).dt.year, 1970),
    (col("amount").cast(int), 1),
    (col("item").cast(str), "7"),
    (lit(" 7").strip().cast(int), 7),
    (lit("1e3").cast(float), 1000.0),
    (col("is_paid").cast(str), None),
    (col("a.b") + 1, None),
]


@pytest.mark.parametrize(("column", "value"), VALUES, ids=[repr(each) for each, _ in VALUES])
def test_an_expression_has_its_value(column: Column, value: Any) -> None:
    order = Order()
    plain = {**msgspec.structs.asdict(order), "few": None}

    for record, kind in ((order, Order), (plain, Any), (order, Any)):
        found = evaluated(column.node, kind, record)
        if kind is Order or type(value) is not float:
            assert (found, type(found)) == (value, type(value))
        else:
            assert found == value


def test_a_null_record_has_null_fields() -> None:
    assert evaluated((col("item") + 1).node, Order, None) is None
    assert evaluated(col("item").is_null().node, Order, None) is True


def test_a_missing_field_of_a_dictionary_is_null() -> None:
    assert evaluated(col("a.b").node, Any, {}) is None
    assert evaluated(col("a.b").node, Any, {"a": {"b": 1}}) == 1


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (col("item") * (2**62), OverflowError),
        (col("item") / 0, ZeroDivisionError),
        (col("item") / 0 > col("few"), ZeroDivisionError),
        (col("amount") / 0.0, ZeroDivisionError),
        (col("item") // 0, ZeroDivisionError),
        (col("user").cast(int), ValueError),
        (lit("0x1").cast(float), ValueError),
        (lit(1e30).cast(int), OverflowError),
        (lit(float("nan")).cast(int), ValueError),
    ],
)
@pytest.mark.parametrize("kind", [Order, Any])
def test_what_has_no_value_is_an_error(column: Column, error: type[Exception], kind: Any) -> None:
    with pytest.raises(error):
        evaluated(column.node, kind, Order())


@pytest.mark.parametrize(
    "column", [col("user") > 1, col("user") + 1, ~col("item"), col("user").dt.hour, col("item.x")]
)
def test_a_wrong_type_without_a_declaration_is_an_error_of_the_record(column: Column) -> None:
    with pytest.raises(TypeError):
        evaluated(column.node, Any, msgspec.structs.asdict(Order()))


def test_an_expression_is_plain_data() -> None:
    one, same = (when(col("a") > 1).then(col("b.c")).otherwise(lit(None)) for _ in range(2))

    assert one.same_as(same)
    assert hash(one) == hash(same)
    assert not (col("a") + 1).same_as(col("a") + 1.0)
    assert repr(one) == "when(a > 1).then(b.c).otherwise(None)"
    assert repr((col("a") + 1) * 2 > col("t").dt.truncate("1s").cast(int)) == (
        "((a + 1) * 2) > t.truncate(1000).cast(int)"
    )
