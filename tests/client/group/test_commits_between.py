"""A commit that the coordinator refused, for it came between two generations: whether the member
may send it again in the next one, which it does only with what is its own all the while."""

from __future__ import annotations

import pytest

from moldau.client.group.classic import ClassicMemberState
from moldau.client.group.member import Kind, MemberSubscription
from moldau.client.group.subscription_bytes import encode_assignment
from moldau.errors.codes import ErrorCode
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.sync_group import SyncGroupResponse
from tests.client.group.rebalance_notice import hears_of_a_rebalance
from tests.client.group.single_members import (
    NEW,
    T0,
    T1,
    asked,
    change,
    classic,
    cooperative,
    joined,
    modern,
    settle,
    shared_again,
    told,
)

NEVER_HIS = TopicPartition("t", 7)


def test_on_its_way_from_one_generation_to_the_next() -> None:
    member = cooperative()
    before = member.identity
    hears_of_a_rebalance(member)
    assert member.may_commit_later(before, T0)
    seen = []
    for step in (
        lambda: asked(member, 1.5),
        lambda: member.on_answer(joined(2, protocol="cooperative-sticky"), 1.5),
        lambda: member.on_topics({"t": [frozenset()] * 2}, 1.5),
        lambda: asked(member, 1.5),
    ):
        step()
        seen.append(member.state)
        assert member.may_commit_later(before, T0)
        assert not member.may_commit_later(before, NEVER_HIS)
    assert seen == [
        ClassicMemberState.JOINING,
        ClassicMemberState.ASSIGNING,
        ClassicMemberState.SYNCING,
        ClassicMemberState.SYNCING,
    ]
    assert member.identity == before, "its user has not heard of another generation"


def test_what_the_next_generation_takes_from_it_until_its_user_has_given_it_up() -> None:
    member = cooperative()
    before = member.identity
    shared_again(member, generation=2)
    assert (member.state, member.identity == before) == (ClassicMemberState.STABLE, False)
    member.on_poll(1.6)
    revoking = member.begin_change()
    assert revoking is not None
    assert (revoking.kind, revoking.partitions) == (Kind.REVOKED, (T0,))
    assert [member.may_commit_later(before, where) for where in (T0, T1)] == [True, True]
    member.end_change(1.6)
    assert [member.may_commit_later(before, where) for where in (T0, T1)] == [False, True]


def test_not_what_others_may_have_by_now_though_its_user_has_not_heard_of_it() -> None:
    """1. A commit is under way, 2. there is another generation, in which it keeps what it has,
    3. it misses one, in which somebody else may have got t-0, 4. the commit is refused."""
    member = cooperative()
    before = member.identity
    shared_again(member, generation=2, share=(T0, T1))
    assert change(member, 1.6) == (Kind.ASSIGNED, ())
    shared_again(member, generation=4, now=3.0)
    seen = [member.may_commit_later(before, T0)]
    member.on_poll(3.1)
    losing = member.begin_change()
    assert losing is not None
    assert (losing.kind, losing.partitions) == (Kind.LOST, (T0,))
    seen.append(member.may_commit_later(before, T0))
    member.end_change(3.1)
    seen.append(member.may_commit_later(before, T0))
    assert seen == [False, False, False]
    assert member.may_commit_later(before, T1)


def test_not_while_its_user_has_to_give_up_what_it_owns_first() -> None:
    """Who waited then for the next generation would wait for himself: the revocation waits for the
    commits."""
    member = classic()
    settle(member)
    before = member.identity
    hears_of_a_rebalance(member)
    assert member.ready(1.5).ask is None
    assert member.state is ClassicMemberState.JOINING
    assert not member.may_commit_later(before, T0)
    assert change(member, 1.5) == (Kind.REVOKED, (T0, T1))
    assert not member.may_commit_later(before, T0), "nor afterwards"


@pytest.mark.parametrize("has_asked", [True, False])
def test_not_when_it_is_about_to_leave_unless_it_has_asked_for_the_next_one(
    has_asked: bool,
) -> None:
    member = cooperative()
    before = member.identity
    hears_of_a_rebalance(member)
    if has_asked:
        asked(member, 1.5)
    member.hold()
    assert member.may_commit_later(before, T0) is has_asked
    if has_asked:
        member.on_answer(joined(2, protocol="cooperative-sticky"), 1.5)
        assert member.may_commit_later(before, T0)


def test_not_in_the_generation_that_refused_it() -> None:
    """Nothing comes after it that is under way: the commit would be sent and refused for ever."""
    member = cooperative()
    assert not member.may_commit_later(member.identity, T0)


def test_not_as_somebody_else() -> None:
    member = cooperative()
    before = member.identity
    member.on_commit_refused(before, ErrorCode.ILLEGAL_GENERATION)
    assert not member.may_commit_later(before, T0), "it is nobody"
    assert change(member, 1.0) == (Kind.LOST, (T0, T1))
    member.on_poll(1.0)
    asked(member, 1.0)
    member.on_answer(joined(5, protocol="cooperative-sticky"), 1.0)
    member.on_topics({"t": [frozenset()] * 2}, 1.0)
    asked(member, 1.0)
    share = encode_assignment([T0, T1])
    member.on_answer(SyncGroupResponse(error_code=0, assignment=share), 1.0)
    assert change(member, 1.0) == (Kind.ASSIGNED, (T0, T1))
    assert not member.may_commit_later(before._replace(member_id="another"), T0)


def test_not_of_a_topic_that_is_not_wanted_any_more() -> None:
    member = cooperative()
    before = member.identity
    hears_of_a_rebalance(member)
    member.subscribe(MemberSubscription(frozenset(["another"])))
    member.ready(1.5)
    assert not member.may_commit_later(before, T0)
    assert change(member, 1.5) == (Kind.REVOKED, (T0, T1))
    assert not member.may_commit_later(before, T0)


def test_a_tenure_lasts_as_long_as_a_partition_is_the_users_without_a_break() -> None:
    member = cooperative()
    first = [member.tenure(where) for where in (T0, T1)]
    assert None not in first
    shared_again(member, generation=2)
    member.on_poll(1.6)
    assert member.begin_change() is not None
    assert [member.tenure(where) for where in (T0, T1)] == first, "while it is being revoked"
    member.end_change(1.6)
    assert [member.tenure(where) for where in (T0, T1)] == [None, first[1]]
    assert change(member, 1.6) == (Kind.ASSIGNED, ())

    member.on_poll(1.7)
    asked(member, 1.7)
    member.on_answer(joined(3, protocol="cooperative-sticky"), 1.7)
    member.on_topics({"t": [frozenset()] * 2}, 1.7)
    asked(member, 1.7)
    share = encode_assignment([T0, T1])
    member.on_answer(SyncGroupResponse(error_code=0, assignment=share), 1.7)
    assert change(member, 1.7) == (Kind.ASSIGNED, (T0,))
    again = [member.tenure(where) for where in (T0, T1)]
    assert again[1] == first[1]
    assert again[0] not in (None, first[0])


def test_by_the_newer_protocol_too_only_what_is_its_own() -> None:
    """A topic that was made again has its name, and is another one."""
    member = modern()
    before = member.identity
    assert member.may_commit_later(before, T0)
    assert not member.may_commit_later(before, NEVER_HIS)
    asked(member, 1.0)
    member.on_answer(told(3, {NEW: [0, 1]}), 1.0)
    member.on_names({NEW: "t"}, 1.0)
    member.on_poll(1.0)
    losing = member.begin_change()
    assert losing is not None
    assert (losing.kind, losing.partitions) == (Kind.LOST, (T0, T1))
    assert not member.may_commit_later(before, T0)
