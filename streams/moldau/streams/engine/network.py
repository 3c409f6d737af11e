"""Compile a program into functions: one for each source, one after each operator with own code.

Operators are the objects behind steps (stores, clocks, code of users). A step with several parents
is one function that all of them call, so that its state is in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from operator import length_hint
from typing import Any, TypeVar

from moldau.streams.engine import fuse, lookups
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.construction import Store, make_operator, make_store
from moldau.streams.engine.extracted import TIME_MAX, require_time, whole
from moldau.streams.engine.failures import Emission, Unit
from moldau.streams.engine.flight import Arrivals, Flight, several_ways
from moldau.streams.engine.getters import as_of_getter, newest_check, table_getter
from moldau.streams.engine.global_table import GlobalStore, LookupTable
from moldau.streams.engine.operator import Clock, Current, Getter, IsNewest, Operator
from moldau.streams.engine.operators.deferred import DeferredOperator
from moldau.streams.engine.operators.user_stores import WholeRows
from moldau.streams.engine.operators.versioned import AsOf, VersionedTable, in_order
from moldau.streams.engine.row_functions import RowCheck, UpdateCheck
from moldau.streams.engine.sinks import Outlets
from moldau.streams.engine.writer import (
    DEPTH_MAX,
    STREAM,
    TABLE,
    Fields,
    Scope,
    Writer,
    operator_of,
)
from moldau.streams.plan import operations as op
from moldau.streams.plan.joins import References, Resolve, Subscribe, TableJoin
from moldau.streams.plan.operations import Step
from moldau.streams.plan.plan import Program
from moldau.streams.plan.policies import Policy
from moldau.streams.state.backing import Backing
from moldau.streams.state.journal import Journal
from moldau.streams.state.spec import StoreSpec

S = TypeVar("S")

TEMPLATES = fuse.TEMPLATES | lookups.TEMPLATES

# These operators leave out the out-of-order updates of a versioned table.
_IN_ORDER = op.Regroup | TableJoin | Subscribe | References | Resolve

# run(keys, values, times, headers): iterables of a batch, consumed in step.
Run = Callable[[Any, Any, Any, Any], None]


def _goes_on(program: Program) -> bool:
    """Whether records can run after one that failed in the middle. The code of a source comes
    before all that changes something."""
    policies = [
        step.on_error
        for step in program.steps
        if not isinstance(step.operation, op.Source | op.TableSource)
    ]
    return any(each is not None and each.goes_on for each in (program.on_error, *policies))


def _makes_rows(step: Step) -> bool:
    """Whether a user's operator makes the rows of a table in this step."""
    operation = step.operation
    return isinstance(operation, op.Process) and operation.output is op.ProcessOutput.ROWS


def _remembering(operator: Operator, entry: Callable[..., None]) -> Callable[..., None]:
    """Return `entry` of an operator that logs its scalars before."""

    def remembered(*arguments: Any) -> None:
        operator.remember()
        entry(*arguments)

    return remembered


def _no_unit(emission: Callable[[], Emission]) -> Unit:
    raise AssertionError("the task makes units")


def _unhandled(emission: Emission, error: Exception) -> None:
    raise error


