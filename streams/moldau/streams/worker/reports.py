"""The reports of a worker: lines in the log, and its progress on a terminal.

Invariant: a restore is reported at its beginning and its end, with what is read; there are no
reports for each record or commit.

A worker is ready when it is in its group, and all its tasks run. A task that the group has assigned
is waited for before it is made: its committed offsets are asked for first, and until they are known
there is no task that could be seen not to run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from moldau.streams.plan.lost_offsets import LostOffsets
from moldau.streams.plan.misplaced import MisplacedKey
from moldau.streams.plan.plan import Plan
from moldau.streams.query.lifecycle import Lifecycle
from moldau.streams.worker.door import Door, TopicPartition
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask, tasks_of

LOG: Final = logging.getLogger("moldau.streams")


class Reports:
    """Writes reports to the log; `RestoreBar` also shows a bar."""

    def __init__(self, life: Lifecycle | None = None) -> None:
        """`life` is that of the app in this process."""
        self.life = life or Lifecycle()
        self.restored_total = 0
        """Records read from changelogs since the worker started."""

    def write_around(self, write: Callable[[str], object]) -> Callable[[str], object]:
        """Return the function that writes log lines beside what is shown here."""
        return write

    def started(self, inputs: Sequence[str]) -> None:
        """Report that the worker has subscribed."""
        LOG.info("streams: reading %s", ", ".join(inputs))

    def listening(self, url: str, *, is_open: bool) -> None:
        """Report the address where queries are answered."""
        LOG.info("streams: queries at %s", url)
        if is_open:
            LOG.warning(
                "streams: queries at %s are open to other machines, without a login; "
                "--http-config protects them",
                url,
            )

    def measured(self, url: str, *, is_open: bool) -> None:
        """Report the address of the metrics."""
        LOG.info("streams: metrics at %s/metrics", url)
        if is_open:
            LOG.warning(
                "streams: metrics at %s are open to other machines and show the names of topics; "
                "--http-config protects them",
                url,
            )

    def assigned(self, tasks: Iterable[TaskId]) -> None:
        """Report the tasks of the worker after a rebalance."""
        names = [str(each) for each in tasks]
        LOG.info("streams: tasks %s", ", ".join(names) or "none")

    def standing_by(self, tasks: Iterable[TaskId]) -> None:
        """Report the tasks of which the worker keeps a copy."""
        names = [str(each) for each in sorted(tasks)]
        LOG.info("streams: standby tasks %s", ", ".join(names) or "none")

    def copy_given_up(self, task_id: TaskId, attempts: int, reason: str) -> None:
        """Report a standby task that is kept no more."""
        LOG.error(
            "streams: standby task %s: given up after %d attempts: %s; this worker keeps no copy "
            "of it until the group gives it to the worker anew, or it is started again",
            task_id,
            attempts,
            reason,
        )

    def restoring(self, task: WorkerTask, cleared: Sequence[str]) -> None:
        """Report that the stores of a task were opened, and what has to be restored."""
        for store in cleared:
            LOG.warning(
                "streams: task %s: the local rows of %s do not fit its changelog topic any more; "
                "the store is restored from the beginning",
                task.task_id,
                store,
            )
        for each in task.restoring.values():
            if not each.is_done:
                LOG.info(
                    "streams: task %s: restoring %s from %s, offsets %d to %d",
                    task.task_id,
                    each.store,
                    each.where,
                    each.begin,
                    each.end,
                )

    def restored_records(self, task: WorkerTask, where: TopicPartition, count: int) -> None:
        """Count `count` more restored records."""
        self.restored_total += count

    def restored(self, task: WorkerTask) -> None:
        """Report that the task is restored and runs."""
        read = {
            each.store: each.end - each.begin for each in task.restoring.values() if each.records
        }
        if any(read.values()):
            facts = ", ".join(
                f"{store} {count:,} offsets" for store, count in read.items() if count
            )
            LOG.info("streams: task %s: restored %s", task.task_id, facts)

    def migrated(self, task: WorkerTask, store: str, count: int, version: int) -> None:
        """Report rows of a store that have the form of a later version now."""
        LOG.info(
            "streams: task %s: %d rows of %s have version %d now",
            task.task_id,
            count,
            store,
            version,
        )

    def restoring_globals(
        self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Report that the global tables were opened, and what has to be restored."""
        for where, end in sorted(ends.items()):
            if positions[where] < end:
                LOG.info(
                    "streams: global table: restoring from %s, offsets %d to %d",
                    where,
                    positions[where],
                    end,
                )

    def restored_globals(self) -> None:
        """Report that the global tables are complete, so that tasks may start."""
        LOG.info("streams: global tables are complete")

    def cleared_global(self, store: str, topic: str) -> None:
        """Report that the rows of a global table were deleted."""
        LOG.warning(
            "streams: the local rows of the global table %s do not fit its topic %s any more; it "
            "is read from the beginning",
            store,
            topic,
        )

    def skipped_global(self, reason: str) -> None:
        """Report a record of a global table that its policy skips."""
        LOG.warning("streams: skipped: %s", reason)

    def took_lake(self, name: str, version: str, count: int) -> None:
        """Report a version of a lake table that is looked up from now on."""
        LOG.info("streams: lake table %s: version %s, %d rows", name, version, count)

    def stale_lake(self, reason: str, version: str) -> None:
        """Report that a lake table cannot be read again."""
        LOG.warning("streams: %s; the rows of version %s stay", reason, version)

    def damaged(self, task: str, reason: str, aside: str) -> None:
        """Report a damaged database that was renamed."""
        LOG.error(
            "streams: task %s: %s; the files are kept as %s and the stores are restored from "
            "their changelogs",
            task,
            reason,
            aside,
        )

    def missing_outputs(self, topics: Sequence[str], seconds: float) -> None:
        """Report outputs that do not exist, and how long a broker has to create them."""
        LOG.warning(
            "streams: output topic %s does not exist; the broker has %g s to create it by itself",
            ", ".join(topics),
            seconds,
        )

    def offsets_lost(self, what: LostOffsets) -> None:
        """Report records that are processed twice, or may be, because the group has no offsets."""
        LOG.warning(
            "streams: store %s has rows and its group has %s: %s", what.store, what, what.outcome
        )

    def topology_not_kept(self, topic: str, reason: str) -> None:
        """Report that changes of the topology will not be noticed."""
        LOG.warning(
            "streams: renamed stores and other apps of this name will not be noticed: topic %s "
            "cannot be used: %s",
            topic,
            reason,
        )

    def topology_awaited(self, topic: str, reason: str) -> None:
        """Report that the worker cannot begin before it has read what the app was."""
        LOG.warning(
            "streams: waiting for topic %s, which says which versions the rows of stores have: %s",
            topic,
            reason,
        )

    def waiting_for(self, patterns: Sequence[str]) -> None:
        """Report patterns that no topic matches."""
        LOG.warning("streams: no topic matches %s yet: waiting for one", ", ".join(patterns))

    def matched(self, found: Mapping[str, Sequence[str]]) -> None:
        """Report the topics that match each pattern and are read now."""
        for pattern, topics in found.items():
            LOG.info("streams: %s matches %s", pattern, ", ".join(topics))

    def unmatched(self, topics: Sequence[str]) -> None:
        """Report that topics of patterns are gone, and that the app goes on without them."""
        LOG.warning(
            "streams: topic %s was deleted: the app goes on with the topics that match now",
            ", ".join(topics),
        )

    def deleted(self, task: str) -> None:
        """Report that the stores of a task were deleted, because another worker has the task."""
        LOG.info("streams: task %s: another worker has it; its stores here were deleted", task)

    def misplaced(self, what: MisplacedKey) -> None:
        """Report the first record of a topic whose key belongs into another partition."""
        LOG.warning("streams: %s", what)

    def ended(self) -> None:
        """End the reports: the worker has stopped."""

    def replaced(self, reason: str, pause_s: float) -> None:
        """Report a worker that has failed and that another one replaces."""
        LOG.error(
            "streams: a new worker begins in %.1f s, this one has failed: %s", pause_s, reason
        )

    def commit_later(self, reason: str) -> None:
        """Report that a commit is repeated, after a rebalance or when brokers answer again."""
        LOG.info("streams: commit again later: %s", reason)

    def reverted(self, reason: str) -> None:
        """Report that what was not committed is processed again."""
        LOG.warning("streams: reverted to the last commit: %s", reason)

    def membership_lost(self, reason: str) -> None:
        """Report that the group has continued without this worker."""
        LOG.warning(
            "streams: the group has gone on without this worker, which joins it again; what was "
            "not committed is processed by others: %s",
            reason,
        )


def lag_of(tasks: Iterable[WorkerTask]) -> int:
    """Return how many changelog offsets are still to be restored."""
    return sum(
        each.end - each.position
        for task in tasks
        if task.state is TaskState.RESTORING
        for each in task.restoring.values()
    )


class Readiness:
    """What a worker waits for, for `/readyz`."""

    def __init__(self, plan: Plan, tasks: Mapping[TaskId, WorkerTask], door: Door) -> None:
        self._plan = plan
        self._tasks = tasks
        self._door = door

    @property
    def waits_for(self) -> str | None:
        """What is missing; None if it is ready."""
        if not self._door.is_member:
            return "the worker joins its group"
        waiting = [
            f"task {task_id} is {task.state.value}"
            for task_id, task in self._tasks.items()
            if task.state is not TaskState.RUNNING
        ]
        assigned = tasks_of(self._plan, self._door.assigned())
        waiting += [f"task {each} is being made" for each in assigned if each not in self._tasks]
        return ", ".join(sorted(waiting)) or None
