"""Expressions in operators: checked against the type of the records before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from moldau.streams.expressions.column import AggregateExpression, Column, node_of
from moldau.streams.expressions.kinds import Kind, fields_of, is_mapping, kind_of, without_none
from moldau.streams.expressions.python import function_of
from moldau.streams.expressions.tree import Expression, Field, text_of
from moldau.streams.expressions.typed import Typed, checked, condition
from moldau.streams.plan.functions import Call
from moldau.streams.plan.operations import Select
from moldau.streams.problems import TopologyError

_CONDITIONS: Final = ("filter", "filter_not", "branch")


def expression_call(column: Column, record: Any, operator: str) -> Call:
    """Return the call of an expression over the values of a step."""
    where = f"{operator}({column!r:.60})"
    check = condition if operator in _CONDITIONS else checked
    typed = check(column.node, record, where)
    return Call(function_of(typed, record), expression=typed, record=record)


def selection(record: Any, names: tuple[Any, ...], columns: Mapping[str, Any]) -> Select:
    """Return the operation that makes a record of these fields and expressions."""
    nodes: dict[str, Expression] = {}
    for each in names:
        field = Column(Field((each,))) if isinstance(each, str) else each
        if not isinstance(field, Column) or not isinstance(field.node, Field):
            raise TopologyError(
                f"select: {each!r:.80} has no name; write select(name={each!r:.40})"
            )
        if len(field.node.path) > 1 or "." in field.node.path[0]:
            name = text_of(field.node)
            raise TopologyError(
                f"select: {name} needs a name of its own: select({name.rpartition('.')[2]}="
                f'col("{name}"))'
            )
        nodes[field.node.path[0]] = field.node
    for name, value in columns.items():
        if name in nodes:
            raise TopologyError(f"select: the field {name!r} is given twice")
        nodes[name] = node_of(value)
    if not nodes:
        raise TopologyError("select: give at least one field")
    typed = _typed("select", nodes, record)
    return Select(tuple(typed.items()), record, _row_type(typed))


def addition(record: Any, columns: Mapping[str, Any]) -> Select:
    """Return the operation that adds fields to a record, or replaces some of them."""
    if not columns:
        raise TopologyError("with_columns: give at least one field")
    given = {name: node_of(value) for name, value in columns.items()}
    kind, _ = without_none(record)
    if kind_of(kind) is Kind.ANY or is_mapping(kind):
        return Select(tuple(_typed("with_columns", given, record).items()), record, dict)
    known = fields_of(kind)
    if known is None:
        name = getattr(kind, "__name__", str(kind))
        raise TopologyError(f"with_columns: {name} has no fields; use select")
    nodes: dict[str, Expression] = {name: Field((name,)) for name in known}
    typed = _typed("with_columns", nodes | given, record)
    is_same = all(name in known and _fits(typed[name], known[name]) for name in given)
    return Select(tuple(typed.items()), record, kind if is_same else _row_type(typed))


def result_record(operation: Select) -> Any:
    """Return the type of the records that a selection makes."""
    if operation.make is not dict:
        return operation.make
    known = fields_of(without_none(operation.record)[0])
    if known is None or all(
        name in known and _fits(each, known[name]) for name, each in operation.columns
    ):
        return operation.record
    return dict[str, Any]


def _typed(operator: str, nodes: Mapping[str, Expression], record: Any) -> dict[str, Typed]:
    return {
        name: checked(node, record, f"{operator}({name}={text_of(node):.60})")
        for name, node in nodes.items()
    }


def _fits(typed: Typed, declared: Any) -> bool:
    hint, may_be_null = without_none(declared)
    return typed.hint == hint and (may_be_null or not typed.is_nullable)


def _row_type(typed: Mapping[str, Typed]) -> Any:
    fields = [(name, each.result) for name, each in typed.items()]
    return msgspec.defstruct("Row", fields, frozen=True)


def aggregates(columns: Mapping[str, Any], record: Any) -> dict[str, tuple[str, Typed | None]]:
    """Return the checked aggregates of `agg`: the function and its operand, by name."""
    found: dict[str, tuple[str, Typed | None]] = {}
    for name, value in columns.items():
        if not isinstance(value, AggregateExpression):
            raise TopologyError(
                f"agg({name}={value!r:.60}): write an aggregate, as col(...).sum(), min(), max(), "
                "mean(), count(), or count()"
            )
        node, where = value.node, f"agg({name}={value!r:.60})"
        if node.operand is None:
            found[name] = (node.name, None)
            continue
        typed = checked(node.operand, record, where)
        _check_aggregate(node.name, typed, where)
        found[name] = (node.name, typed)
    if not found:
        raise TopologyError("agg: give at least one aggregate, as total=col(...).sum()")
    return found


def _check_aggregate(name: str, typed: Typed, where: str) -> None:
    numbers = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.ANY)
    allowed = numbers if name in ("sum", "mean") else (*numbers, Kind.TEXT, Kind.TIME, Kind.DATE)
    if name != "count" and typed.kind not in allowed:
        raise TopologyError(f"{where}: {typed} is {typed.kind.value}, of which there is no {name}")
