"""The registry of the kinds of groups. A new kind of group is one more `Kind` in `KINDS`.

The table of groups (`groups`) finds here what to create, which records a kind has, and which
requests its members send. The first group of a kind imports the modules of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.contract import GroupKind
from moldau.broker.coordinator.group.groups import Groups
from moldau.deferred import dataclass
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from moldau.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from moldau.protocol.schemas.group_log import GroupMetadataKey, GroupMetadataValue
from moldau.protocol.schemas.share_group_log import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from moldau.protocol.schemas.streams_group_log import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group import contract
    from moldau.broker.coordinator.outcome import Outcome, Ticket
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.declare import LogKey, LogValue, Request

CLASSIC_KEYS: Final = (GroupMetadataKey,)
CONSUMER_KEYS: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
SHARE_KEYS: Final = (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
STREAMS_KEYS: Final = (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)


def replay_classic_record(groups: Groups, key: LogKey, value: LogValue | None, now_ms: int) -> None:
    """Apply the record of a classic group, which has only this one."""
    assert isinstance(key, GroupMetadataKey)
    assert value is None or isinstance(value, GroupMetadataValue)
    groups.replay_classic(key.group, value, now_ms)


def replay_consumer_record(
    groups: Groups, key: LogKey, value: LogValue | None, now_ms: int
) -> None:
    """Apply a record of a consumer group (KIP-848)."""
    replay_member_record(groups, GroupKind.CONSUMER, ConsumerGroupMetadataKey, key, value)


def replay_share_record(groups: Groups, key: LogKey, value: LogValue | None, now_ms: int) -> None:
    """Apply a record of a share group (KIP-932)."""
    replay_member_record(groups, GroupKind.SHARE, ShareGroupMetadataKey, key, value)


def replay_streams_record(groups: Groups, key: LogKey, value: LogValue | None, now_ms: int) -> None:
    """Apply a record of a streams group (KIP-1071)."""
    replay_member_record(groups, GroupKind.STREAMS, StreamsGroupMetadataKey, key, value)


def replay_member_record(
    groups: Groups,
    kind: GroupKind,
    group_key: type[LogKey],
    key: LogKey,
    value: LogValue | None,
) -> None:
    """Apply a record of a group that has several: its own, with `group_key`, and those of its
    members. The tombstone of its own drops the group."""
    group_id = cast(Any, key).group_id
    group = groups.group_of_record(kind, group_id, is_deleted=value is None)
    if group is None:
        return
    group.replay(key, value)
    if value is None and type(key) is group_key:
        groups.drop_of_record(group)


Make: TypeAlias = "Callable[[str, contract.GroupServices], contract.Group]"
"""Creates an empty group."""
Replay: TypeAlias = "Callable[[Groups, LogKey, LogValue | None, int], None]"
"""Applies a record of the kind to the table of groups."""
DecideRequest: TypeAlias = "Callable[[Groups, Any, RequestContext, Ticket, int], Outcome]"
"""Decides about a request of a member. The arguments are those of `Groups.on_request`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of groups."""

    kind: GroupKind
    make: Make
    keys: tuple[type[LogKey], ...]
    """The keys of its records."""
    replay: Replay
    requests: Mapping[type[Request], DecideRequest] = field(default_factory=dict)
    """The requests of its members, by class. The classic heartbeat is not among them: the API calls
    `Groups.on_heartbeat`, because it is frequent and needs no context of its request."""


def _make_consumer(group_id: str, services: contract.GroupServices) -> contract.Group:
    from moldau.broker.coordinator.group.consumer.group import ConsumerGroup

    return ConsumerGroup(group_id, services)


def _make_share(group_id: str, services: contract.GroupServices) -> contract.Group:
    from moldau.broker.coordinator.group.share.group import ShareGroup

    return ShareGroup(group_id, services)


def _make_streams(group_id: str, services: contract.GroupServices) -> contract.Group:
    from moldau.broker.coordinator.group.streams.group import StreamsGroup

    return StreamsGroup(group_id, services)


CLASSIC: Final = Kind(
    GroupKind.CLASSIC,
    ClassicGroup,
    CLASSIC_KEYS,
    replay_classic_record,
    {
        JoinGroupRequest: Groups.on_join_group,
        SyncGroupRequest: lambda groups, message, context, ticket, now_ms: groups.on_sync_group(
            message, ticket, now_ms
        ),
        LeaveGroupRequest: lambda groups, message, context, ticket, now_ms: groups.on_leave_group(
            message, ticket, now_ms
        ),
    },
)
CONSUMER: Final = Kind(
    GroupKind.CONSUMER,
    _make_consumer,
    CONSUMER_KEYS,
    replay_consumer_record,
    {ConsumerGroupHeartbeatRequest: Groups.on_consumer_group_heartbeat},
)
SHARE: Final = Kind(
    GroupKind.SHARE,
    _make_share,
    SHARE_KEYS,
    replay_share_record,
    {ShareGroupHeartbeatRequest: Groups.on_share_group_heartbeat},
)
STREAMS: Final = Kind(
    GroupKind.STREAMS,
    _make_streams,
    STREAMS_KEYS,
    replay_streams_record,
    {
        StreamsGroupHeartbeatRequest: Groups.on_streams_group_heartbeat,
        StreamsGroupTopologyDescriptionUpdateRequest: Groups.on_topology_description,
    },
)
KINDS: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)


class Kinds:
    """The kinds of groups that a coordinator serves."""

    def __init__(self, kinds: tuple[Kind, ...] = KINDS) -> None:
        self._makes = {each.kind: each.make for each in kinds}
        self.replays: dict[type[LogKey], Replay] = {
            key: each.replay for each in kinds for key in each.keys
        }
        self.requests: dict[type[Request], DecideRequest] = {
            request: decide for each in kinds for request, decide in each.requests.items()
        }

    def make(
        self, kind: GroupKind, group_id: str, services: contract.GroupServices
    ) -> contract.Group:
        return self._makes[kind](group_id, services)
