"""Read the text of a pipeline file: build a checked pipeline, and find every problem in it.

This module has no effects. Other files, the plans of apps and variables come through `Inputs`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from moldau.config.file_problems import Problem, nearest, warning
from moldau.config.yaml_tree import Node
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.pipeline.connectors import check_connector, check_worker, connector_of
from moldau.pipeline.edges import ReadSchema, check_edges
from moldau.pipeline.including import SourceFiles, read_files
from moldau.pipeline.jobs import check_job, jobs_of, with_code
from moldau.pipeline.pipeline import CHECKPOINT, App, AppPlan, Connector, Pipeline, Topic
from moldau.pipeline.queries import CheckSql, check_queries
from moldau.pipeline.references import Variables, has_reference
from moldau.pipeline.sections import ConnectorSection, PipelineSection, read_sections
from moldau.pipeline.wiring import check_wiring

_NUMBERS: Final[Mapping[str, int]] = {
    "compression.gzip.level": -1,
    "compression.lz4.level": 1,
    "compression.zstd.level": -131_072,
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 1,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 1,
    "max.decompressed.message.bytes": 1,
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "remote.copy.lag.bytes": -1,
    "remote.copy.lag.ms": -1,
    "retention.bytes": -1,
    "retention.ms": -1,
    "segment.bytes": 1_048_576,
    "segment.index.bytes": 4,
    "segment.jitter.ms": 0,
    "segment.ms": 1,
}
"""The lowest value of each setting that is a whole number."""
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    **dict.fromkeys(
        (
            "errors.deadletterqueue.group.enable",
            "preallocate",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
            "unclean.leader.election.enable",
        ),
        ("true", "false"),
    ),
}
"""The values of each setting that takes certain words only."""
_OTHERS: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.cleanable.dirty.ratio",
)
TOPIC_SETTINGS: Final = (*_NUMBERS, *_WORDS, *_OTHERS)

TARGETS: Final = "targets"
_CONNECTORS: Final = ("sources", "sinks")
_SECTIONS: Final = (
    "variables", "broker", "worker", "topics", "sources", "topologies", "jobs", "sinks",
)  # fmt: skip

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
class PipelineFile:
    """A pipeline and its problems, in the order of files and lines."""

    pipeline: Pipeline
    problems: tuple[Problem, ...]
    """Their lines count through all files."""
    files: SourceFiles

    @property
    def is_valid(self) -> bool:
        return not any(each.is_error for each in self.problems)


def read_pipeline(text: str, file: str, inputs: Inputs) -> PipelineFile:
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
    jobs = tuple(with_code(job, inputs.read_text) for job in jobs)
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
    return PipelineFile(pipeline, tuple(sorted(dict.fromkeys(problems))), files)


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
            line = root.line_at(("topologies", app.name, "app"))
            problems += [warning(line, f"topologies.{app.name}: {text}") for text in plan.misplaced]
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


def check_engine(app: App, root: Node) -> Iterator[Problem]:
    """Return what is wrong with the engine, the processes and the place of an app."""
    where = ("topologies", app.name)
    settings = (*where, "settings")
    if not app.is_on_spark:
        for name in app.settings:
            if name.startswith("spark.") or name == CHECKPOINT:
                text = f"it is for apps on Spark: leave it out, or add engine: spark to {app.name}"
                yield Problem(root.line_at((*settings, name)), f"{_named(app, name)}: {text}")
        return
    from moldau.spark.reach import is_master

    if app.workers > 1:
        text = "Spark has executors: leave it out, and give spark.master"
        yield Problem(root.line_at((*where, "workers")), f"topologies.{app.name}.workers: {text}")
    master = app.settings.get("spark.master", "local[*]")
    if not has_reference(master) and not is_master(master):
        text = (
            "this is no Spark master: use local[2], local[*], spark://host:7077, k8s://... or "
            f"yarn, not {master!r}"
        )
        yield Problem(
            root.line_at((*settings, "spark.master")), f"{_named(app, 'spark.master')}: {text}"
        )
    elif not master.startswith("local") and app.kept_checkpoint is None:
        yield warning(
            root.line_at((*settings, "spark.master")),
            f"{_named(app, 'spark.master')}: the executors must reach the pipeline's data "
            f"directory, where the checkpoint is: give a shared one as {CHECKPOINT}",
        )
    checkpoint = app.kept_checkpoint or ""
    if "://" in checkpoint.removeprefix("file://"):
        yield Problem(
            root.line_at((*settings, CHECKPOINT)),
            f"{_named(app, CHECKPOINT)}: it must be a directory that the driver and all executors "
            f"reach as a path, not {checkpoint!r}",
        )


def _named(app: App, name: str) -> str:
    return f"topologies.{app.name}.settings.{name}"


def for_target(root: Node, target: str | None) -> tuple[Node, list[Problem]]:
    """Return the file for a target, without its section of targets, and the problems with that."""
    entries = dict(root.entries())
    section = entries.pop(TARGETS, None)
    plain = Node(root.line, entries)
    found = {} if section is None else section.entries()
    problems = list(_problems(section)) if section is not None else []
    if target is None:
        return plain, problems
    chosen = found.get(target)
    if chosen is None:
        known = f"it has {', '.join(found)}" if found else "it has none"
        text = f"the file has no target {target}{nearest(target, found)} ({known})"
        return plain, [*problems, Problem(root.line, text)]
    wanted = {name: each for name, each in chosen.entries().items() if name in _SECTIONS}
    problems += _of_files(plain, chosen, target)
    return _merged(_one_form(plain), _one_form(Node(chosen.line, wanted))), problems


def _of_files(root: Node, chosen: Node, target: str) -> Iterator[Problem]:
    """Find connectors in files of their own: a target cannot change values there."""
    for section in _CONNECTORS:
        own = _entries(root, section)
        for name, each in _entries(chosen, section).items():
            if name in own and isinstance(own[name].value, str) and isinstance(each.value, dict):
                text = f"targets.{target}.{section}.{name}: its config is in a file: name another"
                yield Problem(each.line, text)


def _entries(root: Node, section: str) -> dict[str, Node]:
    return root.entries().get(section, Node(0, None)).entries()


def _one_form(root: Node) -> Node:
    """Return the sections with each connector's config under the key `config`."""
    sections = dict(root.entries())
    for section in _CONNECTORS:
        entries = dict(_entries(root, section))
        for name, each in entries.items():
            inner = each.entries()
            has_config = "config" in inner and isinstance(inner["config"].value, dict)
            if inner and not has_config and not inner.keys() <= {"writes"}:
                entries[name] = Node(each.line, {"config": each})
        if entries:
            sections[section] = Node(sections[section].line, dict(entries))
    return Node(root.line, sections)


