"""A checked pipeline as plain data: topics, connectors and apps with what they read and write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Topic:
    """None means the broker's default."""

    name: str
    line: int
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    is_external: bool = False
    """Not the pipeline's own: it must exist, and is neither changed nor deleted."""


@dataclass(frozen=True, slots=True)
class Connector:
    """A source or a sink."""

    name: str
    line: int
    is_source: bool
    config: Mapping[str, str]
    reads: tuple[str, ...] = ()
    pattern: str | None = None
    """A sink's `topics.regex`."""
    writes: tuple[str, ...] = ()
    chooses_topics: bool = False
    """The config does not tell which topics a source writes."""

    @property
    def short_class(self) -> str:
        """The class without its package and its last word."""
        name = self.config.get("connector.class", "").rsplit(".", 1)[-1]
        return name.removesuffix("Connector") or name

    @property
    def group(self) -> str:
        """Of a sink's consumers."""
        return self.config.get("consumer.override.group.id") or f"connect-{self.name}"


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of an app."""

    name: str
    kind: str
    parents: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class AppPlan:
    """What `moldau streams explain --json` tells of an app."""

    app: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    makes: tuple[str, ...]
    chooses_topics: bool
    programs: tuple[tuple[Step, ...], ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class App:
    """A Streams app; `plan` is None where it could not be imported."""

    name: str
    line: int
    target: str
    workers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    plan: AppPlan | None = None

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
        """The app's id is its group."""
        return self.name if self.plan is None else self.plan.app


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The whole file."""

    name: str
    topics: tuple[Topic, ...] = ()
    sources: tuple[Connector, ...] = ()
    apps: tuple[App, ...] = ()
    sinks: tuple[Connector, ...] = ()
    broker: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)

    @property
    def connectors(self) -> tuple[Connector, ...]:
        return (*self.sources, *self.sinks)

    @property
    def writers(self) -> tuple[Connector | App, ...]:
        """What writes topics."""
        found: list[Connector | App] = [*self.sources, *self.apps]
        return tuple(found)

    @property
    def groups(self) -> tuple[str, ...]:
        """Of all that reads topics."""
        return (*(each.group for each in self.apps), *(each.group for each in self.sinks))

    def writers_of(self, topic: str) -> list[str]:
        """Names of the sources and apps that write it."""
        return [each.name for each in self.writers if topic in each.writes]

    def readers_of(self, topic: str) -> list[str]:
        """Names of the apps and sinks that read it."""
        found = [each.name for each in self.apps if topic in each.reads]
        for sink in self.sinks:
            pattern = None if sink.pattern is None else re.compile(sink.pattern)
            if topic in sink.reads or (pattern is not None and pattern.fullmatch(topic)):
                found.append(sink.name)
        return found
