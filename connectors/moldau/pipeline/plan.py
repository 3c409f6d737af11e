"""Plan the steps after which a cluster runs a pipeline. Each step has its changes.

A plan is a function of the pipeline and of facts about the cluster. No server is asked here.
The order is topics, sinks, apps, jobs, sources, so that every reader exists before its writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.cli.plans import Action, Change, PlanStep, count_of, plan_json
from moldau.connect.config.kinds import HIDDEN
from moldau.pipeline.pipeline import App, AppPlan, Connector, Pipeline, Topic


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that exists in the cluster. `config` has its own settings, without defaults."""

    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of a cluster and its Connect worker. It is empty if there are none yet."""

    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    """The groups that have members."""
    made: frozenset[str] = frozenset()
    """The connectors that `run` has made and that may still exist."""
    is_own_broker: bool = False
    """The cluster is the pipeline's own broker, so nothing else makes topics there."""
    topologies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The topologies of the apps in the last `run` on this cluster, as of `topology_of`."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """The engines of the apps in that `run`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a plan, in the order in which `run` does them."""

    pipeline: str
    steps: tuple[PlanStep, ...]

    @property
    def refusals(self) -> list[PlanStep]:
        return [each for each in self.steps if each.action is Action.REFUSE]

    def count(self, action: Action) -> int:
        return count_of(self.steps, action)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as data for JSON."""
        return {"pipeline": self.pipeline, **plan_json(self.steps)}


def plan(pipeline: Pipeline, facts: Facts) -> Plan:
    """Plan the steps from the present state of a cluster to the pipeline."""
    steps = [_topic(each, facts) for each in pipeline.topics]
    steps += [
        PlanStep(Action.REMOVE, "connector", name, note="no longer in the file")
        for name in sorted(
            facts.made - {each.name for each in pipeline.connectors} - pipeline.left_out
        )
    ]
    steps += [_connector(each, facts.connectors.get(each.name)) for each in pipeline.sinks]
    for app in pipeline.apps:
        processes = f"{app.place}, {app.workers} process{'es' if app.workers > 1 else ''}"
        if app.is_on_spark:
            processes = app.place
        others = "; its group has members already" if app.group in facts.running else ""
        changes = _topology_changes(app, facts)
        if changes:
            others += "; its topology is not that of the last run"
        before = facts.engines.get(app.name, app.engine)
        if before != app.engine:
            changes = (Change("engine", before, app.engine), *changes)
            others += "; it begins without state, unless `moldau streams move` carries it"
        steps.append(PlanStep(Action.START, "app", app.name, changes, processes + others))
    steps += [PlanStep(Action.START, "job", job.name, note=job.place) for job in pipeline.jobs]
    steps += [_connector(each, facts.connectors.get(each.name)) for each in pipeline.sources]
    return Plan(pipeline.name, tuple(steps))


def topology_of(plan: AppPlan) -> dict[str, str]:
    """Return the steps of an app: what each does and after which it comes, by its name."""
    return {
        step.name: f"{step.text} after {', '.join(step.parents)}" if step.parents else step.text
        for program in plan.programs
        for step in program
    }


def _topology_changes(app: App, facts: Facts) -> tuple[Change, ...]:
    """Return the steps that the app has had, or has got, since the last `run`."""
    before = facts.topologies.get(app.name)
    if before is None or app.plan is None:
        return ()
    after = topology_of(app.plan)
    return tuple(
        Change(f"step {name}", before.get(name), after.get(name))
        for name in dict.fromkeys((*after, *before))
        if before.get(name) != after.get(name)
    )


def _topic(topic: Topic, facts: Facts) -> PlanStep:
    found = facts.topics.get(topic.name)
    if topic.is_external and (found is not None or not facts.is_own_broker):
        if found is None:
            note = (
                "it is external and does not exist: create it, as with `moldau topic create "
                f"{topic.name}`, or remove `external: true`"
            )
            return PlanStep(Action.REFUSE, "topic", topic.name, note=note)
        return PlanStep(Action.KEEP, "topic", topic.name, note="external")
    if found is None:
        changes = [Change("partitions", None, str(topic.partitions or 1))]
        if topic.replication is not None:
            changes.append(Change("replication", None, str(topic.replication)))
        changes += [Change(key, None, value) for key, value in topic.config.items()]
        note = "external: made here only to try the pipeline" if topic.is_external else ""
        return PlanStep(Action.CREATE, "topic", topic.name, tuple(changes), note)
    if topic.partitions is not None and topic.partitions < found.partitions:
        note = (
            f"it has {found.partitions} partitions, and a topic cannot lose any: "
            f"write partitions: {found.partitions}"
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
            f"it has {found.replication} replicas, not {topic.replication}: `run` does not change "
            "that"
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
    """Return the config with its passwords masked. The connector says which keys are passwords."""
    from moldau.connect.installed.secrets import masked

    return masked(config)
