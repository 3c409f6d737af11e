"""Weaves a program into functions: one for each source, and one for what follows an operator that
has code of its own.

Parts are the objects behind steps (stores, clocks, operators). A step with several parents is one
function that all of them call, so that its state stands in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from moldau.streams.engine import fuse
from moldau.streams.engine.aggregates import KeyedTable, WindowedTable
from moldau.streams.engine.clock import Clock
from moldau.streams.engine.scope import STREAM, TABLE, Scope
from moldau.streams.engine.sinks import Outlets
from moldau.streams.engine.writer import DEPTH_MAX, Writer
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Folding
from moldau.streams.plan.plan import Program
from moldau.streams.plan.steps import Step
from moldau.streams.serdes.windowed import FOREVER_MS
from moldau.streams.state.backing import Backing
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.spec import StoreKind, StoreSpec
from moldau.streams.state.windows import WindowStore
from moldau.streams.windows import TimeWindows

# run(keys, values, times, headers): iterables of a batch, consumed in step.
Run = Callable[[Any, Any, Any, Any], None]
Store = KeyValueStore | WindowStore

_serial = count()


class Network:
    """A program that is ready to run on one partition."""

    def __init__(self, program: Program, backings: Mapping[str, Backing]) -> None:
        self.program = program
        self.outlets = Outlets()
        self.stores: dict[str, Store] = {
            spec.name: make_store(spec, backings[spec.name]) for spec in program.stores
        }
        self.clocks: dict[str, Clock] = {}
        self.parts: dict[str, Any] = {}
        self._steps = {step.name: step for step in program.steps}
        self._children: dict[str, list[Step]] = {step.name: [] for step in program.steps}
        for step in program.steps:
            for parent in step.parents:
                self._children[parent].append(step)
        self._entries: dict[str, Callable[..., None]] = {}
        self._serial = next(_serial)
        for step in program.steps:
            self._make_part(step)
        self.runs: dict[str, Run] = {}
        for step in program.steps:
            if isinstance(step.operation, op.Source | op.TableSource):
                run = self._source_run(step)
                self.runs.update(dict.fromkeys(step.operation.topics, run))
        for name, part in self.parts.items():
            part.forward = self._record_run(self._steps[name])

    # What the templates ask for.

    def part(self, step: Step) -> Any:
        return self.parts[step.name]

    def arm(self, step: Step, index: int) -> Step | None:
        for child in self._children[step.name]:
            if isinstance(child.operation, op.Arm) and child.operation.index == index:
                return child
        return None

    def emit_children(self, writer: Writer, step: Step, scope: Scope) -> None:
        for child in self._children[step.name]:
            if not isinstance(child.operation, op.Late | op.Arm):
                self._emit(writer, step, child, scope)

    def emit_late(self, writer: Writer, step: Step, scope: Scope) -> None:
        for child in self._children[step.name]:
            if isinstance(child.operation, op.Late):
                self.emit_children(writer, child, scope.changed(old="None"))

    def _emit(self, writer: Writer, parent: Step, child: Step, scope: Scope) -> None:
        outer = writer.operator
        writer.operator = child.name
        template = fuse.TEMPLATES.get(type(child.operation))
        if template is None or len(child.parents) > 1 or writer.depth >= DEPTH_MAX:
            entry = self._entry(parent, child)
            arguments = scope.arguments(is_table=parent.is_table)
            writer.line(f"{writer.bind(entry, 'entry')}({arguments})")
        else:
            template(self, writer, child, scope)
        writer.operator = outer

    def _entry(self, parent: Step, child: Step) -> Callable[..., None]:
        """The function that takes records of `parent` into `child`."""
        if type(child.operation) not in fuse.TEMPLATES:
            entry: Callable[..., None] = self.parts[child.name].entry(parent.name)
            return entry
        found = self._entries.get(child.name)
        if found is None:
            writer = self._writer(child.name)
            writer.operator = child.name
            scope = TABLE if parent.is_table else STREAM
            fuse.TEMPLATES[type(child.operation)](self, writer, child, scope)
            found = writer.compiled("run", scope.arguments(is_table=parent.is_table))
            self._entries[child.name] = found
        return found

    # Functions.

    def _writer(self, name: str) -> Writer:
        program = self.program
        return Writer(f"<streams {program.app}/{program.index}#{self._serial} after {name}>")

    def _record_run(self, step: Step) -> Callable[..., None]:
        """What follows a step, for one record."""
        writer = self._writer(step.name)
        writer.operator = step.name
        scope = TABLE if step.is_table else STREAM
        self.emit_children(writer, step, scope)
        return writer.compiled("run", scope.arguments(is_table=step.is_table))

    def _source_run(self, step: Step) -> Run:
        operation = step.operation
        assert isinstance(operation, op.Source | op.TableSource)
        writer = self._writer(step.name)
        writer.operator = step.name
        writer.indented()
        if operation.timestamp is not None:
            stamp = writer.bind(operation.timestamp, "timestamp")
            writer.line(f"time = {stamp}(value, time)")
        with writer.block("if time >= 0"):
            if isinstance(operation, op.Source):
                self.emit_children(writer, step, STREAM)
            elif operation.store is None:
                fuse.plain_table(self, writer, step, STREAM)
            else:
                fuse.to_table(self, writer, step, STREAM)
        for part, codec in (("value", operation.value), ("key", operation.key)):
            decode = writer.bind(codec.decode, "decode")
            if writer.uses(part):
                writer.insert(f"{part} = None if raw_{part} is None else {decode}(raw_{part})", 2)
        writer.insert(
            "for raw_key, raw_value, time, headers in zip(keys, values, times, headers):", 1
        )
        return writer.compiled("run", "keys, values, times, headers")

    # Parts.

    def _make_part(self, step: Step) -> None:
        operation = step.operation
        part: Any = None
        if isinstance(operation, op.Aggregate):
            part = KeyedTable(
                self._keyed(operation.store),
                result_of(operation.folding),
                emits_at_commit=operation.emit is op.Emit.COMMIT,
            )
        elif isinstance(operation, op.ToTable):
            at_commit = operation.emit is op.Emit.COMMIT
            part = KeyedTable(self._keyed(operation.store), None, emits_at_commit=at_commit)
        elif isinstance(operation, op.TableSource) and operation.store is not None:
            part = KeyedTable(self._keyed(operation.store), None, emits_at_commit=False)
        elif isinstance(operation, op.WindowAggregate):
            part = self._windowed(step, operation)
        if part is not None:
            self.parts[step.name] = part

    def _windowed(self, step: Step, operation: op.WindowAggregate) -> WindowedTable:
        store = self.stores[operation.store.name]
        assert isinstance(store, WindowStore)
        clock = self.clocks[step.name] = Clock()
        windows = operation.windows
        grace = windows.grace_ms if isinstance(windows, TimeWindows) else FOREVER_MS
        part = WindowedTable(store, clock, result_of(operation.folding), grace)
        part.emits_at_commit = operation.emit is op.Emit.COMMIT
        part.emits_at_close = operation.emit is op.Emit.CLOSE
        part.idle_ms = operation.idle_ms
        return part

    def _keyed(self, spec: StoreSpec) -> KeyValueStore:
        store = self.stores[spec.name]
        assert isinstance(store, KeyValueStore)
        return store


def make_store(spec: StoreSpec, backing: Backing) -> Store:
    """The store that a spec describes."""
    if spec.kind is StoreKind.WINDOW:
        return WindowStore(spec, backing)
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
