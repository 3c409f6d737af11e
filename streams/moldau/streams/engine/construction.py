"""Make the operator of each operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from moldau.streams.engine.aggregates import KeyedTable, WindowedTable
from moldau.streams.engine.flight import Arrivals
from moldau.streams.engine.folds import Folds
from moldau.streams.engine.operator import Clock, Current, Getter, Operator
from moldau.streams.engine.operators.counted import CountTable
from moldau.streams.engine.operators.deferred import AsyncOperator, MapBatchOperator
from moldau.streams.engine.operators.foreign_key import (
    LEFT_OUT,
    ReferencesOperator,
    ResolveOperator,
    SubscribeOperator,
    foreign_key,
)
from moldau.streams.engine.operators.process import ProcessOperator, Stores
from moldau.streams.engine.operators.regrouped import RegroupOperator, TableAggregateOperator
from moldau.streams.engine.operators.sessions import SessionTable
from moldau.streams.engine.operators.sliding import SlidingTable
from moldau.streams.engine.operators.stream_join import StreamJoinOperator, joined
from moldau.streams.engine.operators.suppress import SuppressOperator
from moldau.streams.engine.operators.table_join import TableJoinOperator
from moldau.streams.engine.operators.user_stores import TableRows, WholeRows, user_store
from moldau.streams.engine.operators.versioned import AsOf, DelayedLookupOperator, VersionedTable
from moldau.streams.engine.row_functions import (
    RowCheck,
    RowFunctions,
    UpdateCheck,
    leaving_out,
    looked_up,
)
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call
from moldau.streams.plan.joins import (
    DelayedLookup,
    References,
    Resolve,
    StreamJoin,
    Subscribe,
    TableJoin,
)
from moldau.streams.plan.operations import Step
from moldau.streams.plan.plan import Program
from moldau.streams.plan.policies import Policy
from moldau.streams.serdes.windowed import FOREVER_MS
from moldau.streams.state.backing import Backing
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.records import RecordStore
from moldau.streams.state.sessions import SessionStore
from moldau.streams.state.spec import StoreKind, StoreSpec
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.state.windows import WindowStore
from moldau.streams.windows import TimeWindows

Store = KeyValueStore | WindowStore | RecordStore | SessionStore | VersionedStore
S = TypeVar("S")


class Surroundings(Protocol):
    """What operators are made from: the stores and clocks of the task, and the tables before."""

    program: Program
    current: Current

    def store(self, spec: StoreSpec, kind: type[S]) -> S: ...

    def clock(self, step: Step) -> Clock:
        """Return the clock of a step, which is kept over restarts."""

    def getter(self, step: str) -> Getter: ...

    def global_rows(self, name: str) -> WholeRows: ...

    def emitted_getter(self, step: str) -> Getter:
        """Return the function that finds the row that a table has emitted last."""

    def arrivals(self, step: Step) -> Arrivals | None:
        """Return what a join needs whose sides come from one table; None for any other join."""

    def as_of_getter(self, step: str) -> AsOf: ...

    def policy(self, step: Step) -> Policy:
        """Return the policy of a step: its own, or that of the app."""

    def row_check(self, step: Step, *, is_old: bool) -> RowCheck | None:
        """Return the check that a row for which the function of a step has failed is left out."""

    def update_check(self, step: Step) -> UpdateCheck | None:
        """Return the check that an update for which a user's operator has failed is left out."""


def make_operator(around: Surroundings, step: Step) -> Operator | None:
    """Make the operator of a step; None for a step that keeps nothing."""
    make = _OPERATORS.get(type(step.operation))
    return None if make is None else make(around, step)


def make_store(spec: StoreSpec, backing: Backing) -> Store:
    """Make the store that a spec describes."""
    if spec.kind is StoreKind.WINDOW:
        return (RecordStore if spec.has_duplicates else WindowStore)(spec, backing)
    if spec.kind is StoreKind.SESSION:
        return SessionStore(spec, backing)
    if spec.kind is StoreKind.VERSIONED:
        return VersionedStore(spec, backing)
    assert spec.kind is StoreKind.KEY_VALUE
    return KeyValueStore(spec, backing)


def _aggregate(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.Aggregate)
    store = around.store(operation.store, KeyValueStore)
    at_commit = operation.emit is op.Emit.COMMIT
    return KeyedTable(store, Folds(operation.folding).result, emits_at_commit=at_commit)


def _to_table(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.ToTable)
    if operation.store.kind is StoreKind.VERSIONED:
        return VersionedTable(around.store(operation.store, VersionedStore))
    store = around.store(operation.store, KeyValueStore)
    return KeyedTable(store, None, emits_at_commit=operation.emit is op.Emit.COMMIT)


def _table_source(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.TableSource)
    if operation.store.kind is StoreKind.VERSIONED:
        return VersionedTable(around.store(operation.store, VersionedStore))
    return KeyedTable(around.store(operation.store, KeyValueStore), None, emits_at_commit=False)


def _windowed(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.WindowAggregate)
    windows = operation.windows
    grace = windows.grace_ms if isinstance(windows, TimeWindows) else FOREVER_MS
    store = around.store(operation.store, WindowStore)
    operator = WindowedTable(store, around.clock(step), Folds(operation.folding).result, grace)
    operator.emits_at_commit = operation.emit is op.Emit.COMMIT
    operator.emits_at_close = operation.emit is op.Emit.CLOSE
    operator.idle_ms = operation.idle_ms
    return operator


