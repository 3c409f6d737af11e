"""Joins in the DSL: the operation and the stores that each pair of streams and tables needs.

A foreign-key join is three steps, with two topics between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from moldau.streams.dsl.calls import call_of, check_sync
from moldau.streams.dsl.inference import required_parameters, result_type, takes
from moldau.streams.dsl.node import Node
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.plan import joins
from moldau.streams.plan.functions import Call
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.joins import JoinKind, JoinWindows, References, Resolve, Subscribe, within
from moldau.streams.plan.operations import (
    Merge,
    Operation,
    Repartition,
    Step,
    TableFilter,
    TableMapValues,
    TableSource,
    ToTable,
)
from moldau.streams.plan.policies import Policy, policy
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import (
    answer_codec,
    held_codec,
    list_codec,
    reference_codec,
    reference_key_codec,
    subscription_codec,
    waiting_key_codec,
)
from moldau.streams.serdes.types import BYTES, UndeclaredType, key_codec, stored_codec, type_name
from moldau.streams.state.spec import StoreKind, StoreSpec, slice_of

Joiner = Callable[..., Any]


class GlobalRows:
    """A global table or one of a lake, in the DSL: streams look up its rows from any partition."""

    def __init__(self, graph: Graph, name: str, value_type: Any) -> None:
        self.graph = graph
        self.name = name
        self.value_type = value_type


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both values: the result of a join without a function."""
    return left, right


def join_call(function: Joiner | None, operator: str) -> Call:
    """Return the call of function(left, right).

    It is called as function(key, left, right) if it requires three arguments.
    """
    if function is None:
        return Call(pair)
    if not callable(function):
        raise TopologyError(f"{operator}: expected a function of both values, got {function!r:.80}")
    required = required_parameters(function)
    if required > 3:
        raise TopologyError(
            f"{operator}: {function!r:.80} requires {required} arguments, not 2 or 3"
        )
    if not takes(function, max(required, 2)):
        raise TopologyError(
            f"{operator}: {function!r:.80} takes no two arguments; it is called with both values"
        )
    check_sync(operator, function)
    return Call(function, takes_key=required == 3)


def joined_type(call: Call, left: Any, right: Any, kind: JoinKind = JoinKind.INNER) -> Any:
    """Return the type of a join's results."""
    if call.function is pair:
        if any(
            not isinstance(part, type) or hasattr(part, "model_validate") for part in (left, right)
        ):
            return Any
        if kind is not JoinKind.INNER:
            right = right | None
        return tuple.__class_getitem__((left | None if kind is JoinKind.OUTER else left, right))
    return result_type(Call(call.function), Any, Any)


def join_streams(
    nodes: tuple[Node, Node],
    kind: JoinKind,
    function: Joiner | None,
    span: JoinWindows | Duration | None,
    name: str | None,
) -> Step:
    """Join two streams within a span of time."""
    left, right = nodes
    graph = left._graph
    if span is None:
        raise TopologyError('join: two streams join within a time: within=within("5s")')
    windows = span if isinstance(span, JoinWindows) else within(span)
    claimed = graph.claim_store(name, "join")
    first = left._partitioned(f"{claimed}-left", keeps_null_keys=kind is not JoinKind.INNER)
    second = right._partitioned(f"{claimed}-right", keeps_null_keys=kind is JoinKind.OUTER)
    if first.name == second.name:
        # The twin is added first, so that each record arrives on the left side first.
        first = _twin(graph, second)
    key = unified_key((first, second), claimed)
    first, second = (settle_key(graph, step, key) for step in (first, second))
    call = join_call(function, "join")
    retention = windows.before_ms + windows.after_ms + windows.grace_ms
    sides = [
        StoreSpec(
            graph.claim_store(f"{claimed}-{side}", "join"),
            StoreKind.WINDOW,
            key_codec(key),
            stored_codec(step.value_type),
            retention_ms=max(retention, 1),
            has_duplicates=True,
            slice_ms=slice_of(windows.before_ms + windows.after_ms, retention),
        )
        for side, step in (("left", first), ("right", second))
    ]
    waiting = None
    if kind is not JoinKind.INNER:
        waiting = StoreSpec(
            graph.claim_store(f"{claimed}-waiting", "join"),
            StoreKind.KEY_VALUE,
            waiting_key_codec(key_codec(key)),
            list_codec(BYTES),
        )
    operation = joins.StreamJoin(kind, call, windows, sides[0], sides[1], waiting)
    return graph.add(
        Step(
            claimed,
            (first.name, second.name),
            operation,
            key,
            joined_type(call, first.value_type, second.value_type, kind),
        )
    )


