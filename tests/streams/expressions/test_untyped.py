"""Fields without a declared type: the usual types are computed in the line, with the results and
the errors of the function that looks at the types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, TopologyError, col, dead_letter, lit
from moldau.streams.expressions import python
from moldau.streams.expressions.python import evaluated

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**63 - 1, -(2**63), 2**63]),
    st.floats(),
    st.text(max_size=3),
    st.decimals(allow_nan=False, places=2, min_value=-9, max_value=9),
    st.just([1]),
)
LITERALS = st.sampled_from([0, 2, -1, 0.0, 1.19, math.nan, "", "b", Decimal("1.5")])
BINARY = (
    *("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"),
)
TEXT = ("upper", "lower", "strip", "length")


def outcome(node: Any, record: Any) -> object:
    """The value with its type, as text so that NaN is like NaN, or the error."""
    try:
        found = evaluated(node, Any, record)
    except (TypeError, ValueError, ArithmeticError, TopologyError) as error:
        return type(error), str(error)
    return type(found), repr(found)


def both(node: Any, record: Any) -> None:
    with patch.object(python, "_usual", lambda typed: ()):
        expected = outcome(node, record)
    assert outcome(node, record) == expected


@given(st.sampled_from(BINARY), VALUES, VALUES)
def test_two_fields_are_computed_as_by_their_types(name: str, one: Any, other: Any) -> None:
    both(getattr(col("a"), name)(col("b")).node, {"a": one, "b": other})


@given(st.sampled_from(BINARY), VALUES, LITERALS)
def test_a_field_and_a_literal_are_computed_as_by_their_types(
    name: str, one: Any, other: Any
) -> None:
    both(getattr(col("a"), name)(other).node, {"a": one})


@given(st.sampled_from(TEXT), VALUES)
def test_text_functions_are_computed_as_by_the_type(name: str, one: Any) -> None:
    both(getattr(col("a"), name)().node, {"a": one})


@pytest.mark.parametrize("value", [5, "text", [1, 2], True])
def test_what_takes_no_fields_is_a_dead_letter_though_no_step_makes_a_record(value: Any) -> None:
    app = Streams("app", on_error=dead_letter("bad"))
    stream = app.stream("in", Any)
    stream.with_columns(one=lit(1)).with_columns(two=lit(2)).select("one", "two").to("out")
    driver = app.test()
    driver.pipe("in", {"a": 0})
    driver.pipe("in", value)

    assert [each.value for each in driver.read("out", type=Any)] == [{"one": 1, "two": 2}]
    assert len(driver.read("bad")) == 1


def test_added_fields_are_seen_by_each_follower_and_keep_their_order() -> None:
    app = Streams("app")
    seen: list[Any] = []
    first = app.stream("in", Any).with_columns(b=col("a") + 1, d=lit("d"))
    second = first.with_columns(a=col("b") * 2, c=col("d").upper())
    second.filter(col("a") > 3).map_values(lambda value: list(value.items())).peek(seen.append)
    second.select("c", "a", "z").to("some")
    second.to("all")
    first.to("first")
    driver = app.test()
    driver.pipe("in", {"z": 0, "a": 1})

    made = {"z": 0, "a": 4, "b": 2, "d": "d", "c": "D"}
    assert [each.value for each in driver.read("all", type=Any)] == [made]
    assert seen == [list(made.items())]
    assert [each.value for each in driver.read("some", type=Any)] == [{"c": "D", "a": 4, "z": 0}]
    assert [each.value for each in driver.read("first", type=Any)] == [
        {"z": 0, "a": 1, "b": 2, "d": "d"}
    ]
