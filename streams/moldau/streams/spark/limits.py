"""What an app cannot do on Spark, found when its plan is read and before anything starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.description import description
from moldau.streams.plan.operations import Step
from moldau.streams.plan.patterns import patterns_of
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.policies import FAIL, REPLY
from moldau.streams.plan.text import describe
from moldau.streams.problems import TopologyError

_ELSEWHERE = "run the app on the embedded engine"
REFUSED: Final[Mapping[str, str]] = {
    "process(...)": "process(...) may set timers, which only run between batches",
    "idle=...": "idle=... closes windows by the wall clock, which stands still between batches",
    "reply()": "reply() is for requests that are waited for, and a batch comes later",
    "topics by pattern": "a batch has fixed topics: name the topics of the stream",
    "version=...": "values of earlier versions are migrated by workers of the embedded engine",
    "global_store(...)": "global_store(...) runs an operator on each record once in each worker, "
    "where a batch may run again",
    "global_table": "no stream looks this global table up, and Spark answers no queries",
}
"""Why, by what the tables in docs/streams-on-spark.md call it."""
_EXACTLY_ONCE = (
    "exactly once: each task writes its outputs of a batch in one transaction, which records the "
    "batch",
    "a batch that runs again writes what is missing, and its stores begin from its own version",
)
_AT_LEAST_ONCE = (
    "stores: a batch that runs again begins from its own version, so a record counts once",
    "outputs and repartition topics: at least once; a batch that runs again writes them again, and "
    "a store behind a repartition topic counts those records again",
)


def refusals(plan: Plan) -> dict[str, str]:
    """Return, by the name of a step or topic, why it cannot run on Spark."""
    read = [table for program in plan.programs for table in program.global_tables]
    found = {
        table.store.name: REFUSED["global_table"]
        for table in plan.global_tables
        if table not in read
    }
    stores = (table for table in plan.global_tables if table.source is not None)
    found |= {table.store.name: REFUSED["global_store(...)"] for table in stores}
    for pattern in patterns_of(plan):
        found[pattern] = REFUSED["topics by pattern"]
    if any(program.on_error.then == REPLY.then for program in plan.programs):
        found['on_error="reply"'] = REFUSED["reply()"]
    for program in plan.programs:
        for step in program.steps:
            reason = _refusal(step)
            if reason is not None:
                found[step.name] = reason
    return found


def problem_on_spark(plan: Plan) -> str | None:
    """Return why the app cannot run on Spark, step by step; None if it can."""
    found = refusals(plan)
    if not found:
        return None
    described = "; ".join(f"{name}: {reason}" for name, reason in found.items())
    return f"it cannot run on Spark: {described}; or {_ELSEWHERE}"


def check(plan: Plan) -> None:
    """Raise TopologyError, which names each step, if the app cannot run on Spark."""
    problem = problem_on_spark(plan)
    if problem is not None:
        raise TopologyError(f"app={plan.app}: {problem}")


def spark_description(plan: Plan, partitions: Mapping[str, int]) -> dict[str, Any]:
    """Return the app as plain data, as `description` does: on Spark it makes no changelogs."""
    found = description(plan, partitions)
    found["makes"] = sorted(topic.name for topic in plan.repartitions)
    found["problem"] = found["problem"] or problem_on_spark(plan)
    return found


def explain_spark(plan: Plan, *, is_exactly_once: bool = True) -> str:
    """Return where each step runs on Spark, what is refused, and what a crash may do."""
    refused = refusals(plan)
    lines = [f"app {plan.app} on Spark: {len(plan.programs)} queries, in batches"]
    for program in plan.programs:
        lines.append(f"query {program.index}: reads {', '.join(program.inputs)}")
        for step in program.steps:
            where = "executors, a Python task for each partition"
            if step.name in refused:
                where = f"REFUSED: {refused[step.name]}"
            lines.append(f"  {step.name}: {describe(step)} | {where}")
        for table in program.global_tables:
            lines.append(
                f"  holds {table.store.name} whole in each Python process, read to the end of "
                f"{table.topic} when a batch begins"
            )
        if program.stores:
            names = ", ".join(store.name for store in program.stores)
            lines.append(f"  keeps {names} in the checkpoint, changes by batch; no changelogs")
    lines += [
        f"refused: {name}: {refused[name]}" for name in refused if name not in _step_names(plan)
    ]
    lines.append("repartition topics stay topics")
    lines += _EXACTLY_ONCE if is_exactly_once else _AT_LEAST_ONCE
    lines.append("queries of stores over HTTP: not on Spark")
    lines.append("it cannot run" if refused else "it can run")
    return "\n".join(lines) + "\n"


def _step_names(plan: Plan) -> set[str]:
    return {step.name for program in plan.programs for step in program.steps}


def _refusal(step: Step) -> str | None:
    operation = step.operation
    if isinstance(operation, op.Process):
        return REFUSED["process(...)"]
    if isinstance(operation, op.Reply) or (step.on_error or FAIL).then == REPLY.then:
        return REFUSED["reply()"]
    if any(store.version > 1 for store in stores_of(step)):
        return REFUSED["version=..."]
    if getattr(operation, "idle_ms", None) is not None:
        return REFUSED["idle=..."]
    return None
