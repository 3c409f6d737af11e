"""Read the text of a pipeline file: build a checked pipeline, and find every problem in it.

This module has no effects. Other files, the plans of apps and variables come through `Inputs`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from moldau.config.file_problems import Problem
from moldau.config.yaml_tree import Node
from moldau.errors import MoldauError
from moldau.pipeline.app_engines import check_engine
from moldau.pipeline.connectors import check_connector, check_worker, connector_of
from moldau.pipeline.edges import ReadSchema, check_edges
from moldau.pipeline.including import SourceFiles, read_files
from moldau.pipeline.jobs import check_job, jobs_of
from moldau.pipeline.pipeline import App, AppPlan, Connector, Pipeline, Topic
from moldau.pipeline.queries import CheckSql, check_queries
from moldau.pipeline.references import Variables, has_reference
from moldau.pipeline.sections import ConnectorSection, PipelineSection, read_sections
from moldau.pipeline.targets import for_target
from moldau.pipeline.topic_settings import check_topic_settings
from moldau.pipeline.wiring import check_wiring

Explain = Callable[[Sequence[App], Mapping[str, int]], list[AppPlan | str]]
"""Returns the plans of these apps. It gets the numbers of partitions of topics, by name.

In place of a plan it may return a text that says why there is none."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that reading a pipeline file needs beside its text."""

    base: str
    """The directory of the file. Relative paths in the file count from there."""
    read_text: Callable[[str], str]
    explain: Explain
    variables: Mapping[str, str] = field(default_factory=dict)
    checks_connectors: bool = True
    """Whether to validate the configs of connectors and of the worker, which imports connectors.
    An action on a running pipeline does not need it: `run` has done it."""
    check_sql: CheckSql | None = None
    """Checks the SQL of Spark connectors; None leaves that to Spark."""
    read_schema: ReadSchema | None = None
    """Asks Schema Registries for the schemas of topics; None leaves them out."""
    has_own_worker: bool = True
    """Whether the file has the settings of the Connect worker; not with one of `--connect`."""
    target: str | None = None
    """The target of the file, such as `prod`."""


@dataclass(frozen=True, slots=True)
class PipelineReading:
    """A pipeline and its problems, in the order of files and lines."""

    pipeline: Pipeline
    problems: tuple[Problem, ...]
    """Their lines count through all files."""
    files: SourceFiles

    @property
    def is_valid(self) -> bool:
        return not any(each.is_error for each in self.problems)


def read_pipeline(text: str, file: str, inputs: Inputs) -> PipelineReading:
    """Read a pipeline file. Every mistake becomes a problem of the result.

    Raises ConfigError only if a file is not a YAML mapping, or is too large."""
    root, files, problems = read_files(text, file, inputs.base, inputs.read_text)
    root, found = for_target(root, inputs.target)
    problems += found
    variables = Variables(root, inputs.variables, inputs.base)
    root = variables.replace(root)
    problems += _load_connector_files(root, inputs, variables)
    problems += variables.problems
    sections, found = read_sections(root)
    problems += found
    if inputs.checks_connectors:
        problems += check_worker(sections.worker.settings, root)
    topics = _topics(sections, root)
    for each_topic in topics:
        problems += check_topic_settings(each_topic, root)
    sources = _connectors(sections.sources, root, is_source=True)
    sinks = _connectors(sections.sinks, root, is_source=False)
    for each in (*sources, *sinks) if inputs.checks_connectors else ():
        section = "sources" if each.is_source else "sinks"
        node = root.entries()[section].entries()[each.name]
        problems += check_connector(each, node, sections.worker.settings)
    apps, found = _apps(sections, root, topics, inputs)
    problems += found
    jobs, found = jobs_of(sections.jobs, root, inputs.base)
    problems += found
    for job in jobs:
        problems += check_job(job, root, inputs.read_text)
    pipeline = Pipeline(
        sections.pipeline,
        topics,
        sources,
        apps,
        sinks,
        sections.broker.settings,
        sections.worker.settings,
        jobs,
    )
    problems += _misplaced_references(pipeline, root)
    problems += check_wiring(pipeline, files)
    if inputs.checks_connectors:
        worker = pipeline.worker if inputs.has_own_worker else {}
        problems += check_edges(pipeline, root, worker, inputs.read_schema)
    problems += check_queries(pipeline, root, inputs.check_sql)
    return PipelineReading(pipeline, tuple(sorted(dict.fromkeys(problems))), files)


