"""The topics of a document: partitions, replication and settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.apply.sections import TopicSection
from moldau.cli.plans import Action, Change, PlanStep
from moldau.client.admin.configs import ConfigSource, Resource, ResourceType
from moldau.client.admin.topics import BROKER_DEFAULT, NewTopic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.node_processes import monotonic_s, pause_s

if TYPE_CHECKING:
    from moldau.cli.commands.cluster_connection import Opened
    from moldau.client.admin.admin import Admin

KIND: Final = "topic"
_PARTITIONS: Final = "partitions"
_VISIBLE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
_BEHIND: Final = {
    Action.CREATE: ErrorCode.TOPIC_ALREADY_EXISTS,
    Action.UPDATE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What the controller says of a step that was planned from old metadata."""
_OF_APPS: Final = ("-changelog", "-repartition")
_OF_CONNECT: Final = frozenset(("connect-configs", "connect-offsets", "connect-status"))


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
    wanted: Mapping[str, TopicSection], found: Mapping[str, FoundTopic], *, prunes: bool
) -> list[PlanStep]:
    """Return the steps from the topics that are found to those that are wanted."""
    steps = [_step(name, topic, found.get(name), prunes) for name, topic in wanted.items()]
    if prunes:
        gone = sorted(name for name in found.keys() - wanted.keys() if not is_of_program(name))
        steps += [PlanStep(Action.REMOVE, KIND, name, note="with all records") for name in gone]
    return steps


def _step(name: str, topic: TopicSection, found: FoundTopic | None, prunes: bool) -> PlanStep:
    if found is None:
        counts = (_PARTITIONS, topic.partitions), ("replication", topic.replication)
        changes = [Change(what, None, str(count)) for what, count in counts if count is not None]
        changes += [Change(key, None, value) for key, value in topic.config.items()]
        return PlanStep(Action.CREATE, KIND, name, tuple(changes))
    note = _impossible(name, topic, found)
    if note:
        return PlanStep(Action.REFUSE, KIND, name, note=note)
    changes = []
    if topic.partitions is not None and topic.partitions != found.partitions:
        changes.append(Change(_PARTITIONS, str(found.partitions), str(topic.partitions)))
    changes += [
        Change(key, found.config.get(key), value)
        for key, value in topic.config.items()
        if found.config.get(key) != value
    ]
    others = sorted(found.config.keys() - topic.config.keys())
    if prunes:
        changes += [Change(key, found.config[key], None) for key in others]
    elif others:
        note = f"keeps {', '.join(others)}"
    action = Action.UPDATE if changes else Action.KEEP
    return PlanStep(action, KIND, name, tuple(changes), note)


def _impossible(name: str, topic: TopicSection, found: FoundTopic) -> str:
    if topic.partitions is not None and topic.partitions < found.partitions:
        return (
            f"it has {found.partitions} partitions, and a topic cannot lose any: write "
            f"partitions: {found.partitions}, or delete and create it"
        )
    if topic.replication is not None and topic.replication != found.replication:
        return (
            f"it has {found.replication} replicas: `moldau reassign plan {name} --replicas "
            f"{topic.replication}` plans that move, or write replication: {found.replication}"
        )
    return ""


def exported(found: Mapping[str, FoundTopic]) -> dict[str, Any]:
    """Return the section of a document with these topics."""
    return {
        name: {
            _PARTITIONS: each.partitions,
            "replication": each.replication,
            **({"config": dict(sorted(each.config.items()))} if each.config else {}),
        }
        for name, each in found.items()
        if not is_of_program(name)
    }


async def found_topics(client: Admin, chosen: Collection[str] | None) -> dict[str, FoundTopic]:
    """Return all topics but the brokers' own, the chosen ones (None: all) with their settings."""
    found = {}
    for topic in await client.list_topics():
        config = {}
        if chosen is None or topic.name in chosen:
            resource = Resource(ResourceType.TOPIC, topic.name)
            config = {
                each.name: each.value or ""
                for each in await client.describe_configs(resource)
                if each.source is ConfigSource.TOPIC
            }
        replication = max((len(each.replicas) for each in topic.partitions), default=0)
        found[topic.name] = FoundTopic(len(topic.partitions), replication, config)
    return found


class Topics:
    """Plans and makes the topics of a document."""

    kind = KIND

    def __init__(
        self, admin: Opened[Admin], wanted: Mapping[str, TopicSection], *, prunes: bool
    ) -> None:
        self._admin = admin
        self._wanted = wanted
        self._prunes = prunes

    def plan(self) -> list[PlanStep]:
        """Return the steps. The cluster has checked that it can do them.

        The broker that was asked for the topics may be behind the controller, just after a change:
        then it does not know a topic that exists, or knows one that does not, and is asked again.
        """
        deadline_s = monotonic_s() + _VISIBLE_SECONDS
        while True:
            found = self._admin.run(lambda client: found_topics(client, self._wanted))
            steps = plan_topics(self._wanted, found, prunes=self._prunes)
            checked, is_behind = self._admin.run(partial(self._checked, steps=steps))
            if not is_behind or monotonic_s() >= deadline_s:
                return checked
            pause_s(_LOOK_SECONDS)

    async def _checked(
        self, client: Admin, steps: Sequence[PlanStep]
    ) -> tuple[list[PlanStep], bool]:
        """Return the steps, of which one that the cluster would refuse has its reason, and whether
        a refusal shows that the list of topics is not up to date."""
        is_behind = False
        new = [self._new(each.name) for each in steps if each.action is Action.CREATE]
        answers = await client.create_topics(new, validate_only=True) if new else {}
        checked = []
        for step in steps:
            error = answers.get(step.name)
            if step.action is Action.UPDATE:
                try:
                    await _alter(client, step, validate_only=True)
                except KafkaError as refused:
                    error = refused
            if isinstance(error, KafkaError):
                is_behind |= error.code is _BEHIND.get(step.action)
                step = replace(step, action=Action.REFUSE, note=error.reason or str(error))
            checked.append(step)
        return checked, is_behind

    def do(self, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.CREATE:
            self._admin.run(lambda client: client.create_topic(self._new(step.name)))
        elif step.action is Action.UPDATE:
            self._admin.run(lambda client: _alter(client, step, validate_only=False))
        else:
            self._admin.run(lambda client: client.delete_topic(step.name))

    def _new(self, name: str) -> NewTopic:
        topic = self._wanted[name]
        counts = topic.partitions or BROKER_DEFAULT, topic.replication or BROKER_DEFAULT
        return NewTopic(name, *counts, topic.config)


async def _alter(client: Admin, step: PlanStep, *, validate_only: bool) -> None:
    settings = [each for each in step.changes if each.what != _PARTITIONS]
    if settings:
        await client.alter_configs(
            Resource(ResourceType.TOPIC, step.name),
            set_to={each.what: each.after for each in settings if each.after is not None},
            unset=_removed(settings),
            validate_only=validate_only,
        )
    for each in step.changes:
        if each.what == _PARTITIONS:
            count = int(each.after or "0")
            await client.create_partitions(step.name, count, validate_only=validate_only)


def _removed(changes: Sequence[Change]) -> list[str]:
    return [each.what for each in changes if each.after is None]