def history_ms(graph: Graph, step: Step) -> int | None:
    """Return how far back the rows of a table can be looked up; None if it keeps no history."""
    while isinstance(step.operation, TableFilter | TableMapValues):
        step = graph.steps[step.parents[0]]
    if not isinstance(step.operation, TableSource | ToTable):
        return None
    store = step.operation.store
    return store.retention_ms if store.kind is StoreKind.VERSIONED else None


def join_table(
    nodes: tuple[Node, Node],
    kind: JoinKind,
    function: Joiner | None,
    name: str | None,
    grace: Duration | None,
) -> Step:
    """Join each record of a stream with the row of a table."""
    left, table = nodes
    if kind is JoinKind.OUTER:
        raise TopologyError("outer_join: a stream joins a table by join or left_join")
    step = left._step
    if step.is_rekeyed:
        claimed = left._graph.claim_store(name, "join")
        step = left._partitioned(claimed, keeps_null_keys=kind is JoinKind.LEFT)
    key = unified_key((step, table._step), name or "join")
    step = settle_key(left._graph, step, key)
    call = join_call(function, "join")
    history = history_ms(left._graph, table._step)
    operation: Operation = joins.TableLookup(kind, call, history is not None)
    if grace is not None:
        operation = _delayed(left._graph, (name, kind, call), step, grace)
        if history is None:
            raise TopologyError(f"{name}: grace=... needs a table with versioned=...")
        if operation.grace_ms > history:
            raise TopologyError(
                f"{name}: grace={grace!r} is longer than the history of the table, {history} ms: "
                "records that waited would find no row: give the table a longer versioned=..."
            )
    return left._graph.add(
        Step(
            name or f"join({table._name})",
            (step.name,),
            operation,
            key,
            joined_type(call, step.value_type, table._step.value_type, kind),
            lookups=(table._name,),
        )
    )


def _delayed(
    graph: Graph, what: tuple[str | None, JoinKind, Call], step: Step, grace: Duration
) -> joins.DelayedLookup:
    name, kind, call = what
    grace_ms = milliseconds(grace, "join grace")
    if grace_ms < 0:
        raise TopologyError(f"{name}: grace={grace!r} must not be negative")
    if not step.name.startswith(f"{name}-"):
        graph.claim_store(name, "join")
    key = key_codec(step.key_type)
    store = StoreSpec(
        graph.claim_store(f"{name}-held", "join"),
        StoreKind.KEY_VALUE,
        waiting_key_codec(key),
        held_codec(stored_codec(step.value_type)),
    )
    return joins.DelayedLookup(kind, call, grace_ms, store, key)


def join_global(
    left: Node,
    rows: GlobalRows,
    kind: JoinKind,
    function: Joiner | None,
    key: Callable[..., Any] | None,
) -> Step:
    """Join each record with the row of a global table, by a key made from the record."""
    if kind is JoinKind.OUTER:
        raise TopologyError("outer_join: a stream joins a global table by join or left_join")
    name = rows.name
    if rows.graph is not left._graph:
        raise TopologyError(
            f"join: the table {name} belongs to the app {rows.graph.app}, and not to "
            f"{left._graph.app}"
        )
    by = Call(lambda key, _: key, takes_key=True) if key is None else call_of(key, "join key")
    call = join_call(function, "join")
    step = left._step
    operation = joins.GlobalLookup(kind, call, by, (name,))
    kind_of_value = joined_type(call, step.value_type, rows.value_type, kind)
    return left._added(f"join({name})", operation, value=kind_of_value)


def join_tables(nodes: tuple[Node, Node], kind: JoinKind, function: Joiner | None) -> Step:
    """Join two tables by key."""
    left, right = (node._step for node in nodes)
    graph = nodes[0]._graph
    key = unified_key((left, right), "join")
    call = join_call(function, "join")
    if left.name == right.name:
        return _with_itself(graph, left, call)
    return graph.add(
        Step(
            f"join({left.name}, {right.name})",
            (left.name, right.name),
            joins.TableJoin(kind, call),
            key,
            joined_type(call, left.value_type, right.value_type, kind),
            is_table=True,
        )
    )


def _with_itself(graph: Graph, table: Step, call: Call) -> Step:
    """Join a table with itself: map its rows, so that one update gives one result."""
    function = call.function
    if call.takes_key:
        mapped = Call(lambda key, value: function(key, value, value), takes_key=True)
    else:
        mapped = Call(lambda value: function(value, value))
    kind = joined_type(call, table.value_type, table.value_type)
    return graph.add(
        replace(
            table,
            name=f"join({table.name}, {table.name})",
            parents=(table.name,),
            operation=TableMapValues(mapped),
            value_type=kind,
        )
    )


