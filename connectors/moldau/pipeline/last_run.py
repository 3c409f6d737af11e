"""What the last `run` has left behind: its topics, connectors and topologies, for the next `plan`.

It is written when all parts run. So `plan` can compare a file with a pipeline that is stopped, and
see that the topology of an app has changed, which Kafka itself does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, field
from typing import Final, Self, TypeVar

from moldau.deferred import dataclass
from moldau.operations.topics import FoundTopic
from moldau.pipeline.data_directory import DataDirectory
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.plan import Facts, codes_of, job_facts, topology_of

T = TypeVar("T")
LAST_RUN: Final = "last_run.json"
"""Its file in the data directory."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The facts of one `run`."""

    cluster: str = ""
    """The id of its cluster, or OWN_BROKER."""
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topologies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: str, pipeline: Pipeline, facts: Facts) -> Self:
        """Return what is there now that all parts of the pipeline run."""
        topologies = {
            app.name: topology_of(app.plan) for app in pipeline.apps if app.plan is not None
        }
        own = {each.name for each in pipeline.connectors}
        connectors = {name: dict(each) for name, each in facts.connectors.items() if name in own}
        engines = {app.name: app.engine for app in pipeline.apps}
        codes = {app.name: codes_of(app.plan) for app in pipeline.apps if app.plan is not None}
        jobs = {each.name: job_facts(each) for each in pipeline.jobs}
        return cls(cluster, facts.topics, connectors, topologies, engines, codes, jobs)

    def with_parts_left_out(self, before: LastRun | None, left_out: Collection[str]) -> LastRun:
        """Return this run, and of the parts that `--select` has left out and their topics what the
        run before said, if that was on the same cluster."""
        if not left_out or before is None or before.cluster != self.cluster:
            return self

        def kept(facts: Mapping[str, T], now: Mapping[str, T]) -> dict[str, T]:
            return {**{name: each for name, each in facts.items() if name in left_out}, **now}

        return LastRun(
            self.cluster,
            {**before.topics, **self.topics},
            kept(before.connectors, self.connectors),
            kept(before.topologies, self.topologies),
            kept(before.engines, self.engines),
            kept(before.codes, self.codes),
            kept(before.jobs, self.jobs),
        )

    @classmethod
    def load(cls, data: DataDirectory) -> Self | None:
        """Return the last run of a data directory; None if it has none."""
        found = data.load_json(LAST_RUN)
        if found is None:
            return None
        topics = {name: FoundTopic(**each) for name, each in found["topics"].items()}
        newer = [
            found.get(name, {}) for name in ("engines", "codes", "jobs")
        ]  # older runs lack them
        return cls(found["cluster"], topics, found["connectors"], found["topologies"], *newer)

    def save(self, data: DataDirectory) -> None:
        """Write it to a data directory, in place of the one before."""
        data.save_json(LAST_RUN, asdict(self))
