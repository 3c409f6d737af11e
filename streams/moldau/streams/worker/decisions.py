"""What a worker does next with its tasks: commit, revert, close, rebuild.

Two things can go wrong with a task, and they are kept apart. It is *reverted* if what it did since
the last commit does not count: its stores are sound, so it is made again from them. It is *rebuilt*
if its store is damaged: the files are set aside, and the stores are made from their changelogs.

Invariants: an atomic commit covers all tasks that run, because what they sent cannot be told apart,
so tasks that were touched are reverted together (one with an unfinished batch is left out of it,
and has sent nothing); a task is made again only after it was closed.

A volatile core: events change it, and `ready` hands out what to do once.

A commit has a cost of its own, and writes each key that has changed since the last one, so a worker
that is behind commits less often. The promise is that no output waits longer for its commit, beyond
one interval, than a record that comes now would wait until it is processed, whichever input it
comes to. So the least counts of the inputs that had records processed since the last commit, each
at its own rate: one that has caught up among others that have not makes commits come at the
interval. What a timer of the wall clock has made was late for nothing, so it makes them, too.
Records of a repartition topic have waited before as well, in front of the tasks that write it: that
time is added if all those tasks run in this worker. Otherwise it is not known, and counts as none.

Whether an input was deleted is decided here too. A broker that has just started may not know a
topic yet, and a look may fail. So an input counts as deleted when all looks of some seconds that
were answered did not find it; the worker goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.streams.problems import InputDeleted
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask

if TYPE_CHECKING:
    from moldau.client import TopicPartition

REVERTS_MAX: Final = 20
"""After so many reverts without a commit between them, the worker fails."""
_WAIT_S_MAX: Final = 1.0

GONE_S: Final = 10.0
"""How long an input has to be gone to count as deleted."""
LOOK_S: Final = 1.0
"""The time between two looks, and how long one may take."""


class TaskRestart(NamedTuple):
    """A closed task to make again; `origins` has the first offset that it was given, by input."""

    task_id: TaskId
    inputs: tuple[TopicPartition, ...]
    origins: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """What to do, in this order. Everything in it is handed out once."""

    revert: bool = False
    """Undo what was sent since the last commit."""
    close: tuple[TaskId, ...] = ()
    set_aside: tuple[TaskId, ...] = ()
    """Those of the closed tasks whose files are damaged."""
    suspend: tuple[TaskId, ...] = ()
    wait_s: float = 0.0
    """Wait so long before tasks are made again: the last attempts have failed."""
    remake: tuple[TaskRestart, ...] = ()
    """Closed tasks to make again from the last commit, if they are still assigned."""
    commit: tuple[TaskId, ...] = ()


NOTHING: Final = Ready()


class Backlog:
    """How long what waits in the inputs of tasks would take them, at their present rates."""

    def __init__(self, lag: Callable[[TopicPartition], int | None]) -> None:
        """`lag` returns how many records of an input are not fetched yet, None if that is not
        known."""
        self._lag = lag
        self._writers: Mapping[str, frozenset[TaskId]] = {}
        self._waited_s: dict[str, float] = {}
        self._begun = 0.0
        self._processed: dict[tuple[TaskId, str], int] = {}

    def on_layout(self, writers: Mapping[str, frozenset[TaskId]]) -> None:
        """Take the tasks that write each repartition topic, in any worker."""
        self._writers = writers

    def on_commit(self, tasks: Iterable[WorkerTask], now: float) -> None:
        """Note how late the records are that this commit brings to repartition topics."""
        tasks = list(tasks)
        here = {each.task_id for each in tasks}
        delays = {each.task_id: self._delay_s(each, here, now) for each in tasks if each.is_touched}
        for topic, writers in self._writers.items():
            found = [delays[each] for each in writers if each in delays]
            if found or not writers <= here:
                self._waited_s[topic] = min(found) if writers <= here else 0.0

    def begin(self, tasks: Iterable[WorkerTask], now: float) -> None:
        """Measure rates from now on."""
        self._begun = now
        self._processed = {
            (task.task_id, each.topic): task.processed_of(each)
            for task in tasks
            for each in task.inputs
        }

    def delay_s(self, tasks: Iterable[WorkerTask], now: float) -> float:
        """Return the delay of the task that is least behind, of those that do anything."""
        tasks = list(tasks)
        here = {each.task_id for each in tasks}
        return min(
            (self._delay_s(each, here, now) for each in tasks if each.is_touched), default=0.0
        )

    def _delay_s(self, task: WorkerTask, here: Set[TaskId], now: float) -> float:
        """Return the delay of the input that is least behind, of those that it has read. What it
        made without any was late for nothing."""
        if task.task.has_timer_fired():
            return 0.0
        delays = []
        for each in task.inputs:
            done = task.processed_of(each) - self._processed.get((task.task_id, each.topic), 0)
            if done > 0:
                waiting = (self._lag(each) or 0) + task.task.buffered(each.topic)
                delay_s = waiting * (now - self._begun) / done
                if self._writers.get(each.topic, here) <= here:
                    delay_s += self._waited_s.get(each.topic, 0.0)
                delays.append(delay_s)
        return min(delays, default=0.0)


class Decisions:
    """The decisions of one worker about its tasks, which it reads and never changes."""

    def __init__(
        self,
        tasks: Mapping[TaskId, WorkerTask],
        *,
        is_atomic: bool,
        interval_s: tuple[float, float],
        uncommitted_bytes_max: int,
        backlog: Backlog,
    ) -> None:
        """`interval_s` is the time between two commits, and the longest one of a worker that is
        behind."""
        self._tasks = tasks
        self._is_atomic = is_atomic
        self._interval_s, self._interval_s_max = interval_s
        self._uncommitted_bytes_max = uncommitted_bytes_max
        self._backlog = backlog
        self.commit_at = 0.0
        self._committed_at = 0.0
        self._revert = False
        self._commit: dict[TaskId, None] = {}
        self._suspend: dict[TaskId, None] = {}
        self._close: dict[TaskId, None] = {}
        self._set_aside: dict[TaskId, None] = {}
        self._remake: dict[TaskId, TaskRestart] = {}
        self._is_rebalancing = False
        self._reverts = 0
        self.failure: Exception | None = None
        """The last of too many reasons to revert in a row; the worker fails with it."""

    # Events

    def on_layout(self, writers: Mapping[str, frozenset[TaskId]]) -> None:
        """Take the tasks that write each repartition topic, in any worker."""
        self._backlog.on_layout(writers)

    def on_turn(self, now: float) -> None:
        """The worker has processed records; no rebalance is going on."""
        self._is_rebalancing = False
        running = self._of(TaskState.RUNNING)
        if self._is_due(running, now):
            self._commit |= dict.fromkeys(running)

    def on_commit_begun(self, now: float) -> None:
        """A commit begins; if it fails, the next one is due an interval later."""
        self._backlog.on_commit([self._tasks[each] for each in self._of(TaskState.RUNNING)], now)
        self._begin_interval(now)

    def on_committed(self, now: float, *, is_anything: bool) -> None:
        """A commit has ended, which had something to commit or not; a whole interval of work comes
        before the next one, however long it took. A task that could not store its rows has a
        `damage`: what its stores lack is in their changelogs."""
        self._begin_interval(now)
        if is_anything:
            self._reverts = 0
        self._remake_damaged()

    def on_commit_later(self) -> None:
        """The group accepts no commit now, or does not answer. The tasks go on."""
        self._remake_damaged()

    def on_membership_lost(self) -> None:
        """All tasks belong to others; what is not committed is theirs to do again."""
        self._revert = self._is_atomic
        self._remake_damaged()
        self._remake.clear()
        self._close |= dict.fromkeys(self._tasks)

    def on_reverted(self, error: Exception) -> None:
        """What was sent since the last commit does not count."""
        self._reverts += 1
        if self._reverts > REVERTS_MAX:
            self.failure = without_frames(error)
        self._revert_touched()
        self._remake_damaged()

    def on_damage(self) -> None:
        """Work was interrupted by a store: its task has a `damage`."""
        if self._is_atomic:
            self._revert_touched()
        self._remake_damaged()

    def on_made(self) -> None:
        """Tasks were made; those whose stores are damaged have a `damage`."""
        self._remake_damaged()

    def on_rebalanced(self) -> None:
        """Tasks were made for the partitions that have come."""
        self._is_rebalancing = True
        self._remake_damaged()

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions go, or come back at once: commit their tasks, then suspend them."""
        self._is_rebalancing = True
        gone = self._with(partitions)
        running = self._of(TaskState.RUNNING)
        covered = running if self._is_atomic else [each for each in running if each in gone]
        self._commit |= dict.fromkeys(covered)
        self._suspend |= dict.fromkeys(gone)

    def on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions belong to others already."""
        lost = self._with(partitions)
        if self._is_atomic and any(self._tasks[each].is_touched for each in lost):
            self._revert_touched()
        for each in lost:
            self._close[each] = None
            self._remake.pop(each, None)

    def on_stopping(self) -> None:
        """The worker stops: commit what runs, and make nothing again."""
        self._is_rebalancing = True
        self._commit |= dict.fromkeys(self._of(TaskState.RUNNING))

    # What follows

    def ready(self) -> Ready:
        """Return what to do now. A commit comes first and alone; then what follows from it."""
        if self._commit and not self._close and not self._revert:
            commit, self._commit = tuple(self._commit), {}
            return Ready(commit=commit)
        self._commit.clear()
        remake: tuple[TaskRestart, ...] = ()
        if not self._is_rebalancing:
            remake, self._remake = tuple(self._remake.values()), {}
        ready = Ready(
            self._revert,
            tuple(each for each in self._close if each in self._tasks),
            tuple(each for each in self._set_aside if each in self._tasks),
            tuple(
                each for each in self._suspend if each in self._tasks and each not in self._close
            ),
            self._wait_s() if remake else 0.0,
            remake,
        )
        self._revert = False
        self._close, self._set_aside, self._suspend = {}, {}, {}
        return ready

    def _wait_s(self) -> float:
        return min(_WAIT_S_MAX, 0.01 * 2**self._reverts) if self._reverts > 1 else 0.0

    def _begin_interval(self, now: float) -> None:
        self._committed_at = now
        self.commit_at = now + self._interval_s
        self._backlog.begin(self._tasks.values(), now)

    def _is_due(self, running: Sequence[TaskId], now: float) -> bool:
        tasks = [self._tasks[each] for each in running]
        if now >= self.commit_at and not self._put_off(tasks, now):
            return True
        able = [each for each in tasks if not each.is_left_out or not each.task.is_unfinished()]
        if any(each.is_left_out or each.task.wants_commit() for each in able):
            return True
        most = self._uncommitted_bytes_max
        return any(each.uncommitted_bytes() > most for each in able)

    def _put_off(self, tasks: Sequence[WorkerTask], now: float) -> bool:
        """Put the commit off if outputs are later than they have waited for it. Return whether it
        is."""
        if now >= self._committed_at + self._interval_s_max:
            return False
        delay_s = min(self._backlog.delay_s(tasks, now), self._interval_s_max)
        if self._committed_at + delay_s <= now:
            return False
        self.commit_at = min(self._committed_at + delay_s, now + self._interval_s)
        return True

    def _remake_damaged(self) -> None:
        damaged = [each for each in self._tasks.values() if each.damage is not None]
        self._close_and_remake(damaged)
        self._set_aside |= dict.fromkeys(each.task_id for each in damaged)

    def _revert_touched(self) -> None:
        self._revert = True
        self._close_and_remake([each for each in self._tasks.values() if each.is_touched])

    def _close_and_remake(self, tasks: Iterable[WorkerTask]) -> None:
        for each in tasks:
            self._close[each.task_id] = None
            self._remake[each.task_id] = TaskRestart(each.task_id, each.inputs, each.origins)

    def _of(self, state: TaskState) -> list[TaskId]:
        return [task_id for task_id, task in self._tasks.items() if task.state is state]

    def _with(self, partitions: Iterable[TopicPartition]) -> list[TaskId]:
        given = set(partitions)
        return [
            task_id for task_id, task in self._tasks.items() if not given.isdisjoint(task.inputs)
        ]


class InputWatch:
    """The inputs of an app, and since when the cluster does not know them."""

    def __init__(self, app: str, inputs: Sequence[str]) -> None:
        self._app = app
        self.inputs = tuple(inputs)
        self._look_at: float | None = None
        self._gone_since: dict[str, float] = {}

    @property
    def is_doubted(self) -> bool:
        """Whether an input may be gone."""
        return self._look_at is not None

    def doubt(self, now: float) -> None:
        """Look at once: something has changed that may be a deleted input."""
        self._look_at = now

    def is_due(self, now: float) -> bool:
        """Whether it is time to look."""
        return self._look_at is not None and now >= self._look_at

    def on_look(self, there: Container[str] | None, now: float) -> None:
        """Take the topics that exist; None if the look failed, which says nothing. Raise
        InputDeleted if inputs have been gone for long enough."""
        self._look_at = now + LOOK_S
        if there is None:
            return
        gone = [name for name in self.inputs if name not in there]
        self._gone_since = {name: self._gone_since.get(name, now) for name in gone}
        if not gone:
            self._look_at = None
        if any(now - since >= GONE_S for since in self._gone_since.values()):
            raise InputDeleted(self._app, gone)
