"""Compile the logical plan: cut it at repartitions, group what exchanges records directly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from moldau.streams.plan import operations as op
from moldau.streams.plan.dead_letters import without_circles
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.joins import TableJoin
from moldau.streams.plan.operations import Step
from moldau.streams.plan.placement import partitioned
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import RepartitionTopic
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import StoreSpec

# These keep neither records nor old values, so values may be changed in place before them.
_STATELESS = (
    op.MapPairs, op.MapValues, op.MapHeaders, op.SelectKey, op.Filter, op.Select, op.FlatMap,
    op.Peek, op.AsyncStep, op.MapBatch, op.Branch, op.Arm, op.Merge, op.Sink, op.Reply,
    op.Changes,
)  # fmt: skip
_COPYING = (
    op.Aggregate
    | op.WindowAggregate
    | op.SessionAggregate
    | op.SlidingAggregate
    | op.CountAggregate
)


def compiled(graph: Graph) -> Plan:
    """Return the plan of a whole app. Raise TopologyError if it cannot run."""
    if not graph.steps and not graph.global_tables:
        raise TopologyError(f"app={graph.app}: it has no streams; begin with app.stream(topic)")
    steps, repartitions = _cut(graph)
    _check_topics(graph.app, steps)
    steps = [_at_once(graph.app, _with_copies(step, steps), steps) for step in steps]
    groups = enumerate(_components(steps))
    programs, repartitions = partitioned(
        graph.app, (_program(graph, index, group) for index, group in groups), repartitions
    )
    plan = Plan(
        graph.app,
        programs,
        repartitions,
        tuple(graph.global_tables.values()),
        tuple(graph.lake_tables.values()),
    )
    return without_circles(plan)


def _cut(graph: Graph) -> tuple[list[Step], tuple[RepartitionTopic, ...]]:
    """Replace each repartition by a sink and a source. Return the steps and the topics."""
    steps: list[Step] = []
    topics: list[RepartitionTopic] = []
    sources: dict[str, str] = {}
    for step in graph.steps.values():
        step = replace(step, parents=tuple(sources.get(name, name) for name in step.parents))
        operation = step.operation
        if not isinstance(operation, op.Repartition):
            steps.append(step)
            continue
        key, value = key_codec(step.key_type), stored_codec(step.value_type)
        sink = op.Sink(
            operation.topic,
            key,
            value,
            partitioner=operation.partitioner,
            drops_null_keys=not operation.keeps_null_keys,
        )
        steps.append(replace(step, operation=sink))
        source = replace(
            step,
            name=f"{step.name}-source",
            parents=(),
            operation=op.Source((operation.topic,), key, value),
        )
        steps.append(source)
        sources[step.name] = source.name
        is_free = operation.partitioner is not None and not operation.is_answer
        topics.append(RepartitionTopic(operation.topic, operation.partitions, is_free=is_free))
    return steps, tuple(topics)


def _check_topics(app: str, steps: Iterable[Step]) -> None:
    """Raise TopologyError if two steps read one topic: they would share its offsets."""
    readers: dict[str, str] = {}
    for step in steps:
        for topic in topics_of(step):
            if topic in readers:
                raise TopologyError(
                    f"app={app}: topic {topic} is read by {readers[topic]} and {step.name}; "
                    "read it once and use that stream twice"
                )
            readers[topic] = step.name


def _with_copies(step: Step, steps: list[Step]) -> Step:
    """Make a step copy aggregates that user code may change in place, if later steps keep them."""
    operation = step.operation
    if not isinstance(operation, _COPYING):
        return step
    kept = operation.value if isinstance(operation, op.CountAggregate) else operation.store.value
    if kept.is_immutable or operation.folding.name not in ("aggregate", "reduce"):
        return step
    reached = {step.name}
    for other in steps:
        if reached.intersection(other.parents):
            reached.add(other.name)
            if not isinstance(other.operation, _STATELESS):
                return replace(step, operation=replace(operation, copies=True))
    return step


def _at_once(app: str, step: Step, steps: list[Step]) -> Step:
    """Make a step before one that takes batches emit each update: batches consist only of what
    records cause. Raise TopologyError if the step may emit by the clock."""
    operation = step.operation
    deferring = _deferring_after(step, steps)
    if deferring is None:
        return step
    if getattr(operation, "idle_ms", None) is not None or isinstance(operation, op.Process):
        raise TopologyError(
            f"app={app} {step.name}: it may emit by the clock, which {deferring} cannot take: "
            'put .repartition("...") between them'
        )
    if getattr(operation, "emit", None) is op.Emit.COMMIT:
        emitting: Any = operation
        return replace(step, operation=replace(emitting, emit=op.Emit.EVERY))
    return step


def _deferring_after(step: Step, steps: list[Step]) -> str | None:
    reached = {step.name}
    for other in steps:
        if reached.intersection(other.parents):
            reached.add(other.name)
            if isinstance(other.operation, op.AsyncStep | op.MapBatch):
                return other.name
    return None


def _components(steps: list[Step]) -> list[list[Step]]:
    """Group steps that exchange records or share a store, each group in the order of `steps`."""
    root = {step.name: step.name for step in steps}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    owners: dict[str, str] = {}
    for step in steps:
        for parent in step.parents + step.lookups:
            root[find(step.name)] = find(parent)
        for store in stores_of(step):
            owner = owners.setdefault(store.name, step.name)
            root[find(step.name)] = find(owner)
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(find(step.name), []).append(step)
    return list(groups.values())


def _program(graph: Graph, index: int, steps: list[Step]) -> Program:
    inputs = tuple(topic for step in steps for topic in topics_of(step))
    outputs = dict.fromkeys(
        step.operation.topic
        for step in steps
        if isinstance(step.operation, op.Sink) and step.operation.topic is not None
    )
    stores = {store.name: store for step in steps for store in stores_of(step)}
    copartitioned, feeding = _meetings(steps)
    looked_up = dict.fromkeys(
        name for step in steps for name in getattr(step.operation, "global_tables", ())
    )
    return Program(
        index=index,
        app=graph.app,
        steps=tuple(steps),
        inputs=inputs,
        outputs=tuple(outputs),
        stores=tuple(stores.values()),
        copartitioned=copartitioned,
        feeding=tuple(feeding.items()),
        on_error=graph.on_error,
        reply_topics=graph.reply_topics,
        global_tables=tuple(
            graph.global_tables[name] for name in looked_up if name in graph.global_tables
        ),
        lake_tables=tuple(
            graph.lake_tables[name] for name in looked_up if name in graph.lake_tables
        ),
    )


def _meetings(steps: list[Step]) -> tuple[tuple[frozenset[str], ...], dict[str, frozenset[str]]]:
    """Return the groups of topics with records that meet in one stateful step, by key, and the
    topics whose records reach each store."""
    upstream: dict[str, frozenset[str]] = {}
    sharing: dict[str, frozenset[str]] = {}
    groups: list[frozenset[str]] = []
    for step in steps:
        reaching = frozenset(topics_of(step)).union(
            *(upstream[name] for name in step.parents + step.lookups)
        )
        upstream[step.name] = reaching
        for store in stores_of(step):
            reaching = sharing[store.name] = reaching | sharing.get(store.name, frozenset())
        meets = stores_of(step) or step.lookups or isinstance(step.operation, TableJoin)
        if len(reaching) < 2 or not meets:
            continue
        together = [group for group in groups if group & reaching]
        groups = [group for group in groups if not group & reaching]
        groups.append(reaching.union(*together))
    return tuple(groups), sharing


def topics_of(step: Step) -> tuple[str, ...]:
    """Return the topics that a step reads."""
    if isinstance(step.operation, op.Source | op.TableSource):
        return step.operation.topics
    return ()


def stores_of(step: Step) -> list[StoreSpec]:
    """Return the stores of a step: all fields of its operation that are stores."""
    found: list[StoreSpec] = []
    for each in fields(step.operation):  # type: ignore[arg-type]
        value = getattr(step.operation, each.name)
        if isinstance(value, StoreSpec):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(part for part in value if isinstance(part, StoreSpec))
    return found
