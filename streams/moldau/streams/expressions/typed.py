"""Check an expression against the type of its records, when the topology is made."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.expressions.kinds import (
    NUMBERS,
    ORDERED,
    Kind,
    NoneType,
    field_type,
    kind_of,
    unified,
    without_none,
)
from moldau.streams.expressions.tree import Apply, Expression, Field, Literal, text_of
from moldau.streams.problems import TopologyError


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression with the type of its result (without None), and whether that may be null."""

    node: Expression
    hint: Any
    is_nullable: bool
    operands: tuple[Typed, ...] = ()

    @property
    def kind(self) -> Kind:
        return kind_of(self.hint)

    @property
    def result(self) -> Any:
        """The type of the result, with None if it may be null."""
        return self.hint | None if self.is_nullable and self.hint is not Any else self.hint

    @property
    def name(self) -> str:
        """The name of the function; empty for fields and literals."""
        return self.node.name if isinstance(self.node, Apply) else ""

    def __str__(self) -> str:
        return text_of(self.node)


def checked(node: Expression, record: Any, where: str) -> Typed:
    """Return an expression with its types. Raise TopologyError if it does not fit the records;
    `where` names the step."""
    try:
        return _typed(node, without_none(record)[0])
    except (LookupError, TypeError) as error:
        raise TopologyError(f"{where}: {error.args[0]}") from None


def condition(node: Expression, record: Any, where: str) -> Typed:
    """Check an expression that has to be true or false."""
    found = checked(node, record, where)
    if found.kind not in (Kind.BOOL, Kind.ANY, Kind.NULL):
        raise TopologyError(f"{where}: {found} is {found.kind.value}, and no condition")
    return found


def _typed(node: Expression, record: Any) -> Typed:
    if isinstance(node, Literal):
        return Typed(node, type(node.value), node.value is None)
    if isinstance(node, Field):
        hint, is_nullable = record, False
        for name in node.path:
            hint, may_be_null = field_type(hint, name)
            is_nullable = is_nullable or may_be_null
        return Typed(node, hint, is_nullable)
    return applied(node, tuple(_typed(each, record) for each in node.operands))


def applied(node: Apply, operands: tuple[Typed, ...]) -> Typed:
    """Return a function of typed operands with its type. Raise TypeError if they do not fit."""
    try:
        hint = _RULES[node.name](node, operands)
    except TypeError as error:
        raise TypeError(f"{text_of(node)}: {error}") from None
    return Typed(node, hint, _is_nullable(node, operands), operands)


def _is_nullable(node: Apply, operands: tuple[Typed, ...]) -> bool:
    if node.name == "is_null":
        return False
    if node.name == "coalesce":
        return all(each.is_nullable for each in operands)
    if node.name == "when":
        return any(each.is_nullable for each in (*operands[1::2], operands[-1]))
    return any(each.is_nullable for each in operands)


def may_fail(typed: Typed) -> bool:
    """Whether the expression can have no value for a record with fields of their types."""
    if any(may_fail(each) for each in typed.operands):
        return True
    if typed.name in ("add", "subtract", "multiply", "negate"):
        return typed.kind is not Kind.FLOAT
    return typed.name in ("divide", "floor_divide", "modulo", "cast", "truncate")


def _take(operands: tuple[Typed, ...], kinds: tuple[Kind, ...], what: str) -> None:
    for each in operands:
        if each.kind not in (*kinds, Kind.ANY, Kind.NULL):
            raise TypeError(f"{each} is {each.kind.value}, and must be {what}")


def _arithmetic(node: Apply, operands: tuple[Typed, ...]) -> Any:
    _take(operands, NUMBERS, "a number")
    kinds = {each.kind for each in operands} - {Kind.NULL}
    if Kind.ANY in kinds:
        return Any
    if {Kind.DECIMAL, Kind.FLOAT} <= kinds:
        raise TypeError("Decimal and float do not mix; cast one of them")
    if not kinds:
        return NoneType
    if node.name == "divide" and Kind.DECIMAL not in kinds:
        return float
    return unified_numbers(operands)


