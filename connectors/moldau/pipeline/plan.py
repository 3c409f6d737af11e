"""What has to be done so that a cluster runs a pipeline: ordered steps, each with its changes.

A fold of two pieces of data, the pipeline and the facts of the cluster; nothing is asked here.
Order: topics, then sinks, apps and sources, so that every reader is there before its writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from moldau.connect.config.kinds import HIDDEN
from moldau.pipeline.pipeline import Connector, Pipeline, Topic


class Action(Enum):
    """What a step does."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    START = "start"
    REFUSE = "refuse"
    """It cannot be done: the note says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value; `before` is None for a new one, `after` for one that goes."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One topic, connector or app."""

    action: Action
    kind: str
    name: str
    changes: tuple[Change, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that exists. `config` has what was set."""

    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a cluster and its Connect worker have; empty where there are none yet."""

    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    """Groups with members."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in the order in which they are done."""

    pipeline: str
    steps: tuple[PlanStep, ...]

    @property
    def refusals(self) -> list[PlanStep]:
        return [each for each in self.steps if each.action is Action.REFUSE]

    def count(self, action: Action) -> int:
        return sum(each.action is action for each in self.steps)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pipeline": self.pipeline,
            "steps": [
                {
                    "action": each.action.value,
                    "kind": each.kind,
                    "name": each.name,
                    "changes": [
                        {"what": change.what, "before": change.before, "after": change.after}
                        for change in each.changes
                    ],
                    "note": each.note,
                }
                for each in self.steps
            ],
            "counts": {action.value: self.count(action) for action in Action},
        }


def plan(pipeline: Pipeline, facts: Facts) -> Plan:
    """The steps from these facts to the pipeline."""
    steps = [_topic(each, facts.topics.get(each.name)) for each in pipeline.topics]
    steps += [_connector(each, facts.connectors.get(each.name)) for each in pipeline.sinks]
    for app in pipeline.apps:
        processes = f"{app.target}, {app.workers} process{'es' if app.workers > 1 else ''}"
        others = "; its group has members already" if app.group in facts.running else ""
        steps.append(PlanStep(Action.START, "app", app.name, note=processes + others))
    steps += [_connector(each, facts.connectors.get(each.name)) for each in pipeline.sources]
    return Plan(pipeline.name, tuple(steps))


def _topic(topic: Topic, found: TopicFacts | None) -> PlanStep:
    if topic.is_external:
        if found is None:
            note = "it is external and does not exist"
            return PlanStep(Action.REFUSE, "topic", topic.name, note=note)
        return PlanStep(Action.KEEP, "topic", topic.name, note="external")
    if found is None:
        changes = [Change("partitions", None, str(topic.partitions or 1))]
        if topic.replication is not None:
            changes.append(Change("replication", None, str(topic.replication)))
        changes += [Change(key, None, value) for key, value in topic.config.items()]
        return PlanStep(Action.CREATE, "topic", topic.name, tuple(changes))
    if topic.partitions is not None and topic.partitions < found.partitions:
        note = (
            f"it has {found.partitions} partitions, and a topic cannot lose any: "
            f"say partitions: {found.partitions}"
        )
        return PlanStep(Action.REFUSE, "topic", topic.name, note=note)
    changes = []
    if topic.partitions is not None and topic.partitions > found.partitions:
        changes.append(Change("partitions", str(found.partitions), str(topic.partitions)))
    changes += [
        Change(key, found.config.get(key), value)
        for key, value in topic.config.items()
        if found.config.get(key) != value
    ]
    note = ""
    if topic.replication is not None and topic.replication != found.replication:
        note = (
            f"it has {found.replication} replicas, not {topic.replication}: they stay as they are"
        )
    action = Action.UPDATE if changes else Action.KEEP
    return PlanStep(action, "topic", topic.name, tuple(changes), note)


def _connector(connector: Connector, found: Mapping[str, str] | None) -> PlanStep:
    kind = "source" if connector.is_source else "sink"
    note = connector.short_class
    shown = _shown(connector.config)
    if found is None:
        changes = tuple(Change(key, None, value) for key, value in shown.items() if key != "name")
        return PlanStep(Action.CREATE, kind, connector.name, changes, note)
    before = _shown(found)
    changes = tuple(
        Change(key, before.get(key), shown.get(key))
        for key in dict.fromkeys((*connector.config, *found))
        if found.get(key) not in (connector.config.get(key), shown.get(key), HIDDEN)
    )
    action = Action.UPDATE if changes else Action.KEEP
    return PlanStep(action, kind, connector.name, changes, note)


def _shown(config: Mapping[str, str]) -> dict[str, str]:
    """Without what the connector calls a password."""
    from moldau.connect.worker.secrets import masked

    return masked(config)
