"""Topics: what one is to be, how that differs from what a cluster has, and each change of it.

Invariant: a change of settings and partitions is validated as a whole before any of it is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType
from moldau.client.admin.topics import BROKER_DEFAULT, NewTopic
from moldau.client.base.offsets import EARLIEST, LATEST
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.amounts import counted
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.operations.plan import Action, Change, PlanStep

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.base.offsets import FoundOffset
    from moldau.runtime import Runtime

KIND: Final = "topic"
RECORDS: Final = "records"
_PARTITION: Final = "partition "
_CLEANUP: Final = "cleanup.policy"
_PARTITIONS: Final = "partitions"
_REPLICATION: Final = "replication"
_VISIBLE_NS: Final = 30_000_000_000
_LOOK_SECONDS: Final = 0.1
_BEHIND: Final = {
    Action.CREATE: ErrorCode.TOPIC_ALREADY_EXISTS,
    Action.UPDATE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What the controller says of a step that was planned from old metadata."""
_OF_APPS: Final = ("-changelog", "-repartition")
_OF_CONNECT: Final = frozenset(("connect-configs", "connect-offsets", "connect-status"))


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """What a topic is to be. None is the cluster's default for a new topic; others keep theirs."""

    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic of the cluster. `config` has its own settings, without defaults."""

    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)


def is_of_program(name: str) -> bool:
    """Whether a program makes and needs the topic: `--prune` and `export` leave it alone."""
    return name.startswith("_") or name.endswith(_OF_APPS) or name in _OF_CONNECT


def plan_topics(
    wanted: Mapping[str, TopicSpec], found: Mapping[str, FoundTopic], *, prunes: bool
) -> list[PlanStep]:
    """Return the steps from the topics that are found to those that are wanted."""
    steps = [compare(name, spec, found.get(name), prunes=prunes) for name, spec in wanted.items()]
    if prunes:
        gone = sorted(name for name in found.keys() - wanted.keys() if not is_of_program(name))
        steps += [PlanStep(Action.REMOVE, KIND, name, note="with all records") for name in gone]
    return steps


def compare(
    name: str, spec: TopicSpec, found: FoundTopic | None, *, prunes: bool = False
) -> PlanStep:
    """Return the step for one topic. With `prunes` settings that the spec does not have are unset;
    otherwise a note names them."""
    if found is None:
        counts = (_PARTITIONS, spec.partitions), (_REPLICATION, spec.replication)
        changes = [Change(what, None, str(count)) for what, count in counts if count is not None]
        changes += [Change(key, None, value) for key, value in spec.config.items()]
        return PlanStep(Action.CREATE, KIND, name, tuple(changes))
    note = _impossible(name, spec, found)
    if note:
        return PlanStep(Action.REFUSE, KIND, name, note=note)
    changes = []
    if spec.partitions is not None and spec.partitions != found.partitions:
        changes.append(Change(_PARTITIONS, str(found.partitions), str(spec.partitions)))
    changes += [
        Change(key, found.config.get(key), value)
        for key, value in spec.config.items()
        if found.config.get(key) != value
    ]
    others = sorted(found.config.keys() - spec.config.keys())
    if prunes:
        changes += [Change(key, found.config[key], None) for key in others]
    elif others:
        note = f"keeps {', '.join(others)}"
    action = Action.UPDATE if changes else Action.KEEP
    return PlanStep(action, KIND, name, tuple(changes), note)


def _impossible(name: str, spec: TopicSpec, found: FoundTopic) -> str:
    if spec.partitions is not None and spec.partitions < found.partitions:
        return (
            f"it has {counted(found.partitions, 'partition')}, and a topic cannot lose any: write "
            f"partitions: {found.partitions}, or delete and create it"
        )
    if spec.replication is not None and spec.replication != found.replication:
        return (
            f"it has {counted(found.replication, 'replica')}: `moldau reassign plan {name} "
            "--replicas "
            f"{spec.replication}` plans that move, or write replication: {found.replication}"
        )
    return ""


def exported(found: Mapping[str, FoundTopic]) -> dict[str, Any]:
    """Return the section of a document with these topics."""
    return {
        name: {
            _PARTITIONS: each.partitions,
            _REPLICATION: each.replication,
            **({"config": dict(sorted(each.config.items()))} if each.config else {}),
        }
        for name, each in found.items()
        if not is_of_program(name)
    }


async def own_settings(admin: Admin, name: str) -> dict[str, str | None]:
    """Return the settings that are set on the topic itself."""
    return own_of(await admin.describe_configs(Resource(ResourceType.TOPIC, name)))


def own_of(entries: Iterable[ConfigEntry]) -> dict[str, str | None]:
    """Return those of a topic's settings in force that are set on the topic itself."""
    return {each.name: each.value for each in entries if each.source is ConfigSource.TOPIC}


