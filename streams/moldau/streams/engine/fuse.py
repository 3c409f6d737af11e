"""Templates of the generated loop: the code of each inline operator.

A fused run is one function: the operators from a source (or from an operator with code of its own)
down to sinks and stores, written one inside the other, so that the only calls for a record are the
user's functions. Semantics are per record; batches only save calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from moldau.streams.engine.aggregates import KeyedTable, WindowedTable
from moldau.streams.engine.batches import checked_headers
from moldau.streams.engine.operator import Getter, IsNewest
from moldau.streams.engine.operators.versioned import AsOf
from moldau.streams.engine.row_functions import RowCheck
from moldau.streams.engine.sinks import Outlets, chosen_partition
from moldau.streams.engine.writer import Fields, Scope, Writer
from moldau.streams.expressions import values
from moldau.streams.expressions.kinds import without_none
from moldau.streams.expressions.python import Coder, FieldSource
from moldau.streams.expressions.tree import Apply, Field
from moldau.streams.expressions.typed import Typed
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call, Folding
from moldau.streams.plan.operations import Step
from moldau.streams.serdes.awaitables import true_unless_awaitable
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import INTERNAL_ANY
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.journal import MISSING, Journal, put_back
from moldau.streams.state.keyvalue import KeyCoding
from moldau.streams.windows import TimeWindows


class Weaver(Protocol):
    """What a template needs from the network that is being built."""

    outlets: Outlets
    journal: Journal
    keyless: dict[str, int]
    """The number of records left out because they have no key, by step."""

    def emit_children(self, writer: Writer, step: Step, scope: Scope) -> None:
        """Write the operators after `step`."""

    def emit_late(self, writer: Writer, step: Step, scope: Scope) -> None:
        """Write the step that takes the late records of `step`, if there is one."""

    def getter(self, step: str) -> Getter:
        """Return the function that finds a row of a table."""

    def as_of_getter(self, step: str) -> AsOf: ...

    def newest_check(self, step: str) -> IsNewest | None:
        """Return the check that a versioned update came in order; None for any other table."""

    def global_getter(self, store: str) -> Getter: ...

    def operator(self, step: Step) -> Any:
        """Return the object that belongs to a step: its store, clock and methods."""

    def row_check(self, step: Step, *, is_old: bool) -> RowCheck | None:
        """Return the check that the table of a step leaves out a row for which its function has
        failed; None if such a failure is one of the unit that runs."""

    def arm(self, step: Step, index: int) -> Step | None:
        """Return the arm of a branch; None if no step follows it."""


Template = Callable[[Weaver, Writer, Step, Scope], None]


def log(weave: Weaver, writer: Writer, change: str) -> None:
    """Write the line that logs how to undo a change, if the task logs changes. `change` is a
    function and its arguments."""
    undo = weave.journal.undo
    if undo is not None:
        writer.line(f"{writer.bind(undo, 'undo')}.append(({change}))")


def log_key(weave: Weaver, writer: Writer, mapping: str, key: str, old: str | None = None) -> None:
    """Write the line that logs the value of a key in a dict, before it changes."""
    if weave.journal.undo is not None:
        if old is None:
            old = f"{mapping}.get({key}, {writer.bind(MISSING, 'MISSING')})"
        log(weave, writer, f"{writer.bind(put_back, 'put_back')}, {mapping}, {key}, {old}")


def call(writer: Writer, function: Call, scope: Scope, *, hint: str = "f") -> str:
    """Return the source that calls a user's function on the record, or of its expression."""
    if function.expression is not None:
        return coder(writer, function.record, scope).value(function.expression)
    name = writer.bind_users(function.function, hint)
    arguments = f"{scope.key}, {scope.value}" if function.takes_key else scope.value
    if function.takes_headers:
        given = "()" if scope.headers == "None" else f"tuple({scope.headers} or ())"
        arguments += f", headers={given}"
    return f"{name}({arguments})"


