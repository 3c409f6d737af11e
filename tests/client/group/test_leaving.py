"""A member whose user unsubscribes or closes: what he was given can be committed until he has given
it up, whatever the member is doing in its group just then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from moldau.client.consumer.membership import AnyMember
from moldau.client.group.assignors import Assignment, Subscription, Topics
from moldau.client.group.assignors.sticky import CooperativeStickyAssignor
from moldau.client.group.classic import ClassicMemberState
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.heartbeats import HeartbeatState as ConsumerState
from moldau.client.group.member import NOBODY, Change, Kind, MemberSettings, MemberSubscription
from moldau.client.group.subscription_bytes import encode_assignment
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.group.rebalance_notice import hears_of_a_rebalance
from tests.client.group.single_members import (
    OLD,
    STATIC,
    T0,
    T1,
    TERMS,
    asked,
    change,
    classic,
    joined,
    modern,
    settle,
    told,
)

REFUSED = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"")


def one(terms: MemberSettings = TERMS) -> ClassicConsumer:
    """It owns t-0 and t-1 since generation 1."""
    member = classic(terms, "cooperative-sticky")
    settle(member, protocol="cooperative-sticky")
    return member


def joins(member: ClassicConsumer, generation: int = 2) -> None:
    """Into the next generation, as its leader: it is to share partitions out."""
    hears_of_a_rebalance(member)
    asked(member, 1.5)
    member.on_answer(joined(generation, protocol="cooperative-sticky"), 1.5)
    assert member.state is ClassicMemberState.ASSIGNING


def shares(member: ClassicConsumer, answer: SyncGroupResponse | None = None) -> None:
    member.on_topics({"t": [frozenset()] * 2}, 1.5)
    assert isinstance(asked(member, 1.5), SyncGroupRequest)
    share = SyncGroupResponse(error_code=0, assignment=encode_assignment([T0]))
    member.on_answer(share if answer is None else answer, 1.5)


def begun(member: AnyMember) -> Change:
    found = member.begin_change()
    assert found is not None
    return found


def test_a_generation_that_has_begun_is_finished_first() -> None:
    member = one()
    before = member.identity
    joins(member)
    member.subscribe(MemberSubscription())
    assert begun(member).partitions == (T0, T1)
    assert member.is_rebalancing, "the others would wait for it"
    assert member.may_commit_later(before, T0)
    shares(member)
    assert member.state is ClassicMemberState.LEAVING
    assert member.identity == before._replace(epoch=2)
    assert member.may_commit_later(before, T0)
    assert isinstance(asked(member, 3.0), HeartbeatRequest), "it lives on until that is committed"
    member.on_answer(HeartbeatResponse(error_code=0), 3.0)
    member.end_change(3.0)
    assert isinstance(asked(member, 3.0), LeaveGroupRequest)


def test_one_that_it_has_asked_for_too() -> None:
    member = one()
    hears_of_a_rebalance(member)
    assert isinstance(asked(member, 1.5), JoinGroupRequest)
    member.subscribe(MemberSubscription())
    assert (member.state, member.identity.epoch) == (ClassicMemberState.JOINING, 1)
    member.on_answer(joined(2, protocol="cooperative-sticky"), 1.5)
    shares(member)
    assert (member.state, member.identity.epoch) == (ClassicMemberState.LEAVING, 2)
    assert change(member, 1.6) == (Kind.REVOKED, (T0, T1))


def test_but_not_one_that_it_has_not_asked_for() -> None:
    member = one()
    hears_of_a_rebalance(member)
    member.subscribe(MemberSubscription())
    assert (member.state, member.identity.epoch) == (ClassicMemberState.LEAVING, 1)


def test_a_static_one_that_waits_for_its_first_answer_leaves_by_its_instance_id() -> None:
    """The coordinator has it as a member already."""
    member = classic(replace(STATIC, leaves_when_closed=True), "range")
    member.subscribe(MemberSubscription(frozenset({"t"})))
    assert isinstance(asked(member, 0.0), JoinGroupRequest)

    member.leave(is_closing=True)
    member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), 0.1)

    said = asked(member, 5.0)
    assert isinstance(said, LeaveGroupRequest)
    (identity,) = said.members
    assert (identity.member_id, identity.group_instance_id) == ("", STATIC.instance_id)


def test_it_does_not_wait_for_a_generation_when_all_is_given_up() -> None:
    member = one()
    joins(member)
    member.subscribe(MemberSubscription())
    assert change(member, 1.6) == (Kind.REVOKED, (T0, T1))
    assert member.state is ClassicMemberState.LEAVING
    assert isinstance(asked(member, 1.6), LeaveGroupRequest)


@pytest.mark.parametrize("how", ["unsubscribes", "closes"])
def test_a_generation_that_ends_before_it_is_shared_out_is_the_one_to_commit_in(how: str) -> None:
    """The coordinator has the member in that one, until all have joined the next."""
    member = one()
    before = member.identity
    joins(member)
    if how == "closes":
        member.hold()
    else:
        member.subscribe(MemberSubscription())
    shares(member, REFUSED)
    assert member.identity == before._replace(epoch=2)
    assert member.may_commit_later(before, T0)
    assert not member.may_commit_later(member.identity, T0), "there is no other to come"
    if how == "unsubscribes":
        assert member.state is ClassicMemberState.LEAVING
        assert change(member, 1.6) == (Kind.REVOKED, (T0, T1))


@pytest.mark.parametrize("how", ["unsubscribes", "closes"])
def test_who_has_missed_a_generation_commits_nothing(how: str) -> None:
    """Others may have what it owns."""
    member = one()
    before = member.identity
    joins(member, generation=3)
    if how == "closes":
        member.hold()
    else:
        member.subscribe(MemberSubscription())
    shares(member, REFUSED)
    assert member.identity == before
    assert not member.may_commit_later(before, T0)


def test_nor_does_a_static_one_when_it_has_its_share_again() -> None:
    member = one(STATIC)
    before = member.identity
    joins(member, generation=3)
    member.subscribe(MemberSubscription())
    shares(member)
    assert member.identity == before
    assert not member.may_commit_later(before, T0)


def test_who_is_thrown_out_meanwhile_leaves_at_once() -> None:
    member = one()
    joins(member)
    member.subscribe(MemberSubscription())
    unknown = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, assignment=b"")
    shares(member, unknown)
    assert (member.is_out, member.identity) == (True, NOBODY)
    assert change(member, 1.6) == (Kind.LOST, (T0, T1))


def test_a_coordinator_that_gives_no_answer_is_asked_again() -> None:
    member = one()
    joins(member)
    member.subscribe(MemberSubscription())
    member.on_topics({"t": [frozenset()] * 2}, 1.5)
    asked(member, 1.5)
    member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), 1.5)
    assert isinstance(asked(member, 3.0), SyncGroupRequest)


def test_a_static_member_is_one_until_it_has_given_all_up() -> None:
    """It does not tell when it leaves: from then on it would be nobody."""
    member = classic(STATIC)
    settle(member)
    before = member.identity
    member.subscribe(MemberSubscription())
    assert begun(member).kind is Kind.REVOKED
    hears_of_a_rebalance(member)
    assert member.identity == before
    assert member.ready(1.5).ask is None, "it does not join any more"
    member.end_change(1.5)
    assert (member.is_out, member.identity) == (True, NOBODY)


def test_but_no_longer_than_somebody_waits_for_that() -> None:
    member = classic(STATIC)
    settle(member)
    member.subscribe(MemberSubscription())
    assert begun(member).kind is Kind.REVOKED
    member.ready(100.0)
    assert (member.is_out, member.identity) == (True, NOBODY)


class Fails(CooperativeStickyAssignor):
    """Whatever is to be shared out."""

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        raise ZeroDivisionError


@pytest.mark.parametrize("how", ["unsubscribes", "closes"])
def test_who_cannot_share_partitions_out_leaves_all_the_same(how: str) -> None:
    """Somebody else may be able to: nobody waits until a session ends."""
    member = one()
    before = member.identity
    joins(member)
    member._assignors["cooperative-sticky"] = Fails()
    with pytest.raises(ZeroDivisionError):  # which the user hears of
        member.on_topics({"t": [frozenset()] * 2}, 1.5)
    if how == "closes":
        member.hold()
    else:
        member.subscribe(MemberSubscription())
    member.on_topics({"t": [frozenset()] * 2}, 1.6)
    assert "ZeroDivisionError" in str(member.notices[-1])
    assert not member.may_commit_later(before._replace(epoch=2), T0), "no share will come"
    if how == "closes":
        member.leave(is_closing=True)
    else:
        assert change(member, 1.6) == (Kind.REVOKED, (T0, T1))
    assert isinstance(asked(member, 1.6), LeaveGroupRequest)


def test_what_is_lost_already_is_not_revoked() -> None:
    member = one()
    member.ready(100.0)
    assert member.has_change()
    member.subscribe(MemberSubscription())
    assert change(member, 100.0) == (Kind.LOST, (T0, T1))
    assert not member.has_change()


def test_who_subscribes_again_meanwhile_leaves_all_the_same_and_joins_anew() -> None:
    member = one()
    joins(member)
    member.subscribe(MemberSubscription())
    member.subscribe(MemberSubscription(frozenset(["another"])))
    shares(member)
    assert member.state is ClassicMemberState.LEAVING
    assert change(member, 1.6) == (Kind.REVOKED, (T0, T1))


def test_by_the_newer_protocol_it_hears_of_the_epoch_that_it_is_in() -> None:
    member = modern()
    before = member.identity
    asked(member, 1.0)
    member.subscribe(MemberSubscription())
    assert member.state is ConsumerState.LEAVING
    assert member.has_change()
    member.on_answer(told(before.epoch + 1, None), 1.0)
    assert member.identity == before._replace(epoch=before.epoch + 1)
    assert member.may_commit_later(before, T0)
    asked(member, 1.0)
    member.on_answer(told(before.epoch + 1, None), 1.0)
    assert member.ready(1.1).ask is None
    member.on_commit_refused(member.identity, ErrorCode.STALE_MEMBER_EPOCH)
    request = asked(member, 1.1)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == before.epoch + 1
    member.on_commit_refused(member.identity, ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.state is ConsumerState.LEAVING, "which it is about to do"


def test_by_the_newer_protocol_its_signs_of_life_tell_what_it_owns() -> None:
    """An answer was lost: it is in the epoch before, where the coordinator wants to know that."""
    member = modern()
    member.subscribe(MemberSubscription())
    assert begun(member).kind is Kind.REVOKED
    request = asked(member, 1.0)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.topic_partitions is not None
    assert [each.partitions for each in request.topic_partitions] == [[0, 1]]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_and_when_it_is_thrown_out_meanwhile_it_is_nobody(code: ErrorCode) -> None:
    member = modern()
    before = member.identity
    member.subscribe(MemberSubscription())
    asked(member, 1.0)
    member.on_answer(told(0, error=code), 1.0)
    assert (member.is_out, member.identity) == (True, NOBODY)
    assert not member.may_commit_later(before, T0)
    assert change(member, 1.0) == (Kind.LOST, (T0, T1)), "others may have them"


def test_but_not_while_something_comes_which_they_would_leave_out() -> None:
    """The coordinator would believe that nobody has it, and give it to another member at once."""
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {OLD: [0]}), 1.0)
    assert change(member, 1.0) == (Kind.REVOKED, (T1,))
    assert change(member, 1.0) == (Kind.ASSIGNED, ())
    asked(member, 1.0)
    member.on_answer(told(5, {OLD: [0, 1]}), 1.0)
    assert begun(member).partitions == (T1,)
    member.subscribe(MemberSubscription())
    request = asked(member, 2.5)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.topic_partitions is None


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_user_who_never_comes_back_keeps_no_member(kind: str, has_begun: bool) -> None:
    """He gave up to unsubscribe: what he was about to commit is not waited for any longer than for
    a poll."""
    member: ClassicConsumer | ConsumerMember = one() if kind == "classic" else modern()
    member.subscribe(MemberSubscription())
    if has_begun:
        begun(member)
    assert not is_parting(member, 1.0)
    assert not is_parting(member, 59.9)
    assert is_parting(member, 60.0)
    if has_begun:
        assert not member.has_change()
        member.end_change(61.0)
    else:
        assert change(member, 61.0) == (Kind.LOST, (T0, T1))


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_nor_does_one_who_has_waited_that_long_and_comes_back(kind: str) -> None:
    """What he gives up the next time is waited for again."""
    member: ClassicConsumer | ConsumerMember = one() if kind == "classic" else modern()
    member.subscribe(MemberSubscription())
    assert is_parting(member, 60.0)
    member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), 60.0)
    change(member, 61.0)
    member.subscribe(MemberSubscription(frozenset(["t"])))
    member.on_poll(61.0)
    assert isinstance(asked(member, 61.0), JoinGroupRequest | ConsumerGroupHeartbeatRequest)
    if isinstance(member, ClassicConsumer):
        member.on_answer(joined(5, protocol="cooperative-sticky"), 61.0)
        shares(member)
    else:
        member.on_answer(told(7, {OLD: [0]}), 61.0)
    assert change(member, 61.0)[0] is Kind.ASSIGNED
    if isinstance(member, ConsumerMember):
        asked(member, 61.0)
        member.on_answer(told(7), 61.0)
    member.subscribe(MemberSubscription())
    assert not is_parting(member, 62.0)


def is_parting(member: ClassicConsumer | ConsumerMember, now: float) -> bool:
    """Whether it leaves now; a heartbeat is answered."""
    ask = member.ready(now).ask
    if ask is None:
        return False
    request = ask.request
    if isinstance(request, HeartbeatRequest):
        member.on_answer(HeartbeatResponse(error_code=0), now)
        return False
    if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch >= 0:
        member.on_answer(told(request.member_epoch), now)
        return False
    return True
