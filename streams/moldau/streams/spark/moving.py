"""Move a stopped app between the embedded engine and Spark, with its stores and its offsets.

To Spark: the stores are read from their changelogs, and become the first snapshots of a new
checkpoint, from which each query starts at the offsets that the app's group has; of an input
without one, where the embedded engine would start. When all is there, the offsets of the app's
group are marked, so that no worker of the embedded engine goes on from them; the checkpoint may be
run after that. So at no time may both engines run the app. A move that is cut short before the
marks has moved nothing; after them, neither engine runs the app until it is moved again. Moving the
app again with the checkpoint begins anew, also after a whole move, until a batch has run there.

To the embedded engine: each task is taken over, so that nothing that still runs on Spark can
commit. Then the stores are read from the checkpoint. What their changelogs lack is written in one
transaction with the offsets of the app's group, which also records that the app has left Spark. So
a move that is cut short has moved nothing, and the app can go on on Spark with a new driver. If it
is cut short after the transaction, it has moved all: moving again finds the record, and only closes
the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, Final

from moldau.client import (
    EARLIEST,
    OffsetAndMetadata,
    OffsetsNotStored,
    TopicPartition,
)
from moldau.client.sync import Admin
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.runtime.real import RealClock
from moldau.runtime.real_files import RealFiles
from moldau.streams.changelog.group import Offsets, stopped_offsets
from moldau.streams.changelog.reader import ChangelogReader
from moldau.streams.changelog.rows import (
    backings_of,
    changes_of,
    difference,
    restored_task,
    rows_of,
)
from moldau.streams.changelog.topics import prepare
from moldau.streams.changelog.writer import abandoning_writer, logged, write_whole
from moldau.streams.engine.batches import Outputs
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.store_versions import StoreVersion, versions_in
from moldau.streams.problems import StateError, StreamsError
from moldau.streams.running import checked
from moldau.streams.spark.beginning import (
    first_offsets,
    give_id,
    recorded_texts,
    take_over,
    take_up,
)
from moldau.streams.spark.changes import StoreChange, apply, decoded, encoded
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import group_of
from moldau.streams.spark.limits import check
from moldau.streams.spark.recorded import has_left, has_run, left_text
from moldau.streams.spark.versions import Version, token_of
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.migrating import require_readable
from moldau.streams.state.spec import StoreSpec
from moldau.streams.worker.committer import is_marked, marked, unmarked

_AGAIN: Final = "anew, after an earlier move to this checkpoint"
_DONE_BEFORE: Final = "an earlier move had carried all, and was cut short before it said so"
_TOO_LONG: Final = ErrorCode.OFFSET_METADATA_TOO_LARGE


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What a move has carried."""

    app: str
    tasks: int
    rows: int
    note: str = ""
    """What an earlier move that was cut short had done, and what this one did then."""


def to_spark(plan: Plan, checkpoint: str, given: Mapping[str, object]) -> MoveResult:
    """Carry a stopped app to a new checkpoint. Raise StreamsError if it cannot be moved."""
    check(plan)
    settings = checked(given)
    for program in plan.programs:
        for store in program.stores:
            if store.changelog(plan.app) is None:
                raise StateError(
                    f"app={plan.app} {store.name}: it has no changelog, so its rows are on the "
                    "machines alone: give it one, or start the app anew on Spark"
                )
    with ExitStack() as left:
        kept = left.enter_context(closing(_held(plan, checkpoint)))
        admin = left.enter_context(Admin(settings.of("admin")))
        committed = stopped_offsets(admin, plan.app)
        if not committed:
            raise StreamsError(
                f"app={plan.app}: its group has no offsets, so there is nothing to move: start it "
                "on Spark"
            )
        reader = left.enter_context(ChangelogReader(plan.app, settings, admin))
        _require_first_versions(plan, versions_in(reader.kept(_names(admin))))
        layout = prepare(plan, settings)
        note = _AGAIN if kept.is_cut or kept.has_begun else ""
        if kept.has_batches or has_run(recorded_texts(admin, layout, settings), kept.id):
            raise StreamsError(
                f"checkpoint={kept.path}: it has batches already: give a new --checkpoint"
            )
        if not note and any(is_marked(each.metadata) for each in committed.values()):
            raise StreamsError(
                f"app={plan.app}: it has moved to Spark already: run it there with its "
                "--checkpoint, or move it back first"
            )
        kept.start_move()
        starts = first_offsets(admin, layout, settings, own=EARLIEST)
        starts.update((where, each.offset) for where, each in committed.items() if where in starts)
        rows, tasks = 0, 0
        begun: dict[int, dict[int, Version]] = {}
        for program in plan.programs:
            versions = {}
            for partition in range(layout.tasks(program)):
                topics = layout.topics(program, partition)
                version, count = _snapshot(program, partition, committed, reader, kept)
                versions[partition] = version.at(
                    {topic: starts[TopicPartition(topic, partition)] for topic in topics}
                )
                rows, tasks = rows + count, tasks + 1
            begun[program.index] = versions
        give_id(admin, kept, layout, settings)
        take_over(admin, kept, layout, settings, begun)
        kept.begin(begun)
        _mark(admin, plan.app, committed, starts)
        kept.end_move()
    return MoveResult(plan.app, tasks, rows, note)


def _names(admin: Any) -> set[str]:
    return {topic.name for topic in admin.list_topics()}