def unified_numbers(operands: tuple[Typed, ...]) -> Any:
    """Return the type of a result computed from these numbers."""
    for kind in (Kind.DECIMAL, Kind.FLOAT):
        found = [each.hint for each in operands if each.kind is kind]
        if found:
            return found[0]
    return int


def _whole(node: Apply, operands: tuple[Typed, ...]) -> Any:
    _take(operands, (Kind.INT,), "an integer")
    return Any if any(each.kind is Kind.ANY for each in operands) else int


def _comparison(node: Apply, operands: tuple[Typed, ...]) -> Any:
    kinds = [each.kind for each in operands]
    is_equality = node.name in ("equal", "not_equal")
    if not is_equality:
        _take(operands, ORDERED, "of a type with an order")
    known = {kind for kind in kinds if kind not in (Kind.ANY, Kind.NULL)}
    if is_equality and Kind.OTHER in known:
        return bool
    if len(known) > 1 and not (known <= set(NUMBERS) and known != {Kind.DECIMAL, Kind.FLOAT}):
        one, other = (f"{each} ({each.kind.value})" for each in operands)
        raise TypeError(f"{one} and {other} cannot be compared; use cast(...)")
    return bool


def _logic(node: Apply, operands: tuple[Typed, ...]) -> Any:
    _take(operands, (Kind.BOOL,), "true or false; put comparisons in parentheses")
    return bool


def _test(node: Apply, operands: tuple[Typed, ...]) -> Any:
    return bool


def _cases(node: Apply, operands: tuple[Typed, ...]) -> Any:
    _take(operands[:-1:2], (Kind.BOOL,), "true or false")
    return unified([each.hint for each in (*operands[1::2], operands[-1])])


def _first(node: Apply, operands: tuple[Typed, ...]) -> Any:
    return unified([each.hint for each in operands])


def _of_text(result: Any) -> Callable[[Apply, tuple[Typed, ...]], Any]:
    def rule(node: Apply, operands: tuple[Typed, ...]) -> Any:
        _take(operands, (Kind.TEXT,), "str")
        return result

    return rule


def _of_time(result: Any) -> Callable[[Apply, tuple[Typed, ...]], Any]:
    def rule(node: Apply, operands: tuple[Typed, ...]) -> Any:
        _take(operands, (Kind.TIME,), "datetime; cast(datetime) takes milliseconds since 1970")
        return result

    return rule


CASTS: Final = {
    int: (Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.BOOL, Kind.TIME),
    float: (Kind.INT, Kind.FLOAT, Kind.TEXT),
    str: (Kind.TEXT, Kind.INT, Kind.BOOL),
    datetime.datetime: (Kind.TIME, Kind.INT),
}


def _cast(node: Apply, operands: tuple[Typed, ...]) -> Any:
    (target,) = node.options
    if target not in CASTS:
        raise TypeError(f"{target!r} is no type to cast to; int, float, str and datetime are")
    kinds = CASTS[target]
    _take(operands, kinds, " or ".join(each.value for each in kinds))
    return target


_RULES: Final[dict[str, Callable[[Apply, tuple[Typed, ...]], Any]]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "negate"), _arithmetic),
    **dict.fromkeys(("floor_divide", "modulo"), _whole),
    **dict.fromkeys(
        ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _comparison
    ),
    **dict.fromkeys(("and", "or", "not"), _logic),
    "is_null": _test,
    "when": _cases,
    "coalesce": _first,
    "cast": _cast,
    **dict.fromkeys(("upper", "lower", "strip", "substring", "concat"), _of_text(str)),
    **dict.fromkeys(("contains", "starts_with"), _of_text(bool)),
    "length": _of_text(int),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second"), _of_time(int)),
    "date": _of_time(datetime.date),
    "truncate": _of_time(datetime.datetime),
}
