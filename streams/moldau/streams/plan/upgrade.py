"""What becomes of an app's state when another version of the app starts beside what runs. Pure.

What an app was is known from its topology topic (`Topology`, with the facts of `details_of`), from
its changelogs, and from the versions of its stores' rows. A worker decides by the same values; this
says it beforehand, with all that is to be said at once.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Final, Literal

from moldau.deferred import dataclass
from moldau.errors.amounts import counted
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.description import code_of
from moldau.streams.plan.division import undivided
from moldau.streams.plan.joins import DelayedLookup, StreamJoin
from moldau.streams.plan.layout import partition_counts
from moldau.streams.plan.lost_offsets import LostOffsets
from moldau.streams.plan.patterns import matches, resolved
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.store_versions import FIRST, StoreVersion
from moldau.streams.plan.topics import topology_topic
from moldau.streams.plan.topology import Details, Topology, to_keep
from moldau.streams.problems import TopologyError, misfit, offsets_lost
from moldau.streams.state.spec import StoreSpec

StoreFate = Literal["survives", "migrated", "rebuilt", "new", "lost", "refused", "left behind"]
TopicFate = Literal["fits", "new", "left over", "refused"]
_BUFFERS: Final = (op.Suppress, StreamJoin, DelayedLookup)
_BAD: Final = ("lost", "refused")
_CODE: Final = "code"
_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Digests of code of different versions of Python differ."""


@dataclass(frozen=True, slots=True)
class StoreOutlook:
    """What becomes of the rows of a store, and from where a worker without them gets them."""

    name: str
    fate: StoreFate
    restored_from: str | None
    why: str


@dataclass(frozen=True, slots=True)
class TopicOutlook:
    """What becomes of a topic that the app makes."""

    name: str
    fate: TopicFate
    partitions: int | None
    needed: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RunningApp:
    """What is there of the app: on the brokers, and on this machine."""

    topology: Topology | None
    versions: Mapping[tuple[str, int], StoreVersion]
    topics: Mapping[str, int]
    """The partition counts of all topics."""
    made: Collection[str]
    """The topics that look like the app's own by their names."""
    filled: Mapping[str, Collection[int]]
    """Those partitions of its changelogs that have had records, by topic."""
    has_offsets: bool
    members: int = 0
    is_exactly_once: bool = True
    """Whether the app would be started with exactly-once."""
    rows_here: Mapping[str, int] = field(default_factory=dict)
    """About how many rows of each store are on this machine."""
    lost: Collection[LostOffsets] = ()
    """Those that have rows: of committed records, for what a worker has left that was killed before
    its first commit is aborted."""
    gone: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """The committed offset and the first one of the log, of partitions whose log begins later."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What a start of the app would do."""

    app: str
    stores: tuple[StoreOutlook, ...]
    topics: tuple[TopicOutlook, ...]
    notes: tuple[str, ...]
    """What may change results, though nothing is lost."""
    problems: tuple[str, ...]
    """Why the app does not start, or what it would lose."""


def details_of(plan: Plan) -> Details:
    """Return what is kept of each store and repartition topic, to be compared later."""
    found: dict[str, dict[str, str]] = {}
    own = {topic.name for topic in plan.repartitions}
    for program in plan.programs:
        digests = _digests(program)
        for step in program.steps:
            for store in stores_of(step):
                found[f"store {store.name}"] = {
                    "kind": store.kind.value,
                    **store.facts,
                    "values": store.value.name,
                    "version": str(store.version),
                    _CODE: f"{_PYTHON} {code_of(step.operation)}",
                }
            if isinstance(step.operation, op.Sink) and step.operation.topic in own:
                found[f"repartition {step.operation.topic}"] = {
                    _CODE: f"{_PYTHON} {digests[step.name]}"
                }
    return found


def kept_topology(plan: Plan) -> Topology:
    """Return the topology of a plan with its details."""
    return replace(Topology.of(plan), details=details_of(plan))