def _problems(section: Node) -> Iterator[Problem]:
    if section.value is not None and not isinstance(section.value, dict):
        yield Problem(section.line, "targets must be a mapping of names to sections")
    for name, target in section.entries().items():
        if target.value is not None and not isinstance(target.value, dict):
            yield Problem(target.line, f"targets.{name} must be a mapping of sections")
        for key, each in target.entries().items():
            if key not in _SECTIONS:
                known = ", ".join(_SECTIONS)
                text = f"targets.{name} has no section {key}{nearest(key, _SECTIONS)}"
                yield Problem(each.line, f"{text} (known: {known})")


def _merged(one: Node, other: Node) -> Node:
    """Return both as one: mappings entry by entry, anything else from `other`."""
    if not isinstance(one.value, dict) or not isinstance(other.value, dict):
        return other
    entries = dict(one.value)
    for name, each in other.value.items():
        entries[name] = _merged(entries[name], each) if name in entries else each
    return Node(one.line, entries)


def check_topic_settings(topic: Topic, root: Node) -> list[Problem]:
    """Return the problems of a topic's `config`."""
    problems = []
    for name, value in topic.config.items():
        line = root.line_at(("topics", topic.name, "config", name))
        where = f"topics.{topic.name}.config"
        if name not in TOPIC_SETTINGS:
            known = nearest(name, TOPIC_SETTINGS)
            problems.append(warning(line, f"{where}: Kafka has no topic setting {name}{known}"))
        elif not has_reference(value) and (allowed := _allowed(name, value)) is not None:
            problems.append(Problem(line, f"{where}.{name}: {value!r} is not {allowed}"))
    return problems


def _allowed(name: str, value: str) -> str | None:
    """Return what the setting allows, if the value is something else."""
    text = value.strip()
    if name in _NUMBERS:
        try:
            is_good = int(text) >= _NUMBERS[name]
        except ValueError:
            is_good = False
        return None if is_good else f"a whole number of {_NUMBERS[name]} or more"
    if name in _WORDS:
        words = text.split(",") if name == "cleanup.policy" else [text]
        known = {each.lower() for each in _WORDS[name]}
        if all(each.strip().lower() in known for each in words):
            return None
        return f"one of {', '.join(_WORDS[name])}"
    return None
