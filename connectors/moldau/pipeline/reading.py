"""From the text of a pipeline file to a checked pipeline, with everything that is wrong with it.

No effects: files, apps and the outside come in through `Outside`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from moldau.errors import MoldauError
from moldau.pipeline.connectors import check_connector, connector_of
from moldau.pipeline.document import Node, parse
from moldau.pipeline.pipeline import App, AppPlan, Connector, Pipeline, Topic
from moldau.pipeline.problems import Problem
from moldau.pipeline.references import has_reference, replace_variables
from moldau.pipeline.sections import ConnectorSection, PipelineSection, read_sections
from moldau.pipeline.wiring import check_wiring

Explain = Callable[[Sequence[str], Mapping[str, int]], list[AppPlan | str]]
"""Plans of the apps with these names, given topics' partitions; a text says why there is none."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What reading needs beside the text."""

    base: str
    """The directory of the file: paths count from there."""
    read_text: Callable[[str], str]
    explain: Explain
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """A pipeline and what is wrong with it, in the order of lines."""

    pipeline: Pipeline
    problems: tuple[Problem, ...]

    @property
    def is_sound(self) -> bool:
        return not any(each.is_error for each in self.problems)


def read_pipeline(text: str, file: str, outside: Outside) -> Reading:
    """ConfigError where the text is no YAML at all; every other mistake is a problem."""
    root, problems = parse(text, file)
    root, found = replace_variables(root, outside.variables, outside.base)
    problems += found
    problems += _take_files(root, outside)
    sections, found = read_sections(root)
    problems += found
    topics = _topics(sections, root)
    sources = _connectors(sections.sources, root, is_source=True)
    sinks = _connectors(sections.sinks, root, is_source=False)
    for each in (*sources, *sinks):
        section = "sources" if each.is_source else "sinks"
        problems += check_connector(each, root.entries()[section].entries()[each.name])
    apps, found = _apps(sections, root, topics, outside)
    problems += found
    pipeline = Pipeline(
        sections.pipeline,
        topics,
        sources,
        apps,
        sinks,
        sections.broker.settings,
        sections.worker.settings,
    )
    problems += _misplaced_references(pipeline, root)
    problems += check_wiring(pipeline)
    return Reading(pipeline, tuple(sorted(dict.fromkeys(problems))))


def _take_files(root: Node, outside: Outside) -> list[Problem]:
    """A connector may be the path of its config: JSON or properties, as Connect takes it."""
    from moldau.connect.commands.files import parse_connector

    problems = []
    for section in ("sources", "sinks"):
        node = root.entries().get(section)
        entries = {} if node is None else node.entries()
        for name, entry in list(entries.items()):
            if not isinstance(entry.value, str):
                continue
            path = posixpath.join(outside.base, entry.value)
            try:
                _, config = parse_connector(path, outside.read_text(path))
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
                entries[name] = Node(entry.line, dict(found))
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
    sections: PipelineSection, root: Node, topics: Sequence[Topic], outside: Outside
) -> tuple[tuple[App, ...], list[Problem]]:
    apps = [
        App(name, root.line_at(("topologies", name)), each.app, each.workers, each.settings)
        for name, each in sections.topologies.items()
    ]
    if not apps:
        return (), []
    # A topic without a count has one partition where `run` makes it.
    counts = {
        each.name: each.partitions or 1
        for each in topics
        if each.partitions is not None or not each.is_external
    }
    problems, planned = [], []
    for app, plan in zip(
        apps, outside.explain([each.target for each in apps], counts), strict=True
    ):
        if isinstance(plan, str):
            line = root.line_at(("topologies", app.name, "app"))
            problems.append(Problem(line, f"topologies.{app.name}: {plan}"))
            planned.append(app)
        else:
            planned.append(replace(app, plan=plan))
    return tuple(planned), problems


def _misplaced_references(pipeline: Pipeline, root: Node) -> list[Problem]:
    """What is shown, or goes on a command line, cannot be a secret."""
    problems = []
    for key, value in pipeline.broker.items():
        if has_reference(value):
            line = root.line_at(("broker", "settings", key))
            text = "the broker that `run` starts takes no references: it is for trying out"
            problems.append(Problem(line, f"broker.settings.{key}: {text}"))
    for topic in pipeline.topics:
        for key, value in topic.config.items():
            if has_reference(value):
                line = root.line_at(("topics", topic.name, "config", key))
                problems.append(
                    Problem(line, f"topics.{topic.name}.config.{key} cannot be a reference")
                )
    return problems
