"""The standby tasks of a worker: copies of the state of tasks that run elsewhere.

A standby reads the changelogs of its task continuously, committed records only, into stores of its
own. When its worker gets the task, the stores lack only what was written last, so the task goes on
without a restore.

Invariants:
- A standby holds nothing that is not committed: its reader stops at the last stable offset, and a
  store whose changelog is an input stops at the offset that the app has committed.
- The versions of rows are read beside the changelogs, so that no question misreads rows that the
  task has migrated, or is about to.
- A task is never here and among the worker's own tasks: what is given up here is closed before
  tasks are taken, and tasks are given up before they are kept here. An open database goes from one
  to the other.

A standby has the form of a task (`WorkerTask`), in the state STANDBY, and is restored by the same
steps, towards an end that moves.

A copy with damaged files, or whose changelog does not hold its next record any more, is opened anew
from the beginning. If that does not help, the pauses grow, and after some attempts the copy is
given up: its worker goes on without it, says so, and shows it in `given_up`. It begins again when
the group gives the copy to the worker anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from moldau.client import KafkaError
from moldau.client.group.streams import TaskPosition
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import RestartPolicy, Restarts
from moldau.streams.engine.batches import Chunk
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.store_versions import FIRST, StoreVersion, versions_in
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import StoreCorrupted
from moldau.streams.worker import restore
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.door import Door, TopicFacts, TopicPartition
from moldau.streams.worker.migrations import differs
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.task_maker import TaskMaker, forget_frames
from moldau.streams.worker.tasks import RestoreProgress, TaskId, TaskState, WorkerTask

_ENDLESS: Final = 2**63 - 1
_LOOK_S: Final = 1.0
"""How often the committed offsets are looked up of inputs that are changelogs."""
_LOOK_AGAIN: Final = Backoff(1_000, 30_000)
"""The pauses while the coordinator does not answer."""
_REOPENING: Final = RestartPolicy(Backoff(100, 60_000), failures_max=6)


class Standbys:
    """The copies that one worker keeps."""

    def __init__(
        self,
        plan: Plan,
        door: Door,
        maker: TaskMaker,
        topics: Callable[[], Mapping[str, TopicFacts]],
        beside: tuple[Gate, Runtime, Reports],
        versions: Callable[[], Sequence[TopicPartition]] = tuple,
    ) -> None:
        """`topics` returns the facts of the app's topics, `versions` the partition that says which
        versions rows have; none if it cannot be used."""
        self._programs = {program.index: program for program in plan.programs}
        self._door = door
        self._maker = maker
        self._topics = topics
        self._gate, self._runtime, self._reports = beside
        self._of_versions = versions
        self._kept = KeptVersions()
        self._look_at = 0.0
        self._failed_looks = 0
        self._report_at = 0.0
        self._wanted: frozenset[TaskId] = frozenset()
        self.unopened: dict[TaskId, None] = {}
        """Copies that are left to open, in this order."""
        self._restarts: dict[TaskId, Restarts] = {}
        """Of copies that were opened anew, or are about to be."""
        self._ends: dict[TopicPartition, int] = {}
        """The ends that changelogs had when copies were opened."""
        self.widths: Mapping[str, int] = {}
        """The partition counts of the inputs."""
        self.tasks: dict[TaskId, WorkerTask] = {}
        self.given_up: dict[TaskId, str] = {}
        """The copies that cannot be kept, and why."""

    # Keeping

    async def give_up(self, kept: Collection[TaskId]) -> None:
        """Close all others."""
        for task_id in self._wanted.difference(kept):
            self._restarts.pop(task_id, None)
            self.given_up.pop(task_id, None)
        self._wanted = self._wanted.intersection(kept)
        self.unopened = {each: None for each in self.unopened if each in kept}
        gone = [task_id for task_id in self.tasks if task_id not in kept]
        sound = [task_id for task_id in gone if self.tasks[task_id].damage is None]
        for task_id in sound:
            now_s = self._runtime.clock.monotonic()
            await self._gate.run(self._maker.hand_over, self.tasks.pop(task_id), now_s)
        await self._close([task_id for task_id in gone if task_id in self.tasks])
        if gone:
            await self._follow()

    async def keep(self, wanted: Iterable[TaskId]) -> None:
        """Open those that are not here yet: one now, and one in each of the next turns. None of
        them may be a task of the worker now."""
        new = sorted(set(wanted) - self._wanted)
        self._wanted |= frozenset(new)
        self.unopened |= dict.fromkeys(new)
        if new:
            await self._open_one()

    async def _open_one(self) -> None:
        """Open one of the copies that are left: the tasks of the worker go on in between."""
        task_id = next(iter(self.unopened))
        del self.unopened[task_id]
        await self._open([task_id])
        if not self.unopened:
            self._report_at = 0.0  # the group may wait for it, to move tasks
            self._reports.standing_by(self.tasks)

    async def _open(self, task_ids: Iterable[TaskId]) -> None:
        opened = []
        damaged: dict[TaskId, str] = {}
        for task_id in task_ids:
            program = self._programs[task_id.program]
            inputs = tuple(
                TopicPartition(topic, task_id.partition)
                for topic in program.inputs
                if task_id.partition < self.widths.get(topic, 0)
            )
            await self._maker.settled(task_id)
            try:
                task = await self._gate.run(self._maker.make, task_id, program, inputs, {})
            except StoreCorrupted as error:  # the new files too
                forget_frames(error)
                damaged[task_id] = str(error)
                continue
            task.state = TaskState.STANDBY
            self.tasks[task_id] = task
            self._restarts.setdefault(task_id, Restarts(_REOPENING)).on_up(self._now_ms())
            opened.append(task)
        await self._begin(opened, damaged)

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // 1_000_000

    async def close_all(self) -> None:
        """Close all."""
        self.unopened.clear()
        await self._close(list(self.tasks))
        await self._door.standbys.aclose()

    async def _close(self, task_ids: Iterable[TaskId]) -> None:
        for task_id in task_ids:
            task = self.tasks.pop(task_id)
            if task.damage is not None:
                forget_frames(task.damage)
            await self._gate.run(task.close)
            if task.damage is not None:
                self._maker.set_aside(task)

    async def _again(self, reasons: Mapping[TaskId, str]) -> None:
        """Close copies, and open them anew after a pause, unless that was tried too often."""
        await self._close([task_id for task_id in reasons if task_id in self.tasks])
        for task_id, reason in reasons.items():
            restarts = self._restarts.setdefault(task_id, Restarts(_REOPENING))
            luck = self._runtime.random.random()
            if restarts.on_failure(self._now_ms(), luck) is None:
                self.given_up[task_id] = reason
                self._reports.copy_given_up(task_id, restarts.in_a_row + 1, reason)
        await self._follow()  # so that the reader goes back, too

    async def _begin(self, tasks: Collection[WorkerTask], damaged: dict[TaskId, str]) -> None:
        """Continue each store at the offset that its rows were committed with. `damaged` are the
        tasks that could not be made, and why."""
        changelogs = [where for task in tasks for where in task.changelogs()]
        ends = await self._door.ends([*changelogs, *self._of_versions()])
        self._kept.begin([ends[where] for where in self._of_versions()])
        # That an input was committed so far is not known yet: it only keeps the rows.
        whole = {where: CommittedOffset(end, "") for where, (_, end) in ends.items()}
        self._ends |= {where: end for where, (_, end) in ends.items()}
        for task in tasks:
            try:
                await self._gate.run(restore.begin, task, ends, self._topics(), whole)
            except StoreCorrupted as error:
                task.damage = without_frames(error)
                damaged[task.task_id] = str(error)
                continue
            for store in task.program.stores:
                where = task.changelog(store)
                if where is not None and where in task.restoring:
                    progress = task.restoring[where]
                    is_input = store.source_topic is not None
                    progress.end = progress.position if is_input else _ENDLESS
        self._look_at = 0.0
        self._kept.judge(self.tasks.values())
        if damaged:
            await self._again(damaged)
        else:
            await self._follow()

    async def _follow(self) -> None:
        offsets = restore.open_offsets(self.tasks.values())
        if self.tasks:
            offsets |= dict.fromkeys(self._of_versions(), self._kept.position)
        await self._door.standbys.read_from(offsets)

    def on_damage(self, path: str, error: StoreCorrupted) -> bool:
        """A question has found the files at a path damaged. Return whether they are of a copy,
        which the next `read` opens anew."""
        for task in self.tasks.values():
            if task.database is not None and task.database.path == path:
                task.damage = without_frames(error)
                return True
        return False

    # Reading

    async def read(self) -> None:
        """Apply what has come since, without waiting for more."""
        now_ms = self._now_ms()
        due = [each for each, restarts in self._restarts.items() if restarts.take_due(now_ms)]
        if due:
            await self._open(due)
        if damaged := self._damaged():  # a question has found it
            await self._again(damaged)
        if self.unopened:
            await self._open_one()
        if not self.tasks:
            return
        await self._learn_committed()
        by_changelog = {
            where: task
            for task in self.tasks.values()
            for where, each in task.restoring.items()
            if not each.is_done
        }
        await self._tend()
        of_versions = self._of_versions()
        if not by_changelog and not of_versions:
            return
        try:
            fetched = await self._door.standbys.read(0.0)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            gone = TopicPartition(error.context["topic"], error.context["partition"])
            reason = f"{gone} does not hold its next record any more"
            reading = [by_changelog[gone].task_id] if gone in by_changelog else list(self.tasks)
            if gone in of_versions:
                self._kept = KeptVersions()
            await self._again(dict.fromkeys(reading, reason))
            return
        for where in of_versions:
            found = [each.chunk for each in fetched if each.where == where]
            if self._kept.apply(found, self._door.standbys.position(where)):
                self._kept.judge(self.tasks.values())
        for each in fetched:
            if (task := by_changelog.get(each.where)) is not None:
                await self._change(task, each.where, restore.apply, each)
        for where, task in by_changelog.items():
            reached = self._door.standbys.position(where)
            if reached > task.restoring[where].position:  # over markers, and what was compacted
                await self._change(task, where, restore.advance, where, reached)
        if damaged := self._damaged():
            await self._again(damaged)
        elif any(task.restoring[where].is_done for where, task in by_changelog.items()):
            await self._follow()

    def _damaged(self) -> dict[TaskId, str]:
        return {
            task_id: str(task.damage)
            for task_id, task in self.tasks.items()
            if task.damage is not None
        }

    async def _change(
        self, task: WorkerTask, where: TopicPartition, step: Callable[..., object], *given: object
    ) -> None:
        """Run a step of the restore, unless the stores are damaged."""
        if task.damage is not None:
            return
        try:
            await self._gate.run(step, task, *given, self._topics()[where.topic])
        except StoreCorrupted as error:
            task.damage = without_frames(error)

    def _lag(self, progress: RestoreProgress) -> int:
        """Return how far a copy is behind its changelog: until a fetch says it, behind the end that
        the changelog had at the beginning. A copy that lags must not be reported as near."""
        found = self._door.standbys.lag(progress.where)
        return max(0, self._ends[progress.where] - progress.position) if found is None else found

    async def _tend(self) -> None:
        """Once in a while, report how far the copies are, which the group asks for less often, and
        delete what is out of retention."""
        now = self._runtime.clock.monotonic()
        if now < self._report_at:
            return
        self._report_at = now + _LOOK_S
        self._report()
        for task in self.tasks.values():
            if task.damage is None:
                try:
                    await self._gate.run(_expire, task)
                except StoreCorrupted as error:
                    task.damage = without_frames(error)

    def _report(self) -> None:
        positions = {}
        for task_id, task in self.tasks.items():
            offset = sum(each.position for each in task.restoring.values())
            positions[task_id] = TaskPosition(offset, offset + sum(self.lags(task).values()))
        self._door.membership.report(positions)

    def lags(self, task: WorkerTask) -> dict[str, int]:
        """Return how many changelog offsets each store of a copy lacks."""
        return {
            each.store: 0 if each.is_done else self._lag(each) for each in task.restoring.values()
        }

    async def _learn_committed(self) -> None:
        """Move the ends of stores whose changelogs are inputs to what the app has committed."""
        now = self._runtime.clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        tables = {
            where: task
            for task in self.tasks.values()
            for store in task.program.stores
            if store.source_topic is not None and (where := task.changelog(store)) is not None
        }
        committed = await self._door.committed_soon(list(tables))
        if committed is None:
            self._failed_looks += 1
            self._look_at = now + _LOOK_AGAIN.wait_s(self._failed_looks, self._runtime.random)
            return
        self._failed_looks = 0
        was_done = False
        for where, task in tables.items():
            progress = task.restoring[where]
            if where in committed and committed[where].offset > progress.end:
                was_done |= progress.is_done
                progress.end = committed[where].offset
        if was_done:
            await self._follow()


class KeptVersions:
    """The versions of rows, as far as they were read beside the changelogs."""

    def __init__(self) -> None:
        self.position = 0
        self._end: int | None = None
        """The end that the topic had when the first copy was opened; None before."""
        self._records: dict[bytes | None, bytes | None] = {}
        self._versions: Mapping[tuple[str, int], StoreVersion] = {}

    def begin(self, ends: Sequence[tuple[int, int]]) -> None:
        """Read the topic from its first offset, up to its end before any copy is judged."""
        if self._end is None:
            self.position, self._end = ends[0] if ends else (0, 0)

    def apply(self, chunks: Iterable[Chunk], position: int) -> bool:
        """Take records, and how far the topic is read. Return whether that is something new."""
        if position <= self.position:
            return False
        self.position = position
        for chunk in chunks:
            self._records |= zip(chunk.keys, chunk.values, strict=True)
        self._versions = versions_in(self._records)
        return True

    def judge(self, copies: Iterable[WorkerTask]) -> None:
        """Set whether the rows of copies have the versions that the app declares."""
        is_known = self._end is not None and self.position >= self._end
        for task in copies:
            task.versions_fit = is_known and not any(
                differs(store, self._versions.get((store.name, task.task_id.partition), FIRST))
                for store in task.program.stores
            )


def _expire(task: WorkerTask) -> None:
    task.task.expire_restored()
    task.views.clear()
    assert task.database is not None
    task.database.commit({})
