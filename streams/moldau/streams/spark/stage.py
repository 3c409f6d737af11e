"""One batch of one sub-topology in an executor: each task reads its ranges, and runs them.

Spark calls a `Stage` with the ranges of one task. It runs in a Python worker process, where
programs are unpickled once. No record goes through Java.
"""

from __future__ import annotations

import pickle
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import field
from typing import Final

from moldau.client import TransactionError
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.executors.clients import CLIENTS, IdleCache
from moldau.runtime.real import RealClock
from moldau.runtime.real_files import RealFiles
from moldau.streams.changelog.ranges import RangeReader
from moldau.streams.engine.operators.deferred import AsyncOperator
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.plan.misplaced import KeySample, MisplacedKey
from moldau.streams.plan.partitioners import MURMUR2
from moldau.streams.plan.placement import declared_by
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.rocks import RocksMemory
from moldau.streams.spark.awaiting import AsyncCalls, flush, let_go_on
from moldau.streams.spark.delivery import Delivery, TaskBatch, at_least_once, exactly_once
from moldau.streams.spark.failures import missing_package
from moldau.streams.spark.global_tables import HeldGlobals, Notice, WholeTopic
from moldau.streams.spark.lakes import HeldTables, lakes_here
from moldau.streams.spark.ranges import TaskRanges
from moldau.streams.spark.stores import AttemptStores, drop_others
from moldau.streams.spark.versions import Version, token_of
from moldau.streams.spark.waiting import is_passing

_SLICE: Final = 10_000
_CALLS: Final = 500
"""How many records call async functions at a time."""
_BUFFERED: Final = 20_000
"""An input with so many records at hand is not read meanwhile."""
_MEMORY: Final[list[RocksMemory]] = []


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program as a driver has sent it, in an executor's process, with its tables there."""

    driver: str
    program: Program
    global_tables: HeldGlobals
    lakes: HeldTables = field(default_factory=dict)
    calls: AsyncCalls = field(default_factory=AsyncCalls)


_LOADED: Final = IdleCache[LoadedProgram](lambda each: each.calls.close())
"""By app and sub-topology. A process may outlive a driver, and meet the app's next one."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task's part of a batch came to: the version that counts, or a problem for the user."""

    partition: int
    version: Version = field(default_factory=Version)
    records: int = 0
    is_restored: bool = False
    problem: str | None = None
    is_passing: bool = False
    """Whether the problem is that brokers were away."""
    notices: tuple[Notice, ...] = ()
    """What the user must know of global tables."""
    misplaced: tuple[MisplacedKey, ...] = ()
    """Keys in other partitions than those that the app takes them to be in."""


@dataclass(frozen=True)
class Stage:
    """What a batch of a sub-topology needs in an executor.

    `driver` is the id of the driver, of which `program` is; `checkpoint` is the id of the
    checkpoint for exactly-once, else None; `kept` is the directory of the state, which all
    executors reach."""

    app: str
    index: int
    driver: str
    program: bytes
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    admin: Mapping[str, str]
    checkpoint: str | None
    kept: str
    batch: int
    run: int
    cache_bytes: int
    lakes: Mapping[str, str]
    """The version of each lake table that this batch uses."""
    topics: Mapping[str, WholeTopic]
    """The topics of global tables when this batch began."""
    counts: Mapping[str, int]
    """The partition counts of the inputs whose keys must lie where their partitioner says."""

    def __call__(self, given: Iterator[TaskRanges]) -> Iterator[TaskResult]:
        """Run tasks, and yield the result of each."""
        for each in given:
            try:
                yield self._run(each)
            except MoldauError as error:
                may_pass = is_passing(error)
                if isinstance(error, TransactionError) and not may_pass:
                    raise  # another attempt may have taken over: this one has no result
                yield TaskResult(each.partition, problem=str(error), is_passing=may_pass)

    def _run(self, given: TaskRanges) -> TaskResult:
        """Run a task on its ranges; if an earlier attempt has committed the batch, only return
        that."""
        for cache in (CLIENTS, _LOADED):
            cache.drop_idle()
        program = self._loaded().program
        before = given.before
        with self._delivery(program, given.partition) as delivery:
            found = delivery.committed(program.inputs, before)
            with self._stores(program, given.partition) as stores:
                if found is not None:
                    stores.check(found)
                    return TaskResult(given.partition, found)
                with delivery.transaction():
                    if program.stores:
                        stores.open(program, before, _memory())
                    notices = self._loaded().global_tables.read(self.consumer, self.topics)
                    task = self._task(program, given, stores)
                    with closing(
                        RangeReader(self.consumer, given.partition, given.ranges)
                    ) as reader:
                        sample = self._sample(program, given.partition)
                        records = _process(
                            task, given, (reader, delivery, sample), self._loaded().calls
                        )
                        offsets = _offsets(task, given, reader)
                    after = stores.write(before, task.metadata()).at(offsets)
                    delivery.record(before, after)
                stores.keep()
                return TaskResult(
                    given.partition,
                    after,
                    records,
                    stores.is_restored,
                    notices=notices,
                    misplaced=tuple(sample.found),
                )

    def _sample(self, program: Program, partition: int) -> TaskSample:
        declared = declared_by(program)
        placed = {name: declared.get(name, MURMUR2) for name in self.counts}
        return TaskSample(KeySample(placed, self.counts), partition)

    def _task(self, program: Program, given: TaskRanges, stores: AttemptStores) -> Task:
        times, loaded = given.before.times, self._loaded()
        lakes = lakes_here(loaded.lakes, program.lake_tables, self.lakes)
        return Task(
            program,
            given.partition,
            stores.backings,
            settings=TaskSettings(cache_bytes=self.cache_bytes),
            metadata=[times] if times else (),
            global_tables={**lakes, **loaded.global_tables.stores},
        )

    def _loaded(self) -> LoadedProgram:
        """Return the program; unpickle it the first time, and forget those of earlier drivers of
        the app, with their stores on this machine."""
        key = self.app, self.index
        found = _LOADED.get(key)
        if found is not None and found.driver == self.driver:
            return found
        program = _unpickled(self.program)
        _LOADED.drop_if(lambda each: each.program.app == self.app and each.driver != self.driver)
        drop_others(RealFiles(), _local_stores(self.app), self.driver)
        tables = HeldGlobals(program.global_tables, self.cache_bytes)
        return _LOADED.put(key, LoadedProgram(self.driver, program, tables))

    def _delivery(self, program: Program, partition: int) -> AbstractContextManager[Delivery]:
        if self.checkpoint is None:
            return at_least_once(self.producer)
        batch = TaskBatch(
            program.app, program.index, partition, self.checkpoint, self.run, self.batch
        )
        return exactly_once(self.producer, self.admin, batch)

    @contextmanager
    def _stores(self, program: Program, partition: int) -> Iterator[AttemptStores]:
        from pyspark import TaskContext

        context = TaskContext.get()
        token = token_of(self.batch, self.run, context.taskAttemptId() if context else 0)
        name = f"{program.index}_{partition}"
        local = posixpath.join(_local_stores(self.app), self.driver, name)
        stores = AttemptStores(RealFiles(), posixpath.join(self.kept, name), local, token)
        try:
            yield stores
        finally:
            stores.drop()