def _require_first_versions(plan: Plan, versions: Mapping[tuple[str, int], StoreVersion]) -> None:
    """Raise StateError if rows have versions, or some of them: on Spark there are none."""
    for program in plan.programs:
        for store in program.stores:
            there = [each.newest for where, each in versions.items() if where[0] == store.name]
            require_readable(store, max(there, default=1))


def _mark(admin: Admin, app: str, committed: Offsets, starts: Mapping[TopicPartition, int]) -> None:
    """Let no worker of the embedded engine go on, also with partitions that it has never read. A
    mark that is longer than offset.metadata.max.bytes is stored without what the text had."""
    found = {
        where: committed.get(where, OffsetAndMetadata(offset)) for where, offset in starts.items()
    }
    whole = {where: each._replace(metadata=marked(each.metadata)) for where, each in found.items()}
    try:
        admin.alter_group_offsets(app, whole)
    except OffsetsNotStored as error:
        refused = {where: each for where, each in error.results.items() if each is not None}
        if any(each.code is not _TOO_LONG for each in refused.values()):
            raise
        admin.alter_group_offsets(
            app, {where: found[where]._replace(metadata=marked("")) for where in refused}
        )


def to_embedded(plan: Plan, checkpoint: str, given: Mapping[str, object]) -> MoveResult:
    """Carry a stopped app from its checkpoint to its changelogs and its group. Raise StreamsError
    if it cannot be moved."""
    settings = checked(given)
    with ExitStack() as left:
        kept = left.enter_context(closing(_held(plan, checkpoint)))
        if kept.is_cut:
            raise StreamsError(
                f"checkpoint={kept.path}: a move to it was cut short: move the app to Spark again; "
                "or an earlier moldau has made it: start the app on the embedded engine"
            )
        if not kept.has_begun:
            raise StreamsError(
                f"checkpoint={kept.path}: it has no batch, so there is nothing to move: start the "
                "app on the embedded engine"
            )
        admin = left.enter_context(Admin(settings.of("admin")))
        layout = prepare(plan, settings, has_changelogs=True)
        writer = left.enter_context(abandoning_writer(plan.app, settings))
        if has_left(recorded_texts(admin, layout, settings), kept.id):
            kept.leave()
            return MoveResult(plan.app, 0, 0, _DONE_BEFORE)
        stopped_offsets(admin, plan.app)
        reader = left.enter_context(ChangelogReader(plan.app, settings, admin))
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        left_at: dict[TopicPartition, OffsetAndMetadata] = {}
        records: list[Outputs] = []
        rows, tasks = 0, 0
        versions = take_up(admin, kept, layout, settings)
        leaving = left_text(kept.id, kept.run)
        for program, partition in _tasks(plan, layout):
            version = versions[program.index][partition]
            for topic, offset in version.offsets.items():
                where = TopicPartition(topic, partition)
                left_at[where] = OffsetAndMetadata(max(offset, 0), metadata=leaving)
                if offset >= 0:
                    offsets[where] = OffsetAndMetadata(offset, metadata=version.times)
            tasks += 1
            for store, changes in _stores(program, partition, version, kept):
                changelog = store.changelog(plan.app)
                if changelog is not None and store.source_topic is None:
                    there = reader.changes(changelog, partition)
                    changed = difference(store, there, changes)
                    records.append(logged(changelog, partition, changed))
                    rows += len(changes)
        write_whole(writer, records, {plan.app: offsets, group_of(plan.app): left_at})
        kept.leave()
    return MoveResult(plan.app, tasks, rows)


def _held(plan: Plan, checkpoint: str) -> Checkpoint:
    return Checkpoint.open(RealFiles(), checkpoint, plan, RealClock().wall_ms())


def _tasks(plan: Plan, layout: Layout) -> Iterator[tuple[Program, int]]:
    for program in plan.programs:
        for partition in range(layout.tasks(program)):
            yield program, partition


def _snapshot(
    program: Program, partition: int, committed: Offsets, reader: ChangelogReader, kept: Checkpoint
) -> tuple[Version, int]:
    """Read the stores of a task from their changelogs, and write them as its first version."""
    inputs = [committed.get(TopicPartition(topic, partition)) for topic in program.inputs]
    texts = [unmarked(each.metadata) for each in inputs if each is not None]
    backings = backings_of(program)
    task = restored_task(program, partition, backings, texts)
    for store in program.stores:
        topic = store.changelog(program.app)
        assert topic is not None
        end = None
        if store.source_topic is not None:  # the rest is input that is not processed yet
            at = committed.get(TopicPartition(topic, partition))
            end = 0 if at is None else at.offset
        task.restore(store.name, reader.changes(topic, partition, end))
    rows = [
        StoreChange(at, key, value)
        for at, store in enumerate(program.stores)
        for key, value in backings[store.name].scan(b"", None)
    ]
    token = token_of(0, 0, 0)
    data = encoded(rows) if rows else b""
    version = Version(token, (), 0, 0, task.metadata())
    if data:
        version = Version().after(token, len(data), task.metadata(), is_snapshot=True)
        kept.write_state(program.index, partition, version.files[-1], data)
    return version, len(rows)


def _stores(
    program: Program, partition: int, version: Version, kept: Checkpoint
) -> Iterator[tuple[StoreSpec, ChangelogRecords]]:
    """Yield the stores of a version with their whole changelogs."""
    backings = backings_of(program)
    plain = [backings[store.name] for store in program.stores]
    for name in version.files:
        apply(decoded(kept.read_state(program.index, partition, name), name), plain)
    for store in program.stores:
        yield store, changes_of(program, partition, store, rows_of(store, backings[store.name]))