async def found_topics(admin: Admin, chosen: Collection[str] | None) -> dict[str, FoundTopic]:
    """Return all topics but the brokers' own, the chosen ones (None: all) with their settings."""
    found = {}
    for topic in await admin.list_topics():
        is_chosen = chosen is None or topic.name in chosen
        own = await own_settings(admin, topic.name) if is_chosen else {}
        config = {name: value or "" for name, value in own.items()}
        replication = max((len(each.replicas) for each in topic.partitions), default=0)
        found[topic.name] = FoundTopic(len(topic.partitions), replication, config)
    return found


async def alter(
    admin: Admin,
    name: str,
    set_to: Mapping[str, str] | None = None,
    unset: Iterable[str] = (),
    partitions: int | None = None,
    *,
    validate_only: bool = False,
) -> None:
    """Change settings, then add partitions. Raise KafkaError, also if only the settings were
    changed: it says so."""
    set_to, unset = set_to or {}, list(unset)
    settings = [*set_to, *unset]
    is_alone = partitions is None or not settings
    for validates in [validate_only] if is_alone or validate_only else [True, False]:
        if settings:
            resource = Resource(ResourceType.TOPIC, name)
            await admin.alter_configs(resource, set_to=set_to, unset=unset, validate_only=validates)
        if partitions is None:
            continue
        try:
            await admin.create_partitions(name, partitions, validate_only=validates)
        except KafkaError as error:
            if validates or not settings:
                raise
            done = f"the settings ({', '.join(settings)}) were altered, the partitions were not"
            reason = f"{done}: {error.reason}" if error.reason else done
            raise KafkaError(error.code, reason, **error.context) from error


async def do(admin: Admin, step: PlanStep, *, validate_only: bool = False) -> None:
    """Do a step; only one that changes a topic can be validated."""
    if step.action is Action.CREATE:
        await admin.create_topic(new_topic(step))
    elif step.action is Action.REMOVE:
        await admin.delete_topic(step.name)
    else:
        set_to = {each.what: each.after for each in step.changes if each.after is not None}
        unset = [each.what for each in step.changes if each.after is None]
        partitions = set_to.pop(_PARTITIONS, None)
        count = None if partitions is None else int(partitions)
        await alter(admin, step.name, set_to, unset, count, validate_only=validate_only)


def new_topic(step: PlanStep) -> NewTopic:
    """Return the topic that a step creates."""
    values = {each.what: each.after or "" for each in step.changes}
    partitions = int(values.pop(_PARTITIONS, BROKER_DEFAULT))
    return NewTopic(step.name, partitions, int(values.pop(_REPLICATION, BROKER_DEFAULT)), values)


async def plan_deletion(admin: Admin, names: Iterable[str]) -> list[PlanStep]:
    """Return a step for each topic that deletes it, with how many records it has."""
    steps = []
    for each in await plan_emptying(admin, names):
        if each.error is not None:
            steps.append(replace(each, kind=KIND))
        else:
            note = f"with {each.note}" if each.changes else "with all records"
            steps.append(PlanStep(Action.REMOVE, KIND, each.name, note=note))
    return steps


async def plan_emptying(admin: Admin, names: Iterable[str]) -> list[PlanStep]:
    """Return a step for each topic that takes the records away that are there now: `changes` has
    the first and the next offset of each partition. Raise KafkaError if the topics cannot be
    listed."""
    names = list(dict.fromkeys(names))
    steps = []
    for name, topic in (await admin.describe_topics(names)).items():
        if isinstance(topic, KafkaError):
            steps.append(PlanStep(Action.REFUSE, RECORDS, name, error=topic))
            continue
        led = [TopicPartition(name, each.index) for each in topic.partitions if each.leader >= 0]
        begins = await admin.list_offsets(dict.fromkeys(led, EARLIEST)) if led else {}
        ends = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
        config = await own_settings(admin, name)
        steps.append(
            _emptying(name, begins, ends, config.get(_CLEANUP) or "", len(topic.partitions))
        )
    return steps


