"""Find rows of tables: in the store of a step, or made from the rows of the table before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from moldau.streams.engine.aggregates import KeyedTable, WindowedTable
from moldau.streams.engine.flight import before_flight
from moldau.streams.engine.operator import Getter, IsNewest, Operator, Row
from moldau.streams.engine.operators.foreign_key import ResolveOperator
from moldau.streams.engine.operators.sessions import SessionTable
from moldau.streams.engine.operators.suppress import SuppressOperator
from moldau.streams.engine.operators.table_join import TableJoinOperator
from moldau.streams.engine.operators.versioned import AsOf, VersionedTable
from moldau.streams.engine.row_functions import looked_up
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call
from moldau.streams.plan.operations import Step
from moldau.streams.plan.policies import Policy

# Tables that may be ahead of what they have emitted.
_EMITTING = KeyedTable | WindowedTable | SessionTable | TableJoinOperator | SuppressOperator
_TABLES = _EMITTING | ResolveOperator | VersionedTable


def as_of_getter(
    step: Step, operators: Mapping[str, Operator], how: tuple[Callable[[str], AsOf], Policy]
) -> AsOf:
    """Return the function that finds the row of a versioned table that was valid at a time."""
    operator = operators.get(step.name)
    if isinstance(operator, VersionedTable):
        return operator.as_of
    operation = step.operation
    assert isinstance(operation, op.TableFilter | op.TableMapValues)
    before, policy = how
    get = before(step.parents[0])

    def found(key: Any, time: int) -> Row | None:
        view = _filtered if isinstance(operation, op.TableFilter) else _mapped
        return view(lambda wanted: get(wanted, time), operation, policy)(key)

    return found


def newest_check(
    step: Step, operators: Mapping[str, Operator], before: Callable[[str], IsNewest | None]
) -> IsNewest | None:
    """Return the check that a versioned table's update came in order; None for any other table."""
    operator = operators.get(step.name)
    if isinstance(operator, VersionedTable):
        return operator.is_newest
    if isinstance(step.operation, op.TableFilter | op.TableMapValues):
        return before(step.parents[0])
    return None


def table_getter(
    step: Step,
    operators: Mapping[str, Operator],
    how: tuple[Callable[[str], Getter], Policy],
    *,
    is_emitted: bool,
) -> Getter:
    """Return the function that finds a row of the table that `step` makes: the present one, or the
    one that was emitted last. `how` finds rows of a table before it, and is the policy of `step`.
    """
    operator = operators.get(step.name)
    if isinstance(operator, _TABLES):
        if not is_emitted:
            return operator.get
        return before_flight(
            operator, operator.emitted if isinstance(operator, _EMITTING) else operator.get
        )
    operation = step.operation
    before, policy = how
    if isinstance(operation, op.TableFilter):
        return _filtered(before(step.parents[0]), operation, policy)
    if isinstance(operation, op.TableMapValues):
        return _mapped(before(step.parents[0]), operation, policy)
    raise AssertionError(f"{step.name} makes no table with rows that can be found")


def _filtered(get: Getter, operation: Any, policy: Policy) -> Getter:
    called = looked_up(partial(_called, operation.call), policy, operation.is_negated)

    def found(key: Any) -> Row | None:
        row = get(key)
        if row is None:
            return None
        return row if bool(called(key, row[0])) is not operation.is_negated else None

    return found


def _mapped(get: Getter, operation: Any, policy: Policy) -> Getter:
    called = looked_up(partial(_called, operation.call), policy, None)

    def found(key: Any) -> Row | None:
        row = get(key)
        if row is None or (value := called(key, row[0])) is None:
            return None
        return value, row[1]

    return found


def _called(call: Call, key: Any, value: Any) -> Any:
    return call.function(key, value) if call.takes_key else call.function(value)
