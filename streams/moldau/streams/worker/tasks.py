"""The tasks of a worker, and what belongs to each while it runs.

A task is a program on one partition. It is RESTORING until its stores hold what their changelogs
hold, with values of the version that the app declares, then RUNNING; SUSPENDED while the group
distributes partitions, when it neither reads nor writes; CLOSED for good. One that only keeps a
copy of the state of another worker's task is in STANDBY until it is closed. Invariant: only a
RUNNING task is given records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.streams.engine.batches import Chunk, Outputs
from moldau.streams.engine.construction import Store, make_store
from moldau.streams.engine.contract import RunsPartition
from moldau.streams.engine.global_table import LookupTable
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.rocks import ChangelogPosition, StoreCorrupted, StoreFailed, StoreSize, noted
from moldau.streams.state.backing import Backing
from moldau.streams.state.spec import StoreSpec
from moldau.streams.state.versioned import VersionedStore

SLICE: Final = 500
_SLICE_S: Final = 0.05
MakeTask = Callable[
    [Program, int, Mapping[str, Backing], Sequence[str], Mapping[str, LookupTable]], RunsPartition
]
"""Makes a task from a program, a partition, the backings of its stores, the texts that were kept
with its offsets, and the worker's global tables."""


class Database(Protocol):
    """What a worker needs from a `TaskDatabase`."""

    @property
    def path(self) -> str: ...

    @property
    def staged_bytes(self) -> int: ...

    def backing(self, store: str) -> Backing: ...

    def committed(self, store: str) -> Backing:
        """Return the rows of a store as the last commit left them."""

    def position(self, store: str) -> ChangelogPosition | None: ...

    def commit(self, positions: Mapping[str, ChangelogPosition]) -> None: ...

    def clear(self, store: str) -> None: ...

    def flush(self) -> None: ...

    def sizes(self) -> list[StoreSize]: ...

    def close(self) -> None: ...


class OpenDatabase(Protocol):
    """Opens a task's database, given its path and the kinds of its stores by name."""

    def __call__(self, path: str, stores: Mapping[str, str], /) -> Database: ...


class TaskId(NamedTuple):
    """The name of a task, as in Kafka Streams: sub-topology and partition."""

    program: int
    partition: int

    def __str__(self) -> str:
        return f"{self.program}_{self.partition}"


class TaskState(Enum):
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    STANDBY = "standby"
    CLOSED = "closed"


@dataclass(slots=True)
class RestoreProgress:
    """The progress of a restore: everything below `position` is in the store; `end` is the goal."""

    store: str
    where: TopicPartition
    begin: int
    position: int
    end: int
    records: int = 0
    """How many records were read; the other offsets are markers, or were compacted."""

    @property
    def is_done(self) -> bool:
        return self.position >= self.end


