"""What keeps an app from taking over the state of one of Java's Kafka Streams. Pure.

It is an upgrade from an app that has kept no topology: `upgrade` says what becomes of each store
and topic. This adds what is known of Kafka Streams alone: how it names what it makes, which of that
has bytes of a form of its own, and what must be true of the offsets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from moldau.deferred import dataclass
from moldau.errors.amounts import counted
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.joins import DelayedLookup, References, Resolve, StreamJoin, Subscribe
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.upgrade import RunningApp, StoreOutlook, Upgrade
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import TEXT, UNREADABLE
from moldau.streams.serdes.windowed import PAIR
from moldau.streams.state.spec import AFTER_KEY, StoreKind, StoreSpec

if TYPE_CHECKING:
    from moldau.client import TopicPartition

Reads = Callable[[bytes], str | None]
"""Says why bytes are not what they should be; None if they are."""
Verdict = Literal["taken", "note", "stops"]
_OWN_FORM: Final = {
    StreamJoin: "the records of a join of streams that wait for partners",
    op.Suppress: "the updates that suppress holds back",
    DelayedLookup: "the records that wait for a table with a grace",
    op.SlidingAggregate: "the records that new sliding windows are made from",
    op.CountAggregate: "the windows of counts, which Kafka Streams does not have",
}
_FOREIGN: Final = re.compile(
    r".*(-FK-JOIN-SUBSCRIPTION-(STATE-STORE|REGISTRATION|RESPONSE)-\d+-(changelog|topic)"
    r"|-subscription-(store-changelog|(registration|response)-topic))"
)
_CHANGELOG: Final = "-changelog"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of what was found, and what to do about it."""

    verdict: Verdict
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition: where its log begins and ends, what is read, and where all is decided."""

    begin: int
    end: int
    committed: int | None
    last_stable: int


@dataclass(frozen=True, slots=True)
class JavaApp:
    """What there is of the other app beside what is known of a `RunningApp`."""

    members: Collection[str]
    read: Mapping[TopicPartition, PartitionState]
    """The inputs and the repartition topics, those of the Java app too."""
    unreadable: Mapping[str, str]
    """Why records of a topic cannot be read with the app's serdes."""
    open_transactions: Mapping[TopicPartition, str]
    """The transactional id of a transaction that is open in a topic that the app makes."""


def adoption(plan: Plan, running: RunningApp, outlook: Upgrade, java: JavaApp) -> list[Finding]:
    """Return what a start of this app makes of the state of the other one."""
    found = list(_group(plan.app, running, java))
    found += (Finding("stops", f"app {plan.app}", each) for each in outlook.problems)
    found += _offsets(plan, java)
    kept = {name: step for program in plan.programs for name, step in _kept(program).items()}
    for each in outlook.stores:
        store = kept.get(each.name)
        if store is not None:
            found.append(_store(plan, each, *store, running, java))
    found += _repartitions(plan, outlook, java)
    left = [each.name for each in outlook.topics if each.fate == "left over"]
    found += (_left(plan, name, java) for name in left)
    return found


def _kept(program: Program) -> dict[str, tuple[StoreSpec, op.Operation]]:
    return {
        store.name: (store, step.operation) for step in program.steps for store in stores_of(step)
    }


def _group(app: str, running: RunningApp, java: JavaApp) -> Iterator[Finding]:
    what = f"group {app}"
    if running.topology is not None:
        why = "an app of moldau has run with this id: moldau streams plan says what a start does"
        yield Finding("stops", what, why)
    if java.members:
        yield Finding(
            "stops",
            what,
            f"it has members: {', '.join(sorted(java.members))}: stop all instances, and wait for "
            "45 s (session.timeout.ms) until they are gone",
        )
    elif running.has_offsets:
        yield Finding("taken", what, "it has no members and goes on at its offsets")
    for where, holder in java.open_transactions.items():
        yield Finding(
            "stops",
            str(where),
            f"{holder} has left a transaction open: wait until it has timed out, "
            "or end it: moldau txn list",
        )


def _offsets(plan: Plan, java: JavaApp) -> Iterator[Finding]:
    inputs = {topic for program in plan.programs for topic in program.inputs}
    own = {topic.name for topic in plan.repartitions}
    read = {where: each for where, each in java.read.items() if where.topic in inputs}
    if all(each.committed is None for each in read.values()):
        why = "it has no offsets of the inputs: is this the application.id of the Java app?"
        yield Finding("stops", f"group {plan.app}", why)
        return
    for where, each in sorted(read.items()):
        if each.committed is None:
            if where.topic not in own and each.end > each.begin:
                yield Finding(
                    "note", str(where), "it has no offset, and is read from auto.offset.reset on"
                )
        elif each.committed < each.begin:
            why = (
                f"the group goes on at {each.committed} and the log begins at {each.begin}: "
                "records were deleted that were not read; moldau group reset --to-earliest"
            )
            yield Finding("stops" if where.topic not in own else "note", str(where), why)
        elif each.committed > each.end:
            why = f"the group goes on at {each.committed} and the log ends at {each.end}: it is "
            yield Finding("stops", str(where), why + "not the same topic")