def upgrade(plan: Plan, running: RunningApp) -> Upgrade:
    """Return what becomes of the state of the app when this plan starts beside what runs."""
    problems, notes = list[str](), list[str]()
    counts: Mapping[str, int] = {}
    try:
        plan = resolved(plan, matches(plan, running.topics))
        others = {name: count for name, count in running.topics.items() if name not in running.made}
        counts = partition_counts(plan, others)
    except TopologyError as error:
        problems.append(str(error))
    now = kept_topology(plan)
    try:
        to_keep(plan.app, running.topology, now, accepts_changes=False)
    except TopologyError as error:
        problems.append(str(error))
    before = Topology((), (), ()) if running.topology is None else running.topology
    topics = tuple(_topics(plan, counts, running))
    unfit = {each.name for each in topics if each.fate == "refused"}
    stores = [
        _store(plan.app, store, before, running, unfit)
        for program in plan.programs
        for store in program.stores
    ]
    stores += [_global(table.store, table.topic, running) for table in plan.global_tables]
    known = {store.name for store in stores}
    stores += [
        StoreOutlook(name, "left behind", None, "the app has no such store any more")
        for name in before.stores
        if name not in known
    ]
    problems += _gone(plan, running)
    notes += _notes(before.details, now.details)
    notes += (
        f"store {name}: a savepoint cannot give its inputs other numbers of partitions: {why}"
        for name, why in undivided(plan)
    )
    migrated = {each.name for each in stores if each.fate == "migrated"}
    notes += (note for program in plan.programs for note in _behind(plan, program, migrated))
    if running.members and migrated:
        notes.append(
            f"workers in the group: {running.members}: one of the earlier version that gets a task "
            "with migrated rows ends, so replace all of them"
        )
    problems += [f"store {each.name}: {each.why}" for each in stores if each.fate in _BAD]
    problems += [f"topic {each.name}: {each.why}" for each in topics if each.fate in _BAD]
    return Upgrade(plan.app, tuple(stores), topics, tuple(notes), tuple(dict.fromkeys(problems)))


def _gone(plan: Plan, running: RunningApp) -> Iterator[str]:
    """Yield what is missing of the inputs that the app would go on to read."""
    inputs = {topic for program in plan.programs for topic in program.inputs}
    for (topic, partition), (committed, begin) in sorted(running.gone.items()):
        if topic in inputs:
            yield (
                f"input {topic} partition {partition}: {counted(begin - committed, 'record')} that "
                f"the app has not read are gone: it has read up to {committed}, and the log begins "
                f"at {begin}: a start goes on there, without them"
            )


def _store(
    app: str, store: StoreSpec, before: Topology, running: RunningApp, unfit: Collection[str]
) -> StoreOutlook:
    topic = store.changelog(app)
    here = running.rows_here.get(store.name)
    rows = f"; about {counted(here, 'row is', 'rows are')} on this machine" if here else ""
    was_there = store.name in before.stores
    if store.source_topic is not None:
        fate: StoreFate = "survives" if was_there else "rebuilt" if running.has_offsets else "new"
        why = f"its rows are those of its input, up to what the app has read{rows}"
        return StoreOutlook(store.name, fate, topic, why)
    if topic is None:
        fate = "survives" if here or not was_there else "lost"
        fate = "new" if not was_there and not here else fate
        if (refusal := _refusal(store, running)) is not None:
            return StoreOutlook(store.name, "refused", None, refusal)
        why = f"it has no changelog: its rows are on the machines of its workers alone{rows}"
        return StoreOutlook(store.name, fate, None, why + _doubled(store, running))
    if topic not in running.topics:
        if was_there and running.has_offsets:
            why = (
                f"its changelog {topic} is gone, and the app goes on after the records that it "
                "held: moldau streams reset lets the app read them again"
            )
            return StoreOutlook(store.name, "lost", None, why)
        return StoreOutlook(store.name, "new", None, _begin(running))
    if topic not in running.filled and not was_there:
        return StoreOutlook(store.name, "new", None, _begin(running))
    if topic in unfit:
        why = f"{topic} has another number of partitions, so its keys lie in other ones"
        return StoreOutlook(store.name, "refused", topic, why)
    return _kept(app, store, before.details.get(f"store {store.name}", {}), running, rows)


def _kept(
    app: str, store: StoreSpec, was: Mapping[str, str], running: RunningApp, rows: str
) -> StoreOutlook:
    """Return the outlook of a store with a changelog that fits."""
    topic = store.changelog(app) or ""
    if (why := misreading(store, was)) is not None:
        why += ": give the store another name, or the earlier form"
        return StoreOutlook(store.name, "refused", topic, why)
    at = [running.versions.get((store.name, each), FIRST) for each in range(running.topics[topic])]
    newest = max(each.newest for each in at)
    if newest > store.version:
        why = f"its rows have version {newest}, and the app declares version {store.version}"
        return StoreOutlook(store.name, "refused", topic, why)
    filled = running.filled.get(topic, ())
    if (refusal := _refusal(store, running)) is not None:
        return StoreOutlook(store.name, "refused", topic, refusal)
    left = [each for each in filled if at[each].version < store.version]
    if left:
        if (why := _hindrance(store, [at[each] for each in left], running)) is not None:
            return StoreOutlook(store.name, "refused", topic, why)
        why = (
            f"its values become version {store.version} in partition "
            f"{', '.join(map(str, sorted(left)))}, before records run{rows}"
        )
        return StoreOutlook(store.name, "migrated", topic, why)
    why = f"its rows are read from the changelog where they are not{rows}"
    why += _doubled(store, running)
    values = was.get("values", store.value.name)
    if values != store.value.name and str(store.version) == was.get("version"):
        why += (
            f"; its values were {values} and are {store.value.name} now: rows must be readable as "
            "both, else raise version=... and give migrate={...}"
        )
    return StoreOutlook(store.name, "survives", topic, why)


