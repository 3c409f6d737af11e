"""Sources that read all topics whose names match a pattern.

A plan names such a source by a topic that cannot exist, `pattern:REGEX`; `resolved` puts the topics
that do exist in its place. As in Kafka Streams, the whole name has to match, and the app's own
topics and the brokers' never do; nor does a topic that keeps the topology of an app, of any one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from moldau.streams.plan import operations as op
from moldau.streams.plan.operations import Step
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import TOPOLOGY_SUFFIX
from moldau.streams.problems import TopologyError

PREFIX: Final = "pattern:"
# The flags that change what a pattern matches, by their letters in a pattern's text.
_FLAGS: Final = {
    "a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE,
}  # fmt: skip


def pattern_topic(pattern: re.Pattern[str]) -> str:
    """Return the name that stands for the topics of a pattern."""
    letters = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
    flags = f"(?{letters})" if letters else ""
    return f"{PREFIX}{flags}{pattern.pattern}"


def patterns_of(plan: Plan) -> tuple[str, ...]:
    """Return the names in a plan that stand for topics of patterns."""
    return tuple(name for name in plan.source_topics() if name.startswith(PREFIX))


def matches(plan: Plan, existing: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the topics of each pattern. Raise TopologyError if two sources would read one."""
    own = {topic.name for topic in plan.repartitions} | plan.changelogs().keys()
    names = sorted(
        name
        for name in set(existing) - own
        if not name.startswith("__") and not name.endswith(TOPOLOGY_SUFFIX)
    )
    taken = {name: name for name in plan.source_topics()}
    found: dict[str, tuple[str, ...]] = {}
    for each in patterns_of(plan):
        wanted = re.compile(each.removeprefix(PREFIX))
        found[each] = tuple(name for name in names if wanted.fullmatch(name))
        for name in found[each]:
            if taken.setdefault(name, each) != each:
                raise TopologyError(
                    f"app={plan.app}: topic {name} is read by {taken[name]} and {each}; "
                    "make the pattern narrower, or read the topic once and use that stream twice"
                )
    return found


def resolved(plan: Plan, found: Mapping[str, Sequence[str]]) -> Plan:
    """Return the plan with topics in the place of patterns."""
    return replace(plan, programs=tuple(_program(each, found) for each in plan.programs))


def _program(program: Program, found: Mapping[str, Sequence[str]]) -> Program:
    return replace(
        program,
        inputs=_expanded(program.inputs, found),
        steps=tuple(_step(each, found) for each in program.steps),
        copartitioned=tuple(
            frozenset(_expanded(sorted(group), found)) for group in program.copartitioned
        ),
        feeding=tuple(
            (store, frozenset(_expanded(sorted(topics), found)))
            for store, topics in program.feeding
        ),
    )


def _step(step: Step, found: Mapping[str, Sequence[str]]) -> Step:
    operation = step.operation
    if not isinstance(operation, op.Source):
        return step
    return replace(step, operation=replace(operation, topics=_expanded(operation.topics, found)))


def _expanded(topics: Iterable[str], found: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(name for topic in topics for name in found.get(topic, (topic,)))
