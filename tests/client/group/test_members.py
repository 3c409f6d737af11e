"""Single moments in the life of a member that a simulation of the whole has found to go wrong."""

from __future__ import annotations

import random

import pytest

from moldau.client.group.assignors import Subscription
from moldau.client.group.classic import ClassicMemberState as ClassicState
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.heartbeats import HeartbeatState as ConsumerState
from moldau.client.group.member import NOBODY, Kind, MemberSubscription
from moldau.client.group.subscription_bytes import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.errors import BadData
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.sync_group import SyncGroupResponse
from tests.client.group.single_members import (
    NEW,
    OLD,
    STATIC,
    T0,
    T1,
    TERMS,
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

# Classic.


def test_who_gives_everything_up_before_it_leaves_lives_on_and_does_not_spin() -> None:
    member = classic()
    settle(member)
    member.subscribe(MemberSubscription())
    wake = member.ready(0.5).wake
    assert wake is not None
    assert wake > 0.5
    assert isinstance(asked(member, 1.5), HeartbeatRequest)
    member.on_answer(HeartbeatResponse(error_code=0), 1.5)
    assert member.state is ClassicState.LEAVING
    late = member.ready(50.0).ask
    assert late is not None
    assert change(member, 50.0) == (Kind.REVOKED, (T0, T1))


def test_an_answer_to_who_a_static_member_was_before_counts_no_more() -> None:
    member = classic(STATIC)
    asked(member, 0.0)
    member.on_answer(joined(), 0.0)
    member.on_topics({"t": [frozenset()] * 2}, 0.0)
    asked(member, 0.0)  # its share
    member.subscribe(MemberSubscription())
    assert member.is_out
    member.subscribe(MemberSubscription(frozenset(["t"])))
    member.on_poll(0.1)
    assert member.state is ClassicState.JOINING
    member.on_answer(SyncGroupResponse(error_code=0, assignment=encode_assignment([T0])), 0.2)
    assert member.state is ClassicState.JOINING
    assert not member.has_change()


def test_a_static_leader_that_is_back_looks_whether_partitions_came_meanwhile() -> None:
    member = classic(STATIC)
    settle(member, there=3, skips=True)
    assert isinstance(asked(member, 0.1), DescribeGroupsRequest)
    share = encode_assignment([T0, T1])
    described = DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id="m",
                client_id="",
                client_host="",
                member_metadata=b"",
                member_assignment=share,
            )
        ],
    )
    member.on_answer(DescribeGroupsResponse(groups=[described]), 0.1)
    assert member.state is ClassicState.JOINING


def test_a_static_leader_that_is_back_rests_when_all_is_shared_out_and_watches_on() -> None:
    member = classic(STATIC)
    settle(member, skips=True)
    asked(member, 0.1)
    member.on_answer(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED), 0.1)
    assert member.identity != NOBODY, "who may not look goes on without"
    assert member.topics_of_interest == {"t"}
    member.on_metadata({"t": [frozenset()] * 3})
    assert member.state is ClassicState.JOINING


def test_a_leader_waits_for_a_topic_that_is_not_there() -> None:
    member = classic()
    settle(member, there=0, has=())
    assert member.topics_of_interest == {"t"}
    member.on_metadata({"t": [frozenset()]})
    assert member.state is ClassicState.JOINING


def test_before_it_has_its_share_a_member_commits_as_in_the_generation_before() -> None:
    member = classic()
    settle(member, generation=1)
    asked(member, 1.5)
    member.on_answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 1.5)
    assert member.ready(1.5).ask is None, "the user gives up first"
    assert change(member, 1.5) == (Kind.REVOKED, (T0, T1))
    asked(member, 1.5)
    member.on_answer(joined(generation=5), 1.5)
    assert (member.generation, member.identity.epoch) == (5, 1)
    member.on_topics({"t": [frozenset()] * 2}, 1.5)
    asked(member, 1.5)
    member.on_answer(SyncGroupResponse(error_code=0, assignment=encode_assignment([T0])), 1.5)
    assert member.identity.epoch == 5


def test_what_the_next_generation_takes_from_a_member_is_its_own_until_it_is_revoked() -> None:
    member = cooperative()
    shared_again(member, generation=2)
    assert member.identity.epoch == 2
    assert change(member, 1.6) == (Kind.REVOKED, (T0,))


def test_what_others_may_have_got_in_a_generation_that_was_missed_is_lost() -> None:
    """1. a static member has its share, 2. it is silent, and the others have a generation, whose
    leader knows what it had when it joined last, 3. it is back in the next one, with t-0, which
    somebody else has by now."""
    member = cooperative()
    shared_again(member, generation=3)
    before = member.identity
    assert before.epoch == 1, "it cannot commit t-0 any more"
    member.on_commit_refused(before, ErrorCode.ILLEGAL_GENERATION)
    assert not member.is_rebalancing, "but it is a member"
    assert change(member, 1.6) == (Kind.LOST, (T0,))
    assert change(member, 1.6) == (Kind.ASSIGNED, ())
    assert member.identity.epoch == 3
    assert member.state is ClassicState.JOINING, "it has to say that it gave up"


