"""Random expressions of all kinds, random rows for them, and how their values are compared."""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from moldau.streams import Column, coalesce, col, concat, lit, when

UTC: Final = datetime.UTC
SLOW: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""To draw a deep expression takes long on a busy machine."""
NAMES: Final = ("i", "j", "x", "y", "s", "u", "t", "n", "d", "day", "b", "raw")
_EDGES: Final = (0, 1, -1, 2, -3, 7, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
_FLOATS: Final = (0.0, -0.0, 1.5, -2.5, 3.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 2.0**63)
_TEXTS: Final = (
    "",
    " ",
    "a",
    "Z z",
    "\tab\n",
    "17",
    "-3",
    "1e3",
    "nan",
    "7.5",
    "stra\u00dfe",
    "\u0130x",
)
_LONG_AGO: Final = datetime.datetime(1899, 12, 31, 23, 59, 59, 999_999)

texts = st.sampled_from(_TEXTS) | st.text(
    st.characters(min_codepoint=1, max_codepoint=0x24F), max_size=4
)
ints = st.sampled_from(_EDGES) | st.integers(-10, 10)
floats = st.sampled_from(_FLOATS) | st.floats(-100, 100)
times = st.sampled_from([_LONG_AGO, datetime.datetime(2024, 2, 29, 23, 59, 59, 1)]) | st.datetimes(
    datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)
)
decimals = st.decimals(-1000, 1000, places=2, allow_nan=False, allow_infinity=False)

ROW = st.fixed_dictionaries(
    {
        "i": ints,
        "j": st.none() | ints,
        "x": floats,
        "y": st.none() | floats,
        "s": texts,
        "u": st.none() | texts,
        "t": times.map(lambda time: time.replace(tzinfo=UTC)),
        "n": st.none() | times,
        "d": st.none() | decimals,
        "day": st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
        "b": st.none() | st.booleans(),
        "raw": st.none() | st.binary(max_size=3),
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=8)

Columns = st.SearchStrategy[Column]


def _cases(conditions: Columns, of_kind: Columns) -> Columns:
    def full(condition: Column, one: Column, other: Column) -> Column:
        return when(condition).then(one).otherwise(other)

    def open_ended(condition: Column, one: Column) -> Column:
        return when(condition).then(one)

    return (
        st.builds(full, conditions, of_kind, of_kind)
        | st.builds(open_ended, conditions, of_kind)
        | st.builds(coalesce, of_kind, of_kind)
    )


def _of(operators: list[Callable[[Any, Any], Any]], one: Columns, other: Columns) -> Columns:
    return st.builds(lambda apply, a, b: apply(a, b), st.sampled_from(operators), one, other)


@lru_cache(maxsize=32)
def whole(depth: int) -> Columns:
    """Integers."""
    leaves: Columns = st.sampled_from([col("i"), col("j")]) | ints.map(lit)
    if not depth:
        return leaves
    inner, parts = whole(depth - 1), ["year", "month", "day", "hour", "minute", "second"]
    arithmetic = [
        operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
    ]  # fmt: skip
    return (
        leaves
        | _of(arithmetic, inner, inner)
        | st.builds(operator.neg, inner)
        | st.builds(lambda text: text.length(), text(depth - 1))
        | st.builds(lambda any: any.cast(int), real(depth - 1) | text(depth - 1) | time(depth - 1))
        | st.builds(lambda of, part: getattr(of.dt, part), time(depth - 1), st.sampled_from(parts))
        | _cases(condition(depth - 1), inner)
    )


@lru_cache(maxsize=32)
def real(depth: int) -> Columns:
    """Floats."""
    leaves: Columns = st.sampled_from([col("x"), col("y")]) | floats.map(lit)
    if not depth:
        return leaves
    inner, number = real(depth - 1), real(depth - 1) | whole(depth - 1)
    return (
        leaves
        | _of([operator.add, operator.sub, operator.mul, operator.truediv], inner, number)
        | _of([operator.truediv], whole(depth - 1), whole(depth - 1))
        | st.builds(operator.neg, inner)
        | st.builds(lambda any: any.cast(float), whole(depth - 1) | text(depth - 1))
        | _cases(condition(depth - 1), inner)
    )


@lru_cache(maxsize=32)
def exact(depth: int) -> Columns:
    """Decimals."""
    leaves: Columns = st.sampled_from([col("d")]) | decimals.map(lit)
    if not depth:
        return leaves
    inner, small = exact(depth - 1), st.integers(-9, 9).map(lit)
    return (
        leaves
        | _of([operator.add, operator.sub, operator.mul], inner, inner | small)
        | _of([operator.truediv], inner, small)
        | st.builds(operator.neg, inner)
        | _cases(condition(depth - 1), inner)
    )


@lru_cache(maxsize=32)
def text(depth: int) -> Columns:
    leaves: Columns = st.sampled_from([col("s"), col("u")]) | texts.map(lit)
    if not depth:
        return leaves
    inner, size = text(depth - 1), st.integers(0, 3)
    return (
        leaves
        | st.builds(
            lambda of, name: getattr(of, name)(),
            inner,
            st.sampled_from(["upper", "lower", "strip"]),
        )
        | st.builds(lambda of, start, length: of.substring(start, length), inner, size, size)
        | st.builds(concat, inner, inner)
        | st.builds(lambda any: any.cast(str), whole(depth - 1) | condition(depth - 1))
        | _cases(condition(depth - 1), inner)
    )


@lru_cache(maxsize=32)
def time(depth: int) -> Columns:
    leaves: Columns = st.sampled_from([col("t"), col("n")]) | times.map(lit)
    if not depth:
        return leaves
    inner = time(depth - 1)
    return (
        leaves
        | st.builds(
            lambda of, size: of.dt.truncate(size), inner, st.sampled_from(["7s", "1h", "1d"])
        )
        | st.builds(lambda number: number.cast(datetime.datetime), whole(depth - 1))
        | _cases(condition(depth - 1), inner)
    )


@lru_cache(maxsize=32)
def condition(depth: int) -> Columns:
    leaves: Columns = st.sampled_from([col("b"), lit(True), lit(None)])
    if not depth:
        return leaves
    inner = condition(depth - 1)
    orders: list[Callable[[Any, Any], Any]] = [
        operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
    ]  # fmt: skip
    dates = st.just(col("day")) | st.builds(lambda of: of.dt.date, time(depth - 1))
    number = whole(depth - 1) | real(depth - 1)
    kinds = [
        (number, number),
        (exact(depth - 1), exact(depth - 1) | whole(0)),
        (text(depth - 1), text(depth - 1)),
        (time(depth - 1), time(depth - 1)),
        (dates, dates),
        (st.just(col("raw")), st.just(col("raw")) | st.binary(max_size=2).map(lit)),
    ]
    compared = st.one_of(*(_of(orders, one, other) for one, other in kinds))
    searches = ["contains", "starts_with"]
    return (
        compared
        | _of([operator.and_, operator.or_], inner, inner)
        | st.builds(operator.invert, inner)
        | st.builds(Column.is_null, number | text(depth - 1) | inner)
        | st.builds(
            lambda of, name, part: getattr(of, name)(part),
            text(depth - 1), st.sampled_from(searches), text(depth - 1),
        )
        | _cases(inner, inner)
    )  # fmt: skip


def columns(depth: int = 3) -> Columns:
    """Expressions of every kind."""
    kinds = [each(depth) for each in (whole, real, exact, text, time, condition)]
    return st.one_of(*kinds, st.sampled_from([col(name) for name in NAMES]))


def comparable(value: Any) -> Any:
    """Return a value that is equal only to the same one: NaN to itself, 1 not to 1.0 or True."""
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, bytearray):
        value = bytes(value)
    if isinstance(value, Decimal):
        return "Decimal", value.normalize()
    if isinstance(value, float) and math.isnan(value):
        return "float", "nan"
    return type(value).__name__, value
