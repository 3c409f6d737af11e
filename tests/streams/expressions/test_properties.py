"""Random expressions: three values of logic, and the same in a topology as on one record."""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moldau.streams import Column, Streams, coalesce, col, lit, when
from moldau.streams.expressions.kinds import record_type
from moldau.streams.expressions.python import evaluated
from moldau.streams.expressions.tree import Apply, Expression, Field, Literal
from moldau.streams.expressions.typed import checked
from tests.streams.expressions.random_columns import ROW, SLOW, columns, comparable

ORDERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "less": operator.lt,
    "equal": operator.eq,
}


class Row(msgspec.Struct):
    a: int
    b: int | None
    c: bool | None


ROWS = st.builds(Row, st.integers(-3, 3), st.none() | st.integers(-3, 3), st.none() | st.booleans())
NUMBERS = st.recursive(
    st.sampled_from([col("a"), col("b"), lit(1), lit(None)]),
    lambda inner: (
        st.builds(operator.add, inner, inner)
        | st.builds(operator.mul, inner, inner)
        | st.builds(coalesce, inner, inner)
    ),
    max_leaves=4,
)
CONDITIONS = st.recursive(
    st.just(col("c"))
    | st.builds(operator.lt, NUMBERS, NUMBERS)
    | st.builds(operator.eq, NUMBERS, NUMBERS)
    | st.builds(Column.is_null, NUMBERS),
    lambda inner: (
        st.builds(operator.and_, inner, inner)
        | st.builds(operator.or_, inner, inner)
        | st.builds(operator.invert, inner)
        | st.builds(
            lambda one, two, three: when(one).then(two).otherwise(three), inner, inner, inner
        )
    ),
    max_leaves=6,
)


def walked(node: Expression, row: Row | None) -> Any:
    """The value of an expression by its definition: a walk through the tree."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Field):
        return None if row is None else getattr(row, node.path[0])
    values = [walked(each, row) for each in node.operands]
    return _applied(node, values)


def _applied(node: Apply, values: list[Any]) -> Any:
    if node.name == "is_null":
        return values[0] is None
    if node.name == "coalesce":
        return next((each for each in values if each is not None), None)
    if node.name == "when":
        return values[1] if values[0] is True else values[2]
    if node.name in ("and", "or"):
        end = node.name == "or"
        return end if end in values else None if None in values else not end
    if None in values:
        return None
    return not values[0] if node.name == "not" else ORDERS[node.name](*values)


@given(CONDITIONS, ROWS | st.none())
@settings(max_examples=300, deadline=None)
def test_an_expression_has_the_value_of_its_definition(column: Column, row: Row | None) -> None:
    wanted = walked(column.node, row)

    assert evaluated(column.node, Row, row) is wanted
    if row is not None:
        assert evaluated(column.node, Any, msgspec.structs.asdict(row)) is wanted


@given(CONDITIONS, NUMBERS, st.lists(ROWS | st.none(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_topology_computes_what_one_record_does(
    condition: Column, number: Column, rows: list[Row | None]
) -> None:
    app = Streams("app")
    stream = app.stream("in", Row, key=str)
    stream.filter(condition).to("kept")
    stream.filter_not(condition).to("dropped")
    stream.with_columns(a=number, d=condition).filter(col("d")).select("a", "d").to("made")
    driver = app.test()

    driver.pipe_all("in", [("k", row, 0) for row in rows])

    values = [(row, walked(condition.node, row)) for row in rows]
    kept = [row for row, holds in values if holds is True]
    assert [each.value for each in driver.read("kept", type=Row)] == kept
    dropped = [row for row, holds in values if holds is False]
    assert [each.value for each in driver.read("dropped", type=Row)] == dropped
    made = [{"a": walked(number.node, row), "d": True} for row in kept if row is not None]
    assert [each.value for each in driver.read("made", type=dict)] == made


class Wide(msgspec.Struct):
    """A record with the fields of `random_columns`, of which some are never null."""

    i: int
    j: int | None
    x: float
    y: float | None
    s: str
    u: str | None
    t: datetime.datetime
    n: datetime.datetime | None
    d: Decimal | None
    day: datetime.date
    b: bool | None
    raw: bytes | None


_NULLABLE: Final = record_type({each.name: each.type for each in msgspec.structs.fields(Wide)})


def value_or_error(column: Column, record: Any, row: Any) -> Any:
    try:
        return comparable(evaluated(column.node, record, row))
    except (ArithmeticError, ValueError):
        return "an error"


@given(columns(), ROW)
@settings(SLOW, max_examples=100)
def test_a_declared_record_has_the_values_of_a_dictionary(
    column: Column, row: dict[str, Any]
) -> None:
    declared = value_or_error(column, Wide, Wide(**row))
    nullable = value_or_error(column, _NULLABLE, row)

    assert declared == nullable


@given(columns(2), st.lists(ROW, min_size=1, max_size=4))
@settings(SLOW, max_examples=40)
def test_the_engine_computes_what_one_record_does(
    column: Column, rows: list[dict[str, Any]]
) -> None:
    values = [value_or_error(column, Wide, Wide(**row)) for row in rows]
    floats = [row[name] or 0.0 for row in rows for name in ("x", "y")]
    floats += [float(each[1]) for each in values if each[0] == "float"]
    assume(all(map(math.isfinite, floats)))  # JSON has no others
    app = Streams("app", on_error="skip")
    app.stream("in", Wide, key=str).select(found=column).to("out")
    driver = app.test()

    driver.pipe_all("in", [("k", Wide(**row), 0) for row in rows])

    kind = msgspec.defstruct("Found", [("found", driver_type(column))])
    found = [comparable(each.value.found) for each in driver.read("out", type=kind)]
    assert found == [each for each in values if each != "an error"]


def driver_type(column: Column) -> Any:
    """Return the type of the values of an expression over `Wide`."""
    return checked(column.node, Wide, "test").result