def predicate(writer: Writer, function: Call, scope: Scope) -> str:
    """Return the source of a user's predicate. A result that has to be awaited is an error."""
    text = call(writer, function, scope)
    if function.expression is not None:
        return text
    result, check = (
        writer.variable("result"),
        writer.bind(true_unless_awaitable, "true_unless_awaitable"),
    )
    return f"(({result} := {text}) is True or ({result} and {check}({result})))"


def coder(writer: Writer, record: Any, scope: Scope) -> Coder:
    """Return what writes the source of expressions over the value."""
    known = scope.fields or Fields()
    kind, is_present = without_none(record)[0], scope.fields is not None
    source = FieldSource(scope.value, kind, is_present, known.names, known.is_dict)
    return Coder(source, writer.bind, writer.variable)


def map_values(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.MapValues)
    value = writer.variable("value")
    writer.line(f"{value} = {call(writer, step.operation.call, scope)}")
    weave.emit_children(writer, step, scope.changed(value=value))


def map_pairs(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.MapPairs)
    key, value = writer.variable("key"), writer.variable("value")
    writer.line(f"{key}, {value} = {call(writer, step.operation.call, scope)}")
    weave.emit_children(writer, step, scope.changed(key=key, value=value))


def map_headers(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.MapHeaders)
    headers = writer.variable("headers")
    checked = writer.bind(checked_headers, "checked_headers")
    text = call(writer, step.operation.call, scope)
    writer.line(f"{headers} = {checked}({text}, 'map_headers')")
    weave.emit_children(writer, step, scope.changed(headers=headers))


def select_key(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.SelectKey)
    key = writer.variable("key")
    writer.line(f"{key} = {call(writer, step.operation.call, scope)}")
    weave.emit_children(writer, step, scope.changed(key=key))


def keep(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.Filter)
    if step.operation.call.expression is not None:
        _keep_where(weave, writer, step, scope)
        return
    negation = "not " if step.operation.is_negated else ""
    with writer.block(f"if {negation}{predicate(writer, step.operation.call, scope)}"):
        weave.emit_children(writer, step, scope)