def _store(
    plan: Plan,
    outlook: StoreOutlook,
    store: StoreSpec,
    operation: op.Operation,
    running: RunningApp,
    java: JavaApp,
) -> Finding:
    what, topic = f"store {store.name}", store.changelog(plan.app)
    if isinstance(operation, References):
        return _foreign(plan, what, java)
    if store.source_topic is not None:
        return Finding("taken", what, f"its rows are those of the topic {store.source_topic}")
    for kind, held in _OWN_FORM.items():
        if isinstance(operation, kind) and outlook.fate == "new":
            why = f"it begins empty: {held} are lost: let the Java app have none when it stops"
            return Finding("stops", what, why)
    if topic is None:
        return Finding("stops", what, "it has logged=False, so it begins empty")
    if topic in java.unreadable:
        return Finding("stops", what, f"{topic}: {java.unreadable[topic]}")
    if outlook.fate == "new" and isinstance(operation, Resolve):
        return Finding("taken", what, "it is made anew with the join")
    if outlook.fate == "new":
        is_there = topic in running.topics
        why = "has no record" if is_there else "does not exist"
        why = f"{topic} {why}, so it begins empty"
        if not is_there:
            why += ": give the store the name that it has in the Java app"
        return Finding("note" if is_there else "stops", what, why)
    return Finding("taken", what, f"from {topic}")


def _foreign(plan: Plan, what: str, java: JavaApp) -> Finding:
    """Return what becomes of the references of a foreign-key join: Kafka Streams keeps them in a
    form of its own, so the left table has to be read once more."""
    tables = {
        topic
        for program in plan.programs
        if any(isinstance(step.operation, Subscribe) for step in program.steps)
        for topic in _left_tables(program)
    }
    behind = [
        str(where)
        for where, each in sorted(java.read.items())
        if where.topic in tables and each.committed not in (None, each.begin)
    ]
    if not tables:
        why = "its left table is not read from a topic, so it cannot be made anew: begin the app "
        return Finding("stops", what, why + "anew, with another name")
    if behind:
        why = (
            f"it is made anew from the left table, and {', '.join(behind)} is read already: "
            f"moldau group reset {plan.app} --topic {' --topic '.join(sorted(tables))} "
            "--to-earliest --execute"
        )
        return Finding("stops", what, why)
    return Finding("taken", what, f"it is made anew from {', '.join(sorted(tables))}")


def _left_tables(program: Program) -> Iterator[str]:
    """Yield the topics of the tables that have subscriptions."""
    steps = {step.name: step for step in program.steps}
    for step in program.steps:
        parent = step
        if not isinstance(step.operation, Subscribe):
            continue
        while parent.parents and parent.name in steps:
            if parent.parents[0] not in steps:
                break
            parent = steps[parent.parents[0]]
            if isinstance(parent.operation, op.TableSource):
                yield parent.operation.store.source_topic or ""


def _repartitions(plan: Plan, outlook: Upgrade, java: JavaApp) -> Iterator[Finding]:
    fates = {each.name: each.fate for each in outlook.topics}
    for topic in plan.repartitions:
        what = f"topic {topic.name}"
        if topic.name in java.unreadable:
            why = f"{java.unreadable[topic.name]}: let the Java app process all of it, then stop it"
            yield Finding("stops", what, why)
        elif fates.get(topic.name) == "fits":
            yield Finding(
                "taken", what, f"{counted(_unread(topic.name, java), 'record')} left to process"
            )


def _unread(topic: str, java: JavaApp) -> int:
    return sum(
        each.end - max(each.begin, each.committed or 0)
        for where, each in java.read.items()
        if where.topic == topic
    )


def _left(plan: Plan, name: str, java: JavaApp) -> Finding:
    """Return what becomes of a topic of the Java app that this app does not use."""
    what, own = f"topic {name}", name.removeprefix(f"{plan.app}-")
    if _FOREIGN.fullmatch(name):
        return Finding("note", what, "not taken: a foreign-key join is made anew")
    stores = [store for program in plan.programs for store in program.stores]
    for each in stores:
        copies = rf"({re.escape(each.name)}|{re.escape(each.source_topic or '')}-STATE-STORE-\d+)"
        if each.source_topic is not None and re.fullmatch(copies + _CHANGELOG, own):
            return Finding("note", what, f"not taken: the table is read from {each.source_topic}")
    if own.endswith(_CHANGELOG):
        why = (
            "not taken: no store of the app has this name, so what it holds is lost: name the "
            f"store {own.removesuffix(_CHANGELOG)}, or delete the topic"
        )
        return Finding("stops", what, why)
    why = "not taken: no step of the app has a repartition of this name"
    if unread := _unread(name, java):
        why += f", and {unread} records of it are not processed: let the Java app do that"
    return Finding("stops" if unread else "note", what, why)


def reads(codec: Codec) -> Reads:
    """Return a function that says why bytes are none of this codec; None if they are."""

    def why(data: bytes) -> str | None:
        try:
            codec.decode(data)
        except (*UNREADABLE, LookupError, TypeError) as error:
            return f"is no {codec.name}: {error}: give the serde that the Java app has"
        if codec is TEXT and b"\0" in data:
            return f'is no text: {data[:16].hex(" ")}: is it serde("long"), or another number?'
        return None

    return why


def reads_changelog(store: StoreSpec) -> tuple[Reads, Reads]:
    """Return what `reads` returns, of the keys and values in the changelog of a store."""
    after, is_key = AFTER_KEY.get(store.kind, 0), reads(store.key)

    def why(data: bytes) -> str | None:
        if len(data) < after:
            return f"has {len(data)} bytes and is none of a {store.kind.value} store"
        key = data[: len(data) - after]
        if store.kind is StoreKind.SESSION:
            end, start = PAIR.unpack_from(data, len(key))
            if not 0 <= start <= end:
                return "is none of a session: is it one of a window in the Java app?"
        return is_key(key)

    return why, reads(store.value)
