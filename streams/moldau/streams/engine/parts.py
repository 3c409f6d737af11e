"""Which part stands behind which operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from moldau.streams.engine.aggregates import KeyedTable, WindowedTable
from moldau.streams.engine.clock import Clock
from moldau.streams.engine.operators.stream_join import StreamJoinPart
from moldau.streams.engine.operators.table_join import TableJoinPart
from moldau.streams.engine.part import Getter, Part
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Folding
from moldau.streams.plan.joins import StreamJoin, TableJoin
from moldau.streams.plan.steps import Step
from moldau.streams.serdes.windowed import FOREVER_MS
from moldau.streams.state.backing import Backing
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.records import RecordStore
from moldau.streams.state.spec import StoreKind, StoreSpec
from moldau.streams.state.windows import WindowStore
from moldau.streams.windows import TimeWindows

Store = KeyValueStore | WindowStore | RecordStore
S = TypeVar("S")


class Surroundings(Protocol):
    """What a part is made from: the stores and clocks of the task, and the tables before it."""

    def store(self, spec: StoreSpec, kind: type[S]) -> S: ...

    def clock(self, step: Step) -> Clock:
        """The clock of a step, which is kept over restarts."""
        ...

    def getter(self, step: str) -> Getter: ...


def make_part(around: Surroundings, step: Step) -> Part | None:
    """The part of a step; None for one that keeps nothing."""
    make = _PARTS.get(type(step.operation))
    return None if make is None else make(around, step)


def make_store(spec: StoreSpec, backing: Backing) -> Store:
    """The store that a spec describes."""
    if spec.kind is StoreKind.WINDOW:
        return (RecordStore if spec.has_duplicates else WindowStore)(spec, backing)
    assert spec.kind is StoreKind.KEY_VALUE
    return KeyValueStore(spec, backing)


def result_of(folding: Folding) -> Callable[[Any], Any] | None:
    """The function from what a folding stores to what is seen."""
    if folding.result is None:
        return None
    names = {name: name for name, _ in folding.functions}
    text = folding.result.format_map(names | {"old": "old"})
    made: Callable[[Any], Any] = eval(f"lambda old: {text}", dict(folding.functions))  # noqa: S307
    return made


def _aggregate(around: Surroundings, step: Step) -> Part:
    operation = step.operation
    assert isinstance(operation, op.Aggregate)
    store = around.store(operation.store, KeyValueStore)
    at_commit = operation.emit is op.Emit.COMMIT
    return KeyedTable(store, result_of(operation.folding), emits_at_commit=at_commit)


def _to_table(around: Surroundings, step: Step) -> Part:
    operation = step.operation
    assert isinstance(operation, op.ToTable)
    store = around.store(operation.store, KeyValueStore)
    return KeyedTable(store, None, emits_at_commit=operation.emit is op.Emit.COMMIT)


def _table_source(around: Surroundings, step: Step) -> Part:
    operation = step.operation
    assert isinstance(operation, op.TableSource)
    return KeyedTable(around.store(operation.store, KeyValueStore), None, emits_at_commit=False)


def _windowed(around: Surroundings, step: Step) -> Part:
    operation = step.operation
    assert isinstance(operation, op.WindowAggregate)
    windows = operation.windows
    grace = windows.grace_ms if isinstance(windows, TimeWindows) else FOREVER_MS
    store = around.store(operation.store, WindowStore)
    part = WindowedTable(store, around.clock(step), result_of(operation.folding), grace)
    part.emits_at_commit = operation.emit is op.Emit.COMMIT
    part.emits_at_close = operation.emit is op.Emit.CLOSE
    part.idle_ms = operation.idle_ms
    return part


def _stream_join(around: Surroundings, step: Step) -> Part:
    operation = step.operation
    assert isinstance(operation, StreamJoin)
    sides = (
        around.store(operation.left, RecordStore),
        around.store(operation.right, RecordStore),
    )
    waiting = None
    if operation.waiting is not None:
        waiting = around.store(operation.waiting, KeyValueStore)
    left, right = step.parents
    return StreamJoinPart(operation, around.clock(step), sides, waiting, (left, right))


def _table_join(around: Surroundings, step: Step) -> Part:
    assert isinstance(step.operation, TableJoin)
    left, right = step.parents
    getters = (around.getter(left), around.getter(right))
    return TableJoinPart(step.operation, (left, right), getters)


_PARTS: dict[type[op.Operation], Callable[[Surroundings, Step], Part]] = {
    op.Aggregate: _aggregate,
    op.ToTable: _to_table,
    op.TableSource: _table_source,
    op.WindowAggregate: _windowed,
    StreamJoin: _stream_join,
    TableJoin: _table_join,
}
