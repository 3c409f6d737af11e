"""A plan as plain data, for programs that draw or check an app without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of, topics_of
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.steps import Step
from moldau.streams.plan.text import describe
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.schemas import value_type


def description(plan: Plan, partitions: Mapping[str, int]) -> dict[str, Any]:
    """Return what the app reads, writes and makes, and its steps.

    `partitions` has the known partition counts of topics; an input without one is taken to have a
    count that fits. `problem` says why the app cannot run on them, and is None if it can.
    """
    own = {topic.name for topic in plan.repartitions}
    steps = [step for program in plan.programs for step in program.steps]
    return {
        "app": plan.app,
        "reads": list(plan.source_topics()),
        "writes": sorted({name for each in plan.programs for name in each.outputs} - own),
        "chooses_topics": any(
            isinstance(step.operation, op.Sink) and not step.operation.topic for step in steps
        ),
        "types": _types(plan, own),
        "makes": list(made_topics(plan)),
        "programs": [_program(each) for each in plan.programs],
        "problem": _problem(plan, partitions),
    }


def made_topics(plan: Plan) -> tuple[str, ...]:
    """Return the topics that the app makes for itself."""
    own = sorted(topic.name for topic in plan.repartitions)
    return *own, *plan.changelogs(), topology_topic(plan.app)


def _types(plan: Plan, own: set[str]) -> dict[str, dict[str, Any]]:
    """Return the types of the values in the topics that the app reads and writes, where it declares
    them. A topic with values of several types has none."""
    found: dict[str, dict[str, list[Any]]] = {"reads": {}, "writes": {}}
    for step in (step for program in plan.programs for step in program.steps):
        operation = step.operation
        if isinstance(operation, op.Source):
            for topic in operation.topics:
                found["reads"].setdefault(topic, []).append(value_type(operation.value, "read"))
        elif isinstance(operation, op.Sink) and operation.topic:
            types = found["writes"].setdefault(operation.topic, [])
            types.append(value_type(operation.value, "written"))
    return {
        side: {
            topic: types[0]
            for topic, types in topics.items()
            if topic not in own and types[0] is not None and types.count(types[0]) == len(types)
        }
        for side, topics in found.items()
    }


def _program(program: Program) -> dict[str, Any]:
    return {
        "index": program.index,
        "reads": list(program.inputs),
        "writes": list(program.outputs),
        "stores": [store.name for store in program.stores],
        "steps": [
            {
                "name": step.name,
                "kind": step.operation.kind,
                "parents": list(step.parents),
                "lookups": list(step.lookups),
                "text": describe(step),
                "reads": list(topics_of(step)),
                "writes": _written(step),
                "stores": [store.name for store in stores_of(step)],
            }
            for step in program.steps
        ],
    }


def _written(step: Step) -> list[str]:
    operation = step.operation
    return [operation.topic] if isinstance(operation, op.Sink) and operation.topic else []


def _problem(plan: Plan, partitions: Mapping[str, int]) -> str | None:
    try:
        assumed_layout(plan, partitions)
    except TopologyError as error:
        return str(error)
    return None
