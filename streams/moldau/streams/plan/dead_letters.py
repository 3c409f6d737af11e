"""Where the dead letters of an app go: never back to the sub-topology that they come from.

A record that fails there once fails there again, so it would go round without end. A sub-topology
that reads the dead letters of others is allowed, unless its own come back to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moldau.streams.plan.patterns import matches, resolved
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.problems import TopologyError


def with_dead_letters(plan: Plan, topic: str) -> Plan:
    """Return the plan of an app that sends what it leaves out to a topic, "" for none. Records of
    global tables go nowhere: no task reads them. Raise TopologyError if they would come back."""
    if not topic:
        return plan
    programs = tuple(
        replace(
            each,
            on_error=each.on_error.sent_to(topic),
            steps=tuple(
                step
                if step.on_error is None
                else replace(step, on_error=step.on_error.sent_to(topic))
                for step in each.steps
            ),
        )
        for each in plan.programs
    )
    return without_circles(replace(plan, programs=programs))


def without_circles(plan: Plan) -> Plan:
    """Return the plan. Raise TopologyError if dead letters come back to where they come from."""
    letters = {topic for program in plan.programs for topic in program.dead_letters()}
    if letters:
        programs = resolved(plan, matches(plan, letters)).programs
        for program in programs:
            for topic in sorted(program.dead_letters()):
                if _reaches(programs, topic, program):
                    raise TopologyError(
                        f"app={plan.app}: dead letters go to topic {topic}, which the app reads "
                        "itself: they would fail again without end; name a topic that it does not "
                        "read"
                    )
    return plan


def _reaches(programs: Sequence[Program], topic: str, wanted: Program) -> bool:
    """Whether a dead letter in a topic comes to a program, also as one of others."""
    reached, left = {topic}, [topic]
    while left:
        at = left.pop()
        for program in programs:
            if at in program.inputs:
                if program.index == wanted.index:
                    return True
                left += program.dead_letters() - reached
                reached |= program.dead_letters()
    return False