@dataclass(frozen=True, slots=True)
class TaskSample:
    """The keys that a task looks at in a batch, and what it has found."""

    keys: KeySample
    partition: int
    found: list[MisplacedKey] = field(default_factory=list)

    def look(self, topic: str, keys: Sequence[bytes | None]) -> None:
        """Look at keys of an input."""
        if (found := self.keys.look(topic, self.partition, keys)) is not None:
            self.found.append(found)


def _process(
    task: Task,
    given: TaskRanges,
    around: tuple[RangeReader, Delivery, TaskSample],
    calls: AsyncCalls,
) -> int:
    """Run the records of the ranges, and send the outputs. Return how many were run.

    A task that lacks records of an input, of which the log has more, leaves the rest to the next
    batch."""
    reader, delivery, sample = around
    clock, records = RealClock(), 0
    has_calls = any(isinstance(each, AsyncOperator) for each in task.network.deferred)
    limit = _CALLS if has_calls else _SLICE
    for topic in set(task.program.inputs).difference(each.topic for each in given.ranges):
        task.set_at_end(topic, True)  # it has fewer partitions than another input
    while True:
        unread = reader.unread
        for each in given.ranges:
            task.set_at_end(each.topic, each.topic not in unread and not each.has_more)
        while (done := task.process(clock.wall_ms(), limit)) or let_go_on(task, calls):
            records += done
            _send(delivery, task)
        is_short = any(
            each.has_more and each.topic not in unread and not task.buffered(each.topic)
            for each in given.ranges
        )
        wanted = [topic for topic in unread if task.buffered(topic) < _BUFFERED]
        if is_short or not wanted:
            break
        for topic, chunk in reader.poll(wanted):
            sample.look(topic, chunk.keys)
            task.add(topic, chunk)
    flush(task)
    _send(delivery, task)
    return records


def _offsets(task: Task, given: TaskRanges, reader: RangeReader) -> dict[str, int]:
    """Return where each input goes on: after the last record that was run, or at the end of the
    range, which may lie after markers of transactions."""
    positions, unread = task.positions(), reader.unread
    return {
        each.topic: each.end
        if each.topic not in unread and not task.buffered(each.topic)
        else positions.get(each.topic, each.start)
        for each in given.ranges
    }


def _send(delivery: Delivery, task: Task) -> None:
    for outputs in task.take_outputs():
        delivery.send(outputs)


def _unpickled(program: bytes) -> Program:
    try:
        found: Program = pickle.loads(program)  # noqa: S301 - our own driver's
    except ModuleNotFoundError as error:
        raise StreamsError(missing_package(error.name or str(error))) from None
    return found


def _local_stores(app: str) -> str:
    """Return the directory of the app's stores on this machine, which has one for each driver."""
    from pyspark import SparkFiles

    return posixpath.join(SparkFiles.getRootDirectory(), "moldau-state", f"app-{app}")


def _memory() -> RocksMemory:
    if not _MEMORY:
        _MEMORY.append(RocksMemory())
    return _MEMORY[0]