def _load_connector_files(root: Node, inputs: Inputs, variables: Variables) -> list[Problem]:
    """Replace a connector that is the path of a JSON or properties file by the config in it."""
    from moldau.connect.commands.files import parse_connector

    problems = []
    for section in ("sources", "sinks"):
        node = root.entries().get(section)
        entries = {} if node is None else node.entries()
        for name, entry in list(entries.items()):
            if not isinstance(entry.value, str):
                continue
            path = posixpath.join(inputs.base, entry.value)
            try:
                _, config = parse_connector(path, inputs.read_text(path))
            except OSError as error:
                text = f"{section}.{name}: {path}: {error.strerror or error}"
                problems.append(Problem(entry.line, text))
                del entries[name]
            except MoldauError as error:
                problems.append(Problem(entry.line, f"{section}.{name}: {error}"))
                del entries[name]
            else:
                found = {key: Node(entry.line, value) for key, value in config.items()}
                found.pop("name", None)
                entries[name] = variables.replace(Node(entry.line, dict(found)))
    return problems


def _topics(sections: PipelineSection, root: Node) -> tuple[Topic, ...]:
    return tuple(
        Topic(
            name,
            root.line_at(("topics", name)),
            each.partitions,
            each.replication,
            each.config,
            each.external,
            each.schema_,
        )
        for name, each in sections.topics.items()
    )


def _connectors(
    found: Mapping[str, ConnectorSection], root: Node, *, is_source: bool
) -> tuple[Connector, ...]:
    section = "sources" if is_source else "sinks"
    return tuple(
        connector_of(
            name,
            each.config,
            root.line_at((section, name)),
            is_source=is_source,
            writes=each.writes,
        )
        for name, each in found.items()
    )


def _apps(
    sections: PipelineSection, root: Node, topics: Sequence[Topic], inputs: Inputs
) -> tuple[tuple[App, ...], list[Problem]]:
    apps = [
        App(
            name,
            root.line_at(("topologies", name)),
            each.app,
            each.workers,
            each.settings,
            engine=each.engine,
        )
        for name, each in sections.topologies.items()
    ]
    if not apps:
        return (), []
    # `run` creates a topic without a number of partitions with one.
    counts = {
        each.name: each.partitions or 1
        for each in topics
        if each.partitions is not None or not each.is_external
    }
    problems, planned = [each for app in apps for each in check_engine(app, root)], []
    for app, plan in zip(apps, inputs.explain(apps, counts), strict=True):
        if isinstance(plan, str):
            line = root.line_at(("topologies", app.name, "app"))
            problems.append(Problem(line, f"topologies.{app.name}: {plan}"))
            planned.append(app)
        else:
            planned.append(replace(app, plan=plan))
            for name, text in plan.wrong_settings.items():
                line = root.line_at(("topologies", app.name, "settings", name))
                problems.append(Problem(line, f"topologies.{app.name}.settings: {text}"))
    return tuple(planned), problems


def _misplaced_references(pipeline: Pipeline, root: Node) -> list[Problem]:
    """Find references where no secret may be: in values that are shown or on a command line."""
    problems = []
    for key, value in pipeline.broker.items():
        if has_reference(value):
            line = root.line_at(("broker", "settings", key))
            text = "the broker that `run` starts takes no references: write the value itself"
            problems.append(Problem(line, f"broker.settings.{key}: {text}"))
    for topic in pipeline.topics:
        for key, value in topic.config.items():
            if has_reference(value):
                line = root.line_at(("topics", topic.name, "config", key))
                problems.append(
                    Problem(
                        line,
                        f"topics.{topic.name}.config.{key} cannot be a reference: write the value "
                        "itself",
                    )
                )
    return problems
