"""The core of a share group's member."""

from __future__ import annotations

import random

import pytest

from moldau.client.consumer.share.member import ShareMember, ShareMemberState
from moldau.client.group.member import MemberSettings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = b"t" * 16


def joining() -> ShareMember:
    member = ShareMember(MemberSettings("g"), frozenset({"b", "a"}), "me", random.Random(1))
    member.join()
    return member


def asked(member: ShareMember, now: float) -> ShareGroupHeartbeatRequest:
    """What the member sends now."""
    ask = member.ready(now).ask
    assert ask is not None
    assert isinstance(ask.request, ShareGroupHeartbeatRequest)
    return ask.request


def answer(epoch: int, partitions: list[int] | None = None) -> ShareGroupHeartbeatResponse:
    found = None
    if partitions is not None:
        found = Assignment(
            topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=partitions)]
            if partitions
            else []
        )
    return ShareGroupHeartbeatResponse(
        error_code=0, member_epoch=epoch, heartbeat_interval_ms=5000, assignment=found
    )


def refused(code: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0)


def stable(member: ShareMember, now: float = 0.0) -> None:
    asked(member, now)
    member.on_answer(answer(1, [0, 1]), now)


def test_a_member_tells_of_other_topics_even_while_a_heartbeat_is_under_way() -> None:
    member = ShareMember(MemberSettings("g"), frozenset(), "me", random.Random(1))
    member.join()
    assert (member.ready(0.0).ask, member.ready(0.0).wake) == (None, None), "nothing to read yet"
    member.subscribe(frozenset({"a"}))
    assert asked(member, 0.0).subscribed_topic_names == ["a"]
    member.subscribe(frozenset({"a", "b"}))
    member.on_answer(answer(1, [0]), 0.0)
    assert asked(member, 0.0).subscribed_topic_names == ["a", "b"]
    member.on_answer(answer(2, [0, 1]), 0.0)
    member.subscribe(frozenset())
    member.subscribe(frozenset({"b", "a"}))
    assert member.ready(0.0).ask is None, "nothing is new"


def test_the_first_heartbeat_tells_everything_and_the_next_nothing_more() -> None:
    member = joining()
    first = asked(member, 0.0)
    assert (first.member_epoch, first.subscribed_topic_names) == (0, ["a", "b"])
    assert member.ready(0.0).ask is None, "one heartbeat at a time"
    member.on_answer(answer(1, [0, 1]), 0.0)
    assert member.target == {TOPIC: (0, 1)}
    assert member.ready(4.0).wake == 5.0
    second = asked(member, 5.0)
    assert (second.member_epoch, second.subscribed_topic_names) == (1, None)


def test_a_member_without_partitions_asks_again_soon_and_then_ever_later() -> None:
    member = joining()
    now, waits = 0.0, []
    for _ in range(12):
        asked(member, now)
        member.on_answer(answer(1, []), now)
        wake = member.ready(now).wake
        assert wake is not None
        waits.append(round(wake - now, 6))
        now = wake
    assert waits[0] < 0.1
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(5.0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_has_nothing_and_joins_again(code: ErrorCode) -> None:
    member = joining()
    stable(member)
    asked(member, 5.0)
    member.on_answer(refused(code), 5.0)
    assert (member.target, member.state) == ({}, ShareMemberState.JOINING)
    assert len(member.notices) == 1
    wake = member.ready(5.0).wake
    assert wake is not None
    again = asked(member, wake)
    assert (again.member_epoch, again.subscribed_topic_names) == (0, ["a", "b"])


def test_a_failed_heartbeat_is_sent_again_with_everything_in_it() -> None:
    member = joining()
    stable(member)
    asked(member, 5.0)
    member.on_answer(KafkaError(ErrorCode.NOT_COORDINATOR), 5.0)
    assert member.target == {TOPIC: (0, 1)}, "a coordinator that moves takes nothing away"
    wake = member.ready(5.0).wake
    assert wake is not None
    again = asked(member, wake)
    assert (again.member_epoch, again.subscribed_topic_names) == (1, ["a", "b"])


def test_an_error_that_no_retry_heals_ends_the_membership_and_is_raised_once() -> None:
    member = joining()
    asked(member, 0.0)
    member.on_answer(refused(ErrorCode.GROUP_ID_NOT_FOUND), 0.0)
    assert member.is_out
    error = member.take_error()
    assert error is not None
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert member.take_error() is None


def test_leaving_sends_the_last_epoch_even_while_a_heartbeat_is_under_way() -> None:
    member = joining()
    stable(member)
    asked(member, 5.0)
    member.leave()
    assert member.ready(5.0).ask is None
    member.on_answer(answer(2, [0]), 5.0)
    assert member.target == {}
    assert asked(member, 5.0).member_epoch == -1
    member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), 5.0)
    assert member.is_out
