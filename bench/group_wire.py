"""Ten thousand members of a thousand groups over plain sockets: what a steady coordinator costs.

Each member has its own connection, as clients do. Once a group is formed, its members only send
heartbeats and now and then commit an offset. Those requests are encoded beforehand, and only the
error code of an answer is read, so that the measuring side keeps up on one core.

Invariants: requests are spread evenly over time; any error ends the measurement, and so do late
answers, whichever side is too slow.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Final, TypeVar, cast

from bench.peer_brokers import HOST
from bench.wire import request_bytes
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid, format_uuid
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.schemas.versioned import encode_versioned

GROUPS: Final = 1000
MEMBERS_A_GROUP: Final = 10
TOPIC: Final = "steady"
"""A topic with a partition for each member of a group."""

CLASSIC_HEARTBEAT_SECONDS: Final = 3.0
CONSUMER_HEARTBEAT_SECONDS: Final = 5.0
COMMIT_SECONDS: Final = 5.0
"""The default interval of clients."""

LATE_SECONDS_MAX: Final = 15.0
ANSWER_SECONDS_MAX: Final = 60.0

_SIZE: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")
_FRAME_START_BYTES: Final = 4 + 4 + 1  # size, correlation id, no tags
# After the throttle time; for a commit, after one topic with its name and one partition's number.
_BEAT_ERROR_AT: Final = _FRAME_START_BYTES + 4
_COMMIT_ERROR_AT: Final = _FRAME_START_BYTES + 4 + 1 + 1 + len(TOPIC) + 1 + 4
_NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_JOIN_VERSION, _SYNC_VERSION, _BEAT_VERSION = 9, 5, 4
_CONSUMER_BEAT_VERSION, _COMMIT_VERSION, _FIND_VERSION = 1, 8, 4
_FORMED_AT_ONCE: Final = 50

R = TypeVar("R", bound=Response)


class Member(asyncio.Protocol):
    """A member with one connection and, unless it is paced, at most one request in flight."""

    def __init__(self, group_id: str, number: int) -> None:
        self.group_id = group_id
        self.number = number
        self.member_id = ""
        self.epoch = 0
        self.beat = b""
        self.commit = b""
        self.owned: list[int] = []
        self.is_in = False
        self.error: str | None = None
        self.answered = 0
        self.idle = asyncio.Event()
        """Set when no request is in flight."""
        self.idle.set()
        self._client = ClientConnection("bench")
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._expected: deque[int] = deque()
        """The position of the error code in each answer that is still to come."""

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.error = self.error or f"the broker closed the connection: {error}"
        self.idle.set()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4 and len(received) >= 4 + _SIZE.unpack_from(received)[0]:
            end = 4 + _SIZE.unpack_from(received)[0]
            frame = bytes(received[:end])
            del received[:end]
            if self._answer is not None:
                answer, self._answer = self._answer, None
                answer.set_result(frame)
            else:
                self._look_at(frame)

    def _look_at(self, frame: bytes) -> None:
        """Check the error code of an answer to a paced request."""
        (code,) = _ERROR_CODE.unpack_from(frame, self._expected.popleft())
        self.answered += 1
        if not self._expected:
            self.idle.set()
        if code:
            self.error = f"{ErrorCode(code).name} for {self.member_id} of {self.group_id}"

    async def ask(self, request: Request, version: int, kind: type[R]) -> R:
        """Send a request, return the decoded answer. Retry while the coordinator is not ready."""
        while True:
            self._answer = asyncio.get_running_loop().create_future()
            self.transport.write(b"".join(map(bytes, self._client.send(request, version))))
            frame = await asyncio.wait_for(self._answer, ANSWER_SECONDS_MAX)
            found = self._client.receive(bytearray(frame[4:])).response
            assert isinstance(found, kind)
            if getattr(found, "error_code", 0) not in _NOT_READY:
                return found
            await asyncio.sleep(0.1)

    # Coming in

    async def join_classic(self) -> None:
        """Join and wait for the assignment; the leader gives each member one partition."""
        self.is_in = False
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=[TOPIC]), 1)
        while True:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            )
            joined = await self.ask(request, _JOIN_VERSION, JoinGroupResponse)
            self.member_id = joined.member_id
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                continue
            assert not joined.error_code, ErrorCode(joined.error_code).name
            self.epoch = joined.generation_id
            sync = SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.epoch,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=_shares(joined) if joined.leader == self.member_id else [],
            )
            synced = await self.ask(sync, _SYNC_VERSION, SyncGroupResponse)
            if synced.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                assert not synced.error_code, ErrorCode(synced.error_code).name
                self.is_in = True
                return

    async def beat_classic(self) -> None:
        """Send one heartbeat. Join again if the answer demands it."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.epoch, member_id=self.member_id
        )
        code = (await self.ask(request, _BEAT_VERSION, HeartbeatResponse)).error_code
        if code:
            assert code == ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode(code).name
            await self.join_classic()
        self.beat = request_bytes(request, _BEAT_VERSION)

    async def step_consumer(self, topic_id: Uuid) -> bool:
        """Send a full heartbeat of the new protocol, as to join. Return whether the answer changed
        nothing and the member has its one partition."""
        owned = [TopicPartitions(topic_id=topic_id, partitions=self.owned)] if self.owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=owned,
        )
        answer = await self.ask(request, _CONSUMER_BEAT_VERSION, ConsumerGroupHeartbeatResponse)
        assert not answer.error_code, answer.error_message
        before = self.epoch, self.owned
        self.epoch = answer.member_epoch
        assert answer.assignment is not None
        parts = answer.assignment.topic_partitions
        self.owned = sorted(parts[0].partitions) if parts else []
        return before == (self.epoch, self.owned) and len(self.owned) == 1

    # The steady life

    def settle(self, *, is_consumer: bool) -> None:
        """Encode the two requests that the member sends from now on."""
        if is_consumer:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
            )
            self.beat = request_bytes(request, _CONSUMER_BEAT_VERSION)
        place = OffsetCommitRequestPartition(
            partition_index=self.number, committed_offset=1000, committed_metadata=""
        )
        commit = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[place])],
        )
        version = _COMMIT_VERSION + is_consumer  # member epochs since version 9
        self.commit = request_bytes(commit, version)

    def send_beat(self) -> None:
        """Send one heartbeat."""
        self._expect(_BEAT_ERROR_AT)
        self.transport.write(self.beat)

    def send_commit(self) -> None:
        """Send one commit."""
        self._expect(_COMMIT_ERROR_AT)
        self.transport.write(self.commit)

    def _expect(self, error_at: int) -> None:
        self._expected.append(error_at)
        self.idle.clear()