def test_what_a_member_owns_it_claims_as_of_the_generation_that_gave_it() -> None:
    """It missed one, and before its user has heard of the loss all are to join again."""
    member = cooperative()
    shared_again(member, generation=3)
    claimed = shared_again(member, generation=4, now=3.0)
    assert (claimed.owned, claimed.generation) == ((T0, T1), 1)
    assert member.identity.epoch == 1
    assert change(member, 3.1) == (Kind.LOST, (T0,))
    assert member.identity.epoch == 4


def test_what_was_lost_is_lost_though_the_next_generation_gives_it_back() -> None:
    """1. It missed one, and somebody else has t-0, and reads on, and commits. 2. He goes, before
    the user of this one has heard of his loss. 3. Who kept t-0 then would read all of that again,
    and take the commits back."""
    member = cooperative()
    before = member.tenure(T0)
    shared_again(member, generation=3)
    shared_again(member, generation=4, now=3.0, share=(T0, T1))
    assert member.identity.epoch == 1
    assert change(member, 3.1) == (Kind.LOST, (T0,))
    assert change(member, 3.1) == (Kind.ASSIGNED, (T0,))
    assert member.tenure(T0) not in (None, before)
    assert member.identity.epoch == 4


def test_who_asks_a_coordinator_that_has_moved_for_its_share_joins_again() -> None:
    """The next one knows nothing of that generation: who asked it would be thrown out, and lose
    what it has."""
    member = cooperative()
    member.on_poll(1.5)
    asked(member, 1.5)
    member.on_answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 1.5)
    asked(member, 1.5)
    member.on_answer(joined(2, protocol="cooperative-sticky"), 1.5)
    member.on_topics({"t": [frozenset()] * 2}, 1.5)
    asked(member, 1.5)
    moved = SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, assignment=b"")
    member.on_answer(moved, 1.5)
    request = asked(member, 3.0)
    assert isinstance(request, JoinGroupRequest)
    assert (request.member_id, member.owned) == ("m", (T0, T1))


def test_a_member_without_any_share_yet_commits_nothing() -> None:
    member = classic()
    asked(member, 0.0)
    member.on_answer(joined(), 0.0)
    assert member.identity == NOBODY


def test_bytes_that_the_leader_cannot_read_are_told_with_whose_they_are() -> None:
    member = classic()
    asked(member, 0.0)
    member.on_answer(joined(wants=b"\0\1\xff\xff"), 0.0)
    error = member.take_error()
    assert isinstance(error, BadData)
    assert error.context["member"] == "m"
    assert error.context["assignor"] == "range"
    assert error.context["group"] == "g"


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_subscription_may_hold_no_more_than_version_0_has(version: int) -> None:
    whole = encode_subscription(Subscription(("t",), user_data=b"mine"))
    short = version.to_bytes(2, "big") + whole[2 : whole.index(b"mine") + 4]
    assert decode_subscription(short) == Subscription(("t",), user_data=b"mine")


# KIP-848.


def test_a_group_that_has_turned_into_a_classic_one_is_joined_anew() -> None:
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(0, error=ErrorCode.GROUP_ID_NOT_FOUND), 1.0)
    assert change(member, 1.0) == (Kind.LOST, (T0, T1))
    request = asked(member, 1.0)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == 0
    assert member.take_error() is None


def test_a_group_that_is_of_another_type_from_the_beginning_is_told() -> None:
    member = ConsumerMember(TERMS, "m", random.Random(1))
    member.subscribe(MemberSubscription(frozenset(["t"])))
    member.on_poll(0.0)
    asked(member, 0.0)
    member.on_answer(told(0, error=ErrorCode.GROUP_ID_NOT_FOUND), 0.0)
    error = member.take_error()
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_answer_from_before_a_member_joined_anew_counts_no_more() -> None:
    member = modern()
    asked(member, 1.0)
    member.on_commit_refused(member.identity, ErrorCode.UNKNOWN_MEMBER_ID)
    change(member, 1.0)
    assert member.state is ConsumerState.JOINING
    member.on_answer(told(4, {OLD: [0]}), 1.0)
    assert member.state is ConsumerState.JOINING
    request = asked(member, 1.0)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.rebalance_timeout_ms) == (0, 60_000)


