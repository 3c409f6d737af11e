"""Templates of joins that only look up: a stream with a table or a global table."""

from __future__ import annotations

from moldau.streams.engine.fuse import Template, Weaver, call, count_keyless
from moldau.streams.engine.writer import Scope, Writer
from moldau.streams.plan.functions import Call
from moldau.streams.plan.joins import GlobalLookup, JoinKind, TableLookup
from moldau.streams.plan.operations import Operation, Step


def table_lookup(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    operation = step.operation
    assert isinstance(operation, TableLookup)
    if operation.is_versioned:
        get = writer.bind(weave.as_of_getter(step.lookups[0]), "as_of")
        arguments = f"{scope.key}, {scope.time}"
    else:
        get = writer.bind(weave.getter(step.lookups[0]), "get")
        arguments = scope.key
    is_inner = operation.join is JoinKind.INNER
    keyed = f"{scope.key} is not None and " if is_inner else ""
    with writer.block(f"if {keyed}{scope.value} is not None"):
        row = writer.variable("row")
        found = f"{get}({arguments})"
        if not is_inner:
            found = f"None if {scope.key} is None else {found}"
        writer.line(f"{row} = {found}")
        _join(weave, writer, step, scope, (operation.call, row, is_inner))
    if is_inner:
        count_keyless(weave, writer, step, scope)


def global_lookup(weave: Weaver, writer: Writer, step: Step, scope: Scope) -> None:
    """Write a lookup by a key made of the record. The stream's key stays, even if it is null; a
    null lookup key finds no row."""
    operation = step.operation
    assert isinstance(operation, GlobalLookup)
    get = writer.bind(weave.global_getter(operation.global_tables[0]), "get")
    is_inner = operation.join is JoinKind.INNER
    with writer.block(f"if {scope.value} is not None"):
        wanted, row = writer.variable("wanted"), writer.variable("row")
        writer.line(f"{wanted} = {call(writer, operation.key, scope)}")
        writer.line(f"{row} = None if {wanted} is None else {get}({wanted})")
        _join(weave, writer, step, scope, (operation.call, row, is_inner))


def _join(
    weave: Weaver, writer: Writer, step: Step, scope: Scope, what: tuple[Call, str, bool]
) -> None:
    joiner, row, is_inner = what
    value = writer.variable("value")
    name = writer.bind_users(joiner.function, "join")
    key = f"{scope.key}, " if joiner.takes_key else ""
    if is_inner:
        with writer.block(f"if {row} is not None"):
            writer.line(f"{value} = {name}({key}{scope.value}, {row}[0])")
            weave.emit_children(writer, step, scope.changed(value=value))
    else:
        other = f"None if {row} is None else {row}[0]"
        writer.line(f"{value} = {name}({key}{scope.value}, {other})")
        weave.emit_children(writer, step, scope.changed(value=value))


TEMPLATES: dict[type[Operation], Template] = {
    TableLookup: table_lookup,
    GlobalLookup: global_lookup,
}
