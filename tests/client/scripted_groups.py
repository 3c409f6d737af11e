"""Groups for the scripted cluster: one coordinator, with the models of both protocols and offsets.

Offsets are stored only for who may commit: a member in its generation or epoch, or nobody in a
group without members. `moves` makes another broker the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import response_class
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest
from tests.client.group.classic_model import ClassicModel
from tests.client.group.consumer_model import ConsumerModel

Reply = Callable[[Response], None]
SERVED = (8, 9, 10, 11, 12, 13, 14, 68)
HANDLED = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
_NOT_HERE: dict[str, dict[str, Any]] = {
    "JoinGroupRequest": {"protocol_name": "", "leader": "", "member_id": "", "members": []},
    "SyncGroupRequest": {"assignment": b""},
    "HeartbeatRequest": {},
    "LeaveGroupRequest": {},
    "ConsumerGroupHeartbeatRequest": {
        "throttle_time_ms": 0,
        "member_epoch": 0,
        "heartbeat_interval_ms": 0,
    },
}


@dataclass
class ScriptedGroups:
    """All groups; a group is of the protocol that its first member speaks."""

    cluster: Any
    coordinator: int = 1
    groups: dict[str, ClassicModel | ConsumerModel] = field(default_factory=dict)
    offsets: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    epochs: dict[tuple[str, tuple[str, int]], int] = field(default_factory=dict)
    """Of the leaders under which what is committed was read, by group and partition."""
    commits: list[tuple[str, tuple[str, int], int]] = field(default_factory=list)
    on_commit: Callable[[tuple[str, int], int], None] | None = None

    def handle(self, node_id: int, request: Any, reply: Reply) -> None:
        """Answers now or later."""
        if isinstance(request, FindCoordinatorRequest):
            reply(self._found(request))
        elif node_id != self.coordinator:
            self._not_here(request, reply)
        elif isinstance(request, OffsetCommitRequest):
            reply(self._commit(request))
        elif isinstance(request, OffsetFetchRequest):
            reply(self._fetch(request))
        else:
            self._member(request, reply)

    def _found(self, request: FindCoordinatorRequest) -> Response:
        host = self.cluster.names[self.coordinator]
        found = [
            Coordinator(
                key=key,
                node_id=self.coordinator,
                host=host,
                port=9092,
                error_code=0,
                error_message=None,
            )
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _not_here(self, request: Any, reply: Reply) -> None:
        code = ErrorCode.NOT_COORDINATOR
        if isinstance(request, OffsetCommitRequest):
            reply(_committed(request, code))
        elif isinstance(request, OffsetFetchRequest):
            group = OffsetFetchResponseGroup(
                group_id=request.groups[0].group_id, topics=[], error_code=code
            )
            reply(OffsetFetchResponse(groups=[group]))
        else:
            made: Any = response_class(type(request).spec.key)
            reply(made(error_code=code, **_NOT_HERE[type(request).__name__]))

    def _member(self, request: Any, reply: Reply) -> None:
        name = request.group_id
        if name not in self.groups:
            is_new = isinstance(request, ConsumerGroupHeartbeatRequest)
            self.groups[name] = ConsumerModel(self._topics()) if is_new else ClassicModel()
        model = self.groups[name]
        if isinstance(model, ConsumerModel):
            model.topics = self._topics()
        now = asyncio.get_running_loop().time()
        model.handle(request, reply, now)
        self._watch(model)

    def _topics(self) -> dict[str, tuple[bytes, int]]:
        return {
            name: (self.cluster.ids[name], len(logs)) for name, logs in self.cluster.topics.items()
        }

    def _watch(self, model: ClassicModel | ConsumerModel) -> None:
        deadline = model.next_deadline()
        if deadline is not None:
            loop = asyncio.get_running_loop()
            loop.call_at(deadline + 0.001, lambda: model.tick(loop.time()))

    def _commit(self, request: OffsetCommitRequest) -> Response:
        model = self.groups.get(request.group_id)
        epoch = request.generation_id_or_member_epoch
        code = ErrorCode.NONE
        if epoch < 0:
            if model is not None and model.seats:
                code = ErrorCode.UNKNOWN_MEMBER_ID
        elif model is None or request.member_id not in model.seats:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        elif not model.may_commit(request.member_id, epoch):
            is_new = isinstance(model, ConsumerModel)
            code = ErrorCode.STALE_MEMBER_EPOCH if is_new else ErrorCode.ILLEGAL_GENERATION
        if not code:
            stored = self.offsets.setdefault(request.group_id, {})
            for topic in request.topics:
                name = self.cluster.find(topic.name, topic.topic_id)
                for each in topic.partitions if name else ():
                    where = (name, each.partition_index)
                    if self.on_commit is not None:
                        self.on_commit(where, each.committed_offset)
                    stored[where] = each.committed_offset
                    self.epochs[request.group_id, where] = each.committed_leader_epoch
                    self.commits.append((request.member_id, where, each.committed_offset))
        return _committed(request, code, self.cluster)

    def _fetch(self, request: OffsetFetchRequest) -> Response:
        if not request.groups:  # as before version 8
            return self._fetch_as_before(request)
        (group,) = request.groups
        stored = self.offsets.get(group.group_id, {})
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=stored.get((name, index), -1),
                        committed_leader_epoch=self.epochs.get((group.group_id, (name, index)), -1),
                        metadata="",
                        error_code=0,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
            for name in (self.cluster.find(topic.name, topic.topic_id),)
        ]
        found = OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
        return OffsetFetchResponse(groups=[found])

    def _fetch_as_before(self, request: OffsetFetchRequest) -> Response:
        stored = self.offsets.get(request.group_id, {})
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=stored.get((topic.name, index), -1),
                            metadata="",
                            error_code=0,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )


def _committed(request: OffsetCommitRequest, code: ErrorCode, cluster: Any = None) -> Response:
    """Topics that the cluster does not have by their ids are refused."""
    here = {
        topic.topic_id: not cluster or bool(cluster.find(topic.name, topic.topic_id))
        for topic in request.topics
    }
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=code if here[topic.topic_id] else ErrorCode.UNKNOWN_TOPIC_ID,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def is_handled(request: Request) -> bool:
    """Whether it is about groups."""
    return isinstance(request, HANDLED)
