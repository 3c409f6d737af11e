"""Foreign-key joins in the DSL: three steps, with two topics between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.dsl.calls import call_of
from moldau.streams.dsl.inference import result_type
from moldau.streams.dsl.joins import Joiner, join_call, joined_type
from moldau.streams.dsl.node import Node
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.joins import JoinKind, References, Resolve, Subscribe
from moldau.streams.plan.operations import Repartition
from moldau.streams.plan.steps import Step
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import answer_codec, reference_key_codec, subscription_codec
from moldau.streams.serdes.types import BYTES, Undeclared, key_codec, stored_codec, type_name
from moldau.streams.state.spec import StoreKind, StoreSpec


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
    sent = _through(graph, f"{claimed}-subscription", graph.add(subscribe))
    references = StoreSpec(
        graph.claim_store(f"{claimed}-references", "join"),
        StoreKind.KEY_VALUE,
        reference_key_codec(),
        BYTES,
    )
    answers = Step(
        f"{claimed}-references",
        (sent.name, right.name),
        References(references, left_key, right_key),
        left.key_type,
        answer_codec(right_value),
    )
    returned = _through(graph, f"{claimed}-answer", graph.add(answers))
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


def _through(graph: Graph, name: str, step: Step) -> Step:
    """Add a repartition that sends the records of a step to the partition of their key."""
    repartition = Repartition(f"{graph.app}-{name}-repartition")
    sent = Step(f"{name}-repartition", (step.name,), repartition, step.key_type, step.value_type)
    return graph.add(sent)


def _check_key(name: str, found: Any, wanted: Any) -> None:
    unknown = (Any, Undeclared)
    if found not in unknown and wanted not in unknown and found not in (wanted, wanted | None):
        raise TopologyError(
            f"{name}: the foreign key is {type_name(found)}, but keys of the other table are "
            f"{type_name(wanted)}: they would never meet"
        )
