"""Which host process runs which task. No IO.

A worker starts a task in a new process until it has `hosts_max` shared ones, so a worker with few
tasks has a process for each. From then on a task goes to the process that has the fewest tasks of
its connector (they may work at the same time), then the fewest suspects, then the fewest tasks.

All tasks of a process that crashes are suspects. They start again in other processes, apart from
each other as far as possible. A task that was in two crashes runs alone for a while: its next crash
hurts no other task, and it is reported as the task's own failure.

Invariants: a task that is isolated never shares a process; a process that is closed gets no task.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Final

from moldau.connect.storage.keys import TaskId
from moldau.deferred import dataclass

CRASHES_MAX: Final = 2
"""After so many crashes in shared processes, a task runs alone."""
SUSPECT_MS: Final = 600_000
"""How long a crash counts."""
HOSTS_MIN: Final = 4


class Isolation(Enum):
    """The values of `task.isolation`."""

    SHARED = "shared"
    """A few processes of the worker run all such tasks."""
    PROCESS = "process"
    """The task has a process of its own."""
    THREAD = "thread"
    """The task runs in a thread of the worker."""


ISOLATIONS: Final = tuple(each.value for each in Isolation)


def hosts_max(setting: int, cores: int) -> int:
    """Return the number of shared processes. The setting -1 means one for each core, at least 4."""
    return setting if setting > 0 else max(HOSTS_MIN, cores)


@dataclass(slots=True)
class _Host:
    is_shared: bool
    tasks: set[TaskId] = field(default_factory=set)


class TaskPlacement:
    """The tasks of each process, by the numbers of the processes."""

    def __init__(self, hosts_max: int) -> None:
        self._hosts_max = hosts_max
        self._hosts: dict[int, _Host] = {}
        self._crashes: dict[TaskId, list[int]] = {}
        self._next = 0

    def place(self, task: TaskId, *, is_isolated: bool, now_ms: int) -> tuple[int, bool]:
        """Return the number of the task's process, and whether it is a new one."""
        is_isolated = is_isolated or self._count(task, now_ms) >= CRASHES_MAX
        shared = {number: host for number, host in self._hosts.items() if host.is_shared}
        if is_isolated or len(shared) < self._hosts_max:
            number, self._next = self._next, self._next + 1
            self._hosts[number] = _Host(not is_isolated, {task})
            return number, True
        number = min(shared, key=lambda each: (*self._load(shared[each], task, now_ms), each))
        shared[number].tasks.add(task)
        return number, False

    def _load(self, host: _Host, task: TaskId, now_ms: int) -> tuple[int, int, int]:
        siblings = sum(each.connector == task.connector for each in host.tasks)
        suspects = sum(self._count(each, now_ms) > 0 for each in host.tasks)
        is_suspect = self._count(task, now_ms) > 0
        return siblings, suspects if is_suspect else 0, len(host.tasks)

    def _count(self, task: TaskId, now_ms: int) -> int:
        crashes = self._crashes.get(task, ())
        return sum(now_ms - at_ms < SUSPECT_MS for at_ms in crashes)

    def remove(self, number: int, task: TaskId) -> bool:
        """Remove a task that has ended. Return whether its process is empty, and so is closed."""
        host = self._hosts.get(number)
        if host is None:
            return False
        host.tasks.discard(task)
        if not host.tasks:
            self.close(number)
        return not host.tasks

    def close(self, number: int) -> None:
        """Give the process no more tasks: it ends, or has ended."""
        self._hosts.pop(number, None)

    def is_open(self, number: int) -> bool:
        """Whether the process may get tasks."""
        return number in self._hosts

    def on_crash(self, number: int, now_ms: int) -> frozenset[TaskId]:
        """Close a process that crashed. Return the tasks that start again elsewhere: none if it had
        only one task, which is then the cause."""
        host = self._hosts.pop(number, None)
        if host is None or not host.is_shared:
            return frozenset()
        for task in host.tasks:
            recent = [at for at in self._crashes.get(task, ()) if now_ms - at < SUSPECT_MS]
            self._crashes[task] = [*recent, now_ms]
        return frozenset(host.tasks) if len(host.tasks) > 1 else frozenset()

    def forget(self, task: TaskId) -> None:
        """Forget the crashes of a task that no longer exists."""
        self._crashes.pop(task, None)
