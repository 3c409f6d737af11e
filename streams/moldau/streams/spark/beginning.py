"""How a driver takes the app, before its first batch: with a new checkpoint, or one that goes on.

Where a new checkpoint begins is fixed for all sub-topologies at once.

Sources begin where `auto.offset.reset` says, and the app's own repartition topics at their ends:
what lies there is of an earlier checkpoint, which has read its sources itself, and what this one
writes comes after. So the ends are looked up before any batch runs, and after nothing that an
earlier checkpoint has left can still write:

1. The checkpoint takes its id: the time, or a greater number if an earlier checkpoint of the app
   has recorded a later time.
2. With exactly-once, a transaction of each task records that this checkpoint has begun, and where.
   Opening it aborts what a driver that was killed has left open, and fences its producers. An
   attempt of an older checkpoint that opens a producer later, in an executor that has outlived its
   driver, finds the record and fails; one that comes between makes this transaction fail, and
   nothing has begun.
3. The ends are those of all records, also of records in open transactions, such as those of a
   worker of the embedded engine: they are not of this checkpoint whatever becomes of them.
4. All starts are written in one file. A driver that dies before that has begun nothing.

A driver that goes on with a checkpoint takes over each task in the same way, and records where it
is: the group may have lost that (offsets expire), and of a task that has nothing to read it alone
says how far it is. An old copy of a checkpoint is refused before it takes over a task: the driver
that runs goes on. Partitions that have come since are read from their beginnings, unless the
sub-topology has stores: their keys may lie in other partitions now than their rows.

Tasks are taken over several at a time. Which order that is does not matter: nothing runs before all
are, and a driver that could not take all has begun nothing.

Without transactions an executor that has outlived its driver may still write afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from moldau.client import (
    EARLIEST,
    LATEST,
    FoundOffset,
    KafkaError,
    OffsetAndMetadata,
    TopicPartition,
    TransactionError,
)
from moldau.client.sync import Admin
from moldau.errors.amounts import counted
from moldau.errors.codes import ErrorCode
from moldau.runtime.real import RealClock
from moldau.runtime.threads import here
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import TaskBatch, group_of, record_beginning, take_task
from moldau.streams.spark.inputs import described, ids_of, partitions_of
from moldau.streams.spark.ranges import missing_starts, with_starts
from moldau.streams.spark.recorded import (
    check_may_write,
    newest_checkpoint,
    newest_run,
    recorded_version,
)
from moldau.streams.spark.versions import Version
from moldau.streams.worker.settings import AppSettings

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
FirstVersions = Mapping[int, Mapping[int, Version]]
"""The versions that tasks begin with, by sub-topology and partition."""

_THREADS: Final = 8
T = TypeVar("T")


def begin(kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Take the app: note where the tasks begin, if the checkpoint is new; else go on with it. Raise
    StreamsError if a move to the checkpoint was cut short, or if another driver runs the app."""
    if kept.is_cut:
        raise StreamsError(
            f"checkpoint={kept.path}: a move to it was cut short: move the app again; or an "
            "earlier moldau has made it: give a new --checkpoint, which begins without state"
        )
    with Admin(settings.of("admin")) as admin:
        kept.check_topics(ids_of(described(admin, layout.inputs())))
        if kept.has_begun:
            take_up(admin, kept, layout, settings)
            return
        give_id(admin, kept, layout, settings)
        found = _found(admin, layout, settings)
        take_over(admin, kept, layout, settings, found)
        newest = _found(admin, layout, settings)
        if newest != found:
            take_over(admin, kept, layout, settings, newest)
    kept.begin(newest)


