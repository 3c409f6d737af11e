"""Finds rows of tables: in the store of a step, or made from the rows of the table before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moldau.streams.engine.aggregates import KeyedTable, WindowedTable
from moldau.streams.engine.operators.table_join import TableJoinPart
from moldau.streams.engine.part import Getter, Part, Row
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call
from moldau.streams.plan.steps import Step


def table_getter(step: Step, parts: Mapping[str, Part], before: Callable[[str], Getter]) -> Getter:
    """The function that finds a row of the table that `step` makes."""
    part = parts.get(step.name)
    if isinstance(part, KeyedTable | WindowedTable | TableJoinPart):
        return part.get
    operation = step.operation
    if isinstance(operation, op.TableFilter):
        return _filtered(before(step.parents[0]), operation)
    if isinstance(operation, op.TableMapValues):
        return _mapped(before(step.parents[0]), operation.call)
    raise AssertionError(f"{step.name} makes no table whose rows can be found")


def _filtered(get: Getter, operation: op.TableFilter) -> Getter:
    def found(key: Any) -> Row | None:
        row = get(key)
        if row is None:
            return None
        holds = _called(operation.call, key, row[0])
        return row if bool(holds) is not operation.is_negated else None

    return found


def _mapped(get: Getter, call: Call) -> Getter:
    def found(key: Any) -> Row | None:
        row = get(key)
        if row is None or (value := _called(call, key, row[0])) is None:
            return None
        return value, row[1]

    return found


def _called(call: Call, key: Any, value: Any) -> Any:
    return call.function(key, value) if call.takes_key else call.function(value)
