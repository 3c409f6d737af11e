"""Give an app the stores and offsets of a savepoint, on a cluster where it has none.

All is written in one transaction: the changelogs, what was left in repartition topics, the versions
of stores, and the offsets of the group. So a restore that is cut short has restored nothing.

With another number of partitions each row goes to the partition that its key has now, by the
partitioner that the app declares for the inputs of the store. That is refused where it would be
wrong: for rows that are not kept by the key of a record, for rows that come from another partition
than the partitioner gives with the earlier number, and for records of an input that are not
processed and lie where that number has put them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from moldau.client import EARLIEST, LATEST, NewTopic, OffsetAndMetadata, TopicPartition
from moldau.client.sync import Admin
from moldau.deferred import dataclass
from moldau.errors.amounts import counted
from moldau.runtime.real import RealClock
from moldau.streams.changelog.group import Offsets, stopped_offsets
from moldau.streams.changelog.reader import ChangelogReader
from moldau.streams.changelog.rows import backings_of, restored_task
from moldau.streams.changelog.topics import prepare
from moldau.streams.changelog.writer import abandoning_writer, write_whole
from moldau.streams.engine.batches import Outputs
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.division import divided_by
from moldau.streams.plan.joins import StreamJoin
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.partitioners import Partitioning
from moldau.streams.plan.placement import placed_inputs
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.store_versions import StoreVersion, version_key
from moldau.streams.plan.topics import topology_topic
from moldau.streams.plan.topology import KEY
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import StateError, StreamsError
from moldau.streams.running import checked
from moldau.streams.savepoint.place import SavepointPlace
from moldau.streams.savepoint.savepoint import Savepoint, load, load_log, require_same
from moldau.streams.state.migrating import require_readable
from moldau.streams.state.spec import AFTER_KEY
from moldau.streams.worker import settings as rows
from moldau.streams.worker.settings import AppSettings

_BEFORE_WAITING: Final = 9
"""How many bytes come before it where a join keeps records without a match, by time and side."""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore has written."""

    app: str
    tasks: int
    rows: int
    left_to_process: int
    """Records in repartition topics that the app had not processed."""


def restore(plan: Plan, place: SavepointPlace, given: Mapping[str, object]) -> RestoreResult:
    """Write a savepoint into a cluster. Raise StreamsError if it does not fit; then nothing has
    changed but that empty topics of the app may have been made."""
    savepoint, settings = load(place), checked(given)
    if savepoint.app != plan.app:
        raise StreamsError(
            f"savepoint={place.name}: it is of the app {savepoint.app}, not of {plan.app}"
        )
    require_same(f"savepoint={place.name}", savepoint.topology, plan)
    for program in plan.programs:
        for store in program.stores:
            require_readable(store, savepoint.versions.get(store.name, 1))
    with ExitStack() as left:
        admin = left.enter_context(Admin(settings.of("admin")))
        _require_no_progress(admin, plan.app)
        layout = prepare(plan, settings, has_changelogs=True)
        plan = layout.plan
        _require_empty(admin, plan)
        _make_kept(admin, layout, settings)
        divisions = _divisions(savepoint, layout)
        reader = left.enter_context(ChangelogReader(plan.app, settings, admin))
        offsets = _offsets(admin, savepoint, layout)
        _require_placed(savepoint, layout, offsets, reader)
        records = list(_records(place, savepoint, layout, divisions))
        own = {topic.name for topic in plan.repartitions}
        writer = left.enter_context(abandoning_writer(plan.app, settings))
        write_whole(writer, [*records, _kept(plan, layout, savepoint)], {plan.app: offsets})
    return RestoreResult(
        plan.app,
        sum(layout.tasks(program) for program in plan.programs),
        sum(len(each) for each in records if each.topic not in own),
        sum(len(each) for each in records if each.topic in own),
    )


def _require_no_progress(admin: Admin, app: str) -> None:
    """Raise StreamsError if the app has read something here. After a reset it has offsets, too:
    those of the beginnings."""
    committed = stopped_offsets(admin, app)
    begins = admin.list_offsets(dict.fromkeys(committed, EARLIEST)) if committed else {}
    for where, each in committed.items():
        if each.offset != begins[where].offset:
            raise StreamsError(
                f"app={app}: its group has offset {each.offset} of {where}, so it has run here: "
                "moldau streams reset lets it begin anew; then restore the savepoint"
            )


