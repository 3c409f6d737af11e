"""Plan the steps after which a cluster runs a pipeline. Each step has its changes.

A plan is a function of the pipeline and of facts about the cluster. No server is asked here.
The order is topics, sinks, apps, jobs, sources, so that every reader exists before its writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from moldau.connect.config.kinds import HIDDEN
from moldau.deferred import dataclass
from moldau.errors.amounts import counted
from moldau.operations.connectors import compare as compare_connectors
from moldau.operations.connectors import without_secrets
from moldau.operations.plan import Action, Change, PlanStep, count_of, plan_json, plan_lines
from moldau.operations.topics import FoundTopic, TopicSpec, compare
from moldau.pipeline.pipeline import App, AppPlan, Connector, Job, Pipeline, Topic

_KIND_WIDTH: Final = 6


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of a cluster and its Connect worker. It is empty if there are none yet."""

    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
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
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The digests of the functions of the apps' steps in that `run`, as of `codes_of`."""
    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The jobs in that `run`, as of `job_facts`."""


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
        if code_changes := _code_changes(app, facts):
            changes = (*changes, *code_changes)
            others += "; its functions are not those of the last run"
        before = facts.engines.get(app.name, app.engine)
        if before != app.engine:
            changes = (Change("engine", before, app.engine), *changes)
            others += "; it begins without state, unless `moldau streams move` carries it"
        steps.append(PlanStep(Action.START, "app", app.name, changes, processes + others))
    steps += [_job(each, facts.jobs.get(each.name)) for each in pipeline.jobs]
    steps += [_connector(each, facts.connectors.get(each.name)) for each in pipeline.sources]
    return Plan(pipeline.name, tuple(steps))


def plan_text(plan: Plan) -> str:
    """Write a plan: a line for each step, its changes below it, and a summary."""
    lines = [f"pipeline {plan.pipeline}", "", *plan_lines(plan.steps, _KIND_WIDTH)]
    return "\n".join(lines) + "\n"


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


def codes_of(plan: AppPlan) -> dict[str, str]:
    """Return the digest of the functions of each step that has some, by its name."""
    return {step.name: step.code for program in plan.programs for step in program if step.code}


def _code_changes(app: App, facts: Facts) -> tuple[Change, ...]:
    """Return the steps of the last `run` whose functions have another body now."""
    before = facts.codes.get(app.name, {})
    after = {} if app.plan is None else codes_of(app.plan)
    return tuple(
        Change(f"functions of {name}", before[name], code)
        for name, code in after.items()
        if name in before and before[name] != code
    )


def job_facts(job: Job) -> dict[str, str]:
    """Return what of a job may change from one `run` to the next."""
    found = {
        "spec" if job.is_folder else "script": f"{job.path} {job.code}".rstrip(),
        "every": "" if job.every_s is None else str(job.every_s),
        "group": job.group or "",
        "arguments": " ".join(job.arguments),
        **job.config,
    }
    return {name: text for name, text in found.items() if text}


def _job(job: Job, before: Mapping[str, str] | None) -> PlanStep:
    after = job_facts(job)
    changes = (
        ()
        if before is None
        else tuple(
            Change(name, before.get(name), after.get(name))
            for name in dict.fromkeys((*after, *before))
            if before.get(name) != after.get(name)
        )
    )
    note = job.place + ("; it is not that of the last run" if changes else "")
    return PlanStep(Action.START, "job", job.name, changes, note)


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
    # A new topic has one partition unless the file says how many, whatever the brokers' default is.
    partitions = topic.partitions if found is not None else topic.partitions or 1
    replication = topic.replication if found is None else None
    step = compare(topic.name, TopicSpec(partitions, replication, topic.config), found)
    if step.action is Action.REFUSE:
        return step
    note = "external: made here only to try the pipeline" if topic.is_external else ""
    if found is not None and topic.replication not in (None, found.replication):
        note = (
            f"it has {counted(found.replication, 'replica')}, not {topic.replication}: `run` "
            "does not change "
            "that"
        )
    return replace(step, note=note)


def _connector(connector: Connector, found: Mapping[str, str] | None) -> PlanStep:
    from moldau.connect.installed.secrets import masked

    # The connector says which keys are passwords.
    passwords = [key for key, value in masked(connector.config).items() if value == HIDDEN]
    step = compare_connectors(connector.name, connector.config, found)
    kind = "source" if connector.is_source else "sink"
    note = step.remark or connector.short_class
    return replace(without_secrets(step, passwords), kind=kind, note=note)
