"""Take a savepoint of a stopped app, from its group and its changelogs.

The app must not run: then its last commit is one moment for all its tasks, also between those that
write a repartition topic and those that read it. How it was stopped does not matter. What a killed
worker has left open is waited for until the brokers abort it, and is not in the savepoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from moldau.client import TopicPartition
from moldau.client.group.descriptions import STREAMS_TYPE
from moldau.client.sync import Admin
from moldau.runtime.real import RealClock
from moldau.streams.changelog.group import Offsets, group_facts, stopped_offsets
from moldau.streams.changelog.reader import ChangelogReader
from moldau.streams.changelog.rows import newest
from moldau.streams.engine.batches import Outputs
from moldau.streams.plan.layout import Layout, laid_out
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.store_versions import FIRST, StoreVersion, versions_in
from moldau.streams.plan.topology import KEY, Topology
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import StateError, StreamsError
from moldau.streams.running import checked
from moldau.streams.savepoint.place import SavepointPlace
from moldau.streams.savepoint.savepoint import (
    SavedLog,
    SavedOffset,
    Savepoint,
    require_same,
    save,
    save_log,
)
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.spec import StoreKind, StoreSpec
from moldau.streams.worker.committer import is_marked


def take(
    plan: Plan, place: SavepointPlace, given: Mapping[str, object], *, force: bool = False
) -> Savepoint:
    """Write the stores and offsets of a stopped app to a place without files. Raise StreamsError if
    that cannot be done; then there is no savepoint. With `force` members are removed from its group
    first: one that still runs joins again, and is noticed at the end."""
    settings = checked(given)
    if place.names():
        raise StreamsError(f"savepoint={place.name}: it has files already: name an empty directory")
    _require_changelogs(plan)
    with ExitStack() as left:
        admin = left.enter_context(Admin(settings.of("admin")))
        if force and group_facts(admin, plan.app)[0]:
            _remove_members(admin, plan.app)
        committed = stopped_offsets(admin, plan.app)
        _require_own(plan.app, committed)
        listed: Any = admin.list_topics()
        there = {topic.name: len(topic.partitions) for topic in listed}
        layout = laid_out(plan, there)
        plan = layout.plan
        reader = left.enter_context(ChangelogReader(plan.app, settings, admin))
        kept = reader.kept(there)
        before, now = Topology.decoded(kept.get(KEY)), kept_topology(plan)
        if before is not None:
            require_same(f"app={plan.app}", before, plan)
        if before is not None and before != now:
            raise StateError(
                f"app={plan.app}: this version of the app has not run yet: take the savepoint with "
                "the version that has"
            )
        logs, filled = _logs(layout, place, committed, reader)
        savepoint = Savepoint(
            plan.app,
            RealClock().wall_ms(),
            now,
            layout.counts,
            _offsets(layout, committed),
            _texts(layout, committed),
            _versions(plan, versions_in(kept), filled),
            tuple(logs),
        )
        if stopped_offsets(admin, plan.app) != committed:
            raise StreamsError(f"app={plan.app}: it was started meanwhile: stop it first")
    save(place, savepoint)
    return savepoint


def _remove_members(admin: Admin, app: str) -> None:
    if admin.describe_group(app).type == STREAMS_TYPE:
        raise StreamsError(
            f"app={app}: its group is a streams group, from which no member can be removed: one "
            "that was killed is gone after 45 s (the broker's group.streams.session.timeout.ms): "
            "wait, and take the savepoint without --force"
        )
    admin.remove_all_members(app, reason="moldau streams savepoint --force")


def _logs(
    layout: Layout, place: SavepointPlace, committed: Offsets, reader: ChangelogReader
) -> tuple[list[SavedLog], set[tuple[str, int]]]:
    """Save the changelogs, and what is not processed in repartition topics. Return also which
    partitions of stores have rows."""
    app, logs, filled = layout.plan.app, list[SavedLog](), set[tuple[str, int]]()
    for program in layout.plan.programs:
        for store in program.stores:
            if store.source_topic is not None:
                continue
            for partition in range(layout.counts[store.changelog(app) or ""]):
                found = _newest(app, store, partition, reader)
                logs.append(save_log(place, found, partition))
                if len(found):
                    filled.add((store.name, partition))
    for topic in (each.name for each in layout.plan.repartitions):
        for partition in range(layout.counts[topic]):
            at = committed.get(TopicPartition(topic, partition))
            found = _unread(topic, partition, 0 if at is None else at.offset, reader)
            logs.append(save_log(place, found, partition))
    return logs, filled


def _offsets(layout: Layout, committed: Offsets) -> dict[tuple[str, int], SavedOffset]:
    """Return the offsets of the inputs; the app's own topics begin anew."""
    own = {topic.name for topic in layout.plan.repartitions}
    return {
        (where.topic, where.partition): SavedOffset(each.offset, each.metadata)
        for where, each in committed.items()
        if where.topic in layout.inputs() and where.topic not in own
    }