def _require_empty(admin: Admin, plan: Plan) -> None:
    own = [*(topic.name for topic in plan.repartitions), *plan.changelogs()]
    listed = {each.name: len(each.partitions) for each in admin.list_topics()}
    parts = [TopicPartition(name, at) for name in own for at in range(listed.get(name, 0))]
    for where, each in admin.list_offsets(dict.fromkeys(parts, LATEST)).items():
        if each.offset:
            raise StreamsError(
                f"app={plan.app}: {where} has records: moldau streams reset deletes the topics of "
                "the app; then restore the savepoint"
            )


def _make_kept(admin: Admin, layout: Layout, settings: AppSettings) -> None:
    name = topology_topic(layout.plan.app)
    if name not in {each.name for each in admin.list_topics()}:
        (kept,) = (each for each in layout.internal if each.name == name)
        copies = settings.own[rows.replication_factor]
        admin.create_topic(NewTopic(name, 1, copies, configs=dict(kept.configs)))


@dataclass(frozen=True, slots=True)
class _Division:
    """A store with keys that lie in another number of partitions here than in the savepoint."""

    app: str
    store: str
    inputs: frozenset[str]
    way: Partitioning
    before: int
    after: int
    front: int
    back: int
    """How many bytes of a row's key come before and after the key of the records."""

    def partition(self, row: bytes, came_from: int) -> int:
        """Return the partition of a row here. Raise StateError if it came from another one than its
        key had: then it is not known where records of that key are."""
        key = row[self.front : len(row) - self.back]
        if self.way.partition(key, self.before) != came_from:
            raise StateError(
                f"app={self.app} store={self.store}: a row of partition {came_from} has a key that "
                f"partitioner={self.way.name} does not put there, of {self.before}: say how "
                f"{', '.join(sorted(self.inputs))} is written, partitioner=..., or give the inputs "
                f"{counted(self.before, 'partition')}"
            )
        return self.way.partition(key, self.after)


def _divisions(savepoint: Savepoint, layout: Layout) -> dict[str, _Division]:
    """Return the stores that have to be divided anew, by changelog. Raise StateError for one that
    cannot be."""
    app, found = layout.plan.app, {}
    for program in layout.plan.programs:
        for step in program.steps:
            for store in stores_of(step):
                topic = store.changelog(app) or ""
                inputs = dict(program.feeding).get(store.name, frozenset())
                before, after = _widths(savepoint, layout, topic, inputs)
                if topic not in savepoint.counts or before == after:
                    continue
                way = divided_by(layout.plan, store, step.operation)
                if isinstance(way, str):
                    raise StateError(
                        f"app={app} store={store.name}: the savepoint has "
                        f"{counted(before, 'partition')}, here "
                        f"are {after}, and {way}: give the inputs {counted(before, 'partition')}"
                    )
                waits = isinstance(step.operation, StreamJoin) and (store is step.operation.waiting)
                front, back = _BEFORE_WAITING if waits else 0, AFTER_KEY.get(store.kind, 0)
                found[topic] = _Division(app, store.name, inputs, way, before, after, front, back)
    return found


def _widths(
    savepoint: Savepoint, layout: Layout, changelog: str, inputs: frozenset[str]
) -> tuple[int, int]:
    """Return in how many partitions the keys of a store lay, and lie here: as many as the topics
    have that feed it. Its changelog may have more, for other inputs of the sub-topology."""
    after = max((layout.counts[topic] for topic in inputs), default=layout.counts[changelog])
    known = [savepoint.counts[topic] for topic in inputs if topic in savepoint.counts]
    return max(known, default=savepoint.counts.get(changelog, after)), after


