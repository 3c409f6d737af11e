"""How far the copies of tasks are behind: what members report of their changelogs.

A member sends the offsets of the tasks whose state it has on its disk, summed over the changelogs
of each, and the ends of the logs where it knows them. The end of a task is the highest number of
any member: the owner of a task may report an end that a warm-up has not seen yet, so a warm-up is
never taken for nearer than it is.

This is not in the log: members report anew to the next coordinator. For one interval of reports
they are waited for, and the lags of their copies are unknown; then a member that has reported
nothing counts as one that never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from moldau.broker.coordinator.group.streams.tasks import TaskId

TASKS_MAX: Final = 10_000
"""A member reports at most this many tasks; others are ignored."""


class TaskOffsetLike(Protocol):
    """The offset of one task in a request."""

    subtopology_id: str
    partition: int
    offset: int


class TaskPositions:
    """The reports of a group's members."""

    __slots__ = ("_awaited", "_awaited_until_ms", "_ends", "_offsets")

    def __init__(self) -> None:
        self._awaited: frozenset[str] = frozenset()
        self._awaited_until_ms = 0
        self._offsets: dict[str, dict[TaskId, int]] = {}
        self._ends: dict[TaskId, dict[str, int]] = {}
        """The highest offset or end that each member has reported of a task."""

    def on_loaded(self, member_ids: Iterable[str], until_ms: int) -> None:
        """Await reports of these members, which the previous coordinator had."""
        self._awaited, self._awaited_until_ms = frozenset(member_ids), until_ms

    def on_report(
        self,
        member_id: str,
        offsets: Iterable[TaskOffsetLike] | None,
        ends: Iterable[TaskOffsetLike] | None,
    ) -> None:
        """Note a report, which replaces the one before. None means that nothing has changed."""
        if offsets is not None:
            known = self._offsets.get(member_id, {})
            now = self._offsets[member_id] = _by_task(offsets)
            for task, offset in now.items():
                by_member = self._ends.setdefault(task, {})
                # An end that has not changed is not sent again.
                by_member[member_id] = max(offset, by_member.get(member_id, 0))
            for task in known.keys() - now.keys():
                self._forget_end(member_id, task)
        own = self._offsets.get(member_id, {})
        for task, end in _by_task(ends or ()).items():
            if task in own:
                self._ends[task][member_id] = max(end, own[task])

    def forget(self, member_id: str) -> None:
        """Forget what a member has reported."""
        if self._offsets.pop(member_id, None) is not None:
            for task in [task for task, by in self._ends.items() if member_id in by]:
                self._forget_end(member_id, task)

    def reports(self, member_id: str, now_ms: int) -> bool:
        """Whether the member reports how far its copies are, or may still do so."""
        is_awaited = member_id in self._awaited and now_ms < self._awaited_until_ms
        return is_awaited or member_id in self._offsets

    def lags_of(self, member_id: str, now_ms: int) -> Mapping[TaskId, int] | None:
        """Return the known lags of the member's tasks; None if it does not report."""
        if not self.reports(member_id, now_ms):
            return None
        return {
            task: max(0, max(self._ends[task].values()) - offset)
            for task, offset in self._offsets.get(member_id, {}).items()
        }

    def own_lags(self, member_id: str) -> Mapping[TaskId, int]:
        """Return how far the member was behind the ends that it knew when it reported. A task that
        had caught up has written all that follows, as long as it is active there."""
        offsets, ends = self.reported(member_id)
        return {task: ends[task] - offset for task, offset in offsets.items()}

    def lag(self, member_id: str, task: TaskId) -> int | None:
        """Return how far the member's copy of a task is behind; None if that is not known."""
        offset = self._offsets.get(member_id, {}).get(task)
        if offset is None:
            return None
        return max(0, max(self._ends[task].values()) - offset)

    def reported(self, member_id: str) -> tuple[Mapping[TaskId, int], Mapping[TaskId, int]]:
        """Return the offsets of a member's tasks, and the highest ends that it knows of them."""
        offsets = self._offsets.get(member_id, {})
        return offsets, {task: self._ends[task][member_id] for task in offsets}

    def _forget_end(self, member_id: str, task: TaskId) -> None:
        by_member = self._ends[task]
        by_member.pop(member_id, None)
        if not by_member:
            del self._ends[task]


def _by_task(given: Iterable[TaskOffsetLike]) -> dict[TaskId, int]:
    found: dict[TaskId, int] = {}
    for each in given:
        if len(found) < TASKS_MAX:
            found[TaskId(each.subtopology_id, each.partition)] = max(0, each.offset)
    return found
