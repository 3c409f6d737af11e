"""Write a plan, and draw a pipeline, as text."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.cli.plans import plan_lines
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline
from moldau.pipeline.plan import Plan

_KIND_WIDTH = 6


def plan_text(plan: Plan) -> str:
    """Write a plan: a line for each step, its changes below it, and a summary."""
    lines = [f"pipeline {plan.pipeline}", "", *plan_lines(plan.steps, _KIND_WIDTH)]
    return "\n".join(lines) + "\n"


def pipeline_text(pipeline: Pipeline) -> str:
    """Draw the path of the records, beginning at the sources.

    A part that is drawn above already is only named."""
    tree = _Tree(pipeline)
    lines = [f"pipeline {pipeline.name}", *tree.lines()]
    return "\n".join(lines) + "\n"


class _Tree:
    """Walks along the topics, from sources and from topics that nothing writes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._apps = {each.name: each for each in pipeline.apps}
        self._jobs = {each.name: each for each in pipeline.jobs}
        self._sinks = {each.name: each for each in pipeline.sinks}
        self._topics = {each.name: each for each in pipeline.topics}
        self._drawn: set[str] = set()

    def lines(self) -> Iterator[str]:
        for source in self._pipeline.sources:
            yield f"{source.name}  source {source.short_class}"
            for topic in source.writes:
                yield from self._topic(topic, 1)
            if source.chooses_topics:
                yield "  -> topics that its config does not name"
        for name in self._topics:
            if f"topic {name}" not in self._drawn and not self._pipeline.writers_of(name):
                yield from self._topic(name, 0)
        for app in self._pipeline.apps:
            if f"app {app.name}" not in self._drawn:
                yield from self._app(app, 0)
        for job in self._pipeline.jobs:
            if f"job {job.name}" not in self._drawn:
                yield from self._job(job, 0)

    def _topic(self, name: str, depth: int) -> Iterator[str]:
        indent = _indent(depth)
        if f"topic {name}" in self._drawn:
            yield f"{indent}{name}  (above)"
            return
        self._drawn.add(f"topic {name}")
        topic = self._topics.get(name)
        count = "" if topic is None else f", {topic.partitions or 1} partitions"
        external = ", external" if topic is not None and topic.is_external else ""
        yield f"{indent}{name}  topic{count}{external}"
        for reader in self._pipeline.readers_of(name):
            if reader in self._apps:
                yield from self._app(self._apps[reader], depth + 1)
            elif reader in self._jobs:
                yield from self._job(self._jobs[reader], depth + 1)
            else:
                yield from self._sink(self._sinks[reader], depth + 1)

    def _app(self, app: App, depth: int) -> Iterator[str]:
        indent = _indent(depth)
        if f"app {app.name}" in self._drawn:
            yield f"{indent}{app.name}  (above)"
            return
        self._drawn.add(f"app {app.name}")
        yield f"{indent}{app.name}  app {app.place}"
        for line in operators(app):
            yield f"{'  ' * depth}   | {line}"
        for topic in app.writes:
            yield from self._topic(topic, depth + 1)

    def _job(self, job: Job, depth: int) -> Iterator[str]:
        if f"job {job.name}" in self._drawn:
            yield f"{_indent(depth)}{job.name}  (above)"
            return
        self._drawn.add(f"job {job.name}")
        yield f"{_indent(depth)}{job.name}  job {job.place}"
        for topic in job.writes:
            yield from self._topic(topic, depth + 1)

    def _sink(self, sink: Connector, depth: int) -> Iterator[str]:
        yield f"{_indent(depth)}{sink.name}  sink {sink.short_class}"
        for topic in sink.writes:
            yield from self._topic(topic, depth + 1)


def _indent(depth: int) -> str:
    return "  " * depth + "-> " if depth else ""


def operators(app: App) -> list[str]:
    """Return a line for each sub-topology, with its operators in order."""
    if app.plan is None:
        return ["cannot be imported"]
    return [" > ".join(step.kind for step in program) for program in app.plan.programs]
