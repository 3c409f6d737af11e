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

Then each stateful task gets its standbys: on processes that do not have the task yet, first on
those that had a copy, then on those with the least tasks for each member.

A member counts as much as any other, so a process with twice the threads has twice the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby
from typing import Any

from moldau.broker.coordinator.group.streams.assignors.assignor import MemberSpec, Work
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, Tasks, by_key


def assign(members: Mapping[str, MemberSpec], work: Work) -> dict[str, Tasks]:
    """Return the tasks of each member."""
    if not members:
        return {}
    plan = _Plan(members)
    _assign_active(plan, work)
    stateful = [each for each in work.tasks() if each.subtopology_id in work.stateful]
    for _ in range(work.standby_count):
        _assign_standbys(plan, stateful)
    return {
        each: by_key({Role.ACTIVE: plan.active[each], Role.STANDBY: plan.standby[each]})
        for each in members
    }


class _Plan:
    """The tasks given so far. The load of a process is its tasks for each of its members."""

    def __init__(self, members: Mapping[str, MemberSpec]) -> None:
        self.members = members
        self.active: dict[str, set[TaskId]] = {each: set() for each in members}
        self.standby: dict[str, set[TaskId]] = {each: set() for each in members}
        self.active_of: Counter[tuple[str, str]] = Counter()
        """The number of active tasks by member and subtopology."""
        self.of_process: dict[str, list[str]] = {}
        for member_id in sorted(members):
            self.of_process.setdefault(members[member_id].process_id, []).append(member_id)
        self.given = dict.fromkeys(self.of_process, 0)
        self.processes_of: dict[TaskId, set[str]] = {}
        self.had_copy: dict[TaskId, list[str]] = {}
        for member_id in sorted(members):
            spec = members[member_id]
            for task in spec.active | spec.copies:
                self.had_copy.setdefault(task, []).append(member_id)

    def give(self, member_id: str, task: TaskId, given: dict[str, set[TaskId]]) -> None:
        given[member_id].add(task)
        if given is self.active:
            self.active_of[member_id, task.subtopology_id] += 1
        process_id = self.members[member_id].process_id
        self.given[process_id] += 1
        self.processes_of.setdefault(task, set()).add(process_id)

    def take(self, member_id: str, task: TaskId) -> None:
        self.active[member_id].remove(task)
        self.active_of[member_id, task.subtopology_id] -= 1
        process_id = self.members[member_id].process_id
        self.given[process_id] -= 1
        del self.processes_of[task]

    def is_without(self, task: TaskId, member_id: str) -> bool:
        """Whether the member's process does not have the task."""
        return self.members[member_id].process_id not in self.processes_of[task]

    def load(self, member_id: str, given: Mapping[str, set[TaskId]]) -> tuple[float, int, str]:
        """Return the load of the member's process, then its own."""
        process_id = self.members[member_id].process_id
        of_process = self.given[process_id] / len(self.of_process[process_id])
        return of_process, len(given[member_id]), member_id


class _Smallest:
    """Finds the member with the smallest key. Keys only grow meanwhile, so an entry of the heap is
    corrected when it comes up."""

    def __init__(self, members: Iterable[str], key: Callable[[str], Any]) -> None:
        self._key = key
        self._heap = [(key(each), each) for each in members]
        heapify(self._heap)

    def first(self, is_open: Callable[[str], bool]) -> str:
        """Return the first member that is open. There must be one."""
        passed = []
        while True:
            known, member_id = self._heap[0]
            key = self._key(member_id)
            if key != known:
                heapreplace(self._heap, (key, member_id))
            elif is_open(member_id):
                break
            else:
                passed.append(heappop(self._heap))
        for each in passed:
            heappush(self._heap, each)
        return member_id


def _assign_active(plan: _Plan, work: Work) -> None:
    tasks = work.tasks()
    owner = {task: each for each in sorted(plan.members) for task in plan.members[each].active}
    free = []
    for task in tasks:
        if task in owner:
            plan.give(owner[task], task, plan.active)
        else:
            free.append(task)
    least, extra = divmod(len(tasks), len(plan.members))
    by_count = sorted(plan.members, key=lambda each: (-len(plan.active[each]), each))
    limits = {each: least + (place < extra) for place, each in enumerate(by_count)}
    moved: Counter[str] = Counter()
    for member_id in by_count:
        surplus = len(plan.active[member_id]) - limits[member_id]
        if surplus > 0:
            for task in _given_up(plan, work, plan.active[member_id], surplus, moved):
                plan.take(member_id, task)
                free.append(task)
    rooms = {
        each: limits[each] - len(plan.active[each])
        for each in plan.members
        if limits[each] > len(plan.active[each])
    }
    left = _placed_at_copies(plan, sorted(free), rooms)
    for _, of_subtopology in groupby(left, key=lambda task: task.subtopology_id):
        alike = list(of_subtopology)
        by_fullness = _Smallest(rooms, partial(_fullness, plan, alike[0]))
        for task in alike:
            _fill(plan, by_fullness.first(rooms.__contains__), task, rooms)
    assert not rooms, "the limits are the number of tasks"


def _given_up(
    plan: _Plan, work: Work, tasks: Iterable[TaskId], count: int, moved: Counter[str]
) -> list[TaskId]:
    """Return the tasks that a member with too many gives up. `moved` counts those that all members
    gave up, by subtopology."""
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


def _fullness(plan: _Plan, task: TaskId, member_id: str) -> tuple[int, tuple[float, int, str]]:
    """Order members by how little they need another task of this subtopology."""
    of_subtopology = plan.active_of[member_id, task.subtopology_id]
    return of_subtopology, plan.load(member_id, plan.active)


def _placed_at_copies(plan: _Plan, free: Iterable[TaskId], rooms: dict[str, int]) -> list[TaskId]:
    """Give free tasks to members with a copy of their state. Return the others."""
    left = []
    for task in free:
        near = [each for each in plan.had_copy.get(task, ()) if each in rooms]
        if not near:
            # Another thread of a process with a copy finds the state in the same directory.
            processes = {plan.members[each].process_id for each in plan.had_copy.get(task, ())}
            near = [each for name in processes for each in plan.of_process[name] if each in rooms]
        if near:
            _fill(plan, min(near, key=lambda each: plan.load(each, plan.active)), task, rooms)
        else:
            left.append(task)
    return left


def _fill(plan: _Plan, member_id: str, task: TaskId, rooms: dict[str, int]) -> None:
    plan.give(member_id, task, plan.active)
    rooms[member_id] -= 1
    if not rooms[member_id]:
        del rooms[member_id]


def _assign_standbys(plan: _Plan, tasks: Iterable[TaskId]) -> None:
    """Give each task one more standby, if a process without it is left."""
    left = []
    for task in tasks:
        taken = plan.processes_of[task]
        near = [
            each
            for each in plan.had_copy.get(task, ())
            if plan.members[each].process_id not in taken
        ]
        if near:
            member_id = min(near, key=lambda each: plan.load(each, plan.standby))
            plan.give(member_id, task, plan.standby)
        else:
            left.append(task)
    by_load = _Smallest(plan.members, lambda each: plan.load(each, plan.standby))
    for task in left:
        taken = plan.processes_of[task]
        if len(taken) < len(plan.of_process):
            member_id = by_load.first(partial(plan.is_without, task))
            plan.give(member_id, task, plan.standby)
