"""Steps with an operator of the user: behind a stream, and behind a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from moldau.streams.dsl.calls import NO_TYPE
from moldau.streams.dsl.joins import GlobalRows
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import TableOptions, emit_of, store_of
from moldau.streams.dsl.stores import StateStore, readable_tables
from moldau.streams.dsl.table import Table
from moldau.streams.engine.operators.process import Context
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import name_of
from moldau.streams.plan.operations import Step
from moldau.streams.plan.policies import Policy
from moldau.streams.problems import TopologyError
from moldau.streams.state.spec import StoreKind

Make = Callable[[Context], Any]
Stores = Sequence[StateStore | Table[Any, Any] | GlobalRows]


class UserOperator(NamedTuple):
    """What makes a user's operator, the stores that it uses, and its name."""

    make: Make
    stores: Stores
    name: str | None


def process_step(
    node: Node,
    operator: UserOperator,
    types: tuple[Any, Any],
    *,
    on_error: Policy | str | None,
    output: op.ProcessOutput = op.ProcessOutput.RECORDS,
) -> Step:
    """Add the step of a user's operator, and return it. `types` are those of key and value."""
    make, stores, name = operator
    if stores and not name:
        raise TopologyError('process: it has stores, so give it a name: process(..., name="...")')
    graph = node._graph
    own = [each for each in stores if isinstance(each, StateStore)]
    whole = [each for each in stores if isinstance(each, GlobalRows)]
    tables = readable_tables(node, [each for each in stores if each not in (*own, *whole)])
    globals_read = tuple(_global_name(node, each) for each in whole)
    claimed = tuple(graph.share_store(each.spec, "process") for each in own)
    is_of_table = node._step.is_table  # its rows lie where their keys belong
    parent = node
    if stores and name and not is_of_table:
        parent = Node(graph, node._partitioned(name))
    operation = op.Process(make, claimed, tuple(tables.values()), is_of_table, output, globals_read)
    label = name or f"process({name_of(make)})"
    key, kind = types
    step = parent._added(label, operation, key=key, value=kind, on_error=on_error, is_table=False)
    if is_of_table and key is not NO_TYPE:
        step = graph.steps[step.name] = replace(step, is_rekeyed=True)
    return graph.add_lookups(step, tables)


def _global_name(node: Node, rows: GlobalRows) -> str:
    """Return the name of a global table or store that an operator reads."""
    graph = node._graph
    if rows.graph is not graph:
        raise TopologyError(f"process: {rows.name} is of another app, {rows.graph.app}")
    if rows.name not in graph.global_tables:
        raise TopologyError(
            f"process: the rows of the lake table {rows.name} cannot be read by an operator: "
            "join them before"
        )
    return rows.name


def row_steps(table: Node, make: Make, stores: Stores, *, name: str, options: TableOptions) -> Step:
    """Add the steps that make a table of a table by a user's operator: it makes the rows, and a
    store keeps them. Return the last step."""
    graph = table._graph
    claimed = graph.claim_store(name, "process_values")
    kind = options.get("type", Any)
    store = store_of(claimed, StoreKind.KEY_VALUE, (table._step.key_type, kind), options)
    emit = emit_of(graph, options, "process_values")
    made = process_step(
        table,
        UserOperator(make, stores, f"{claimed}-process"),
        (NO_TYPE, kind),
        on_error=options.get("on_error"),
        output=op.ProcessOutput.ROWS,
    )
    return Node(graph, made)._added(claimed, op.ToTable(store, emit), is_table=True)
