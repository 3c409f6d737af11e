"""How far the copies of tasks are behind: what members report of their changelogs.

A member sends the offsets of the tasks whose state it has on its disk, summed over the changelogs
of each, and the ends of the logs where it knows them. The end of a task is the highest number of
any member: the owner of a task may report an end that a warm-up has not seen yet, so a warm-up is
never taken for nearer than it is.

A client knows the end of a log only after it has read a record of it, and says so: the end is
UNKNOWN. Neither does the owner of a running task report anything. So the coordinator also asks the
leaders of changelogs for their ends (`changelog_ends`). They count for as long as a report does.

This is not in the log: members report anew to the next coordinator. For one interval of reports
they are waited for, and the lags of their copies are unknown; then a member that has reported
nothing counts as one that never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from moldau.broker.coordinator.group.streams.tasks import TaskId

UNKNOWN: Final = (1 << 63) - 1
"""What a member sends for an offset or an end that it does not know."""
ASKED_MS: Final = 5_000
"""How long the answer to a question for ends is waited for."""
TASKS_MAX: Final = 10_000
"""A member reports at most this many tasks; others are ignored."""


class TaskOffsetLike(Protocol):
    """The offset of one task in a request."""

    subtopology_id: str
    partition: int
    offset: int


class TaskPositions:
    """The reports of a group's members."""

    __slots__ = (
        "_asked_until_ms", "_awaited", "_awaited_until_ms", "_ends", "_log_ends",
        "_log_ends_until_ms", "_offsets", "_unsure",
    )  # fmt: skip

    def __init__(self) -> None:
        self._awaited: frozenset[str] = frozenset()
        self._awaited_until_ms = 0
        self._offsets: dict[str, dict[TaskId, int]] = {}
        self._ends: dict[TaskId, dict[str, int]] = {}
        """The highest offset or end that each member has reported of a task, if it knows the
        end."""
        self._unsure: dict[str, frozenset[TaskId]] = {}
        """The tasks of which a member has said that it does not know the end."""
        self._log_ends: Mapping[TaskId, int] = {}
        self._log_ends_until_ms = 0
        self._asked_until_ms: int | None = None

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
        given = _by_task(ends or ())
        if ends is not None:
            self._unsure[member_id] = frozenset(each for each in given if given[each] == UNKNOWN)
        if offsets is not None:
            known = self._offsets.get(member_id, {})
            now = _by_task(offsets)
            self._offsets[member_id] = {each: now[each] for each in now if now[each] != UNKNOWN}
            for task in known.keys() - self._offsets[member_id].keys():
                self._forget_end(member_id, task)
        unsure = self._unsure.get(member_id, frozenset())
        for task, offset in self._offsets.get(member_id, {}).items():
            if task in unsure:
                self._forget_end(member_id, task)
                continue
            by_member = self._ends.setdefault(task, {})
            # An end that has not changed is not sent again.
            by_member[member_id] = max(offset, given.get(task, by_member.get(member_id, 0)))

    def forget(self, member_id: str) -> None:
        """Forget what a member has reported."""
        self._unsure.pop(member_id, None)
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
        found = {
            task: self.lag(member_id, task, now_ms) for task in self._offsets.get(member_id, ())
        }
        return {task: lag for task, lag in found.items() if lag is not None}

    def own_lags(self, member_id: str) -> Mapping[TaskId, int]:
        """Return how far the member was behind the ends that it knew when it reported. A task that
        had caught up has written all that follows, as long as it is active there."""
        offsets, ends = self.reported(member_id)
        return {task: ends[task] - offsets[task] for task in offsets if ends[task] != UNKNOWN}

    def lag(self, member_id: str, task: TaskId, now_ms: int) -> int | None:
        """Return how far the member's copy of a task is behind; None if that is not known. Without
        a copy it is as far behind as the log is long."""
        offsets = self._offsets.get(member_id)
        log_end = self.log_ends(now_ms).get(task)
        if offsets is None or (task not in offsets and log_end is None):
            return None
        ends = [*self._ends.get(task, {}).values()]
        if log_end is not None:
            ends.append(log_end)
        return max(0, max(ends) - offsets.get(task, 0)) if ends else None

    def reported(self, member_id: str) -> tuple[Mapping[TaskId, int], Mapping[TaskId, int]]:
        """Return the offsets of a member's tasks, and the highest ends that it knows of them."""
        offsets = self._offsets.get(member_id, {})
        ends = {task: self._ends.get(task, {}).get(member_id, UNKNOWN) for task in offsets}
        return offsets, ends

    # The ends of the logs.

    def asks_log_ends(self, now_ms: int) -> bool:
        """Whether the leaders of the logs are to be asked for the ends. Notes that they are."""
        is_asked = self._asked_until_ms is not None and now_ms < self._asked_until_ms
        if is_asked or now_ms < self._log_ends_until_ms:
            return False
        self._asked_until_ms = now_ms + ASKED_MS
        return True

    def on_log_ends(self, ends: Mapping[TaskId, int], until_ms: int) -> None:
        """Note the ends of the logs of tasks. They count until then."""
        self._log_ends, self._log_ends_until_ms = ends, until_ms
        self._asked_until_ms = None

    def log_ends(self, now_ms: int) -> Mapping[TaskId, int]:
        """Return the ends that the leaders of the logs have given lately."""
        return self._log_ends if now_ms < self._log_ends_until_ms else {}

    def longest_logs(self, now_ms: int) -> Mapping[TaskId, int]:
        """Return how far a member without a copy is behind, for tasks of which that is known."""
        ends = self.log_ends(now_ms)
        return {task: max(ends[task], *self._ends.get(task, {}).values(), 0) for task in ends}

    def _forget_end(self, member_id: str, task: TaskId) -> None:
        by_member = self._ends.get(task, {})
        by_member.pop(member_id, None)
        if not by_member:
            self._ends.pop(task, None)


def _by_task(given: Iterable[TaskOffsetLike]) -> dict[TaskId, int]:
    found: dict[TaskId, int] = {}
    for each in given:
        if len(found) < TASKS_MAX:
            found[TaskId(each.subtopology_id, each.partition)] = max(0, each.offset)
    return found
