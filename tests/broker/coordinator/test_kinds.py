"""The registry of the kinds of groups: what follows from one entry."""

from __future__ import annotations

from typing import Any, cast

import pytest

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.contract import GroupKind, GroupServices
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.kinds import (
    CLASSIC,
    CONSUMER,
    KINDS,
    Kind,
    Kinds,
    replay_member_record,
)
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket, answered
from moldau.broker.decision.context import of_node
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.share_group_log import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from tests.broker.coordinator.table import OffsetWorld

CONTEXT = of_node(1, 0)


class Queue(ClassicGroup):
    """A group of another kind, which remembers its records. (No kind of the product is missing
    here: it takes the place of one that only the log knows.)"""

    kind = GroupKind.CONSUMER
    downgrade = None

    def __init__(self, group_id: str, services: GroupServices) -> None:
        super().__init__(group_id, services)
        self.seen: list[str] = []

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        self.seen.append(f"{type(key).__name__}{'' if value else ' gone'}")


def replay(groups: Groups, key: LogKey, value: LogValue | None, now_ms: int) -> None:
    replay_member_record(groups, GroupKind.CONSUMER, ShareGroupMetadataKey, key, value)


def on_heartbeat(
    groups: Groups,
    message: ShareGroupHeartbeatRequest,
    context: object,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    record = LogRecord(ShareGroupMetadataKey(group_id=message.group_id), VALUE)
    return answered(ticket, HeartbeatResponse(error_code=0))._replace(records=(record,))


VALUE = ShareGroupMetadataValue(epoch=1, metadata_hash=0)
QUEUES = Kind(
    GroupKind.CONSUMER,
    Queue,
    (ShareGroupMetadataKey, ShareGroupMemberMetadataKey),
    replay,
    {ShareGroupHeartbeatRequest: on_heartbeat},
)


def table(kinds: Kinds) -> Groups:
    offsets = Offsets()
    groups = Groups(cast(Any, OffsetWorld({}, offsets)), kinds, offsets)
    assert groups.settle(0) is None
    return groups


def test_a_registered_kind_gets_its_records_and_its_requests() -> None:
    groups = table(Kinds((CLASSIC, QUEUES)))
    request = ShareGroupHeartbeatRequest(group_id="q", member_id="m", member_epoch=0)
    outcome = groups.on_request(request, CONTEXT, "ticket", 0)
    member = ShareGroupMemberMetadataKey(group_id="q", member_id="m")
    (record,) = outcome.records
    groups.replay(0, -1, record.key, record.value, 0)
    assert [each.group_id for each in groups] == ["q"]
    queue = groups.get("q")
    assert isinstance(queue, Queue)
    value = ShareGroupMemberMetadataValue(
        rack_id=None, client_id="", client_host="", subscribed_topic_names=[]
    )
    groups.replay(1, -1, member, value, 0)
    groups.replay(2, -1, member, None, 0)
    groups.replay(3, -1, record.key, None, 0)
    member_key = ShareGroupMemberMetadataKey.__name__
    group_key = ShareGroupMetadataKey.__name__
    assert queue.seen == [group_key, member_key, f"{member_key} gone", f"{group_key} gone"]
    assert groups.get("q") is None


def test_records_of_a_kind_that_is_not_registered_are_ignored() -> None:
    groups = table(Kinds((CLASSIC, CONSUMER)))
    groups.replay(0, -1, ShareGroupMetadataKey(group_id="q"), VALUE, 0)
    assert len(groups) == 0
    request = ShareGroupHeartbeatRequest(group_id="q", member_id="m", member_epoch=0)
    with pytest.raises(KeyError):
        groups.on_request(request, CONTEXT, "ticket", 0)


def test_each_key_and_request_belongs_to_one_kind() -> None:
    keys = [key for kind in KINDS for key in kind.keys]
    requests = [request for kind in KINDS for request in kind.requests]
    assert len(set(keys)) == len(keys)
    assert len(set(requests)) == len(requests)
    assert [kind.kind for kind in KINDS] == list(GroupKind)
    known = {GROUP_LOG.key_class(each) for each in GROUP_LOG.types()}
    assert set(CONSUMER.keys) <= known
