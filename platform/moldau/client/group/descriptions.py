"""An admin's view of a group, of any kind. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from moldau.client.group.subscription_bytes import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from moldau.client.group.topology import GroupTopology, SubtopologyOutline, TopicOutline
from moldau.deferred import dataclass
from moldau.errors import BadData
from moldau.link.metadata import TopicPartition
from moldau.protocol.acl_operations import AclOperation
from moldau.protocol.messages import consumer_group_describe as consumer
from moldau.protocol.messages import describe_groups as classic
from moldau.protocol.messages import share_group_describe as share
from moldau.protocol.messages import streams_group_describe as streams

SHARE_TYPE: Final = "share"
"""The type and the protocol type of share groups."""
STREAMS_TYPE: Final = "streams"
"""The type and the protocol type of streams groups."""
_CLASSIC_MEMBER = 0


class ListedGroup(NamedTuple):
    """A group; `state` and `type` are empty if the broker is too old to send them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The tasks of a member of a streams group by their names, such as `1_0`."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()
    process_id: str = ""
    """The instance of the app that the member is a thread of."""
    topology_epoch: int = -1
    client_tags: tuple[tuple[str, str], ...] = ()
    endpoint: str = ""
    """host:port at which the state of the instance can be queried; empty if nowhere."""
    target_warmup: tuple[str, ...] = ()
    """The tasks that it is to warm up."""
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How far the copies of tasks are, by name: the offset that they have come to, and the end;
    offsets of a task's changelogs are summed."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member: its names, its subscription, and its partitions (`target`: those it is to get)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] = ()
    rack: str | None = None
    epoch: int = -1
    is_classic: bool = True
    tasks: MemberTasks | None = None
    """In a streams group; its partitions are those that its active tasks read."""
    user_data: bytes | None = None
    """What its assignor says of it to the others, in a classic group."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. Epochs are -1 if the protocol has none. `protocol_type` is `consumer` for consumers
    of both protocols; Connect and others have their own."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...] = field(default=())
    epoch: int = -1
    assignment_epoch: int = -1
    authorized_operations: frozenset[AclOperation] | None = None
    """The operations that this client may do to the group; None unless requested."""
    topology: GroupTopology | None = None
    """The topology of a streams group."""


def consumer_group(told: consumer.DescribedGroup) -> GroupDescription:
    """Return the description of a group of the consumer protocol."""
    return GroupDescription(
        told.group_id,
        told.group_state,
        "consumer",
        PROTOCOL_TYPE,
        told.assignor_name,
        tuple(
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                tuple(each.subscribed_topic_names),
                each.subscribed_topic_regex or "",
                _flat(each.assignment),
                _flat(each.target_assignment),
                each.rack_id,
                each.member_epoch,
                each.member_type == _CLASSIC_MEMBER,
            )
            for each in told.members
        ),
        told.group_epoch,
        told.assignment_epoch,
    )


def share_group(told: share.DescribedGroup) -> GroupDescription:
    """Return the description of a share group."""
    return GroupDescription(
        told.group_id,
        told.group_state,
        SHARE_TYPE,
        SHARE_TYPE,
        told.assignor_name,
        tuple(
            MemberDescription(
                each.member_id,
                None,
                each.client_id,
                each.client_host,
                tuple(each.subscribed_topic_names),
                "",
                _flat(each.assignment),
                _flat(each.assignment),
                each.rack_id,
                each.member_epoch,
                is_classic=False,
            )
            for each in told.members
        ),
        told.group_epoch,
        told.assignment_epoch,
    )


def streams_group(told: streams.DescribedGroup) -> GroupDescription:
    """Return the description of a streams group."""
    topology = told.topology
    inputs = {
        each.subtopology_id: (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        )
        for each in (() if topology is None else topology.subtopologies or ())
    }
    return GroupDescription(
        told.group_id,
        told.group_state,
        STREAMS_TYPE,
        STREAMS_TYPE,
        told.assignor_name or "",
        tuple(_streams_member(each, inputs) for each in told.members),
        told.group_epoch,
        told.assignment_epoch,
        topology=None if topology is None else _topology(topology),
    )


def _topology(told: streams.Topology) -> GroupTopology:
    return GroupTopology(
        told.epoch,
        tuple(
            sorted(
                SubtopologyOutline(
                    each.subtopology_id,
                    tuple(sorted(each.source_topics)),
                    _outlines(each.repartition_source_topics),
                    tuple(sorted(each.repartition_sink_topics)),
                    _outlines(each.state_changelog_topics),
                )
                for each in told.subtopologies or ()
            )
        ),
    )


def _outlines(told: Iterable[streams.TopicInfo]) -> tuple[TopicOutline, ...]:
    return tuple(
        sorted(
            TopicOutline(
                each.name,
                tuple(sorted((config.key, config.value) for config in each.topic_configs)),
            )
            for each in told
        )
    )


def _streams_member(
    told: streams.Member, inputs: Mapping[str, tuple[str, ...]]
) -> MemberDescription:
    now, target = told.assignment, told.target_assignment
    topics = {topic for each in now.active_tasks for topic in inputs.get(each.subtopology_id, ())}
    return MemberDescription(
        told.member_id,
        told.instance_id,
        told.client_id,
        told.client_host,
        tuple(sorted(topics)),
        "",
        _read_by(now.active_tasks, inputs),
        _read_by(target.active_tasks, inputs),
        told.rack_id,
        told.member_epoch,
        is_classic=told.is_classic,
        tasks=MemberTasks(
            _names(now.active_tasks),
            _names(now.standby_tasks),
            _names(now.warmup_tasks),
            told.process_id,
            told.topology_epoch,
            tuple((each.key, each.value) for each in told.client_tags),
            _endpoint(told.user_endpoint),
            _names(target.warmup_tasks),
            _positions(told),
        ),
    )


def _endpoint(told: streams.Endpoint | None) -> str:
    if told is None:
        return ""
    return f"[{told.host}]:{told.port}" if ":" in told.host else f"{told.host}:{told.port}"


def _positions(told: streams.Member) -> dict[str, tuple[int, int]]:
    offsets, ends = (
        {f"{each.subtopology_id}_{each.partition}": each.offset for each in found or ()}
        for found in (told.task_offsets, told.task_end_offsets)
    )
    return {name: (offset, ends[name]) for name, offset in offsets.items() if name in ends}


def _read_by(
    tasks: Iterable[streams.TaskIds], inputs: Mapping[str, tuple[str, ...]]
) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, partition)
        for each in tasks
        for topic in inputs.get(each.subtopology_id, ())
        for partition in each.partitions
    )


def _names(tasks: Iterable[streams.TaskIds]) -> tuple[str, ...]:
    return tuple(
        f"{each.subtopology_id}_{partition}" for each in tasks for partition in each.partitions
    )


def _flat(told: consumer.Assignment | share.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic_name, index)
        for each in told.topic_partitions
        for index in each.partitions
    )


def classic_group(told: classic.DescribedGroup) -> GroupDescription:
    """Return the description of a classic group."""
    return GroupDescription(
        told.group_id,
        told.group_state,
        "classic",
        told.protocol_type,
        told.protocol_data,
        tuple(_member(each, told.protocol_type) for each in told.members),
    )


def _member(told: classic.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    """Return the description of a member. Only consumers' bytes are decoded; damaged ones are left
    out, the member is not."""
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
    if protocol_type == PROTOCOL_TYPE:
        try:
            if told.member_metadata:
                subscription = decode_subscription(told.member_metadata)
                topics, user_data = subscription.topics, subscription.user_data
            assignment = tuple(decode_assignment(told.member_assignment))
        except BadData:
            topics, assignment = (), ()
    return MemberDescription(
        told.member_id,
        told.group_instance_id,
        told.client_id,
        told.client_host,
        topics,
        "",
        assignment,
        assignment,
        user_data=user_data,
    )
