"""Single members of both protocols, and the answers that they are given."""

from __future__ import annotations

import random
from typing import Any

from moldau.client.consumer.membership import AnyMember
from moldau.client.group.assignors import Subscription, load_assignors
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.heartbeats import HeartbeatState as ConsumerState
from moldau.client.group.member import Kind, MemberSettings, MemberSubscription
from moldau.client.group.subscription_bytes import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.errors.codes import ErrorCode
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request
from moldau.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.consumer_group_heartbeat import TopicPartitions as Part
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from moldau.protocol.messages.sync_group import SyncGroupResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

OLD, NEW = b"o" * 16, b"n" * 16

TERMS = MemberSettings("g", heartbeat_interval_s=1.0, poll_interval_s=60.0)

STATIC = MemberSettings("g", instance_id="one", heartbeat_interval_s=1.0, poll_interval_s=60.0)


def asked(member: AnyMember, now: float) -> Request:
    """What the member sends now."""
    ask = member.ready(now).ask
    assert ask is not None
    return ask.request


def change(member: AnyMember, now: float) -> tuple[Kind, tuple[TopicPartition, ...]]:
    """The user polls, and runs the next change."""
    member.on_poll(now)
    found = member.begin_change()
    assert found is not None
    member.end_change(now)
    return found.kind, found.partitions


def classic(terms: MemberSettings = TERMS, assignor: str = "range") -> ClassicConsumer:
    member = ClassicConsumer(terms, load_assignors([assignor]), random.Random(1))
    member.subscribe(MemberSubscription(frozenset(["t"])))
    member.on_poll(0.0)
    return member


def joined(
    generation: int = 1,
    *,
    skips: bool = False,
    wants: bytes | None = None,
    protocol: str = "range",
) -> Any:
    """As the leader `m` hears it, who is alone."""
    metadata = encode_subscription(Subscription(("t",))) if wants is None else wants
    return JoinGroupResponse(
        error_code=0,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader="m",
        member_id="m",
        skip_assignment=skips,
        members=[JoinGroupResponseMember(member_id="m", metadata=metadata)],
    )


def settle(
    member: ClassicConsumer,
    *,
    there: int = 2,
    has: tuple[TopicPartition, ...] = (T0, T1),
    **how: Any,
) -> None:
    """Joins as the leader, and is given something."""
    asked(member, 0.0)
    member.on_answer(joined(**how), 0.0)
    topics = member.ready(0.0).topics
    assert topics == frozenset(["t"])
    member.on_topics({"t": [frozenset()] * there} if there else {}, 0.0)
    asked(member, 0.0)
    member.on_answer(SyncGroupResponse(error_code=0, assignment=encode_assignment(has)), 0.0)
    change(member, 0.0)


def shared_again(
    member: ClassicConsumer,
    generation: int,
    now: float = 1.5,
    *,
    share: tuple[TopicPartition, ...] = (T1,),
) -> Subscription:
    """The others had a rebalance; it is back, as the leader, and t-0 is taken from it, unless its
    share is another. What it said that it owns."""
    member.on_poll(now)
    asked(member, now)
    member.on_answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now)
    request = asked(member, now)
    assert isinstance(request, JoinGroupRequest)
    member.on_answer(joined(generation, protocol="cooperative-sticky"), now)
    member.on_topics({"t": [frozenset()] * 2}, now)
    asked(member, now)
    member.on_answer(SyncGroupResponse(error_code=0, assignment=encode_assignment(share)), now)
    return decode_subscription(bytes(request.protocols[0].metadata))


def cooperative() -> ClassicConsumer:
    """Owns t-0 and t-1 since generation 1."""
    member = classic(STATIC, "cooperative-sticky")
    settle(member, protocol="cooperative-sticky")
    assert member.owned == (T0, T1)
    return member


def modern() -> ConsumerMember:
    """Owns t-0 and t-1 of the old topic, in epoch 3."""
    member = ConsumerMember(TERMS, "m", random.Random(1))
    member.subscribe(MemberSubscription(frozenset(["t"])))
    member.on_poll(0.0)
    asked(member, 0.0)
    member.on_answer(told(3, {OLD: [0, 1]}), 0.0)
    assert member.ready(0.0).ids == frozenset([OLD])
    member.on_names({OLD: "t"}, 0.0)
    assert change(member, 0.0) == (Kind.ASSIGNED, (T0, T1))
    asked(member, 0.0)
    member.on_answer(told(3), 0.0)
    assert member.state is ConsumerState.STABLE
    return member


def told(
    epoch: int, target: dict[bytes, list[int]] | None = None, error: int = 0
) -> ConsumerGroupHeartbeatResponse:
    parts = None
    if target is not None:
        parts = Assignment(
            topic_partitions=[Part(topic_id=each, partitions=target[each]) for each in target]
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=1000,
        assignment=parts,
    )