def _texts(layout: Layout, committed: Offsets) -> dict[tuple[int, int], tuple[str, ...]]:
    found = {}
    for program in layout.plan.programs:
        for partition in range(layout.tasks(program)):
            inputs = [
                TopicPartition(topic, partition) for topic in layout.topics(program, partition)
            ]
            texts = (committed[where].metadata for where in inputs if where in committed)
            found[program.index, partition] = tuple(texts)
    return found


def _require_changelogs(plan: Plan) -> None:
    for program in plan.programs:
        for store in program.stores:
            if store.changelog(plan.app) is None:
                raise StateError(
                    f"app={plan.app} store={store.name}: it has no changelog, so its rows are on "
                    "the machines of the workers alone, and a savepoint cannot have them"
                )


def _require_own(app: str, committed: Offsets) -> None:
    if not committed:
        raise StreamsError(f"app={app}: its group has no offsets, so there is nothing to save")
    if any(is_marked(each.metadata) for each in committed.values()):
        raise StateError(f"app={app}: it has moved to Spark, whose checkpoint has its state")


def _newest(app: str, store: StoreSpec, partition: int, reader: ChangelogReader) -> Outputs:
    """Return the records of a changelog that count."""
    topic = store.changelog(app)
    assert topic is not None
    changes = reader.changes(topic, partition)
    if store.kind is not StoreKind.VERSIONED:
        rows = newest(changes)
        changes = ChangelogRecords(
            [*rows], [value for value, _ in rows.values()], [time for _, time in rows.values()]
        )
    return Outputs(topic, [*changes.keys], changes.values, changes.timestamps)


def _unread(topic: str, partition: int, begin: int, reader: ChangelogReader) -> Outputs:
    """Return the records of a repartition topic that are not processed."""
    found = Outputs(topic)
    for chunk in reader.chunks(topic, partition, begin):
        found.keys += chunk.keys
        found.values += chunk.values
        found.timestamps += chunk.timestamps
        found.headers += chunk.headers or [()] * len(chunk)
    return found


def _versions(
    plan: Plan, known: Mapping[tuple[str, int], StoreVersion], filled: set[tuple[str, int]]
) -> dict[str, int]:
    """Return the versions of stores that have rows. Raise StateError if a migration is under way:
    rows of one store then have several."""
    found = {}
    for store in (each for program in plan.programs for each in program.stores):
        there = [known.get(where, FIRST) for where in filled if where[0] == store.name]
        versions = {each.version for each in there}
        if len(versions) > 1 or any(each.to is not None for each in there):
            raise StateError(
                f"app={plan.app} store={store.name}: its rows are being migrated: let the app "
                "run until they have one version, then stop it and take the savepoint"
            )
        if (version := max(versions, default=1)) > 1:
            found[store.name] = version
    return found