def _shares(joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
    return [
        SyncGroupRequestAssignment(
            member_id=each.member_id,
            assignment=encode_versioned(
                ConsumerProtocolAssignment(
                    assigned_partitions=[TopicPartition(topic=TOPIC, partitions=[number])]
                ),
                1,
            ),
        )
        for number, each in enumerate(joined.members)
    ]


class Steady:
    """All members, once their groups are formed."""

    def __init__(self, members: Sequence[Member], heartbeat_seconds: float) -> None:
        self.members = members
        self._heartbeat_seconds = heartbeat_seconds

    async def live(self, seconds: float, *, commits_too: bool = True) -> float:
        """Keep the pace for that time, wait for the last answers, and return answers a second."""
        before = sum(each.answered for each in self.members)
        count = len(self.members)
        start = time.perf_counter()
        beats = commits = 0
        while (now := time.perf_counter() - start) < seconds:
            beats = self._send(beats, now / self._heartbeat_seconds * count, is_commit=False)
            if commits_too:
                commits = self._send(commits, now / COMMIT_SECONDS * count, is_commit=True)
            await asyncio.sleep(0.001)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            for each in self.members:
                await each.idle.wait()
        elapsed = time.perf_counter() - start
        errors = [each.error for each in self.members if each.error is not None]
        assert not errors, f"{len(errors)} members failed, as: {errors[0]}"
        late = elapsed - seconds
        assert late < LATE_SECONDS_MAX, f"the last answer came {late:.1f} s after its time"
        return (sum(each.answered for each in self.members) - before) / elapsed

    def _send(self, sent: int, due: float, *, is_commit: bool) -> int:
        members = self.members
        for number in range(sent, int(due)):
            member = members[number % len(members)]
            if is_commit:
                member.send_commit()
            else:
                member.send_beat()
        return max(sent, int(due))

    def close(self) -> None:
        """Close all connections. No member leaves its group."""
        for each in self.members:
            each.transport.abort()


async def formed(
    port: int, name: str, topic_id: Uuid, *, is_consumer: bool, count: int = GROUPS
) -> Steady:
    """Form that many groups, classic or of the new protocol, and return their members."""
    groups: list[list[Member]] = []
    for at in range(count):
        connecting = (_connected(port, f"{name}-{at}", each) for each in range(MEMBERS_A_GROUP))
        groups.append(await asyncio.gather(*connecting))
    find = FindCoordinatorRequest(coordinator_keys=["any"])  # it makes the topic of groups
    await groups[0][0].ask(find, _FIND_VERSION, FindCoordinatorResponse)
    form = partial(_form_consumer, topic_id) if is_consumer else _form_classic
    for start in range(0, count, _FORMED_AT_ONCE):
        await asyncio.gather(*map(form, groups[start : start + _FORMED_AT_ONCE]))
    # One member of each group, then the next one: a group's members do not beat in unison.
    members = [each for row in zip(*groups, strict=True) for each in row]
    for each in members:
        each.settle(is_consumer=is_consumer)
    gc.collect()
    gc.freeze()  # or the collector holds up this side for a while, again and again
    every = CONSUMER_HEARTBEAT_SECONDS if is_consumer else CLASSIC_HEARTBEAT_SECONDS
    return Steady(members, every)


async def _connected(port: int, group_id: str, number: int) -> Member:
    loop = asyncio.get_running_loop()
    _, member = await loop.create_connection(lambda: Member(group_id, number), HOST, port)
    return member


async def _form_classic(group: Sequence[Member]) -> None:
    """Form a group. Its members send heartbeats while others join: a rebalance waits for all."""

    def is_whole() -> bool:
        return all(each.is_in for each in group) and len({each.epoch for each in group}) == 1

    async def come_in(member: Member) -> None:
        await member.join_classic()
        while not is_whole():
            await asyncio.sleep(0.05)
            await member.beat_classic()

    await asyncio.gather(*map(come_in, group))
    await asyncio.gather(*(each.beat_classic() for each in group))


async def _form_consumer(topic_id: Uuid, group: Sequence[Member]) -> None:
    for each in group:
        each.member_id = format_uuid(os.urandom(16))
        await each.step_consumer(topic_id)
    while not all([await each.step_consumer(topic_id) for each in group]):
        pass
