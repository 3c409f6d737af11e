"""Describe a checked pipeline as plain data: its topics, connectors and apps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from moldau.config.file_problems import nearest
from moldau.deferred import dataclass
from moldau.errors import BadGiven

EMBEDDED: Final = "embedded"
SPARK: Final = "spark"
CHECKPOINT: Final = "checkpoint.location"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the pipeline. None means the broker's default."""

    name: str
    line: int
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    is_external: bool = False
    """The topic is not the pipeline's own. It must exist, and is neither changed nor deleted."""
    schema: str | None = None
    """The columns of its values as DDL, or the address of a registry that has their schema."""


@dataclass(frozen=True, slots=True)
class Connector:
    """A source or sink connector, with the topics that it reads or writes."""

    name: str
    line: int
    is_source: bool
    config: Mapping[str, str]
    reads: tuple[str, ...] = ()
    pattern: str | None = None
    """A sink's `topics.regex`."""
    writes: tuple[str, ...] = ()
    chooses_topics: bool = False
    """Whether it may write topics that its config does not name."""

    @property
    def short_class(self) -> str:
        """The name of the class, without its package and without the suffix `Connector`."""
        name = self.config.get("connector.class", "").rsplit(".", 1)[-1]
        return name.removesuffix("Connector") or name

    @property
    def group(self) -> str:
        """The consumer group of a sink."""
        return self.config.get("consumer.override.group.id") or f"connect-{self.name}"

    @property
    def dead_letters(self) -> str | None:
        """The topic that a sink writes records to which it cannot process."""
        if self.is_source:
            return None
        return self.config.get("errors.deadletterqueue.topic.name", "").strip() or None

    @property
    def kept_checkpoint(self) -> str | None:
        """The directory with the checkpoint of a Spark connector that does not remove it."""
        is_removed = self.config.get("checkpoint.cleanup", "").strip().lower() == "true"
        return None if is_removed else self.config.get("checkpoint.location") or None


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a Streams app."""

    name: str
    kind: str
    parents: tuple[str, ...]
    text: str
    code: str = ""
    """A digest of its functions; empty if it has none."""


@dataclass(frozen=True, slots=True)
class AppPlan:
    """The answer of `moldau streams explain --json` for an app."""

    app: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    makes: tuple[str, ...]
    chooses_topics: bool
    programs: tuple[tuple[Step, ...], ...]
    problem: str | None
    types_read: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The formats and JSON Schemas of the values in the topics that it reads, where it declares
    them; `types_written` are likewise."""
    types_written: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    wrong_settings: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the app's settings, by name."""
    misplaced: tuple[str, ...] = ()
    """A line for each input with keys in other partitions than the app takes them to be in."""


@dataclass(frozen=True, slots=True)
class App:
    """A Streams app. `plan` is None if the app could not be imported."""

    name: str
    line: int
    target: str
    workers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    plan: AppPlan | None = None
    engine: str = EMBEDDED

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.plan is None else self.plan.reads

    @property
    def writes(self) -> tuple[str, ...]:
        return () if self.plan is None else self.plan.writes

    @property
    def chooses_topics(self) -> bool:
        return self.plan is None or self.plan.chooses_topics

    @property
    def group(self) -> str:
        """The group with the app's offsets: its id, on Spark with the suffix `-spark`."""
        name = self.name if self.plan is None else self.plan.app
        return f"{name}-spark" if self.is_on_spark else name

    @property
    def is_on_spark(self) -> bool:
        return self.engine == SPARK

    @property
    def place(self) -> str:
        """Its MODULE:APP, and where it runs if that is Spark."""
        if not self.is_on_spark:
            return self.target
        return f"{self.target}, on Spark {self.settings.get('spark.master') or 'local[*]'}"

    @property
    def kept_checkpoint(self) -> str | None:
        """The checkpoint of an app on Spark that is not in the data directory."""
        return self.settings.get(CHECKPOINT) or None if self.is_on_spark else None


@dataclass(frozen=True, slots=True)
class Job:
    """A PySpark script, or a folder of Spark Declarative Pipelines."""

    name: str
    line: int
    path: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    group: str | None = None
    """The group for which it commits offsets, if it does."""
    arguments: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    chooses_topics: bool = False
    is_folder: bool = False
    every_s: int | None = None
    """The pause after which it starts again when it has ended without an error."""
    code: str = ""
    """A digest of its script or of the spec of its folder; empty if it cannot be read."""

    @property
    def is_remote(self) -> bool:
        return self.config.get("spark.deploy") == "remote"

    @property
    def place(self) -> str:
        """The name of its script or folder, and the Spark that it runs on."""
        key, otherwise = ("spark.remote", "") if self.is_remote else ("spark.master", "local[*]")
        name = self.path.rstrip("/").rpartition("/")[2] + "/" * self.is_folder
        return f"{name}, on Spark {self.config.get(key, otherwise)}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline file."""

    name: str
    topics: tuple[Topic, ...] = ()
    sources: tuple[Connector, ...] = ()
    apps: tuple[App, ...] = ()
    sinks: tuple[Connector, ...] = ()
    broker: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()
    left_out: frozenset[str] = frozenset()
    """The parts of the file that `--select` has left out."""

    @property
    def connectors(self) -> tuple[Connector, ...]:
        return (*self.sources, *self.sinks)

    @property
    def writers(self) -> tuple[Connector | App | Job, ...]:
        """The parts that may write topics: sources, apps, jobs, and some sinks."""
        found: list[Connector | App | Job] = [*self.sources, *self.apps, *self.jobs, *self.sinks]
        return tuple(found)

    @property
    def groups(self) -> tuple[str, ...]:
        """The consumer groups of all apps, jobs and sinks."""
        of_jobs = (each.group for each in self.jobs if each.group is not None)
        return (*(each.group for each in self.apps), *of_jobs, *(each.group for each in self.sinks))

    def writers_of(self, topic: str) -> list[str]:
        """Return the names of the parts that write a topic."""
        return [each.name for each in self.writers if topic in each.writes]

    def readers_of(self, topic: str) -> list[str]:
        """Return the names of the apps, jobs and sinks that read a topic."""
        found = [each.name for each in self.apps if topic in each.reads]
        found += [each.name for each in self.jobs if topic in each.reads]
        for sink in self.sinks:
            if topic in sink.reads or _matches(sink.pattern, topic):
                found.append(sink.name)
        return found


def _matches(pattern: str | None, topic: str) -> bool:
    try:
        return pattern is not None and re.fullmatch(pattern, topic) is not None
    except re.error:
        return False  # Connect's own validation reports it


def selected(pipeline: Pipeline, names: Sequence[str]) -> Pipeline:
    """Return the pipeline with these parts alone, and the topics that they use; all of it without
    names. Raise BadGiven for a name that no part has."""
    if not names:
        return pipeline
    known = [each.name for each in pipeline.writers]
    for name in names:
        if name not in known:
            raise BadGiven(
                f"--select {name}: no part has that name{nearest(name, known)} (known: "
                f"{', '.join(known)})"
            )
    found = replace(
        pipeline,
        sources=tuple(each for each in pipeline.sources if each.name in names),
        apps=tuple(each for each in pipeline.apps if each.name in names),
        jobs=tuple(each for each in pipeline.jobs if each.name in names),
        sinks=tuple(each for each in pipeline.sinks if each.name in names),
        left_out=frozenset(known) - set(names),
    )
    if any(each.chooses_topics for each in found.writers):
        return found
    return replace(
        found,
        topics=tuple(
            each
            for each in pipeline.topics
            if found.writers_of(each.name) or found.readers_of(each.name)
        ),
    )