def _refusal(store: StoreSpec, running: RunningApp) -> str | None:
    """Return why a start refuses the rows of a store whose offsets are lost."""
    lost = [each for each in running.lost if each.store == store.name and each.is_certain]
    if not (lost and running.is_exactly_once):
        return None
    return offsets_lost(lost[0], lost[0].machines)


def _doubled(store: StoreSpec, running: RunningApp) -> str:
    """Return what a start does that is not refused though offsets are lost, or may be."""
    lost = [each for each in running.lost if each.store == store.name]
    return f"; its group has {lost[0]}, so {lost[0].outcome}" if lost else ""


def misreading(store: StoreSpec, was: Mapping[str, str]) -> str | None:
    """Return why a store would misread rows that were written with these facts; None if not."""
    for fact, now in {"kind": store.kind.value, **store.facts}.items():
        if was.get(fact, now) != now:
            return f"its {fact} were {was[fact]} and are {now} now, so its rows would be misread"
    return None


def _hindrance(store: StoreSpec, at: Sequence[StoreVersion], running: RunningApp) -> str | None:
    """Return why a start would not migrate rows of these versions; None if it would."""
    oldest = min(each.version for each in at)
    missing = [each for each in range(oldest, store.version) if each not in store.migrations]
    if missing:
        return f"rows have version {oldest}, and migrate[{missing[0]}] is missing"
    if not running.is_exactly_once:
        return (
            f"its rows have version {oldest}, and become version {store.version} only with "
            "exactly-once: start the app once with processing.guarantee=exactly_once_v2"
        )
    if not running.has_offsets:
        return offsets_lost()
    if any(each.to is not None and each.layout != store.layout for each in at):
        return (
            "a migration was cut short, and the app has another retention or kind of window now: "
            "first run it as it was, until the migration is done"
        )
    return None


def _begin(running: RunningApp) -> str:
    if running.has_offsets:
        return "it begins empty, with the records after those that the app has read"
    return "it begins empty, with the first records that the app reads"


def _global(store: StoreSpec, topic: str, running: RunningApp) -> StoreOutlook:
    is_there = topic in running.topics
    return StoreOutlook(
        store.name, "survives" if is_there else "new", topic, "each worker reads the whole topic"
    )


def _topics(plan: Plan, counts: Mapping[str, int], running: RunningApp) -> Iterator[TopicOutlook]:
    own = [*sorted(topic.name for topic in plan.repartitions), *plan.changelogs()]
    for name in own:
        there, needed = running.topics.get(name), counts.get(name)
        if there is None:
            yield TopicOutlook(name, "new", None, needed)
        elif needed is None or there == needed:
            yield TopicOutlook(name, "fits", there, needed)
        else:
            yield TopicOutlook(name, "refused", there, needed, f"it {misfit(there, needed)}")
    for name in sorted(set(running.made) - {*own, topology_topic(plan.app)}):
        why = "the app does not use it any more"
        yield TopicOutlook(name, "left over", running.topics.get(name), None, why)


def _notes(before: Details, now: Details) -> Iterator[str]:
    for what, facts in now.items():
        was = before.get(what, {}).get(_CODE, "")
        python, _, digest = facts[_CODE].partition(" ")
        if was.partition(" ")[::2] == (python, digest) or was.partition(" ")[0] != python:
            continue
        if what.startswith("repartition"):
            yield (
                f"{what}: the functions before it have changed: if a record gets another key than "
                "before, what was kept under the earlier key stays there"
            )
        else:
            yield f"{what}: its functions have changed: rows that are there stay"


def _behind(plan: Plan, program: Program, migrated: Collection[str]) -> Iterator[str]:
    """Yield notes on what keeps values of migrated stores, and is not migrated with them."""
    own = {topic.name for topic in plan.repartitions}
    reached = set[str]()
    for step in program.steps:
        is_behind = not reached.isdisjoint(step.parents)
        if is_behind or any(store.name in migrated for store in stores_of(step)):
            reached.add(step.name)
        kept = [f"store {store.name}" for store in stores_of(step)]
        if isinstance(step.operation, op.Sink):
            kept = [f"repartition {name}" for name in own.intersection([step.operation.topic])]
        elif not isinstance(step.operation, _BUFFERS):
            continue
        for what in kept if is_behind else ():
            yield (
                f"{what}: it may hold values of a migrated store in their earlier form: let the "
                "app process all before the upgrade, or let the new type read both"
            )


def _digests(program: Program) -> dict[str, str]:
    """Return, by step, a digest of its own functions and of all that lead to it."""
    found: dict[str, str] = {}
    for step in program.steps:
        parts = [code_of(step.operation), *(found[parent] for parent in step.parents)]
        found[step.name] = sha256("\0".join(parts).encode()).hexdigest()[:8]
    return found
