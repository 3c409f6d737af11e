"""A plan as plain data, for programs that draw or check an app without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.streams.plan import operations as op
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.text import describe
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import TopologyError


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
        "fields": _fields(plan, own),
        "makes": [*sorted(own), *plan.changelogs(), topology_topic(plan.app)],
        "programs": [_program(each) for each in plan.programs],
        "problem": _problem(plan, partitions),
    }


def _fields(plan: Plan, own: set[str]) -> dict[str, list[str]]:
    """Return the fields of the values in the topics that the app writes, where they are known.

    A topic with values of several types has all their fields."""
    found: dict[str, list[str] | None] = {}
    for program in plan.programs:
        for step in program.steps:
            operation = step.operation
            if not isinstance(operation, op.Sink) or not operation.topic or operation.topic in own:
                continue
            before, fields = found.get(operation.topic, []), operation.value.fields
            known = before is not None and fields is not None
            found[operation.topic] = [*before, *fields] if known else None  # type: ignore[misc]
    return {topic: list(dict.fromkeys(names)) for topic, names in found.items() if names}


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
                "text": describe(step),
            }
            for step in program.steps
        ],
    }


def _problem(plan: Plan, partitions: Mapping[str, int]) -> str | None:
    try:
        assumed_layout(plan, partitions)
    except TopologyError as error:
        return str(error)
    return None