def _offsets(
    admin: Admin, savepoint: Savepoint, layout: Layout
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets of all inputs. Raise StreamsError if one is not in the log here."""
    plan = layout.plan
    own = {topic.name for topic in plan.repartitions}
    given = [topic for topic in layout.inputs() if topic not in own]
    parts = [TopicPartition(topic, at) for topic in given for at in range(layout.counts[topic])]
    begins = admin.list_offsets(dict.fromkeys(parts, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(parts, LATEST))
    for (topic, partition), each in savepoint.offsets.items():
        where = TopicPartition(topic, partition)
        if topic in given and where not in begins:
            raise StreamsError(
                f"app={plan.app}: {topic} has fewer partitions here than in the savepoint, which "
                f"had {savepoint.counts[topic]}"
            )
        if where in begins and not begins[where].offset <= each.offset <= ends[where].offset:
            raise StreamsError(
                f"app={plan.app}: the savepoint goes on at offset {each.offset} of {where}, and "
                f"the log here is from {begins[where].offset} to {ends[where].offset}: it is not "
                "the same topic, or records have been deleted"
            )
    texts = _texts(savepoint, layout)
    found = {}
    for program in plan.programs:
        for partition in range(layout.tasks(program)):
            for topic in layout.topics(program, partition):
                where = TopicPartition(topic, partition)
                saved = savepoint.offsets.get((topic, partition))
                at = 0 if topic in own else begins[where].offset
                at = at if saved is None else saved.offset
                found[where] = OffsetAndMetadata(at, metadata=texts[program.index, partition])
    return found


def _texts(savepoint: Savepoint, layout: Layout) -> dict[tuple[int, int], str]:
    """Return the stream times of each task. Of one that has keys of several, the latest: a window
    that was closed stays closed."""
    found = {}
    for program in layout.plan.programs:
        count = layout.tasks(program)
        saved = {
            task[1]: texts for task, texts in savepoint.texts.items() if task[0] == program.index
        }
        for partition in range(count):
            texts = saved.get(partition, ())
            if len(saved) != count:
                texts = tuple(text for each in saved.values() for text in each)
            found[program.index, partition] = _latest(program, partition, texts)
    return found


def _latest(program: Program, partition: int, texts: Sequence[str]) -> str:
    return restored_task(program, partition, backings_of(program), texts).metadata()


def _require_placed(
    savepoint: Savepoint, layout: Layout, offsets: Offsets, reader: ChangelogReader
) -> None:
    """Raise StateError if a record that is not processed lies where its key does not belong with
    the number of partitions here."""
    for topic, way in placed_inputs(layout.plan).items():
        count, before = layout.counts[topic], savepoint.counts.get(topic)
        if before is None or before == count:
            continue
        for partition in range(count):
            at = offsets[TopicPartition(topic, partition)].offset
            for chunk in reader.chunks(topic, partition, at):
                for key in chunk.keys:
                    if not way.fits(key, partition, count):
                        raise StateError(
                            f"app={layout.plan.app}: {topic}-{partition} has records after "
                            f"offset {at} that lie where {counted(before, 'partition')} put them, "
                            f"and here are {count}: let the app process all of them before the "
                            "savepoint, and "
                            "add partitions after it"
                        )


def _records(
    place: SavepointPlace,
    savepoint: Savepoint,
    layout: Layout,
    divisions: Mapping[str, _Division],
) -> Iterator[Outputs]:
    """Yield the records of all logs, each with its partition here."""
    plan = layout.plan
    repartitions = {topic.name: topic for topic in plan.repartitions}
    for log in savepoint.logs:
        found, count = load_log(place, log), layout.counts[log.topic]
        if (division := divisions.get(log.topic)) is not None:
            found.partitions = [division.partition(key or b"", log.partition) for key in found.keys]
        elif log.topic not in repartitions or savepoint.counts[log.topic] == count:
            found.partitions = [log.partition] * len(found)
        elif repartitions[log.topic].is_free and len(found):
            raise StateError(
                f"app={plan.app}: records of {log.topic} are not processed, and a function of the "
                "app chooses their partitions: let the app process all before the savepoint"
            )
        else:
            to = repartitions[log.topic].partitioning
            found.partitions = [
                log.partition % count if key is None else to.partition(key, count)
                for key in found.keys
            ]
        yield found


def _kept(plan: Plan, layout: Layout, savepoint: Savepoint) -> Outputs:
    """Return the topology, and the versions of the rows of all stores."""
    found: dict[bytes | None, bytes | None] = {KEY: kept_topology(plan).encoded()}
    for program in plan.programs:
        for store in program.stores:
            version = savepoint.versions.get(store.name, 1)
            if version > 1:
                for at in range(layout.tasks(program)):
                    found[version_key(store.name, at)] = StoreVersion(version).encoded()
    times = [RealClock().wall_ms()] * len(found)
    where: list[int | None] = [0] * len(found)
    return Outputs(topology_topic(plan.app), [*found], [*found.values()], times, partitions=where)