class Network:
    """A program that is ready to run on one partition."""

    def __init__(
        self,
        program: Program,
        backings: Mapping[str, Backing],
        global_tables: Mapping[str, LookupTable],
    ) -> None:
        self.program = program
        self._global_tables = global_tables
        self.journal = Journal(is_on=_goes_on(program))
        self.outlets = Outlets(self.journal, program.reply_topics)
        self.current = Current()
        self.keyless: dict[str, int] = {}
        self.untimed: dict[str, int] = {}
        """The number of records to which `timestamp=` gave a negative time, by source; left out."""
        self.stores: dict[str, Store] = {
            spec.name: make_store(spec, backings[spec.name]) for spec in program.stores
        }
        # Set by the task: handles failures that belong to no single record.
        self.on_error: Callable[[Emission, Exception], None] = _unhandled
        # Set by the task: makes the unit of an emit.
        self.emitting: Callable[[Callable[[], Emission]], Unit] = _no_unit
        self.unit: Unit | None = None
        """What runs now. The task sets it for records."""
        self._emits = 0
        """How many emits are under way, one inside the other."""
        self.clocks: dict[str, Clock] = {}
        self._flight = Flight()
        self._meeting, self._parting = several_ways(program.steps)
        self.operators: dict[str, Operator] = {}
        self._steps = {step.name: step for step in program.steps}
        self._children: dict[str, list[Step]] = {step.name: [] for step in program.steps}
        for step in program.steps:
            for parent in step.parents:
                self._children[parent].append(step)
        self._entries: dict[str, Callable[..., None]] = {}
        for step in program.steps:
            operator = make_operator(self, step)
            if operator is not None:
                operator.undo = self.journal.undo
                self.operators[step.name] = operator
        for store in self.stores.values():
            store.undo = self.journal.undo
        self.runs: dict[str, Run] = {}
        # The same for one record, if records of several topics are taken in turn.
        self.single_runs: dict[str, Callable[..., None]] = {}
        for step in program.steps:
            if isinstance(step.operation, op.Source | op.TableSource):
                topics = step.operation.topics
                self.runs.update(dict.fromkeys(topics, self._source_run(step)))
                if len(program.inputs) > 1:
                    one = self._source_run(step, is_single=True)
                    self.single_runs.update(dict.fromkeys(topics, one))
        self.deferred = [
            operator
            for operator in self.operators.values()
            if isinstance(operator, DeferredOperator)
        ]
        for deferring in self.deferred:
            deferring.journal = self.journal
        for name, operator in self.operators.items():
            operator.forward = self._record_run(self._steps[name])
            operator.emit = self.guarded(name, operator.forward, self._steps[name])
            operator.emit_all = self._guarded_rows(self._steps[name], operator.forward)
            operator.guard = partial(self._guarded_input, self._steps[name])
            operator.guard_timed = partial(self.guarded, name)
            for child in self._children[name]:
                if isinstance(child.operation, op.Late):
                    operator.on_late = self._record_run(child)

    def follow(self, topic: str, chunk: Chunk, index: Callable[[], int]) -> None:
        """Let operators know the record that runs: `index` returns its index in `chunk`."""
        self.current.place = lambda: (topic, chunk.offsets[index()])
        for operator in self.deferred:
            operator.index = index

    def begin(self, unit: Unit) -> None:
        """Begin a unit: nothing of it is done."""
        self.unit = unit
        self.journal.clear()

    def end(self) -> None:
        """No record runs any more: what comes next is emitted at a commit or by the clock."""
        self.current.end()
        self.journal.clear()

    def guarded(
        self, name: str, call: Callable[..., None], step: Step | None = None
    ) -> Callable[..., None]:
        """Return `call` with its failures passed to `on_error`, with the name of the operator that
        failed. `step` emits the rows."""

        def run(*arguments: Any) -> None:
            try:
                call(*arguments)
            except Exception as error:
                self._on_failed(Emission(name, call, arguments, step), error)

        if self.journal.undo is None:
            return run
        return lambda *arguments: self.attempt(Emission(name, call, arguments, step))

    def _guarded_input(
        self, step: Step, call: Callable[..., None], parent: int
    ) -> Callable[..., None]:
        """Guard, as `guarded` does, a call of `step` with a value of one of its parents."""
        kind = self._steps[step.parents[parent]].value_type
        return self.guarded(step.name, call, replace(step, value_type=kind))

    def _guarded_rows(
        self, step: Step, forward: Callable[..., None]
    ) -> Callable[[list[Any]], None]:
        """Guard, as `guarded` does, calls of `forward` for rows of its arguments. A row that fails
        does not stop those after it."""
        loop = self._rows_run(step)

        def run(rows: list[Any]) -> None:
            left = iter(rows)

            def emission() -> Emission:
                return Emission(step.name, forward, rows[len(rows) - length_hint(left) - 1], step)

            outer, mark = self._begin_emit(emission), self.journal.mark
            try:
                while length_hint(left):
                    try:
                        loop(left)
                    except Exception as error:
                        self.journal.roll_back(self.journal.mark)
                        self._on_failed(emission(), error)
            finally:
                self.journal.mark = mark
                self._end_emit(outer)

        return run

    def attempt(self, emission: Emission) -> None:
        """Emit something, the first time or again."""
        outer, mark = self._begin_emit(lambda: emission), len(self.journal)
        try:
            emission.call(*emission.arguments)
        except Exception as error:
            self.journal.roll_back(mark)
            self._on_failed(emission, error)
        finally:
            self._end_emit(outer)

    def _begin_emit(self, emission: Callable[[], Emission]) -> Unit | None:
        """Make an emit the unit that runs; return the one around it."""
        outer, self.unit = self.unit, self.emitting(emission)
        self._emits += 1
        return outer

    def _end_emit(self, outer: Unit | None) -> None:
        self.unit = outer
        self._emits -= 1
        if not self._emits and not self.current.is_record:
            self.journal.clear()

    def _on_failed(self, emission: Emission, error: Exception) -> None:
        emission.operator = operator_of(error.__traceback__) or emission.operator
        self.on_error(emission, error)

    def _leaves_out(self, operator: str, error: Exception, mark: int) -> bool:
        """Whether an operator with a policy of its own has failed and leaves out what it would pass
        on; what it did since `mark` is undone then. Else the unit that runs has failed."""
        assert self.unit is not None
        if operator_of(error.__traceback__) != operator:
            return False
        if not self.unit.is_settled(operator, error):
            return False
        self.journal.roll_back(mark)
        self.unit.leave_out(operator, error)
        return True

    def row_check(self, step: Step, *, is_old: bool) -> RowCheck | None:
        if self.policy(step).then == "fail":
            return None
        return partial(self._leaves_out_row, step, is_old=is_old)

    def _leaves_out_row(self, step: Step, error: Exception, *, is_old: bool) -> bool:
        """Whether a row for which a step's function has failed is left out. For an old row the
        policy was carried out when it was new. By the app's policy the unit that runs is left out
        instead, if that undoes the update of the table."""
        assert self.unit is not None
        if not is_old and step.on_error is None and self.unit.undoes_updates:
            return False
        if not self.unit.is_settled(step.name, error):
            return False
        if not is_old:
            self.unit.leave_out(step.name, error)
        return True

    def update_check(self, step: Step) -> UpdateCheck | None:
        if self.policy(step).then == "fail":
            return None
        return partial(self._leaves_out_update, step)

    def _leaves_out_update(self, step: Step, error: Exception, mark: int) -> bool:
        """Whether a row is deleted because a user's operator has failed on its update, as
        `_leaves_out_row` says. What the operator did since `mark` is undone then."""
        assert self.unit is not None
        if step.on_error is None and self.unit.undoes_updates:
            return False
        if not self.unit.is_settled(step.name, error):
            return False
        self.journal.roll_back(mark)
        self.unit.leave_out(step.name, error)
        return True

    def policy(self, step: Step) -> Policy:
        return step.on_error or self.program.on_error

    # For operators and templates

    def store(self, spec: StoreSpec, kind: type[S]) -> S:
        found = self.stores[spec.name]
        assert isinstance(found, kind)
        return found

    def clock(self, step: Step) -> Clock:
        return self.clocks.setdefault(step.name, Clock())

    def getter(self, step: str) -> Getter:
        found = self._steps[step]
        how = self.getter, self.policy(found)
        return table_getter(found, self.operators, how, is_emitted=False)

    def emitted_getter(self, step: str) -> Getter:
        found = self._steps[step]
        how = self.emitted_getter, self.policy(found)
        return table_getter(found, self.operators, how, is_emitted=True)

    def arrivals(self, step: Step) -> Arrivals | None:
        return Arrivals(self._flight) if step.name in self._meeting else None

    def as_of_getter(self, step: str) -> AsOf:
        found = self._steps[step]
        return as_of_getter(found, self.operators, (self.as_of_getter, self.policy(found)))

    def newest_check(self, step: str) -> IsNewest | None:
        return newest_check(self._steps[step], self.operators, self.newest_check)

    def global_getter(self, store: str) -> Getter:
        return self._global_tables[store].get

    def global_rows(self, name: str) -> WholeRows:
        found = self._global_tables[name]
        assert isinstance(found, GlobalStore)
        return found

    def operator(self, step: Step) -> Any:
        return self.operators[step.name]

    def arm(self, step: Step, index: int) -> Step | None:
        for child in self._children[step.name]:
            if isinstance(child.operation, op.Arm) and child.operation.index == index:
                return child
        return None

    def emit_children(self, writer: Writer, step: Step, scope: Scope) -> None:
        operator = self.operators.get(step.name) if step.name in self._parting else None
        if operator is None or not step.is_table:
            self._emit_all(writer, step, scope)
            return
        flight, name = writer.bind(self._flight, "flight"), writer.bind(operator, "operator")
        writer.line(f"{flight}.begin({name}, {scope.key}, {scope.old})")
        with writer.block("try"):
            self._emit_all(writer, step, scope)
        with writer.block("finally"):
            writer.line(f"{flight}.end({name})")

    def _emit_all(self, writer: Writer, step: Step, scope: Scope) -> None:
        followers = [
            child
            for child in self._children[step.name]
            if not isinstance(child.operation, op.Late | op.Arm)
        ]
        make = None if scope.fields is None else scope.fields.make
        if make and not all(self._takes_fields(writer, child) for child in followers):
            value = writer.variable("value")
            writer.line(f"{value} = {make}")
            scope = scope.changed(value=value).known(Fields())
        for child in followers:
            self._emit(writer, step, child, scope)

    def _takes_fields(self, writer: Writer, child: Step) -> bool:
        """Whether a step takes the fields of a value that is not made yet."""
        is_inline = len(child.parents) == 1 and writer.depth < DEPTH_MAX
        return is_inline and fuse.takes_fields(child)

    def emit_late(self, writer: Writer, step: Step, scope: Scope) -> None:
        for child in self._children[step.name]:
            if isinstance(child.operation, op.Late):
                self.emit_children(writer, child, scope.changed(old="None"))

    def _emit(self, writer: Writer, parent: Step, child: Step, scope: Scope) -> None:
        outer = writer.operator
        writer.operator = child.name
        is_view = isinstance(child.operation, op.TableFilter | op.TableMapValues)
        is_view = is_view or _makes_rows(child)
        if child.on_error is None or child.on_error.then == "fail" or is_view:
            self._emit_into(writer, parent, child, scope)
        else:
            mark = writer.variable("mark")
            writer.line(f"{mark} = len({writer.bind(self.journal.undo, 'undo')})")
            with writer.block("try"):
                self._emit_into(writer, parent, child, scope)
            with writer.block("except Exception as error"):
                leaves_out = writer.bind(partial(self._leaves_out, child.name), "leaves_out")
                with writer.block(f"if not {leaves_out}(error, {mark})"):
                    writer.line("raise")
        writer.operator = outer

    def _emit_into(self, writer: Writer, parent: Step, child: Step, scope: Scope) -> None:
        template = self._template(child)
        if template is None or len(child.parents) > 1 or writer.depth >= DEPTH_MAX:
            entry = self._entry(parent, child)
            arguments = scope.arguments(is_table=parent.is_table)
            writer.line(f"{writer.bind(entry, 'entry')}({arguments})")
        else:
            template(self, writer, child, scope)

    def _template(self, step: Step) -> fuse.Template | None:
        """Return the inline code of a step; None if the step is a function of its operator."""
        if isinstance(self.operators.get(step.name), VersionedTable):
            return None
        return TEMPLATES.get(type(step.operation))

    def _entry(self, parent: Step, child: Step) -> Callable[..., None]:
        """Return the function that takes records of `parent` into `child`."""
        template = self._template(child)
        if template is None:
            entry: Callable[..., None] = self.operators[child.name].entry(parent.name)
            is_newest = None
            is_ordered = isinstance(child.operation, _IN_ORDER) or _makes_rows(child)
            if parent.is_table and is_ordered:
                is_newest = self.newest_check(parent.name)
            if self.journal.undo is not None:
                entry = _remembering(self.operators[child.name], entry)
            return entry if is_newest is None else in_order(entry, is_newest)
        found = self._entries.get(child.name)
        if found is None:
            writer = self._writer(f"into {child.name}")
            writer.operator = child.name
            scope = TABLE if parent.is_table else STREAM
            template(self, writer, child, scope)
            found = writer.compiled("run", scope.arguments(is_table=parent.is_table))
            self._entries[child.name] = found
        return found

    # Generated functions

    def _writer(self, name: str) -> Writer:
        program = self.program
        return Writer(f"<streams {program.app}/{program.index} {name}>")

    def _record_run(self, step: Step) -> Callable[..., None]:
        """Return the function of everything after a step, for one record."""
        writer = self._writer(f"after {step.name}")
        writer.operator = step.name
        scope = TABLE if step.is_table else STREAM
        self.emit_children(writer, step, scope)
        return writer.compiled("run", scope.arguments(is_table=step.is_table))

    def _rows_run(self, step: Step) -> Callable[[Iterable[Any]], None]:
        """Return the function of everything after a step, for rows of `_record_run`'s arguments."""
        writer = self._writer(f"rows after {step.name}")
        writer.operator = step.name
        scope = TABLE if step.is_table else STREAM
        writer.indented()
        self.emit_children(writer, step, scope)
        if self.journal.undo is not None:
            journal, undo = (
                writer.bind(self.journal, "journal"),
                writer.bind(self.journal.undo, "undo"),
            )
            writer.insert(f"{journal}.mark = len({undo})", 2)
        if not writer.is_empty:
            writer.insert(f"for {scope.arguments(is_table=step.is_table)} in rows:", 1)
        else:
            writer.insert("for _ in rows: pass", 1)
        return writer.compiled("run", "rows")

    def _source_run(self, step: Step, *, is_single: bool = False) -> Run:
        operation = step.operation
        assert isinstance(operation, op.Source | op.TableSource)
        writer = self._writer(f"{'one ' if is_single else ''}from {step.name}")
        writer.operator = step.name
        if not is_single:
            writer.indented()
        if operation.timestamp is not None:
            stamp = writer.bind(operation.timestamp, "timestamp")
            writer.line(f"time = {stamp}(value, time)")
            with writer.block(f"if type(time) is not int or time > {TIME_MAX}"):
                writer.line(f"time = {writer.bind(whole, 'whole')}(time)")
        with writer.block("if time >= 0"):
            if isinstance(operation, op.Source):
                self.emit_children(writer, step, STREAM)
            elif isinstance(operator := self.operators[step.name], VersionedTable):
                on_record = operator.on_record
                if self.journal.undo is not None:
                    on_record = _remembering(operator, on_record)
                entry = writer.bind(on_record, "entry")
                writer.line(f"{entry}({STREAM.arguments(is_table=False)})")
            else:
                fuse.to_table(self, writer, step, STREAM)
        with writer.block("else"):
            if operation.timestamp is None:
                writer.line(f"{writer.bind(require_time, 'require_time')}(time)")
            else:
                counts = writer.bind(self.untimed, "untimed")
                fuse.log_key(self, writer, counts, repr(step.name))
                writer.line(f"{counts}[{step.name!r}] = {counts}.get({step.name!r}, 0) + 1")
        depth = 1 if is_single else 2
        for name, codec in (("value", operation.value), ("key", operation.key)):
            decode = writer.bind(codec.decode, "decode")
            # A value is decoded even if nothing uses it, so that a poison record is noticed.
            if name == "value" or writer.uses(name):
                writer.insert(
                    f"{name} = None if raw_{name} is None else {decode}(raw_{name})", depth
                )
        if self.journal.undo is not None:
            writer.insert(f"{writer.bind(self.journal.undo, 'undo')}.clear()", depth)
        if is_single:
            return writer.compiled("run", "raw_key, raw_value, time, headers")
        writer.insert(
            "for raw_key, raw_value, time, headers in zip(keys, values, times, headers):", 1
        )
        return writer.compiled("run", "keys, values, times, headers")