@dataclass(slots=True)
class WorkerTask:
    """A task, its stores, and the progress of both."""

    task_id: TaskId
    program: Program
    inputs: tuple[TopicPartition, ...]
    task: RunsPartition
    database: Database | None
    state: TaskState = TaskState.RESTORING
    restoring: dict[TopicPartition, RestoreProgress] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    unstored: dict[str, ChangelogPosition] = field(default_factory=dict)
    """Ends of changelogs that are written, but not in the database yet."""
    fetched: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset after the last record given to the task, by input."""
    origins: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset of the first record given to the task, by input."""
    paused: set[TopicPartition] = field(default_factory=set)
    added: Counter[TopicPartition] = field(default_factory=Counter)
    """How many records were given to the task, by input."""
    processed: int = 0
    seconds: float = 0.0
    """The time spent in processing."""
    slice: int = SLICE
    """How many records are processed before queries may read the stores."""
    views: dict[str, Store] = field(default_factory=dict)
    """The stores as the last commit left them, made when they are queried."""
    is_touched: bool = False
    """Whether it has processed or made anything since the last commit."""
    is_left_out: bool = False
    """Whether the last commit was without it, because a batch was unfinished. It begins no other
    before the next commit, so that one may have it."""
    held: list[Outputs] = field(default_factory=list)
    """Outputs that are not sent before its own commit."""
    held_bytes: int = 0
    damage: StoreCorrupted | None = None
    """The damage found in its stores, if any: the task must be made again."""
    versions_fit: bool = False
    """Whether all rows are known to have the versions that the app declares. A task that runs has
    no others; of one that does not, other rows would be misread by a question."""

    @property
    def is_restored(self) -> bool:
        """Whether its stores have all that was asked for of their changelogs."""
        return all(each.is_done for each in self.restoring.values())

    def add(self, where: TopicPartition, chunk: Chunk) -> None:
        """Give the task fetched records of an input."""
        self.task.add(where.topic, chunk)
        if len(chunk):
            self.origins.setdefault(where, chunk.offsets[0])
            self.added[where] += len(chunk)
        self.fetched[where] = chunk.next_offset

    def processed_of(self, where: TopicPartition) -> int:
        """Return how many records of an input it has processed."""
        return self.added[where] - self.task.buffered(where.topic)

    def fit_slice(self, seconds: float) -> None:
        """Make slices smaller if a function is slow, and larger again if it is not."""
        if seconds > _SLICE_S:
            self.slice = max(1, self.slice // 2)
        elif seconds < _SLICE_S / 4 and self.slice < SLICE:
            self.slice = min(SLICE, self.slice * 2)

    def uncommitted_bytes(self) -> int:
        """Estimate how much waits for a commit, in caches, above RocksDB and held back."""
        staged = 0 if self.database is None else self.database.staged_bytes
        return staged + self.held_bytes + self.task.unflushed_bytes()

    def hold(self, outputs: Outputs) -> None:
        """Keep outputs until `take_outputs`."""
        self.held.append(outputs)
        self.held_bytes += sum(len(each) for each in outputs.keys if each)
        self.held_bytes += sum(len(each) for each in outputs.values if each)

    def take_outputs(self) -> list[Outputs]:
        """Return all that is not sent yet."""
        held, self.held, self.held_bytes = self.held, [], 0
        return held + self.task.take_outputs()

    def committed_store(self, spec: StoreSpec) -> Store:
        """Return a store as the last commit left it, to be read until the next one."""
        found = self.views.get(spec.name)
        if found is None:
            assert self.database is not None
            found = make_store(spec, self.database.committed(spec.name))
            self.views[spec.name] = found
        live = self.task.store(spec.name)
        if isinstance(found, VersionedStore) and isinstance(live, VersionedStore):
            found.clock = live.clock  # it only says how far back the history reaches
        return found

    def changelog(self, store: StoreSpec) -> TopicPartition | None:
        """Return the changelog partition of a store; None if it has none."""
        topic = store.changelog(self.program.app)
        return None if topic is None else TopicPartition(topic, self.task_id.partition)

    def position(self, store: StoreSpec) -> int | None:
        """Return the offset to which the rows of a store hold its changelog; None if it has no
        changelog."""
        where = self.changelog(store)
        if where is None or self.database is None:
            return None
        restored, committed = self.restoring.get(where), self.database.position(store.name)
        return max(
            0 if restored is None else restored.position,
            0 if committed is None else committed.offset,
        )

    def changelogs(self) -> list[TopicPartition]:
        """Return the changelog partitions of all its stores that have one."""
        return changelogs_of(self.program, self.task_id.partition)

    def close(self) -> None:
        """Close the task and its database. What is not committed is dropped."""
        try:
            self.close_engine()
        finally:
            self.close_database()

    def close_engine(self) -> None:
        """Close the task; its database is left."""
        self.state = TaskState.CLOSED
        self.task.close()

    def close_database(self) -> None:
        """Close the database of a closed task."""
        if self.database is None:
            return
        if self.damage is None:
            self.database.close()
            return
        with suppress(StoreFailed):  # its files are of no use any more
            self.database.close()


def tasks_of(
    plan: Plan, partitions: Iterable[TopicPartition]
) -> dict[TaskId, tuple[Program, tuple[TopicPartition, ...]]]:
    """Return the tasks that have these partitions as inputs."""
    given = set(partitions)
    found: dict[TaskId, set[TopicPartition]] = {}
    for program in plan.programs:
        for where in given:
            if where.topic in program.inputs:
                found.setdefault(TaskId(program.index, where.partition), set()).add(where)
    programs = {program.index: program for program in plan.programs}
    return {
        task_id: (programs[task_id.program], tuple(sorted(inputs)))
        for task_id, inputs in sorted(found.items())
    }


def writers_of(layout: Layout) -> dict[str, frozenset[TaskId]]:
    """Return the tasks that write each repartition topic of an app, in any worker."""
    programs = layout.plan.programs
    return {
        topic.name: frozenset(
            TaskId(program.index, partition)
            for program in programs
            if topic.name in program.outputs
            for partition in range(layout.tasks(program))
        )
        for topic in layout.plan.repartitions
    }


def changelogs_of(program: Program, partition: int) -> list[TopicPartition]:
    """Return the changelog partitions of all stores of a program that have one."""
    topics = (store.changelog(program.app) for store in program.stores)
    return [TopicPartition(topic, partition) for topic in topics if topic is not None]


def written_changelogs(program: Program, partition: int) -> list[TopicPartition]:
    """Return the changelog partitions that a task of a program writes."""
    topics = (
        store.changelog(program.app) for store in program.stores if store.source_topic is None
    )
    return [TopicPartition(topic, partition) for topic in topics if topic is not None]


def store_kinds(stores: Iterable[StoreSpec]) -> dict[str, str]:
    """Return, by store, the text by which the database notices that a store has changed."""
    return {store.name: noted(store.layout, store.facts) for store in stores}
