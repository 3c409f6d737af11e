"""Which topics an app needs, with how many partitions. Pure: counts in, counts out.

A repartition topic without a number of its own has as many partitions as the largest input of the
programs that write to it; topics that are joined must agree, and repartition topics follow the
others there. A program that keeps state needs the same number of all its inputs: what belongs to
one key must meet in one task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.errors import MoldauError
from moldau.streams.plan.plan import Plan, Program


class BadTopics(MoldauError):
    """The cluster's topics do not fit the app."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the app makes."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


def check_sources(plan: Plan, counts: Mapping[str, int]) -> None:
    """BadTopics if an input topic does not exist."""
    missing = [topic for topic in plan.source_topics() if topic not in counts]
    if missing:
        names = ", ".join(missing)
        raise BadTopics(
            f"the app {plan.app} reads topics that do not exist: {names}; create them first, "
            f"for example: moldau topic create {missing[0]} --partitions 4"
        )


def partition_counts(plan: Plan, sources: Mapping[str, int]) -> dict[str, int]:
    """Of all inputs of all programs. BadTopics where they do not fit."""
    counts = {name: sources[name] for name in plan.source_topics()}
    fixed = dict(counts)
    waiting = {}
    for topic in plan.repartitions:
        if topic.partitions is None:
            waiting[topic.name] = 0
        else:
            counts[topic.name] = fixed[topic.name] = topic.partitions
    for _ in range(len(waiting) + 1):  # a chain of repartitions settles one link a turn
        for name in waiting:
            counts[name] = max(1, _largest_input(plan, name, counts))
        for program in plan.programs:
            _align(plan, program, counts, fixed)
    for program in plan.programs:
        _check_stateful(program, counts)
    return counts


def _largest_input(plan: Plan, topic: str, counts: Mapping[str, int]) -> int:
    writers = (program for program in plan.programs if topic in program.outputs)
    return max((counts.get(each, 1) for program in writers for each in program.inputs), default=1)


def _align(plan: Plan, program: Program, counts: dict[str, int], fixed: Mapping[str, int]) -> None:
    for group in program.copartitioned:
        told = {name: fixed[name] for name in sorted(group) if name in fixed}
        if len(set(told.values())) > 1:
            counted = ", ".join(f"{name} has {count}" for name, count in told.items())
            raise BadTopics(
                f"the app {plan.app} joins topics with different numbers of partitions: {counted}; "
                "give them the same number, or call .repartition() on one side"
            )
        chosen = next(iter(told.values()), None) or max(counts.get(name, 1) for name in group)
        counts.update({name: chosen for name in group if name not in fixed})


def _check_stateful(program: Program, counts: Mapping[str, int]) -> None:
    if not program.stores:
        return
    found = {name: counts[name] for name in program.inputs}
    if len(set(found.values())) > 1:
        counted = ", ".join(f"{name} has {count}" for name, count in sorted(found.items()))
        raise BadTopics(
            f"the app {program.app} keeps state over topics with different numbers of partitions: "
            f"{counted}; give them the same number, or call .repartition() before merging them"
        )


def internal_topics(plan: Plan, counts: Mapping[str, int]) -> list[InternalTopic]:
    """Those that the app makes, with the partitions that they must have."""
    topics = [
        InternalTopic(each.name, counts[each.name], each.config()) for each in plan.repartitions
    ]
    for program in plan.programs:
        tasks = task_count(program, counts)
        for store in program.stores:
            topic = store.changelog(plan.app)
            if topic is not None and store.source_topic is None:
                topics.append(InternalTopic(topic, tasks, store.changelog_config()))
    return topics


def task_count(program: Program, counts: Mapping[str, int]) -> int:
    """How many tasks a program has."""
    return max(counts[name] for name in program.inputs)


def check_existing(wanted: InternalTopic, partitions: int) -> None:
    """BadTopics if the topic exists with another number of partitions."""
    if wanted.partitions != partitions:
        raise BadTopics(
            f"the topic {wanted.name} has {partitions} partitions and the app now needs "
            f"{wanted.partitions}: the number of partitions of an input has changed; stop all "
            "workers, then delete the topic and the local state, or give the input its old number"
        )