def test_an_answer_to_who_was_fenced_since_and_has_not_given_up_yet_counts_no_more() -> None:
    member = modern()
    asked(member, 1.0)
    member.on_commit_refused(member.identity, ErrorCode.UNKNOWN_MEMBER_ID)
    member.on_answer(told(4, {OLD: [0]}), 1.0)
    assert not member.is_rebalancing
    assert member.identity == NOBODY
    assert change(member, 1.0) == (Kind.LOST, (T0, T1))
    assert member.state is ConsumerState.JOINING
    assert member.epoch == 0


def test_a_topic_made_again_is_lost_under_its_old_id_and_assigned_under_the_new_one() -> None:
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {NEW: [0]}), 1.0)
    member.on_names({NEW: "t"}, 1.0)
    assert change(member, 1.0) == (Kind.LOST, (T0, T1))
    assert change(member, 1.0) == (Kind.ASSIGNED, (T0,))
    request = asked(member, 1.0)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.topic_partitions is not None
    assert [(each.topic_id, each.partitions) for each in request.topic_partitions] == [(NEW, [0])]


def test_a_name_that_comes_while_a_change_runs_is_not_asked_for_again() -> None:
    """Metadata have it: to ask is to be answered at once, so who asks on would do nothing else."""
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {OLD: [0], NEW: [0]}), 1.0)
    assert member.begin_change() is not None
    assert member.ready(1.0).ids == frozenset([NEW])
    member.on_names({NEW: "u"}, 1.0)
    assert member.ready(1.0).ids is None
    member.end_change(1.0)
    assert change(member, 1.0) == (Kind.ASSIGNED, ()), "as it was planned before"
    assert change(member, 1.0) == (Kind.ASSIGNED, (TopicPartition("u", 0),))


def test_until_the_user_has_given_the_old_topic_up_the_old_id_is_what_is_owned() -> None:
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {NEW: [0]}), 1.0)
    member.on_names({NEW: "t"}, 1.0)
    request = asked(member, 2.5)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.topic_partitions is None, "told already, and nothing has changed"


def test_who_leaves_lives_on_while_it_gives_up() -> None:
    member = modern()
    member.subscribe(MemberSubscription())
    assert member.state is ConsumerState.LEAVING
    wake = member.ready(0.5).wake
    assert wake is not None
    request = asked(member, wake)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == 3
    member.on_answer(told(3), wake)
    assert change(member, wake) == (Kind.REVOKED, (T0, T1))
    request = asked(member, wake)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == -1


def owned_in(request: Request) -> list[tuple[bytes, list[int]]] | None:
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    parts = request.topic_partitions
    return None if parts is None else [(each.topic_id, list(each.partitions)) for each in parts]


def test_nothing_is_taken_while_a_heartbeat_says_that_less_is_owned() -> None:
    """The coordinator may hear it late, and give to others what is taken meanwhile."""
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {OLD: [0], NEW: [0]}), 1.0)
    assert change(member, 1.0) == (Kind.REVOKED, (T1,))
    assert change(member, 1.0) == (Kind.ASSIGNED, ())
    assert owned_in(asked(member, 1.0)) == [(OLD, [0])], "as near as known names allow"
    member.on_names({NEW: "u"}, 1.0)
    member.on_poll(1.0)
    assert member.begin_change() is None
    member.on_answer(told(4), 1.0)
    assert change(member, 1.0) == (Kind.ASSIGNED, (TopicPartition("u", 0),))
    assert owned_in(asked(member, 1.0)) == [(NEW, [0]), (OLD, [0])]


def test_what_is_owned_is_not_told_while_that_changes() -> None:
    """It would be less than what is owned in the end, when the coordinator hears it late."""
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {OLD: [0, 1, 2]}), 1.0)
    for now in (5.0, 10.0):
        assert owned_in(asked(member, now)) is None
        member.on_answer(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), now)
    assert change(member, 15.0) == (Kind.ASSIGNED, (TopicPartition("t", 2),))
    assert owned_in(asked(member, 15.0)) == [(OLD, [0, 1, 2])]


def test_after_a_lost_answer_what_is_owned_is_told_together_with_all_else() -> None:
    """Only who tells all at once is told all. 1. The answer that takes a partition away is lost.
    2. What is owned changes, so the next heartbeat is silent of it. 3. The one behind it is not,
    and a coordinator that believes to have told would wait for ever."""
    member = modern()
    asked(member, 1.0)
    member.on_answer(told(4, {OLD: [0, 1, 2]}), 1.0)
    asked(member, 2.0)
    member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), 2.0)
    assert owned_in(asked(member, 5.0)) is None
    member.on_answer(told(4), 5.0)
    assert change(member, 5.5) == (Kind.ASSIGNED, (TopicPartition("t", 2),))

    request = asked(member, 6.0)
    assert owned_in(request) == [(OLD, [0, 1, 2])]
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.rebalance_timeout_ms == 60_000
    assert request.subscribed_topic_names == ["t"]
