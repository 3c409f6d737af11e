"""Answer questions from the stores of a worker: find the tasks with the rows, or the other worker.

Invariants: a key that another worker has is never reported as absent; a store that is being
restored gives no answer, because it would be an old one, unless the question allows old ones
(`PositionQuestion`). Then a standby may answer, too. Both hold nothing that is not committed, and
the answer says how far they are. Rows of another version than the app declares, or of an unknown
one, give no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from moldau.streams.engine.construction import Store
from moldau.streams.plan.placement import Placement, placements
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.query.answers import Answer, answer, merged
from moldau.streams.query.gate import Gate
from moldau.streams.query.questions import (
    BadQuery,
    Behind,
    Fetch,
    Get,
    NoSuchStore,
    NotHere,
    PositionedAnswer,
    PositionQuestion,
    Question,
    Range,
    StoreUnavailable,
)
from moldau.streams.state.spec import StoreSpec
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.global_tables import GlobalTables
from moldau.streams.worker.membership import Membership
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask

_CURRENT = (TaskState.RUNNING, TaskState.SUSPENDED)
_NO_KEY = (TypeError, ValueError, AttributeError, msgspec.MsgspecError)


class AppStore(NamedTuple):
    """A store of the app; `program` is None for a global table."""

    spec: StoreSpec
    program: Program | None


class Queries:
    """The queries of one worker. `widths` has the partition count of each topic."""

    def __init__(
        self,
        plan: Plan,
        gate: Gate,
        tasks: tuple[Mapping[TaskId, WorkerTask], Mapping[TaskId, WorkerTask]],
        global_tables: GlobalTables,
        owners: Membership,
        *,
        are_committed: bool = False,
    ) -> None:
        """`tasks` are those of the worker, and its copies of others. `are_committed`: answers hold
        only what is committed."""
        self.app = plan.app
        self.plan = plan
        self._gate = gate
        self._tasks, self._copies = tasks
        self._globals = global_tables
        self._owners = owners
        self._are_committed = are_committed
        self._placements = placements(plan)
        self.widths: Mapping[str, int] = {}
        self.stores = {
            store.name: AppStore(store, program)
            for program in plan.programs
            for store in program.stores
        } | {table.store.name: AppStore(table.store, None) for table in plan.global_tables}

    def store(self, name: str) -> AppStore:
        """Return the store of this name. Raise NoSuchStore, a BadQuery, if the app has none."""
        found = self.stores.get(name)
        if found is None:
            known = ", ".join(sorted(self.stores)) or "none"
            raise NoSuchStore(f"app={self.app}: there is no store {name}; there are: {known}")
        return found

    def placement(self, name: str) -> Placement:
        """Return where the keys of a store lie."""
        return self._placements.get(name, Placement())

    async def ask(self, store: str, question: Question | PositionQuestion) -> Any:
        """Return the answer of this worker's tasks, or raise NotHere or StoreUnavailable."""
        spec, program = self.store(store)
        if isinstance(question, PositionQuestion):
            return await self._ask_positioned(spec, program, question)
        keys = _keys_of(question)
        encoded = [self._encoded(spec, key) for key in keys]
        if program is None:
            return await self._gate.ask(lambda: self._read_global(store, question))
        if isinstance(question, Get | Fetch):
            return await self._ask_for_key(program, spec, question, encoded[0])
        tasks = self._of(program)
        self._check_readable(spec, tasks)
        return await self._gate.ask(self._reading(tasks, spec, question))

    async def _ask_for_key(
        self, program: Program, spec: StoreSpec, question: Get | Fetch, key: bytes
    ) -> Answer:
        tasks = self._of(program)
        if question.partitions:
            return await self._ask_in(program, spec, question)
        readable = [each for each in tasks if _is_readable(each)]
        found = await self._gate.ask(self._reading(readable, spec, question)) if readable else None
        if found:
            return found
        # The key is absent, or another worker has it.
        way = self.placement(spec.name).partitioning
        partition = way.partition(key, self._width(program, spec))
        task = next((each for each in tasks if each.task_id.partition == partition), None)
        if task is None:
            self._check_assigned(spec)
            raise self._elsewhere(program, spec, partition)
        self._check_readable(spec, [task])
        return found

    async def _ask_in(self, program: Program, spec: StoreSpec, question: Get | Fetch) -> Answer:
        """Look for a key in given partitions, all of which this worker must have."""
        here = {each.task_id.partition: each for each in self._of(program)}
        self._check_assigned(spec)
        for partition in question.partitions:
            if partition not in here:
                raise self._elsewhere(program, spec, partition)
        tasks = [here[partition] for partition in question.partitions]
        self._check_readable(spec, tasks)
        return await self._gate.ask(self._reading(tasks, spec, question))

    # Answers with a position

    async def _ask_positioned(
        self, spec: StoreSpec, program: Program | None, asked: PositionQuestion
    ) -> PositionedAnswer:
        question = asked.question
        if program is None:
            if asked.at_least:
                raise BadQuery(
                    f"store={spec.name}: it is a global table, which each worker reads for itself: "
                    "at_least is for stores with a changelog"
                )
            return PositionedAnswer(await self.ask(spec.name, question), {}, is_stale=False)
        keys = [self._encoded(spec, key) for key in _keys_of(question)]
        self._check_bounds(spec, program, asked)
        of_key = isinstance(question, Get | Fetch)
        partitions = asked.partitions
        if isinstance(question, Get | Fetch) and question.partitions:
            partitions = question.partitions
        found: PositionedAnswer = await self._gate.ask(
            lambda: self._read_positioned(spec, program, asked, partitions)
        )
        if of_key and not partitions and not found.answer:
            partition = self.partition(spec.name, keys[0])
            if partition not in found.position and partition not in self.here(program):
                raise self._elsewhere(program, spec, partition)
        return found

    def _check_bounds(self, spec: StoreSpec, program: Program, asked: PositionQuestion) -> None:
        """Raise BadQuery for bounds that no store here can keep."""
        if asked.at_least and not spec.is_logged:
            raise BadQuery(f"store={spec.name}: it has no changelog: at_least has no meaning")
        if not self.widths:
            return
        count = self.partitions(program)
        for partition in (*asked.at_least, *asked.partitions):
            if not 0 <= partition < count:
                raise BadQuery(
                    f"store={spec.name}: there is no partition {partition}: it has {count}"
                )

    def _read_positioned(
        self,
        spec: StoreSpec,
        program: Program,
        asked: PositionQuestion,
        partitions: tuple[int, ...],
    ) -> PositionedAnswer:
        """Read the answer; runs on the thread that has the stores."""
        tasks = self._sources(spec, program, asked, partitions)
        position: dict[int, int] = {}
        answers = []
        for task in tasks:
            partition, at = task.task_id.partition, task.position(spec)
            wanted = asked.at_least.get(partition, 0)
            if at is not None and at < wanted:
                raise Behind(
                    f"store={spec.name} partition={partition}: it holds changelog offsets below "
                    f"{at}, and the query wants those below {wanted}: ask again"
                )
            if at is not None:
                position[partition] = at
            answers.append(answer(self._store_of(task, spec), asked.question))
        is_stale = any(each.state not in _CURRENT for each in tasks)
        return PositionedAnswer(merged(spec, asked.question, answers), position, is_stale)

    def _sources(
        self,
        spec: StoreSpec,
        program: Program,
        asked: PositionQuestion,
        partitions: tuple[int, ...],
    ) -> list[WorkerTask]:
        """Return what to ask of each partition: the task if it runs here, else a copy."""
        own = {each.task_id.partition: each for each in self._of(program)}
        copies: dict[int, WorkerTask] = {}
        if asked.is_stale and spec.is_logged:
            copies = {
                task_id.partition: task
                for task_id, task in self._copies.items()
                if task_id.program == program.index and task.restoring
            }
        found = []
        for partition in partitions or sorted({*own, *copies}):
            task = own.get(partition)
            if task is None or task.state is TaskState.CLOSED:
                task = copies.get(partition)
            if task is None:
                self._check_assigned(spec)
                raise self._elsewhere(program, spec, partition)
            if not asked.is_stale:
                self._check_readable(spec, [task])
            if not _is_decodable(task):
                raise StoreUnavailable(
                    f"store={spec.name} partition={partition}: its rows have another version than "
                    "this app declares, or it is not known which: ask again"
                )
            found.append(task)
        if not found:
            self._check_assigned(spec)
            raise StoreUnavailable(f"store={spec.name}: this worker has none of it now: ask again")
        return found

    # Where partitions are

    def partition(self, name: str, key: bytes) -> int:
        """Return the partition where the source's partitioner puts a key."""
        spec, program = self.store(name)
        assert program is not None
        way = self.placement(spec.name).partitioning
        return way.partition(key, self.partitions(program))

    def copies(self, program: Program) -> dict[int, TaskState]:
        """Return the partitions of a program of which this worker has an answer that may be old: of
        a standby, or of a store that is being restored."""
        found = {
            task_id.partition: task.state
            for task_id, task in self._copies.items()
            if task_id.program == program.index and task.restoring
        }
        return found | {
            each.task_id.partition: each.state
            for each in self._of(program)
            if each.state is TaskState.RESTORING
        }

    def copy_owners(self, program: Program, partition: int) -> tuple[str, ...]:
        """Return the addresses of the workers with a standby of this partition of a program."""
        for topic in program.inputs:
            if partition < self.widths.get(topic, 0):
                return self._owners.copy_owners(TopicPartition(topic, partition))
        return ()

    def owner(self, program: Program, partition: int) -> str | None:
        """Return the address of the worker that has this partition of a program."""
        for topic in program.inputs:
            if partition < self.widths.get(topic, 0):
                return self._owners.owner(TopicPartition(topic, partition))
        return None

    def partitions(self, program: Program) -> int:
        """Return how many tasks a program has."""
        return max((self.widths.get(topic, 1) for topic in program.inputs), default=1)

    def here(self, program: Program) -> dict[int, TaskState]:
        """Return the partitions of a program that this worker has, with the state of each task."""
        return {each.task_id.partition: each.state for each in self._of(program)}

    def _of(self, program: Program) -> list[WorkerTask]:
        return [each for each in self._tasks.values() if each.task_id.program == program.index]

    def _width(self, program: Program, spec: StoreSpec) -> int:
        self._check_assigned(spec)
        return self.partitions(program)

    def _check_assigned(self, spec: StoreSpec) -> None:
        if not self.widths or not self._tasks:
            raise StoreUnavailable(
                f"store={spec.name}: this worker has no partitions yet: ask again"
            )

    def _check_readable(self, spec: StoreSpec, tasks: Sequence[WorkerTask]) -> None:
        self._check_assigned(spec)
        for task in tasks:
            if _is_readable(task):
                continue
            done = sum(each.position - each.begin for each in task.restoring.values())
            total = sum(each.end - each.begin for each in task.restoring.values())
            raise StoreUnavailable(
                f"store={spec.name} partition={task.task_id.partition}: it is being restored: "
                f"{done} of {total} changelog offsets: ask again"
            )

    def _elsewhere(self, program: Program, spec: StoreSpec, partition: int) -> NotHere:
        owner = self.owner(program, partition)
        at = "a worker that serves no queries" if owner is None else owner
        return NotHere(
            f"store={spec.name} partition={partition}: another worker has this key: {at}", owner
        )

    def _reading(
        self, tasks: Sequence[WorkerTask], spec: StoreSpec, question: Question
    ) -> Callable[[], Answer]:
        def read() -> Answer:
            if not all(_is_readable(each) for each in tasks):
                raise StoreUnavailable(f"store={spec.name}: its partitions move: ask again")
            answers = [answer(self._store_of(each, spec), question) for each in tasks]
            return merged(spec, question, answers)

        return read

    def _store_of(self, task: WorkerTask, spec: StoreSpec) -> Store:
        if self._are_committed or task.state not in _CURRENT:
            return task.committed_store(spec)
        return task.task.store(spec.name)

    def _read_global(self, name: str, question: Question) -> Answer:
        found = self._globals.stores.get(name)
        if found is None or not self._globals.is_complete:
            raise StoreUnavailable(f"store={name}: its topic is being read: ask again")
        return answer(found.store, question)

    def _encoded(self, spec: StoreSpec, key: Any) -> bytes:
        try:
            return spec.key.encode(key)
        except _NO_KEY as error:
            raise BadQuery(
                f"store={spec.name}: {key!r} is no key of it, which are {spec.key.name}: {error}"
            ) from None


def _is_decodable(task: WorkerTask) -> bool:
    return task.state is TaskState.RUNNING or task.versions_fit


def _is_readable(task: WorkerTask) -> bool:
    return task.state in _CURRENT and _is_decodable(task)


def _keys_of(question: Question) -> list[Any]:
    if isinstance(question, Get | Fetch):
        return [question.key]
    if isinstance(question, Range):
        return [each for each in (question.first, question.last) if each is not None]
    return []
