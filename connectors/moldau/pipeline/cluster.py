"""Read and change a Kafka cluster for a pipeline: its topics and the progress of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from moldau.cli.plans import Action, PlanStep
from moldau.client.admin.configs import ConfigSource, Resource, ResourceType
from moldau.client.sync import EARLIEST, LATEST, Admin, KafkaError, NewTopic, TopicPartition
from moldau.pipeline.data_directory import RunState
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.plan import Facts, Plan, TopicFacts
from moldau.pipeline.settled import Offsets
from moldau.pipeline.status import GroupStatus
from moldau.pipeline.worker import ConnectApi
from moldau.runtime.node_processes import pause_s
from moldau.runtime.real import RealRuntime

GROUP_EMPTY_S: Final = 20.0
"""A stopped consumer leaves its group within this time."""
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Existing:
    """The names of all topics and groups of a cluster."""

    topics: frozenset[str]
    groups: frozenset[str]


class Cluster:
    """A connection to one Kafka cluster. Use it in a `with` block, which closes it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._admin = Admin(dict(settings))
        self._admin.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close()

    def id(self) -> str:
        """Return the id of the cluster."""
        return self._admin.describe_cluster().cluster_id or "unknown"

    def existing(self) -> Existing:
        """Return the names of all topics and groups."""
        return Existing(
            frozenset(each.name for each in self._admin.list_topics()),
            frozenset(each.group_id for each in self._admin.list_groups()),
        )

    def facts(self, pipeline: Pipeline, connect: ConnectApi | None, state: RunState) -> Facts:
        """Return which of the pipeline's topics, connectors and apps exist, and their settings.

        `state` tells which connectors `run` has made. Without `connect` they count as existing."""
        existing = {each.name: each for each in self._admin.list_topics()}
        topics = {}
        for topic in pipeline.topics:
            found = existing.get(topic.name)
            if found is not None:
                replicas = len(found.partitions[0].replicas) if found.partitions else 0
                config = self._topic_config(topic.name) if topic.config else {}
                topics[topic.name] = TopicFacts(len(found.partitions), replicas, config)
        groups = {each.group for each in pipeline.apps}
        progress = self.progress(groups)
        running = {
            name for name, each in progress.items() if each.state not in ("Empty", "Dead", "EMPTY")
        }
        connectors = {} if connect is None else connect.configs()
        made = frozenset(state.connectors)
        return Facts(
            topics,
            connectors,
            frozenset(running),
            made if connect is None else made & connectors.keys(),
            state.is_own_broker,
        )

    def _topic_config(self, topic: str) -> dict[str, str]:
        """Return the settings that are set for this topic, without defaults."""
        entries = self._admin.describe_configs(Resource(ResourceType.TOPIC, topic))
        return {
            each.name: each.value
            for each in entries
            if each.source is ConfigSource.TOPIC and each.value is not None
        }

    def apply_topics(self, plan: Plan) -> list[PlanStep]:
        """Create and change the topics of a plan. Return the steps of the new ones."""
        made = []
        for step in plan.steps:
            if step.kind != "topic":
                continue
            if step.action is Action.CREATE:
                self._admin.create_topic(_new_topic(step))
                made.append(step)
            elif step.action is Action.UPDATE:
                self._update_topic(step)
        return made

    def _update_topic(self, step: PlanStep) -> None:
        changed = {each.what: each.after for each in step.changes if each.after is not None}
        partitions = changed.pop("partitions", None)
        if partitions is not None:
            self._admin.create_partitions(step.name, int(partitions))
        if changed:
            self._admin.alter_configs(Resource(ResourceType.TOPIC, step.name), set_to=changed)

    def progress(self, groups: Iterable[str]) -> dict[str, GroupStatus]:
        """Return the progress of those groups that exist."""
        wanted = sorted(set(groups))
        if not wanted:
            return {}
        found = {}
        for name, each in self._admin.groups_progress(wanted).items():
            if isinstance(each, KafkaError):
                continue
            committed = sum(
                part.committed.offset for part in each.partitions if part.committed is not None
            )
            lags = [
                lag_of(0 if part.committed is None else part.committed.offset, part.end)
                for part in each.partitions
            ]
            lag = sum(lags) if lags else None
            found[name] = GroupStatus(str(each.group.state), lag, committed)
        return found

    def offsets(self, pipeline: Pipeline) -> Offsets:
        """Return the ends of the pipeline's topics and of those that its apps make, and what the
        groups have committed."""
        names = {each.name for each in pipeline.topics}
        names |= {topic for app in pipeline.apps if app.plan for topic in app.plan.makes}
        partitions = [
            TopicPartition(topic.name, each.index)
            for topic in self._admin.list_topics()
            if topic.name in names
            for each in topic.partitions
        ]
        begins, ends = (
            {
                (where.topic, where.partition): found.offset
                for where, found in self._admin.list_offsets(
                    dict.fromkeys(partitions, which)
                ).items()
            }
            for which in (EARLIEST, LATEST)
        )
        committed = {
            name: {
                (part.where.topic, part.where.partition): part.committed.offset
                for part in each.partitions
                if part.committed is not None
            }
            for name, each in self._admin.groups_progress(sorted(set(pipeline.groups))).items()
            if not isinstance(each, KafkaError)
        }
        return Offsets(begins, ends, committed)

    def delete(self, topics: Iterable[str], groups: Iterable[str]) -> list[str]:
        """Delete topics and groups. Return a line for each one that could not be deleted.

        One that does not exist is no failure. A group whose members are still leaving it is tried
        again for GROUP_EMPTY_S."""
        existing = {each.name for each in self._admin.list_topics(internal=False)}
        problems = []
        to_delete = [each for each in topics if each in existing]
        for name, error in (self._admin.delete_topics(to_delete) if to_delete else {}).items():
            if error is not None:
                problems.append(f"topic {name}: {error}")
        return problems + self._delete_groups(list(groups))

    def _delete_groups(self, groups: list[str]) -> list[str]:
        clock = RealRuntime("pipeline").clock
        until = clock.monotonic() + GROUP_EMPTY_S
        problems = []
        while groups:
            is_last = clock.monotonic() >= until
            failed = {
                name: error
                for name, error in self._admin.delete_groups(groups).items()
                if error is not None and error.code.name != "GROUP_ID_NOT_FOUND"
            }
            groups = [
                name
                for name, error in failed.items()
                if error.code.name == "NON_EMPTY_GROUP" and not is_last
            ]
            problems += [
                f"group {name}: {error}" for name, error in failed.items() if name not in groups
            ]
            if groups:
                pause_s(_POLL_S)
        return problems


def lag_of(committed: int, end: int | None) -> int:
    """Return how many records are left to read: 0 if the topic was made again and is shorter."""
    return max(0, (end or 0) - committed)


def _new_topic(step: PlanStep) -> NewTopic:
    values = {each.what: each.after or "" for each in step.changes}
    partitions = int(values.pop("partitions"))
    replication = int(values.pop("replication", "-1"))
    return NewTopic(step.name, partitions, replication, values)