def give_id(admin: Admin, kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Give a checkpoint its id, before it begins. Of an app's checkpoints the one that has begun
    last has the greatest, whatever the clocks of their drivers say."""
    newest = -1
    if settings.is_exactly_once:
        newest = newest_checkpoint(recorded_texts(admin, layout, settings))
    kept.take_id(max(RealClock().wall_ms(), newest + 1))


def take_over(
    admin: Admin, kept: Checkpoint, layout: Layout, settings: AppSettings, begun: FirstVersions
) -> None:
    """Record where the tasks begin, and fence what runs with an older checkpoint, for good. Raise
    StreamsError if another driver runs the app."""
    if not settings.is_exactly_once:
        return
    app = layout.plan.app
    works = [
        partial(
            _begin_task,
            admin,
            settings,
            TaskBatch(app, index, partition, kept.id, kept.run, -1),
            version,
        )
        for index, versions in begun.items()
        for partition, version in versions.items()
    ]
    together(works, f"{app}-take-over")


def take_up(admin: Admin, kept: Checkpoint, layout: Layout, settings: AppSettings) -> FirstVersions:
    """Go on with a checkpoint: fence earlier runs of it, and return where the tasks are, with what
    a driver that was killed has left committed by its tasks alone. Raise StateError if another
    driver has the app, or if the checkpoint is an old copy; TopologyError if stores would no longer
    have the keys of their partitions."""
    recorded = _recorded(admin, layout, settings)
    texts = [text for _, text in recorded.values()]
    kept.take_run(newest_run(texts, kept.id) + 1)
    check_may_write(texts, kept.id, kept.run)
    found: dict[int, dict[int, Version]] = {}
    tasks: list[tuple[TaskBatch, Version]] = []
    for program in layout.plan.programs:
        last, _ = kept.last(program.index, 0)
        begun = _versions_after(admin, kept, layout, program, last)
        found[program.index] = begun
        tasks += [
            (TaskBatch(layout.plan.app, program.index, at, kept.id, kept.run, last + 1), version)
            for at, version in begun.items()
        ]
    if settings.is_exactly_once:
        for batch, version in tasks:
            _check_newest(recorded, batch, version)
        works = [partial(_taken, admin, settings, batch, version) for batch, version in tasks]
        taken = together(works, f"{layout.plan.app}-take-over")
        for (batch, _), version in zip(tasks, taken, strict=True):
            found[batch.program][batch.partition] = version
    return found


def _versions_after(
    admin: Admin, kept: Checkpoint, layout: Layout, program: Program, batch: int
) -> dict[int, Version]:
    """Return the versions of a sub-topology's tasks after a batch, with offsets for all inputs.
    Raise TopologyError if stores would no longer have the keys of their partitions."""
    versions = kept.versions_before(program.index, batch + 1)
    _check_partitions(kept, layout, program, versions)
    missing = missing_starts(versions, partitions_of(layout, program.inputs))
    starts = admin.list_offsets(dict.fromkeys(missing, EARLIEST)) if missing else {}
    return with_starts(versions, {where: each.offset for where, each in starts.items()})


def _check_newest(
    recorded: Mapping[TopicPartition, tuple[int, str]], batch: TaskBatch, version: Version
) -> None:
    """Raise StateError if the checkpoint is an old copy, as far as that is recorded."""
    own = {
        topic: recorded[where]
        for topic in version.offsets
        if (where := TopicPartition(topic, batch.partition)) in recorded
    }
    recorded_version(own, batch.checkpoint, batch.batch, version)


def _begin_task(admin: Admin, settings: AppSettings, batch: TaskBatch, version: Version) -> None:
    with describing_takeovers(batch):
        record_beginning(settings.of("producer"), admin, batch, version.offsets)


def _taken(admin: Admin, settings: AppSettings, batch: TaskBatch, version: Version) -> Version:
    with describing_takeovers(batch):
        recorded = take_task(settings.of("producer"), admin, batch, version.offsets)
    return recorded_version(recorded, batch.checkpoint, batch.batch, version) or version


def _check_partitions(
    kept: Checkpoint, layout: Layout, program: Program, versions: Mapping[int, Version]
) -> None:
    """Raise TopologyError if an input of a sub-topology with stores has another number of
    partitions than before."""
    if not program.stores:
        return
    for topic in program.inputs:
        known, now = sum(topic in each.offsets for each in versions.values()), layout.counts[topic]
        if known != now:
            names = ", ".join(store.name for store in program.stores)
            raise TopologyError(
                f"checkpoint={kept.path}: the topic {topic} had {counted(known, 'partition')} "
                f"and has {now} "
                f"now, so keys may be in other partitions than their rows in {names}: give a new "
                "--checkpoint, which begins without state, or give the topic its old number"
            )


def recorded_texts(admin: Admin, layout: Layout, settings: AppSettings) -> list[str]:
    """Return what the app's group has recorded of all tasks."""
    return [text for _, text in _recorded(admin, layout, settings).values()]


def _recorded(
    admin: Admin, layout: Layout, settings: AppSettings
) -> Mapping[TopicPartition, tuple[int, str]]:
    """Return the offset and the text of each input. Without transactions it may be that there is no
    right to read that, and nothing to find."""
    try:
        found: Mapping[TopicPartition, OffsetAndMetadata] = admin.group_offsets(
            group_of(layout.plan.app), partitions_of(layout, layout.inputs())
        )
    except KafkaError as error:
        if settings.is_exactly_once or error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return {}
    return {where: (each.offset, each.metadata) for where, each in found.items()}


@contextmanager
def describing_takeovers(batch: TaskBatch) -> Iterator[None]:
    """Raise StreamsError, which says what to do, if another driver takes the task over."""
    try:
        yield
    except TransactionError as error:
        if error.code not in _FENCED:
            raise
        raise StreamsError(
            f"app={batch.app}: another driver runs the app, and has taken over the transactional "
            f"id {batch.transactional_id}: stop that one, then try again"
        ) from None


def _found(admin: Admin, layout: Layout, settings: AppSettings) -> FirstVersions:
    """Return where the tasks begin on the topics as they are now."""
    starts = first_offsets(admin, layout, settings, own=LATEST)
    return {
        each.index: with_starts(
            {}, {where: start for where, start in starts.items() if where.topic in each.inputs}
        )
        for each in layout.plan.programs
    }


def first_offsets(
    admin: Admin, layout: Layout, settings: AppSettings, *, own: int
) -> dict[TopicPartition, int]:
    """Return the first offset that the app reads of each input: of sources where
    `auto.offset.reset` says, of the app's own topics at `own`, which is EARLIEST or LATEST."""
    is_latest = settings.of("consumer").get("auto.offset.reset") == "latest"
    own_topics = {each.name for each in layout.plan.repartitions}
    wanted = partitions_of(layout, layout.inputs())
    made = {where: own for where in wanted if where.topic in own_topics}
    sources = {where: LATEST if is_latest else EARLIEST for where in wanted if where not in made}
    found: dict[TopicPartition, FoundOffset] = {}
    if made:
        found.update(admin.list_offsets(made))
    if sources:
        found.update(admin.list_offsets(sources, is_committed=is_latest))
    return {where: each.offset for where, each in found.items()}


def together(works: Sequence[Callable[[], T]], name: str) -> list[T]:
    """Return what each piece of work returns, in their order. At most 8 run at a time. If some fail
    none begins after that, those that have begun end, and the error of the first is raised."""
    threads = here()
    left = deque(enumerate(works))
    found: dict[int, T] = {}
    errors: dict[int, Exception] = {}
    ended = threads.queue()

    def run() -> None:
        try:
            while not errors:
                try:
                    at, work = left.popleft()
                except IndexError:
                    break
                try:
                    found[at] = work()
                except Exception as error:
                    errors[at] = error
        finally:
            ended.put(True)

    count = min(_THREADS, len(works))
    for number in range(count):
        threads.start(run, f"{name}-{number}")
    try:
        for _ in range(count):
            ended.get()
    finally:
        left.clear()  # after Ctrl-C no other one begins
    if errors:
        raise errors[min(errors)]
    return [found[at] for at in range(len(works))]