def unified_key(steps: tuple[Step, Step], operator: str) -> Any:
    """Return the one key type of both sides: equal keys must have equal bytes. Raise TopologyError
    if the declared types differ."""
    first, second = (step.key_type for step in steps)
    if first == second:
        return first
    unknown = (Any, UndeclaredType)
    if first not in unknown and second not in unknown:
        raise TopologyError(
            f"{operator}: keys of {steps[0].name} are {type_name(first)} and those of "
            f"{steps[1].name} are {type_name(second)}: they would never meet; "
            "give one side another key with select_key"
        )
    return second if first is Any or (first in unknown and second is not Any) else first


def same_app(nodes: tuple[Node, Node], operator: str) -> Graph:
    left, right = nodes
    if left._graph is not right._graph:
        raise TopologyError(
            f"{operator}: its sides belong to two apps: {left._graph.app} and {right._graph.app}"
        )
    return left._graph


def settle_key(graph: Graph, step: Step, key: Any) -> Step:
    """Give a repartition with keys of an undeclared type the key type of the other side."""
    if isinstance(step.operation, Repartition) and step.key_type is Any:
        step = replace(step, key_type=key)
        graph.steps[step.name] = step
    return step


def failing(graph: Graph, step: Step, on_error: Policy | str | None) -> Step:
    """Return the step, with an error policy of its own if one is given."""
    if on_error is None:
        return step
    graph.steps[step.name] = replace(step, on_error=policy(on_error))
    return graph.steps[step.name]


def _twin(graph: Graph, step: Step) -> Step:
    """Add a second step with the records of `step`, so that it can be both sides of a join."""
    return graph.add(
        replace(step, name=f"{step.name}-again", parents=(step.name,), operation=Merge())
    )


def join_by_foreign_key(
    nodes: tuple[Node, Node],
    kind: JoinKind,
    functions: tuple[Callable[..., Any], Joiner | None],
    name: str | None,
) -> Step:
    """Join each left row with the right row that its foreign key names."""
    left, right = (node._step for node in nodes)
    graph = nodes[0]._graph
    if kind is JoinKind.OUTER:
        raise TopologyError("outer_join: by a foreign key tables join by join or left_join")
    claimed = graph.claim_store(name, "join")
    on, call = call_of(functions[0], f"{claimed} on"), join_call(functions[1], "join")
    _check_key(claimed, result_type(on, left.key_type, left.value_type), right.key_type)
    left_key, right_key = key_codec(left.key_type), key_codec(right.key_type)
    left_value, right_value = stored_codec(left.value_type), stored_codec(right.value_type)

    subscribe = Step(
        f"{claimed}-subscribe",
        (left.name,),
        Subscribe(kind, on, left_key, left_value),
        right.key_type,
        subscription_codec(),
    )
    sent = _through(graph, f"{claimed}-subscription", graph.add(subscribe), None)
    references = StoreSpec(
        graph.claim_store(f"{claimed}-references", "join"),
        StoreKind.KEY_VALUE,
        reference_key_codec(),
        reference_codec(),
    )
    answers = Step(
        f"{claimed}-references",
        (sent.name, right.name),
        References(references, left_key, right_key),
        left.key_type,
        answer_codec(right_value),
    )
    back = Call(answer_partition)
    returned = _through(graph, f"{claimed}-answer", graph.add(answers), back)
    value = joined_type(call, left.value_type, right.value_type, kind)
    store = StoreSpec(claimed, StoreKind.KEY_VALUE, left_key, stored_codec(value))
    return graph.add(
        Step(
            claimed,
            (returned.name, left.name),
            Resolve(kind, call, on, store, left_value),
            left.key_type,
            value,
            is_table=True,
        )
    )


def answer_partition(answer: tuple[bytes, Any, int | None]) -> int | None:
    """Return the partition of the row that an answer is for. None leaves the choice to the key: a
    former version has not sent the partition with the reference."""
    return answer[2]


def _through(graph: Graph, name: str, step: Step, back: Call | None) -> Step:
    """Add a repartition that sends the records of a step to the partition of their key, or `back`
    to the row that they answer."""
    repartition = Repartition(
        f"{graph.app}-{name}-repartition", partitioner=back, is_answer=back is not None
    )
    sent = Step(f"{name}-repartition", (step.name,), repartition, step.key_type, step.value_type)
    return graph.add(sent)


def _check_key(name: str, found: Any, wanted: Any) -> None:
    unknown = (Any, UndeclaredType)
    if found not in unknown and wanted not in unknown and found not in (wanted, wanted | None):
        raise TopologyError(
            f"{name}: the foreign key is {type_name(found)}, but keys of the other table are "
            f"{type_name(wanted)}: they would never meet"
        )