def _keep_where(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    """Keep where an expression is true, or false if negated: null is neither."""
    assert isinstance(step.operation, op.Filter)
    function = step.operation.call
    wanted = function.expression
    assert wanted is not None
    if step.operation.is_negated:
        negated = Apply("not", (wanted.node,))
        wanted = Typed(negated, bool, wanted.is_nullable, (wanted,))

    def kept(scope: Scope) -> None:
        test = coder(writer, function.record, scope).condition(wanted)
        with writer.block(f"if {test}"):
            weave.emit_children(writer, step, scope)

    if _may_keep_null(step.operation):
        _if_present(writer, scope, kept, kept)
    else:
        _if_present(writer, scope, kept, None)


def _may_keep_null(operation: op.Filter) -> bool:
    """Whether a null value passes an expression: `is_null` is true for its fields."""
    try:
        found = operation.call.function(None)
    except (TypeError, ValueError, ArithmeticError):
        return True
    return found is (not operation.is_negated)


def _if_present(
    writer: Writer,
    scope: Scope,
    present: Callable[[Scope], None],
    absent: Callable[[Scope], None] | None,
) -> None:
    """Write code for a value that is not null, and for one that is, if it may be."""
    if scope.fields is not None:
        present(scope)
        return
    if scope.value == "None":
        if absent is not None:
            absent(scope)
        return
    with writer.block(f"if {scope.value} is not None"):
        present(scope.known(Fields()))
    if absent is not None:
        with writer.block("else"):
            absent(scope.changed(value="None"))


def select(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.Select)

    def absent(scope: Scope) -> None:
        weave.emit_children(writer, step, scope)

    def present(scope: Scope) -> None:
        if operation.make is dict:
            scope = _as_dict(writer, scope)
        source = coder(writer, operation.record, scope)
        names = {}
        for name, typed in operation.columns:
            names[name] = source.value(typed)
            if not isinstance(typed.node, Field):
                field = writer.variable("field")
                writer.line(f"{field} = {names[name]}")
                names[name] = field
        if operation.make is not dict:
            make = _made(writer, operation.make, names)
            weave.emit_children(writer, step, scope.changed(value="").known(Fields(names, make)))
            return
        assert scope.fields is not None
        names = {**scope.fields.names, **names}
        parts = ", ".join(f"{name!r}: {text}" for name, text in names.items())
        make = f"{{**{scope.value}, {parts}}}"
        weave.emit_children(writer, step, scope.known(Fields(names, make, is_dict=True)))

    _if_present(writer, scope, present, absent)


def _as_dict(writer: Writer, scope: Scope) -> Scope:
    """Write code that makes sure of a dict, to which fields can be added. Return its scope."""
    known = scope.fields
    assert known is not None
    assert scope.value, "what select makes has fields, and is no dict"
    if known.is_dict:
        return scope
    value, as_dict = writer.variable("value"), writer.bind(values.as_dict, "as_dict")
    writer.line(
        f"{value} = {scope.value} if type({scope.value}) is dict else {as_dict}({scope.value})"
    )
    return scope.changed(value=value).known(Fields(known.names, is_dict=True))


def _made(writer: Writer, record: Any, names: dict[str, str]) -> str:
    """Return the source that makes a record of these fields."""
    if getattr(record, "__match_args__", None) == tuple(names):
        arguments = ", ".join(names.values())
    else:
        arguments = ", ".join(f"{name}={text}" for name, text in names.items())
    return f"{writer.bind(record, 'Row')}({arguments})"


def takes_fields(step: Step) -> bool:
    """Whether a step needs only the fields of a value, not the value itself."""
    operation = step.operation
    if isinstance(operation, op.Select):
        return True
    if isinstance(operation, op.Filter | op.MapValues):
        return operation.call.expression is not None
    return False


def flat_map(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.FlatMap)
    items = call(writer, step.operation.call, scope)
    value = writer.variable("value")
    if step.operation.is_pairs:
        key = writer.variable("key")
        inside, target = scope.changed(key=key, value=value), f"{key}, {value}"
    else:
        inside, target = scope.changed(value=value), value
    with writer.block(f"for {target} in {items}"):
        weave.emit_children(writer, step, inside)


def peek(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.Peek)
    result, check = (
        writer.variable("result"),
        writer.bind(true_unless_awaitable, "true_unless_awaitable"),
    )
    text = call(writer, step.operation.call, scope)
    with writer.block(f"if ({result} := {text}) is not None"):
        writer.line(f"{check}({result})")
    weave.emit_children(writer, step, scope)


def branch(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    assert isinstance(step.operation, op.Branch)
    for index, each in enumerate(step.operation.predicates):
        with writer.block(f"{'elif' if index else 'if'} {predicate(writer, each, scope)}"):
            if (arm := weave.arm(step, index)) is not None:
                weave.emit_children(writer, arm, scope)
    if (arm := weave.arm(step, len(step.operation.predicates))) is not None:
        with writer.block("else"):
            weave.emit_children(writer, arm, scope)


def through(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    weave.emit_children(writer, step, scope)


def sink(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.Sink)
    if operation.drops_null_keys:
        with writer.block(f"if {scope.key} is not None"):
            _write_out(weave, writer, operation, scope)
        count_keyless(weave, writer, step)
    else:
        _write_out(weave, writer, operation, scope)


def reply(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.Reply)
    if scope.headers == "None":
        return
    with writer.block(f"if {scope.headers}"):
        key = encoded(writer, operation.key, scope.key)
        value = encoded(writer, operation.value, scope.value)
        send = writer.bind(weave.outlets.reply, "reply")
        writer.line(f"{send}({scope.headers}, {key}, {value}, {scope.time})")


def count_keyless(weave: Weaver, writer: Writer, step: Step, scope: Scope | None = None) -> None:
    """Write the branch that counts records without a key, after a block that leaves them out. With
    a scope the block leaves out other records, too, which are not counted."""
    counts = writer.bind(weave.keyless, "keyless")
    head = "else" if scope is None else f"elif {scope.key} is None"
    with writer.block(head):
        log_key(weave, writer, counts, repr(step.name))
        writer.line(f"{counts}[{step.name!r}] = {counts}.get({step.name!r}, 0) + 1")


def _write_out(weave: Weaver, writer: Writer, operation: op.Sink, scope: Scope) -> None:
    if operation.topic is None:
        assert operation.topic_call is not None
        topic = call(writer, operation.topic_call, scope, hint="topic")
        out = writer.variable("out")
        way = writer.bind(operation.partitioning, "way")
        writer.line(f"{out} = {writer.bind(weave.outlets.columns, 'columns')}({topic}, {way})")
        keys, values, times = f"{out}.keys", f"{out}.values", f"{out}.timestamps"
        drop = f"{out}.undo"
    else:
        columns = weave.outlets.columns(operation.topic, operation.partitioning)
        out = writer.bind(columns, "out")
        keys, values, times = (
            writer.bind(columns.keys, "keys"),
            writer.bind(columns.values, "values"),
            writer.bind(columns.timestamps, "times"),
        )
        drop = writer.bind(columns.undo, "drop")
    # Encode both before appending either: after a failure the columns must still be equally long.
    data = writer.variable("data")
    name = writer.variable("name")
    writer.line(f"{name} = {encoded(writer, operation.key, scope.key)}")
    value = encoded(writer, operation.value, scope.value)
    writer.line(f"{data} = {value if scope.fields is None else value.partition(' else ')[2]}")
    partition = None
    if operation.partitioner is not None:
        partition = writer.variable("partition")
        chosen = call(writer, operation.partitioner, scope)
        writer.line(f"{partition} = {writer.bind(chosen_partition, 'chosen')}({chosen})")
    writer.line(f"{keys}.append({name})")
    writer.line(f"{values}.append({data})")
    writer.line(f"{times}.append({scope.time})")
    if weave.journal.undo is not None:
        writer.line(f"{writer.bind(weave.journal.undo, 'undo')}.append({drop})")
    if scope.headers != "None":
        with writer.block(f"if {scope.headers}"):
            writer.line(f"{out}.add_headers({scope.headers})")
    if partition is not None:
        writer.line(f"{out}.add_partition({partition})")


def encoded(writer: Writer, codec: Codec, name: str) -> str:
    if name == "None":
        return "None"
    return f"None if {name} is None else {writer.bind(codec.encode, 'encode')}({name})"


def changes(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    weave.emit_children(writer, step, scope.changed(old="None"))


def table_filter(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.TableFilter)
    wanted = "not " if operation.is_negated else ""

    def kept(part: str) -> str:
        test = predicate(writer, operation.call, scope.changed(value=part))
        return f"{part} if {part} is not None and {wanted}{test} else None"

    value, old, _ = _rows(weave, writer, step, scope, kept)
    # A row that neither is nor was in the filtered table is no update of it. If updates can be out
    # of order, `old` is not the last value that was sent, so a deletion is always passed on.
    held = " or ".join(f"{name} is not None" for name in (value, old) if name != "None")
    if weave.newest_check(step.parents[0]) is not None:
        held = "True"
    with writer.block(f"if {held}"):
        weave.emit_children(writer, step, scope.changed(value=value, old=old))


def table_map_values(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.TableMapValues)

    def mapped(part: str) -> str:
        text = call(writer, operation.call, scope.changed(value=part))
        return f"None if {part} is None else {text}"

    value, old, is_out = _rows(weave, writer, step, scope, mapped)
    # A row that is left out and was not there before is no update, as in a filter.
    if is_out is None or old == "None" or weave.newest_check(step.parents[0]) is not None:
        weave.emit_children(writer, step, scope.changed(value=value, old=old))
        return
    with writer.block(f"if not {is_out} or {old} is not None"):
        weave.emit_children(writer, step, scope.changed(value=value, old=old))


def _rows(
    weave: Weaver, writer: Writer, step: Step, scope: Scope, made: Callable[[str], str]
) -> tuple[str, str, str | None]:
    """Write how a table makes its row from that of the table before it, the present one and the
    old one, and return their names; the third one tells whether the present one is left out."""
    names, is_out = [], None
    for part, is_old in ((scope.value, False), (scope.old, True)):
        if part == "None":
            names.append("None")
            continue
        names.append(writer.variable("value"))
        check = weave.row_check(step, is_old=is_old)
        if check is None:
            writer.line(f"{names[-1]} = {made(part)}")
            continue
        if not is_old:
            is_out = writer.variable("is_out")
            writer.line(f"{is_out} = False")
        with writer.block("try"):
            writer.line(f"{names[-1]} = {made(part)}")
        with writer.block("except Exception as error"):
            with writer.block(f"if not {writer.bind(check, 'check')}(error)"):
                writer.line("raise")
            writer.line(f"{names[-1]} = None")
            if not is_old:
                writer.line(f"{is_out} = True")
    return names[0], names[1], is_out


def cache_name(writer: Writer, keys: KeyCoding, key: str) -> str:
    """Return the expression for the cache's name of `key`."""
    if keys.cached is None:
        return key
    encode = writer.bind(keys.codec.encode, "encode")
    name = writer.variable("name")
    if keys.codec is INTERNAL_ANY:
        writer.line(f"{name} = {key} if {key}.__class__ is str else {encode}({key})")
    else:
        writer.line(f"{name} = {encode}({key})")
    return name


def expression(writer: Writer, folding: Folding, text: str, names: dict[str, str]) -> str:
    """Return an expression of a folding with the loop's names in it."""
    bound = {name: writer.bind_users(function, name) for name, function in folding.functions}
    return text.format_map(bound | names)


def aggregate(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.Aggregate)
    operator = weave.operator(step)
    assert isinstance(operator, KeyedTable)
    with writer.block(f"if {scope.key} is not None and {scope.value} is not None"):
        store = operator.store
        name = cache_name(writer, store.keys, scope.key)
        cache = writer.bind(store.cache, "cache")
        entry = writer.variable("entry")
        with writer.block("try"):
            writer.line(f"{entry} = {cache}[{name}]")
        with writer.block("except KeyError"):
            writer.line(f"{entry} = {writer.bind(store.load, 'load')}({name})")
        fold = Fold(step, operation.folding, copies=operation.copies, codec=store.spec.value)
        now = fold.write(writer, entry, scope)
        where = (cache, name, writer.bind(store.dirty, "dirty"), entry)
        _store(weave, writer, where, (*now[1:], writer.bind(store.deleted, "deleted")))
        _announce(weave, writer, (step, operator), fold.seen(writer, now, scope), name)
    count_keyless(weave, writer, step, scope)


def to_table(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operator = weave.operator(step)
    assert isinstance(operator, KeyedTable)
    with writer.block(f"if {scope.key} is not None"):
        store = operator.store
        name = cache_name(writer, store.keys, scope.key)
        cache = writer.bind(store.cache, "cache")
        entry, old = writer.variable("entry"), writer.variable("old")
        with writer.block("try"):
            writer.line(f"{entry} = {cache}[{name}]")
        with writer.block("except KeyError"):
            writer.line(f"{entry} = {writer.bind(store.load, 'load')}({name})")
        writer.line(f"{old} = None if {entry} is None else {entry}[0]")
        where = (cache, name, writer.bind(store.dirty, "dirty"), entry)
        deleted = writer.bind(store.deleted, "deleted")
        _store(weave, writer, where, (scope.value, scope.time, deleted))
        _announce(weave, writer, (step, operator), scope.changed(old=old), name)
    count_keyless(weave, writer, step)


def window_aggregate(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, op.WindowAggregate)
    operator = weave.operator(step)
    assert isinstance(operator, WindowedTable)
    condition = f"{scope.key} is not None"
    if operation.folding.skips_null:
        condition += f" and {scope.value} is not None"
    with writer.block(f"if {condition}"):
        clock = writer.bind(operator.clock, "clock")
        with writer.block(f"if {scope.time} > {clock}.time"):
            log(weave, writer, f"{clock}.turn_back, {clock}.time")
            writer.line(f"{clock}.time = {scope.time}")
        start = writer.variable("start")
        windows = operation.windows
        if not isinstance(windows, TimeWindows):
            with writer.block(f"if {scope.time} >= {windows.start_ms}"):
                writer.line(f"{start} = {windows.start_ms}")
                _in_window(weave, writer, (step, operator), scope, start)
        elif windows.size_ms == windows.advance_ms:
            writer.line(f"{start} = {scope.time} - {scope.time} % {windows.size_ms}")
            kept = f"if {start} + {windows.size_ms + windows.grace_ms} > {clock}.time"
            with writer.block(kept):
                _in_window(weave, writer, (step, operator), scope, start)
            with writer.block("else"):
                _count_late(weave, writer, operator)
                weave.emit_late(writer, step, scope)
        else:
            _hopping(weave, writer, (step, operator), scope, start)
        if operation.emit is op.Emit.CLOSE:
            with writer.block(f"if {clock}.time >= {clock}.next_close"):
                writer.line(f"{writer.bind(operator.close, 'close')}({scope.headers})")
    count_keyless(weave, writer, step, scope)


def _count_late(weave: Weaver, writer: Writer, operator: WindowedTable) -> None:
    table = writer.bind(operator, "table")
    if weave.journal.undo is not None:
        writer.line(f"{table}.remember()")
    writer.line(f"{table}.late += 1")


def _hopping(
    weave: Weaver, writer: Writer, where: tuple[Step, WindowedTable], scope: Scope, start: str
) -> None:
    step, operator = where
    assert isinstance(step.operation, op.WindowAggregate)
    windows = step.operation.windows
    assert isinstance(windows, TimeWindows)
    clock = writer.bind(operator.clock, "clock")
    missed = writer.variable("missed")
    advance = windows.advance_ms
    writer.line(f"{start} = {scope.time} - {windows.size_ms - advance}")
    writer.line(f"{start} = {start} - {start} % {advance} if {start} > 0 else 0")
    writer.line(f"{missed} = False")
    with writer.block(f"for {start} in range({start}, {scope.time} + 1, {advance})"):
        with writer.block(f"if {start} + {windows.size_ms + windows.grace_ms} > {clock}.time"):
            _in_window(weave, writer, where, scope, start)
        with writer.block("else"):
            writer.line(f"{missed} = True")
    with writer.block(f"if {missed}"):
        _count_late(weave, writer, operator)
        weave.emit_late(writer, step, scope)


def _in_window(
    weave: Weaver, writer: Writer, where: tuple[Step, WindowedTable], scope: Scope, start: str
) -> None:
    step, operator = where
    operation = step.operation
    assert isinstance(operation, op.WindowAggregate)
    store = operator.store
    name = cache_name(writer, store.keys, scope.key)
    window, rows, entry = (writer.variable(each) for each in ("window", "rows", "entry"))
    writer.line(f"{window} = {writer.bind(store.open, 'windows')}.get({start})")
    with writer.block(f"if {window} is None"):
        writer.line(f"{window} = {writer.bind(operator.window, 'opened')}({start})")
    writer.line(f"{rows} = {window}.rows")
    writer.line(f"{entry} = {rows}.get({name})")
    with writer.block(f"if {entry} is None and not {window}.is_complete and {name} not in {rows}"):
        writer.line(f"{entry} = {writer.bind(store.load, 'load')}({window}, {name})")
    fold = Fold(step, operation.folding, copies=operation.copies, codec=store.spec.value)
    now = fold.write(writer, entry, scope)
    dirty = writer.variable("dirty")
    writer.line(f"{dirty} = {window}.dirty")
    _store(weave, writer, (rows, name, dirty, entry), (*now[1:], f"{window}.deleted"))
    if operation.emit is op.Emit.CLOSE:
        return
    if operation.emit is op.Emit.EVERY:
        key = writer.variable("key")
        windowed = writer.bind(Windowed, "Windowed")
        writer.line(f"{key} = {windowed}({scope.key}, {start}, {window}.end)")
        weave.emit_children(writer, step, fold.seen(writer, now, scope).changed(key=key))
    else:
        _remember_headers(weave, writer, (operator, f"({start}, {name})"), scope)


class Fold:
    """Writes the code by which one record changes an aggregate."""

    def __init__(self, step: Step, folding: Folding, *, copies: bool, codec: Codec) -> None:
        self.step = step
        self.folding = folding
        self.copies = copies
        self.codec = codec

    def write(self, writer: Writer, entry: str, scope: Scope) -> tuple[str, str, str]:
        """Write the change. Return the names of the old aggregate, the new one, and its time."""
        folding = self.folding
        old, new, time = (writer.variable(each) for each in ("old", "new", "time"))
        names = {"key": scope.key, "value": scope.value}
        with writer.block(f"if {entry} is None"):
            writer.line(f"{old} = None")
            if folding.first is not None:
                first = folding.first
            else:
                assert folding.initial is not None
                initial = expression(writer, folding, folding.initial, names)
                first = folding.add.replace("{old}", initial)
            writer.line(f"{new} = {expression(writer, folding, first, names)}")
            writer.line(f"{time} = {scope.time}")
        with writer.block("else"):
            writer.line(f"{old}, {time} = {entry}")
            before = old
            if self.copies:
                before = writer.variable("copy")
                decode = writer.bind(self.codec.decode, "decode")
                encode = writer.bind(self.codec.encode, "encode")
                writer.line(f"{before} = {decode}({encode}({old}))")
            names["old"] = before
            writer.line(f"{new} = {expression(writer, folding, folding.add, names)}")
            with writer.block(f"if {scope.time} > {time}"):
                writer.line(f"{time} = {scope.time}")
        return old, new, time

    def seen(self, writer: Writer, now: tuple[str, str, str], scope: Scope) -> Scope:
        """Return the scope of an update as later steps see it."""
        old, new, time = now
        if self.folding.result is not None:
            names = []
            for part in (old, new):
                names.append(writer.variable("seen"))
                text = expression(writer, self.folding, self.folding.result, {"old": part})
                writer.line(f"{names[-1]} = None if {part} is None else {text}")
            old, new = names
        return scope.changed(value=new, old=old, time=time)


def _store(
    weave: Weaver, writer: Writer, where: tuple[str, str, str, str], now: tuple[str, str, str]
) -> None:
    rows, name, dirty, entry = where
    new, time, deleted = now
    log_key(weave, writer, rows, name, entry)
    with writer.block(f"if {new} is None"):
        log_key(weave, writer, deleted, name)
        writer.line(f"{rows}[{name}] = None")
        writer.line(f"{deleted}[{name}] = {time}")
    with writer.block("else"):
        writer.line(f"{rows}[{name}] = ({new}, {time})")
    with writer.block(f"if {name} not in {dirty}"):
        log(weave, writer, f"{dirty}.pop, {name}, None")
        writer.line(f"{dirty}[{name}] = {entry}")


def _announce(
    weave: Weaver, writer: Writer, where: tuple[Step, KeyedTable], scope: Scope, name: str
) -> None:
    step, operator = where
    assert isinstance(step.operation, op.Aggregate | op.ToTable | op.TableSource)
    if operator.emits_at_commit:
        _remember_headers(weave, writer, (operator, name), scope)
    else:
        weave.emit_children(writer, step, scope)


def _remember_headers(
    weave: Weaver, writer: Writer, where: tuple[KeyedTable | WindowedTable, str], scope: Scope
) -> None:
    operator, name = where
    if scope.headers != "None":
        kept = writer.bind(operator.headers, "kept")
        with writer.block(f"if {scope.headers} or {kept}"):
            log_key(weave, writer, kept, name)
            writer.line(f"{kept}[{name}] = {scope.headers}")


TEMPLATES: dict[type[op.Operation], Template] = {
    op.MapValues: map_values, op.MapPairs: map_pairs, op.MapHeaders: map_headers,
    op.SelectKey: select_key, op.Filter: keep,
    op.Select: select, op.FlatMap: flat_map, op.Peek: peek, op.Branch: branch, op.Merge: through,
    op.Sink: sink, op.Reply: reply, op.Changes: changes, op.TableFilter: table_filter,
    op.TableMapValues: table_map_values, op.Aggregate: aggregate, op.ToTable: to_table,
    op.WindowAggregate: window_aggregate,
}  # fmt: skip