def _sessions(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.SessionAggregate)
    return SessionTable(operation, around.clock(step), around.store(operation.store, SessionStore))


def _sliding(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.SlidingAggregate)
    windows = around.store(operation.store, WindowStore)
    records = around.store(operation.records, RecordStore)
    return SlidingTable(operation, around.clock(step), windows, records)


def _counted(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.CountAggregate)
    return CountTable(operation, around.store(operation.store, KeyValueStore))


def _suppress(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.Suppress)
    store = around.store(operation.store, KeyValueStore)
    [table] = step.parents
    before = (around.getter(table), around.emitted_getter(table))
    return SuppressOperator(operation, around.clock(step), (store, before), step.name)


def _regroup(around: Surroundings, step: Step) -> Operator:
    assert isinstance(step.operation, op.Regroup)
    function = step.operation.call.function
    return RegroupOperator(_row_functions(around, step, function, (None, None)))


def _table_aggregate(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.TableAggregate)
    return TableAggregateOperator(operation, around.store(operation.store, KeyValueStore))


def _process(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, op.Process)
    clock = around.clock(step)
    stores: Stores = {
        spec.name: user_store(around.store(spec, object), clock) for spec in operation.stores
    }
    for spec, table in zip(operation.tables, step.lookups, strict=True):
        rows = around.store(spec, KeyValueStore)
        stores[spec.name] = TableRows(spec.name, rows.items, around.getter(table))
    for name in operation.global_tables:
        whole = around.global_rows(name)
        stores[name] = TableRows(name, whole.items, whole.get)
    check = around.update_check(step) if operation.output is op.ProcessOutput.ROWS else None
    return ProcessOperator(operation, clock, (stores, around.current), step.name, check)


def _stream_join(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, StreamJoin)
    sides = (around.store(operation.left, RecordStore), around.store(operation.right, RecordStore))
    waiting = None
    if operation.waiting is not None:
        waiting = around.store(operation.waiting, KeyValueStore)
    left, right = step.parents
    return StreamJoinOperator(operation, around.clock(step), sides, waiting, (left, right))


def _table_join(around: Surroundings, step: Step) -> Operator:
    assert isinstance(step.operation, TableJoin)
    left, right = step.parents
    getters = (around.getter(left), around.getter(right))
    emitted = (around.emitted_getter(left), around.emitted_getter(right))
    return TableJoinOperator(
        step.operation,
        _joiners(around, step, step.operation.call),
        (left, right),
        (getters, emitted),
        around.arrivals(step),
    )


def _row_functions(
    around: Surroundings, step: Step, function: Callable[..., Any], left_out: Any = None
) -> RowFunctions:
    """Return a function of a step over rows; its result is `left_out` for one that is."""
    return RowFunctions(
        leaving_out(function, around.row_check(step, is_old=False), left_out),
        leaving_out(function, around.row_check(step, is_old=True), left_out),
        looked_up(function, around.policy(step), left_out),
    )


def _joiners(around: Surroundings, step: Step, call: Call) -> RowFunctions:
    return _row_functions(around, step, joined(call.function, takes_key=call.takes_key))


def _subscribe(around: Surroundings, step: Step) -> Operator:
    assert isinstance(step.operation, Subscribe)
    keys = _row_functions(around, step, partial(foreign_key, step.operation.on))
    return SubscribeOperator(step.operation, keys, around.current)


def _references(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, References)
    subscriptions, right = step.parents
    store = around.store(operation.store, KeyValueStore)
    return ReferencesOperator(
        operation, store, around.emitted_getter(right), (subscriptions, right)
    )


def _resolve(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, Resolve)
    answers, left = step.parents
    store = around.store(operation.store, KeyValueStore)
    keys = _row_functions(around, step, partial(foreign_key, operation.on), LEFT_OUT)
    functions = keys, _joiners(around, step, operation.call)
    getter = around.emitted_getter(left)
    return ResolveOperator(operation, functions, store, getter, (answers, left))


def _delayed_lookup(around: Surroundings, step: Step) -> Operator:
    operation = step.operation
    assert isinstance(operation, DelayedLookup)
    store = around.store(operation.store, KeyValueStore)
    as_of = around.as_of_getter(step.lookups[0])
    return DelayedLookupOperator(operation, around.clock(step), store, as_of)


def _map_batch(around: Surroundings, step: Step) -> Operator:
    assert isinstance(step.operation, op.MapBatch)
    return MapBatchOperator(step.operation, step.name, step.on_error or around.program.on_error)


def _async_step(around: Surroundings, step: Step) -> Operator:
    assert isinstance(step.operation, op.AsyncStep)
    return AsyncOperator(step.operation, step.name, step.on_error or around.program.on_error)


_OPERATORS: dict[type[op.Operation], Callable[[Surroundings, Step], Operator]] = {
    op.Aggregate: _aggregate, op.ToTable: _to_table, op.TableSource: _table_source,
    op.WindowAggregate: _windowed, op.SessionAggregate: _sessions, op.SlidingAggregate: _sliding,
    op.CountAggregate: _counted, op.Suppress: _suppress, op.Regroup: _regroup,
    op.TableAggregate: _table_aggregate, op.Process: _process, op.MapBatch: _map_batch,
    op.AsyncStep: _async_step, Subscribe: _subscribe, References: _references, Resolve: _resolve,
    DelayedLookup: _delayed_lookup, StreamJoin: _stream_join, TableJoin: _table_join,
}  # fmt: skip
