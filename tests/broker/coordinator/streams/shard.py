"""A table of groups with the topics that streams applications need, and its members.

at = Shard()
at.topics.put("lines", 2)
a = at.member("a")
a.join(); at.create_internal_topics(); a.beat(); a.tasks
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.streams.changelog_ends import FindChangelogEnds, on_found
from moldau.broker.coordinator.group.streams.group import StreamsGroup
from moldau.broker.coordinator.group.streams.internal_topics import (
    CreateInternalTopics,
    on_created,
)
from moldau.broker.coordinator.group.streams.validation import check_heartbeat
from moldau.broker.coordinator.outcome import Outcome
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings import ResourceSettings, group_settings
from moldau.errors.codes import KafkaError
from moldau.protocol.messages import streams_group_heartbeat as messages
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from tests.broker.coordinator.streams.topologies import WORD_COUNT, Topics
from tests.broker.coordinator.table import Table

GROUP = "app"
ROLES = ("active", "standby", "warmup")


class Shard(Table):
    """A table with topics. Effects that create topics are kept until `create_internal_topics`, and
    those that ask for the ends of changelogs until `tell_ends`."""

    def __init__(self, **named: object) -> None:
        self.topics = Topics()
        self.own: dict[str, str] = {}
        self.denied: frozenset[str] = frozenset()
        self.wanted: list[CreateInternalTopics] = []
        self.asked: list[FindChangelogEnds] = []
        super().__init__(**{"group_streams_initial_rebalance_delay_ms": 0, **named})

    def _empty(self) -> Groups:
        groups = super()._empty()
        services = cast(Any, groups.services)
        services.cluster = self.topics
        services.group_settings = self._group_settings
        services.creatable = self._creatable
        return groups

    def _group_settings(self, group_id: str) -> ResourceSettings:
        return group_settings(group_id, self.own, self.groups.services.settings)

    def _creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return frozenset(topics) - self.denied

    def member(self, member_id: str, process: str = "", **more: Any) -> Member:
        return Member(self, member_id, process or f"process-of-{member_id}", **more)

    @property
    def group(self) -> StreamsGroup:
        return cast(StreamsGroup, self.groups.get(GROUP))

    def ask_for(
        self, message: StreamsGroupHeartbeatRequest, version: int = 0
    ) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat as the API does."""
        check_heartbeat(message)
        self.heard.clear()
        outcome = self.groups.on_request(message, self.context(version), "beat", self.now_ms)
        for each in outcome.effects:
            if isinstance(each, FindChangelogEnds):
                self.asked.append(each)
            else:
                self.wanted.append(cast(CreateInternalTopics, each))
        self.do(outcome)
        return cast(StreamsGroupHeartbeatResponse, self.heard["beat"])

    def create_internal_topics(self) -> None:
        """Create what the group has asked for."""
        created = {each.name: each for effect in self.wanted for each in effect.topics}
        self.wanted.clear()
        for name, topic in created.items():
            self.topics.put(name, topic.num_partitions)
        self.do(on_created(self.groups, GROUP, created, {}))
        self.change_topics(created)

    def tell_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Answer what the group has asked for: partitions that are not here have no leader."""
        asked = {
            (name, each)
            for one in self.asked
            for name in one.partitions
            for each in one.partitions[name]
        }
        self.asked.clear()
        found = {place: ends[place] for place in asked if place in ends}
        self.do(on_found(self.groups, GROUP, found, self.now_ms))

    def refuse_internal_topics(self, errors: Mapping[str, str]) -> None:
        self.wanted.clear()
        self.do(on_created(self.groups, GROUP, (), errors))

    def change_topics(self, names: Iterable[str]) -> None:
        for outcome in self.groups.on_topics_changed(set(names), (), self.now_ms):
            self.do(outcome)

    def state_name(self) -> str:
        return self.group.state_name


class Member:
    """A member that does what the broker says: it gives up tasks at once, and reports them."""

    def __init__(
        self,
        shard: Shard,
        member_id: str,
        process: str,
        topology: messages.Topology = WORD_COUNT,
        **more: Any,
    ) -> None:
        """`more`: an endpoint, an instance_id, tags, and the version of its requests."""
        endpoint: tuple[str, int] | None = more.pop("endpoint", None)
        instance_id: str | None = more.pop("instance_id", None)
        self.tags: Mapping[str, str] = more.pop("tags", {})
        self.version: int = more.pop("version", 0)
        assert not more, more
        self.shard = shard
        self.instance_id = instance_id
        self.member_id = member_id
        self.process = process
        self.topology = topology
        self.endpoint = endpoint
        self.epoch = 0
        self.endpoint_epoch = -1
        self.tasks: dict[str, dict[str, list[int]]] = {role: {} for role in ROLES}
        self.last: StreamsGroupHeartbeatResponse | None = None

    def request(self, epoch: int, **more: Any) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            instance_id=self.instance_id,
            **more,
        )

    def join(self, **more: Any) -> StreamsGroupHeartbeatResponse:
        host = self.endpoint
        given: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": self.topology,
            "process_id": self.process,
            "client_tags": [messages.KeyValue(key=key, value=self.tags[key]) for key in self.tags],
            "user_endpoint": host and messages.Endpoint(host=host[0], port=host[1]),
            **{f"{role}_tasks": [] for role in ROLES},
        }
        self.tasks = {role: {} for role in ROLES}
        return self._ask(self.request(0, **(given | more)))

    def beat(self, **more: Any) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat with the tasks that it has."""
        given = {f"{role}_tasks": self._owned(role) for role in ROLES}
        return self._ask(self.request(self.epoch, **(given | more)))

    def stay_silent_about_tasks(self) -> StreamsGroupHeartbeatResponse:
        return self._ask(self.request(self.epoch))

    def leave(self, epoch: int = -1, **more: Any) -> StreamsGroupHeartbeatResponse:
        return self.shard.ask_for(self.request(epoch, **more))

    def report(self, offsets: Mapping[str, int], ends: Mapping[str, int] | None = None) -> None:
        """Send a heartbeat with the offsets of tasks such as `1_0`, and the ends of their logs."""
        given = {"task_offsets": task_offsets(offsets)}
        if ends is not None:
            given["task_end_offsets"] = task_offsets(ends)
        self.beat(**given)

    @property
    def active(self) -> dict[str, list[int]]:
        return self.tasks["active"]

    @property
    def standby(self) -> dict[str, list[int]]:
        return self.tasks["standby"]

    @property
    def warmup(self) -> dict[str, list[int]]:
        return self.tasks["warmup"]

    def _ask(self, message: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        return self._heard(self.shard.ask_for(message, self.version))

    @property
    def statuses(self) -> dict[int, str]:
        assert self.last is not None
        return {each.status_code: each.status_detail for each in self.last.status or ()}

    def _owned(self, role: str) -> list[messages.TaskIds]:
        tasks = self.tasks[role]
        return [messages.TaskIds(subtopology_id=each, partitions=tasks[each]) for each in tasks]

    def _heard(self, response: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
        self.last = response
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        for role in ROLES:
            told = getattr(response, f"{role}_tasks")
            if told is not None:
                self.tasks[role] = {each.subtopology_id: each.partitions for each in told}
        return response


def task_offsets(offsets: Mapping[str, int]) -> list[messages.TaskOffset]:
    """Offsets by names of tasks such as `1_0`, as a request has them."""
    found = []
    for name, offset in offsets.items():
        subtopology_id, _, partition = name.rpartition("_")
        found.append(
            messages.TaskOffset(
                subtopology_id=subtopology_id, partition=int(partition), offset=offset
            )
        )
    return found


def until_stable(shard: Shard, *members: Member, beats: int = 12) -> None:
    """Send heartbeats of all members, in turn, until the group is stable."""
    for _ in range(beats):
        if shard.state_name() == "Stable":
            return
        for member in members:
            shard.now_ms += 500
            member.beat()
    assert shard.state_name() == "Stable"


def ready(**named: object) -> Shard:
    """A shard with all topics of the word count, for two tasks of each subtopology."""
    shard = Shard(**named)
    for name in ("lines", "app-count-repartition", "app-count-changelog"):
        shard.topics.put(name, 2)
    return shard


def outcome_of(error: KafkaError) -> Outcome:
    return Outcome(answers=(("beat", error),))