def _emptying(
    name: str,
    begins: Mapping[TopicPartition, FoundOffset | KafkaError],
    ends: Mapping[TopicPartition, FoundOffset | KafkaError],
    cleanup: str,
    partitions: int,
) -> PlanStep:
    known = {
        where: (begin.offset, end.offset)
        for where, begin in begins.items()
        if not isinstance(begin, KafkaError) and not isinstance(end := ends[where], KafkaError)
    }
    if cleanup and "delete" not in cleanup:
        note = f"{_CLEANUP} is {cleanup}: add delete to it, or send a tombstone for each key"
        return PlanStep(Action.REFUSE, RECORDS, name, note=note)
    missing = partitions - len(known)
    if missing:
        note = f"{missing} of its partitions have no leader, so it would not be empty"
        return PlanStep(Action.REFUSE, RECORDS, name, note=note)
    changes = [
        Change(f"{_PARTITION}{where.partition}", str(begin), str(end))
        for where, (begin, end) in sorted(known.items())
        if begin < end
    ]
    count = sum(end - begin for begin, end in known.values())
    note = f"{counted(count, 'record')} at most" if changes else "it is empty"
    return PlanStep(Action.REMOVE if changes else Action.KEEP, RECORDS, name, tuple(changes), note)


async def empty(admin: Admin, name: str, before: Mapping[int, int]) -> None:
    """Delete the records of a topic below an offset of each partition. Raise the KafkaError of the
    first partition that keeps its records, after all were tried."""
    wanted = {TopicPartition(name, index): offset for index, offset in before.items()}
    for found in (await admin.delete_records(wanted)).values():
        if isinstance(found, KafkaError):
            raise found


def emptied(step: PlanStep) -> dict[int, int]:
    """Return what `empty` needs for a step of `plan_emptying`."""
    return {
        int(each.what.removeprefix(_PARTITION)): int(each.after)
        for each in step.changes
        if each.after is not None
    }


async def plan_settings(
    admin: Admin, names: Iterable[str], set_to: Mapping[str, str]
) -> list[PlanStep]:
    """Return a step for each topic that sets these settings. The cluster has checked them."""
    steps = []
    for name in dict.fromkeys(names):
        try:
            own = await own_settings(admin, name)
        except KafkaError as error:
            steps.append(PlanStep(Action.REFUSE, KIND, name, error=without_frames(error)))
            continue
        changes = tuple(
            Change(key, own.get(key), value)
            for key, value in set_to.items()
            if own.get(key) != value
        )
        action = Action.UPDATE if changes else Action.KEEP
        steps.append(PlanStep(action, KIND, name, changes))
    checked, _ = await _checked(admin, steps)
    return checked


@dataclass
class Topics:
    """Plans and makes the topics of a document."""

    kind: ClassVar = KIND
    runtime: Runtime
    wanted: Mapping[str, TopicSpec]
    prunes: bool

    async def plan(self, admin: Admin) -> list[PlanStep]:
        """Return the steps. The cluster has checked that it can do them.

        The broker that was asked for the topics may be behind the controller, just after a change:
        then it does not know a topic that exists, or knows one that does not, and is asked again.
        """
        clock = self.runtime.clock
        deadline_ns = clock.monotonic_ns() + _VISIBLE_NS
        while True:
            found = await found_topics(admin, self.wanted)
            steps = plan_topics(self.wanted, found, prunes=self.prunes)
            checked, is_behind = await _checked(admin, steps)
            if not is_behind or clock.monotonic_ns() >= deadline_ns:
                return checked
            await asyncio.sleep(_LOOK_SECONDS)

    async def do(self, admin: Admin, step: PlanStep) -> None:
        """Do a step."""
        await do(admin, step)


async def _checked(admin: Admin, steps: Sequence[PlanStep]) -> tuple[list[PlanStep], bool]:
    """Return the steps, of which one that the cluster would refuse has its reason, and whether a
    refusal shows that the list of topics is not up to date."""
    is_behind = False
    new = [new_topic(each) for each in steps if each.action is Action.CREATE]
    answers = await admin.create_topics(new, validate_only=True) if new else {}
    checked = []
    for step in steps:
        error = answers.get(step.name)
        if step.action is Action.UPDATE:
            try:
                await do(admin, step, validate_only=True)
            except KafkaError as refused:
                error = without_frames(refused)
        if isinstance(error, KafkaError):
            is_behind |= error.code is _BEHIND.get(step.action)
            step = replace(step, action=Action.REFUSE, error=error)
        checked.append(step)
    return checked, is_behind
