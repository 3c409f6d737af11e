"""Standbys: copies of the state of tasks, on processes that do not have the task yet.

A standby goes first to where its task has no copy yet by the client tags (KIP-708), then to a
process that had a copy, then to the process with the least tasks for each member. Members without
one of the tags are the last choice, and members that are about to leave get none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

from moldau.broker.coordinator.group.streams.assignors.plan import Plan, Smallest
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId

Place: TypeAlias = tuple[str | None, ...]
"""The values of the tags by which copies are spread. Empty if there are none."""


def assign_standbys(plan: Plan) -> None:
    """Give each stateful task its standbys, as far as processes are left for them."""
    tasks = plan.stateful_tasks()
    members_at: dict[Place, list[str]] = {}
    for member_id in sorted(plan.members):
        members_at.setdefault(_place(plan, member_id), []).append(member_id)
    for _ in range(plan.work.standby_count):
        _assign_one_more(plan, tasks, members_at)


def _place(plan: Plan, member_id: str) -> Place:
    tags = plan.members[member_id].tags
    return tuple(tags.get(each) for each in plan.work.spread_tags)


def _assign_one_more(
    plan: Plan, tasks: Iterable[TaskId], members_at: dict[Place, list[str]]
) -> None:
    left: list[tuple[TaskId, Place]] = []
    for task in tasks:
        place = _best_place(plan, task, members_at)
        if place is None:
            continue
        near = [
            each
            for each in plan.had_copy.get(task, ())
            if plan.has_place(task, each) and _place(plan, each) == place
        ]
        if near:
            member_id = min(near, key=lambda each: plan.load(each, Role.STANDBY))
            plan.give(member_id, task, Role.STANDBY)
        else:
            left.append((task, place))
    by_load = {
        place: Smallest(members_at[place], lambda each: plan.load(each, Role.STANDBY))
        for place in {place for _, place in left}
    }
    for task, place in left:
        member_id = by_load[place].first(partial(plan.has_place, task))
        plan.give(member_id, task, Role.STANDBY)


def _best_place(plan: Plan, task: TaskId, members_at: dict[Place, list[str]]) -> Place | None:
    """Return the place that has the least in common with those of the task; None if no process is
    left for it."""
    taken = [_place(plan, plan.of_process[each][0]) for each in plan.processes_of[task]]

    def overlap(place: Place) -> tuple[int, tuple[str, ...]]:
        common = sum(
            value is None or any(other[at] == value for other in taken)
            for at, value in enumerate(place)
        )
        return common, tuple(each or "" for each in place)

    for place in sorted(members_at, key=overlap):
        if any(plan.has_place(task, each) for each in members_at[place]):
            return place
    return None
