"""The sticky assignor: an even spread of tasks with as few moves as it allows.

Active tasks come first:

1. Members have the same number of active tasks, or one more. Members that had the most keep the
   extra ones, so no other even spread moves fewer tasks.
2. A member with too many gives up tasks of the subtopology of which it has most beyond its share,
   or of which the others have given up least, so that each member comes to have tasks of each.
   Among equals it gives up those that are cheapest to move: tasks without state, then tasks of
   which another member has a copy.
3. A free task goes to a member with a copy of its state, else to the member with the fewest tasks
   of its subtopology and, among equals, to the process with the least tasks for each member.

While members of two topologies are there, tasks that only some of them can run are spread over
those first, and the rest so that all come to have the same number, as far as that goes.

A member that is about to leave counts for none of this, so all its tasks go to others, unless no
other member can run them.

Then tasks that would move to a member without their state stay until it has caught up (`warmups`),
and each stateful task gets its standbys (`standbys`).

A member counts as much as any other, so a process with twice the threads has twice the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby

from moldau.broker.coordinator.group.streams.assignors.assignor import MemberSpec, Work
from moldau.broker.coordinator.group.streams.assignors.plan import Plan, Smallest
from moldau.broker.coordinator.group.streams.assignors.standbys import assign_standbys
from moldau.broker.coordinator.group.streams.assignors.warmups import keep_until_warm
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, Tasks


def assign(members: Mapping[str, MemberSpec], work: Work) -> dict[str, Tasks]:
    """Return the tasks of each member. A task that no member can run is left out."""
    if not members:
        return {}
    plan = Plan(members, work)
    for runners, tasks in _by_runners(members, work):
        _spread(plan, runners, tasks)
    keep_until_warm(plan)
    assign_standbys(plan)
    return plan.tasks()


def _by_runners(
    members: Mapping[str, MemberSpec], work: Work
) -> list[tuple[frozenset[str], list[TaskId]]]:
    """Return the tasks by the members that can run them, those with the fewest members first. A
    member that is about to leave is among them only if all are."""
    found: dict[frozenset[str], list[TaskId]] = {}
    runners: dict[str, frozenset[str]] = {}
    for task in work.tasks():
        name = task.subtopology_id
        if name not in runners:
            able = [each for each in members if members[each].runs(name)]
            staying = frozenset(each for each in able if not members[each].is_leaving)
            runners[name] = staying or frozenset(able)
        found.setdefault(runners[name], []).append(task)
    found.pop(frozenset(), None)
    return sorted(found.items(), key=lambda item: (len(item[0]), item[1]))


def _spread(plan: Plan, runners: frozenset[str], tasks: list[TaskId]) -> None:
    """Spread tasks over the members that can run them, beside the tasks that they have already."""
    before = {each: len(plan.active[each]) for each in runners}
    held: dict[str, list[TaskId]] = {each: [] for each in runners}
    free = []
    for task in tasks:
        owner = plan.owner.get(task)
        if owner is None or owner not in runners:
            free.append(task)
        else:
            plan.give(owner, task, Role.ACTIVE)
            held[owner].append(task)
    by_count = sorted(runners, key=lambda each: (-len(plan.active[each]), each))
    limits = _limits(by_count, before, len(tasks))
    moved: Counter[str] = Counter()
    for member_id in by_count:
        surplus = len(plan.active[member_id]) - limits[member_id]
        if surplus > 0:
            for task in _given_up(plan, held[member_id], surplus, moved):
                plan.take(member_id, task)
                free.append(task)
    rooms = {
        each: limits[each] - len(plan.active[each])
        for each in by_count
        if limits[each] > len(plan.active[each])
    }
    left = _placed_at_copies(plan, sorted(free), rooms)
    for _, of_subtopology in groupby(left, key=lambda task: task.subtopology_id):
        alike = list(of_subtopology)
        by_fullness = Smallest(rooms, partial(_fullness, plan, alike[0]))
        for task in alike:
            _fill(plan, by_fullness.first(rooms.__contains__), task, rooms)
    assert not rooms, "the limits are the number of tasks"


def _limits(by_count: list[str], before: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many active tasks each member has when `count` more are spread as evenly as what
    they have `before` allows. The first members get what is left over."""
    low, high = 0, max(before.values()) + count + 1
    while high - low > 1:
        level = (low + high) // 2
        if sum(max(0, level - each) for each in before.values()) <= count:
            low = level
        else:
            high = level
    limits = {each: max(before[each], low) for each in by_count}
    left = count - sum(limits[each] - before[each] for each in by_count)
    for member_id in by_count:
        if left > 0 and limits[member_id] == low:
            limits[member_id] += 1
            left -= 1
    return limits


def _given_up(plan: Plan, tasks: Iterable[TaskId], count: int, moved: Counter[str]) -> list[TaskId]:
    """Return the tasks that a member with too many gives up. `moved` counts those that all members
    gave up, by subtopology."""
    work = plan.work
    left: dict[str, list[tuple[bool, TaskId]]] = {}
    for task in sorted(tasks):
        has_copy = len(plan.had_copy.get(task, ())) > 1
        left.setdefault(task.subtopology_id, []).append((has_copy, task))
    for of_subtopology in left.values():
        of_subtopology.sort()

    def order(subtopology_id: str) -> tuple[float, float, bool, tuple[bool, TaskId]]:
        of_all, mine = work.task_counts[subtopology_id], left[subtopology_id]
        is_stateless = subtopology_id not in work.stateful
        return len(mine) / of_all, -moved[subtopology_id] / of_all, is_stateless, mine[-1]

    found = []
    for _ in range(count):
        chosen = max(left, key=order)
        found.append(left[chosen].pop()[1])
        moved[chosen] += 1
        if not left[chosen]:
            del left[chosen]
    return found


def _fullness(plan: Plan, task: TaskId, member_id: str) -> tuple[int, tuple[float, int, str]]:
    """Order members by how little they need another task of this subtopology."""
    of_subtopology = plan.active_of[member_id, task.subtopology_id]
    return of_subtopology, plan.load(member_id, Role.ACTIVE)


def _placed_at_copies(plan: Plan, free: Iterable[TaskId], rooms: dict[str, int]) -> list[TaskId]:
    """Give free tasks to members with a copy of their state. Return the others."""
    left = []
    for task in free:
        near = [each for each in plan.had_copy.get(task, ()) if each in rooms]
        if not near:
            # Another thread of a process with a copy finds the state in the same directory.
            processes = {plan.members[each].process_id for each in plan.had_copy.get(task, ())}
            near = [each for name in processes for each in plan.of_process[name] if each in rooms]
        if near:
            _fill(plan, min(near, key=partial(_distance, plan, task)), task, rooms)
        else:
            left.append(task)
    return left


def _distance(plan: Plan, task: TaskId, member_id: str) -> tuple[bool, tuple[float, int, str]]:
    """Order members with a copy: those that have caught up first, then by load."""
    lag = (plan.members[member_id].lags or {}).get(task)
    is_behind = lag is not None and lag > plan.work.acceptable_lag
    return is_behind, plan.load(member_id, Role.ACTIVE)


def _fill(plan: Plan, member_id: str, task: TaskId, rooms: dict[str, int]) -> None:
    plan.give(member_id, task, Role.ACTIVE)
    rooms[member_id] -= 1
    if not rooms[member_id]:
        del rooms[member_id]
