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

from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

from moldau.client import (
    EARLIEST,
    LATEST,
    GroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    OffsetsNotStored,
    TopicPartition,
)
from moldau.client.sync import Admin, Producer
from moldau.errors.codes import ErrorCode
from moldau.executors.clients import CLIENTS
from moldau.executors.transactions import fencing_producer
from moldau.runtime.children import Mailbox
from moldau.runtime.real import RealClock
from moldau.runtime.real_files import RealFiles
from moldau.runtime.threads import here
from moldau.streams.engine.batches import Chunk, Outputs
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.store_versions import StoreVersion, versions_in
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import StateError, StreamsError
from moldau.streams.running import checked
from moldau.streams.spark.beginning import (
    first_offsets,
    give_id,
    recorded_texts,
    take_over,
    take_up,
)
from moldau.streams.spark.carrying import (
    backings_of,
    changes_of,
    difference,
    restored_task,
    rows_of,
)
from moldau.streams.spark.changes import StoreChange, apply, decoded, encoded
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import group_of
from moldau.streams.spark.limits import check
from moldau.streams.spark.ranges import TaskRanges, TopicRange
from moldau.streams.spark.reading import RangeReader, RecordsGone
from moldau.streams.spark.recorded import has_left, has_run, left_text
from moldau.streams.spark.topics import prepare
from moldau.streams.spark.versions import Version, token_of
from moldau.streams.spark.waiting import BrokersAway
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.migrating import require_readable
from moldau.streams.state.spec import StoreSpec
from moldau.streams.worker.committer import is_marked, marked, unmarked
from moldau.streams.worker.settings import AppSettings

_POLL_S: Final = 0.05
_CLEANUP_S: Final = 15.0
"""How long after their timeout brokers abort transactions at the latest."""
_AGAIN: Final = "anew, after an earlier move to this checkpoint"
_DONE_BEFORE: Final = "an earlier move had carried all, and was cut short before it said so"
_QUICK: Final = {"isolation.level": "read_committed", "fetch.max.wait.ms": "50"}
_TOO_LONG: Final = ErrorCode.OFFSET_METADATA_TOO_LARGE
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


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


def stopped_offsets(admin: Any, app: str) -> Offsets:
    """Return the offsets of the app's group. Raise StreamsError if the app runs."""
    members, found = group_facts(admin, app)
    if members:
        raise StreamsError(
            f"app={app}: it still runs, with {members} worker{'s' * (members > 1)} in its "
            "group: stop it first, which commits"
        )
    return found


def group_facts(admin: Any, app: str) -> tuple[int, Offsets]:
    """Return how many members the group of an app has, and its offsets."""
    try:
        members = len(admin.describe_group(app).members)
        found: Offsets = admin.group_offsets(app, require_stable=not members)
    except KafkaError as error:
        if error.code.name != "GROUP_ID_NOT_FOUND":
            raise
        return 0, {}
    return members, found


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


def abandoning_writer(app: str, settings: AppSettings) -> Producer[Any, Any]:
    """Return what writes the changelogs. Starting it aborts what a move that was cut short has left
    open there, so that they can be read."""
    return fencing_producer(settings.of("producer"), f"{app}-move")


def logged(topic: str, partition: int, changes: ChangelogRecords) -> Outputs:
    """Return records for a partition of a changelog."""
    where: list[int | None] = [partition] * len(changes)
    return Outputs(topic, [*changes.keys], changes.values, changes.timestamps, partitions=where)


def write_whole(
    producer: Producer[Any, Any],
    records: list[Outputs],
    offsets: Mapping[str, Offsets],
) -> None:
    """Write changelogs, and the offsets of groups, in one transaction."""
    with producer.transaction():
        for each in records:
            if len(each):
                producer.send_many(
                    each.topic,
                    each.values,
                    keys=each.keys,
                    headers=each.headers or None,
                    timestamps_ms=each.timestamps,
                    partition=each.partitions,
                )
        for group, committed in offsets.items():
            producer.send_offsets(committed, GroupMetadata(group, -1, "", None))


class ChangelogReader:
    """Reads changelogs from their beginnings."""

    def __init__(self, app: str, settings: AppSettings, admin: Admin) -> None:
        self._app = app
        self._admin = admin
        self._open_s = settings.transaction_timeout_ms / 1000 + _CLEANUP_S
        self._settings = {**settings.of("consumer"), **_QUICK}

    def __enter__(self) -> ChangelogReader:
        return self

    def __exit__(self, *_: object) -> None:
        CLIENTS.clear()

    def changes(self, topic: str, partition: int, end: int | None = None) -> ChangelogRecords:
        """Return the records of a partition before `end`, or all. Raise StreamsError if a
        transaction there stays open, or if nothing comes for a long time."""
        found = ChangelogRecords()
        try:
            for chunk in self.chunks(topic, partition, 0, end):
                rows = zip(chunk.keys, chunk.values, chunk.timestamps, strict=True)
                for key, value, time in rows:
                    if key is not None:
                        found.add(key, value, time)
        except RecordsGone:  # by its retention, since the first offset was asked for
            return self.changes(topic, partition, end)
        return found

    def kept(self, topics: Container[str]) -> dict[bytes | None, bytes | None]:
        """Return the last record of each key in the topic with the topology of the app and the
        versions of its rows; none if it is not among these topics."""
        topic = topology_topic(self._app)
        found = self.changes(topic, 0) if topic in topics else ChangelogRecords()
        return dict(zip(found.keys, found.values, strict=True))

    def chunks(
        self, topic: str, partition: int, begin: int, end: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the records from `begin` on, or from the first one that is there, as `changes`
        does."""
        where = TopicPartition(topic, partition)
        stop = self._end(where, end)
        first = max(begin, self._admin.list_offsets({where: EARLIEST})[where].offset)
        wanted = TaskRanges(partition, Version(), (TopicRange(topic, first, stop),))
        try:
            with closing(RangeReader(self._settings, wanted)) as reader:
                while reader.unread:
                    for _, chunk in reader.poll([topic]):
                        yield chunk
        except BrokersAway as error:
            raise StreamsError(f"app={self._app}: {error}; then start again") from None

    def _end(self, where: TopicPartition, wanted: int | None) -> int:
        """Return where the records end, at `wanted` at the latest, when all before are decided.

        A producer knows that its transaction is committed when a broker may still be writing that
        to the partitions. One that was killed leaves a transaction open until its timeout."""
        threads = here()
        deadline = threads.monotonic() + self._open_s
        end = self._admin.list_offsets({where: LATEST})[where].offset
        stop = end if wanted is None else min(end, wanted)
        while self._admin.list_offsets({where: LATEST}, is_committed=True)[where].offset < stop:
            if threads.monotonic() > deadline:
                raise StreamsError(
                    f"app={self._app}: {where} has a transaction that stays open, so the last "
                    f"commit is not known after {self._open_s:.0f} s: stop what writes there, and "
                    "move the app when the transaction has timed out"
                )
            Mailbox[bool]().take(_POLL_S)
        return stop
