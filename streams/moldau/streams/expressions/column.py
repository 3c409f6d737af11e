"""What users write expressions with: `col("amount") > 10`."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from moldau.plugins.extras import install_command
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.expressions.tree import (
    AggregateCall,
    Apply,
    Expression,
    Field,
    literal,
    text_of,
)
from moldau.streams.problems import StreamsError, TopologyError

_LITERALS: Final = (
    bool, int, float, str, bytes, decimal.Decimal, datetime.datetime, datetime.date, type(None),
)  # fmt: skip
_INT_BITS: Final = 63
# What the back ends for columns need, and the extra that installs it.
_BACK_ENDS: Final = {"arrow": ("pyarrow", "arrow"), "spark": ("pyspark", "spark")}


def _operator(name: str, *, is_reversed: bool = False) -> Callable[[Column, Any], Column]:
    """Return the method of a binary operator; reversed, the column is on its right."""

    def method(self: Column, other: Any) -> Column:
        nodes = (self.node, node_of(other))
        return Column(Apply(name, nodes[::-1] if is_reversed else nodes))

    return method


class Column:
    """An expression. Operators make other expressions; nothing is computed before a record comes.

    `==` makes an expression, too: `same_as` compares two of them.
    """

    __slots__ = ("node",)

    def __init__(self, node: Expression) -> None:
        self.node = node

    def same_as(self, other: Column) -> bool:
        """Whether the other one is the same expression."""
        return self.node == other.node

    def arrow(self, rows: Any) -> Any:
        """Compute the values for an Arrow table or record batch, all at once."""
        return _back_end("arrow").computed(self.node, rows)

    def spark(self, rows: Any) -> Any:
        """Return it as a column of Spark for a DataFrame, or for the rows of a StructType. It runs
        in Java, without Python."""
        return _back_end("spark").column_of(self.node, rows)

    def __repr__(self) -> str:
        return text_of(self.node)

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        raise TopologyError(
            f"the expression {self} has no value before a record comes: write & | ~ for and, or, "
            "not, with parentheses around each comparison"
        )

    def _with(self, name: str, *others: Any, options: tuple[Any, ...] = ()) -> Column:
        nodes = (self.node, *(node_of(each) for each in others))
        return Column(Apply(name, nodes, options))

    __add__ = _operator("add")
    __radd__ = _operator("add", is_reversed=True)
    __sub__ = _operator("subtract")
    __rsub__ = _operator("subtract", is_reversed=True)
    __mul__ = _operator("multiply")
    __rmul__ = _operator("multiply", is_reversed=True)
    __truediv__ = _operator("divide")
    __rtruediv__ = _operator("divide", is_reversed=True)
    __floordiv__ = _operator("floor_divide")
    __mod__ = _operator("modulo")
    __lt__ = _operator("less")
    __le__ = _operator("less_equal")
    __gt__ = _operator("greater")
    __ge__ = _operator("greater_equal")
    __and__ = _operator("and")
    __or__ = _operator("or")

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._with("equal", other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._with("not_equal", other)

    def __neg__(self) -> Column:
        return self._with("negate")

    def __invert__(self) -> Column:
        return self._with("not")

    @property
    def dt(self) -> Times:
        """The parts of a time, in UTC."""
        return Times(self)

    def upper(self) -> Column:
        """Make all letters capital."""
        return self._with("upper")

    def lower(self) -> Column:
        """Make all letters small."""
        return self._with("lower")

    def contains(self, part: Any) -> Column:
        """Test whether the text has this part."""
        return self._with("contains", part)

    def starts_with(self, part: Any) -> Column:
        """Test whether the text begins with this part."""
        return self._with("starts_with", part)

    def length(self) -> Column:
        """The number of characters."""
        return self._with("length")

    def strip(self) -> Column:
        """Take away ASCII white space at both ends."""
        return self._with("strip")

    def substring(self, start: int, length: int) -> Column:
        """Take `length` characters; the first character is number 0."""
        for name, value in (("start", start), ("length", length)):
            if type(value) is not int or value < 0:
                raise TopologyError(f"substring: {name}={value!r} must be a number from 0 on")
        return self._with("substring", options=(start, length))

    def is_null(self) -> Column:
        """Test for null; the result is never null."""
        return self._with("is_null")

    def cast(self, type: Any) -> Column:
        """Convert to int, float, str or datetime. A value that does not fit is an error of its
        record."""
        return self._with("cast", options=(type,))

    def sum(self) -> AggregateExpression:
        """Add up the values, for `agg`."""
        return AggregateExpression(AggregateCall("sum", self.node))

    def count(self) -> AggregateExpression:
        """Count the records for which this is not null."""
        return AggregateExpression(AggregateCall("count", self.node))

    def min(self) -> AggregateExpression:
        """Keep the smallest value, for `agg`."""
        return AggregateExpression(AggregateCall("min", self.node))

    def max(self) -> AggregateExpression:
        """Keep the largest value, for `agg`."""
        return AggregateExpression(AggregateCall("max", self.node))

    def mean(self) -> AggregateExpression:
        """Compute the mean, for `agg`."""
        return AggregateExpression(AggregateCall("mean", self.node))


class Times:
    """The parts of a time, in UTC. A time without a zone is taken to be in UTC."""

    __slots__ = ("_column",)

    def __init__(self, column: Column) -> None:
        self._column = column

    @property
    def year(self) -> Column:
        return self._column._with("year")

    @property
    def month(self) -> Column:
        return self._column._with("month")

    @property
    def day(self) -> Column:
        return self._column._with("day")

    @property
    def hour(self) -> Column:
        return self._column._with("hour")

    @property
    def minute(self) -> Column:
        return self._column._with("minute")

    @property
    def second(self) -> Column:
        return self._column._with("second")

    @property
    def date(self) -> Column:
        return self._column._with("date")

    def truncate(self, duration: Duration) -> Column:
        """Round down to a multiple of a duration since 1970."""
        size_ms = milliseconds(duration, "truncate")
        if size_ms <= 0:
            raise TopologyError(f"truncate: {duration!r} must be above 0")
        return self._column._with("truncate", options=(size_ms,))


class AggregateExpression:
    """An aggregate of expressions, for `agg`."""

    __slots__ = ("node",)

    def __init__(self, node: AggregateCall) -> None:
        self.node = node

    def spark(self, rows: Any) -> Any:
        """Return it as a column of Spark, for `groupBy(...).agg(...)` of a DataFrame."""
        return _back_end("spark").aggregate_of(self.node, rows)

    def __repr__(self) -> str:
        return text_of(self.node)


class When:
    """The first part of `when(condition).then(result)`."""

    __slots__ = ("_condition", "_parts")

    def __init__(self, parts: tuple[Expression, ...], condition: Any) -> None:
        self._parts = parts
        self._condition = node_of(condition)

    def then(self, result: Any) -> Cases:
        return Cases((*self._parts, self._condition, node_of(result)))


class Cases(Column):
    """Cases so far; without `otherwise` the result is null where none holds."""

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        super().__init__(Apply("when", (*parts, literal(None))))
        self._parts = parts

    def when(self, condition: Any) -> When:
        return When(self._parts, condition)

    def otherwise(self, result: Any) -> Column:
        return Column(Apply("when", (*self._parts, node_of(result))))


def col(name: Any) -> Column:
    """Return the field of the record with this name; "a.b" is the field b of the record in a."""
    if not isinstance(name, str) or not all(name.split(".")):
        raise TopologyError(f'col: {name!r:.80} is no name of a field; write col("amount")')
    return Column(Field(tuple(name.split("."))))


def lit(value: Any) -> Column:
    """Return a constant."""
    return Column(_literal(value))


def when(condition: Any) -> When:
    """Begin cases: when(condition).then(result).otherwise(other)."""
    return When((), condition)


def coalesce(*values: Any) -> Column:
    """Return the first value that is not null."""
    if not values:
        raise TopologyError("coalesce: give at least one value")
    return Column(Apply("coalesce", tuple(node_of(each) for each in values)))


def concat(*values: Any) -> Column:
    """Join texts; null if one of them is."""
    if not values:
        raise TopologyError("concat: give at least one value")
    return Column(Apply("concat", tuple(node_of(each) for each in values)))


def count() -> AggregateExpression:
    """Count the records of a group, for `agg`."""
    return AggregateExpression(AggregateCall("count"))


def _back_end(name: str) -> Any:
    """Return the module that computes columns in another place."""
    package, extra = _BACK_ENDS[name]
    try:
        return import_module(f"moldau.streams.expressions.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise StreamsError(f"{name}(...) needs {package}: {install_command(extra)}") from None


def node_of(value: Any) -> Expression:
    """Return the tree of an expression, or of a constant."""
    if isinstance(value, Column):
        return value.node
    return _literal(value)


def _literal(value: Any) -> Expression:
    if type(value) not in _LITERALS:
        raise TopologyError(
            f"{value!r:.80} is no expression and no constant of one; constants are text, numbers, "
            "bool, bytes, Decimal, date, datetime and None"
        )
    if type(value) is int and not -(2**_INT_BITS) <= value < 2**_INT_BITS:
        raise TopologyError(f"{value} is no integer of 64 bits, as those of expressions are")
    return literal(value)
