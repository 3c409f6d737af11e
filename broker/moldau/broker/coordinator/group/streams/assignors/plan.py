"""The tasks that an assignor has given so far, and which members may get more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from moldau.broker.coordinator.group.streams.assignors.assignor import MemberSpec, Work
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, Tasks, by_key


class Plan:
    """The tasks given so far. The load of a process is its tasks for each of its members.

    Invariant: no process has a task twice (`processes_of`)."""

    def __init__(self, members: Mapping[str, MemberSpec], work: Work) -> None:
        self.members = members
        self.work = work
        self.given: dict[Role, dict[str, set[TaskId]]] = {
            role: {each: set() for each in members} for role in Role
        }
        self.active = self.given[Role.ACTIVE]
        self.active_of: Counter[tuple[str, str]] = Counter()
        """The number of active tasks by member and subtopology."""
        self.of_process: dict[str, list[str]] = {}
        self.processes_of: dict[TaskId, set[str]] = {}
        self.had_copy: dict[TaskId, list[str]] = {}
        """The members that had a task, in whatever role, or have its state on their disk."""
        self.owner: dict[TaskId, str] = {}
        """The member that had a task as an active one, if it can still run it."""
        for member_id in sorted(members):
            spec = members[member_id]
            self.of_process.setdefault(spec.process_id, []).append(member_id)
            for task in spec.active | spec.copies | self._on_disk(spec):
                if spec.runs(task.subtopology_id):
                    self.had_copy.setdefault(task, []).append(member_id)
            for task in spec.active:
                if spec.runs(task.subtopology_id):
                    self.owner[task] = member_id
        self._loads = dict.fromkeys(self.of_process, 0)

    def _on_disk(self, spec: MemberSpec) -> set[TaskId]:
        """Return the tasks whose state a member has, as it reports: perhaps of an earlier run."""
        lags = spec.lags or {}
        return {task for task in lags if lags[task] <= self.work.acceptable_lag}

    def give(self, member_id: str, task: TaskId, role: Role) -> None:
        self.given[role][member_id].add(task)
        if role is Role.ACTIVE:
            self.active_of[member_id, task.subtopology_id] += 1
        process_id = self.members[member_id].process_id
        self._loads[process_id] += 1
        self.processes_of.setdefault(task, set()).add(process_id)

    def take(self, member_id: str, task: TaskId) -> None:
        """Take an active task back, before it has copies."""
        self.active[member_id].remove(task)
        self.active_of[member_id, task.subtopology_id] -= 1
        process_id = self.members[member_id].process_id
        self._loads[process_id] -= 1
        del self.processes_of[task]

    def has_place(self, task: TaskId, member_id: str) -> bool:
        """Whether the member stays and can run the task, and its process does not have it."""
        spec = self.members[member_id]
        if spec.is_leaving:
            return False
        return spec.process_id not in self.processes_of[task] and spec.runs(task.subtopology_id)

    def load(self, member_id: str, role: Role) -> tuple[float, int, str]:
        """Return the load of the member's process, then its own."""
        process_id = self.members[member_id].process_id
        of_process = self._loads[process_id] / len(self.of_process[process_id])
        return of_process, len(self.given[role][member_id]), member_id

    def stateful_tasks(self) -> list[TaskId]:
        """Return the tasks with state that some member runs, in order."""
        return [
            each
            for each in self.work.tasks()
            if each.subtopology_id in self.work.stateful and each in self.processes_of
        ]

    def tasks(self) -> dict[str, Tasks]:
        """Return the tasks of each member."""
        return {
            each: by_key({role: self.given[role][each] for role in Role}) for each in self.members
        }


class Smallest:
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
