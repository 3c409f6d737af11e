"""Which classic groups become consumer groups, which go back, and what stays out. How a mixed
group lives is in the scripts `upgrade` and `takes_over`.
"""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.coordinator.group.contract import GroupKind
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.schemas.group_log import GroupMetadataValue
from moldau.protocol.schemas.versioned import encode_versioned
from tests.broker.coordinator.consumer.shard import GROUP, Answer, Shard

POLICY = "group.consumer.migration.policy"
WISH = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 1)


def shard(**named: Any) -> Shard:
    return Shard({"t": 4}, {"group.consumer.session.timeout.ms": 2500, **named})


def classic_join(
    at: Shard,
    member_id: str = "",
    *,
    kind: str = "consumer",
    wish: bytes = WISH,
    offers: tuple[str, ...] = ("range",),
    instance: str | None = None,
) -> int:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=each, metadata=wish) for each in offers],
    )
    return at.ask(request, 3 if instance is None else 5)


def classic_group(
    at: Shard,
    member_id: str = "",
    *,
    kind: str = "consumer",
    wish: bytes = WISH,
    user_data: bytes | None = None,
    offers: tuple[str, ...] = ("range",),
) -> str:
    """A classic group of one member, which has all of the topic; its id."""
    answer = at.take(classic_join(at, member_id, kind=kind, wish=wish, offers=offers))
    assert isinstance(answer, JoinGroupResponse)
    assert not answer.error_code
    share = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[0, 1, 2, 3])],
        user_data=None if user_data is None else memoryview(user_data),
    )
    encoded = encode_versioned(share, 1)
    given = SyncGroupRequestAssignment(member_id=answer.member_id, assignment=encoded)
    at.hear(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            assignments=[given],
        ),
        3,
    )
    return answer.member_id


def join(at: Shard, member_id: str = "new", instance: str | None = None) -> Answer:
    return at.hear(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=0,
            instance_id=instance,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
    )


def leave(at: Shard, *member_ids: str) -> Answer:
    members = [MemberIdentity(member_id=each) for each in member_ids]
    return at.hear(LeaveGroupRequest(group_id=GROUP, members=members), 5)


def kind(at: Shard) -> GroupKind:
    assert at.group is not None
    return at.group.kind


def code(answer: Answer | None) -> ErrorCode:
    if isinstance(answer, JoinGroupResponse):
        return ErrorCode(answer.error_code)
    assert isinstance(answer, KafkaError)
    return answer.code


def test_classic_members_keep_what_they_have() -> None:
    at = shard()
    old = classic_group(at)
    answer = join(at)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert kind(at) is GroupKind.CONSUMER
    progress = at.state.members[old].progress
    assert progress.epoch == 1
    assert [set(each) for each in progress.assigned.values()] == [{0, 1, 2, 3}]
    assert answer.member_epoch == 2


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE"])
def test_the_policy_can_keep_a_classic_group_classic(policy: str) -> None:
    at = shard(**{POLICY: policy})
    classic_group(at)
    assert code(join(at)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(at) is GroupKind.CLASSIC


def test_only_groups_of_consumers_can_turn() -> None:
    at = shard()
    classic_group(at, kind="connect", wish=b"whatever")
    assert code(join(at)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_larger_than_consumer_groups_may_be_stays() -> None:
    at = shard(**{"group.consumer.max.size": 1})
    ticket = classic_join(at)
    first = at.take(ticket)
    assert isinstance(first, JoinGroupResponse)
    second = classic_join(at)
    assert at.take(second) is None
    assert at.take(classic_join(at, first.member_id)) is not None
    assert code(join(at)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(at) is GroupKind.CLASSIC


def test_what_a_custom_assignor_keeps_with_members_is_not_thrown_away() -> None:
    at = shard()
    classic_group(at, user_data=b"state")
    assert code(join(at)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(at) is GroupKind.CLASSIC


def test_members_whose_bytes_cannot_be_read_keep_the_group_classic() -> None:
    at = shard()
    classic_group(at, wish=b"\x00\x01\xff\xff")
    assert code(join(at)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_who_waits_in_the_classic_group_joins_again() -> None:
    at = shard()
    classic_group(at)
    waiting = classic_join(at)
    assert at.take(waiting) is None
    join(at)
    told = at.take(waiting)
    assert isinstance(told, JoinGroupResponse)
    assert told.error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("interval_ms", [0, 1000])
def test_who_turns_a_group_that_has_had_no_generation_has_joined(interval_ms: int) -> None:
    """Epoch 0 is for who joins: whoever was answered so would be taken for new for ever."""
    at = shard(
        **{
            "group.initial.rebalance.delay.ms": 3000,
            "group.consumer.assignment.interval.ms": interval_ms,
        }
    )
    waiting = classic_join(at)
    assert at.take(waiting) is None
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="new",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex="t",
        topic_partitions=[],
    )
    joined = at.hear(request, 1)
    assert isinstance(joined, ConsumerGroupHeartbeatResponse)
    assert joined.member_epoch > 0
    again = at.hear(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="new", member_epoch=joined.member_epoch
        ),
        1,
    )
    assert isinstance(again, ConsumerGroupHeartbeatResponse)
    assert not again.error_code


def test_a_refused_upgrade_leaves_the_classic_group_as_it_was() -> None:
    at = shard()
    old = classic_group(at)
    at.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert isinstance(join(at), KafkaError)
    assert kind(at) is GroupKind.CLASSIC
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=old)
    answer = at.hear(beat, 3)
    assert isinstance(answer, HeartbeatResponse)
    assert not answer.error_code


def test_the_last_new_member_leaves_a_classic_group_behind() -> None:
    at = shard()
    old = classic_group(at)
    join(at)
    answer = leave(at, "new")
    assert isinstance(answer, LeaveGroupResponse)
    assert kind(at) is GroupKind.CLASSIC
    written = at.log[-1].value
    assert isinstance(written, GroupMetadataValue)
    assert written.leader == old, "whoever reads the log sees a leader"
    beat = HeartbeatRequest(group_id=GROUP, generation_id=2, member_id=old)
    answer = at.hear(beat, 3)
    said = answer.code if isinstance(answer, KafkaError) else getattr(answer, "error_code", None)
    assert said == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_new_member_may_also_fall_silent() -> None:
    at = shard()
    classic_group(at)
    join(at)
    at.wait(2_600)
    assert kind(at) is GroupKind.CLASSIC


def test_who_shares_another_assignor_than_the_chosen_one_joins_after_a_downgrade() -> None:
    at = shard()
    old = classic_group(at, offers=("range", "roundrobin"))
    join(at)
    leave(at, "new")
    newcomer = classic_join(at, offers=("roundrobin",))
    assert at.take(newcomer) is None, "it waits for the others"
    assert code(at.take(classic_join(at, old, offers=("range", "roundrobin")))) is ErrorCode.NONE
    answer = at.take(newcomer)
    assert isinstance(answer, JoinGroupResponse)
    assert (answer.error_code, answer.protocol_name) == (ErrorCode.NONE, "roundrobin")


def test_whoever_reads_of_a_downgrade_in_the_log_knows_the_chosen_assignor_only() -> None:
    at = shard()
    classic_group(at, offers=("range", "roundrobin"))
    join(at)
    leave(at, "new")
    at.fail_over()
    newcomer = classic_join(at, offers=("roundrobin",))
    assert code(at.take(newcomer)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_downgrade_that_is_done_does_not_rebalance_whenever_its_log_is_read() -> None:
    at = shard()
    old = classic_group(at)
    join(at)
    leave(at, "new")
    at.fail_over()
    assert at.group is not None
    assert at.group.state_name == "PreparingRebalance", "nobody knows how far it has come"
    classic_group(at, member_id=old)
    at.fail_over()
    assert at.group.state_name == "Stable"


def test_nor_does_a_classic_group_in_the_place_of_an_empty_consumer_group() -> None:
    at = shard()
    join(at)
    leave(at, "new")
    classic_group(at)
    at.fail_over()
    assert at.group is not None
    assert at.group.state_name == "Stable"


def test_who_says_the_same_again_after_a_takeover_is_answered_without_a_rebalance() -> None:
    at = shard()
    both = ("range", "roundrobin")
    old = classic_group(at, offers=both)
    join(at, instance="i")
    at.hear(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=old), 3)
    assert code(at.take(classic_join(at, old, offers=both))) is ErrorCode.NONE
    taken = at.take(classic_join(at, offers=both, instance="i"))
    assert isinstance(taken, JoinGroupResponse)
    assert kind(at) is GroupKind.CLASSIC
    again = at.take(classic_join(at, taken.member_id, offers=both, instance="i"))
    assert isinstance(again, JoinGroupResponse)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, taken.generation_id)


@pytest.mark.parametrize("policy", ["upgrade"])
def test_the_policy_can_keep_a_consumer_group_one(policy: str) -> None:
    at = shard(**{POLICY: policy})
    old = classic_group(at)
    join(at)
    leave(at, "new")
    assert kind(at) is GroupKind.CONSUMER
    assert at.state.members.keys() == {old}


def test_more_members_than_a_classic_group_may_have_keep_it_a_consumer_group() -> None:
    at = shard(**{"group.max.size": 1})
    classic_group(at)
    join(at)
    assert isinstance(at.take(classic_join(at)), JoinGroupResponse)
    leave(at, "new")
    assert kind(at) is GroupKind.CONSUMER


def test_a_group_without_members_is_no_classic_one() -> None:
    at = shard()
    old = classic_group(at)
    join(at)
    leave(at, "new", old)
    assert kind(at) is GroupKind.CONSUMER
    assert at.state.name.value == "Empty"


def test_an_empty_group_becomes_whatever_joins() -> None:
    at = shard()
    join(at)
    leave(at, "new")
    classic_group(at)
    assert kind(at) is GroupKind.CLASSIC
    old = [each for each in leave_all(at) if each]
    assert old == []
    join(at)
    assert kind(at) is GroupKind.CONSUMER
    assert at.state.members.keys() == {"new"}


def leave_all(at: Shard) -> list[int]:
    group: Any = at.group
    answer = leave(at, *group.members)
    assert isinstance(answer, LeaveGroupResponse)
    return [each.error_code for each in answer.members]


def test_classic_members_stay_out_where_migration_is_disabled() -> None:
    at = shard(**{POLICY: "DISABLED"})
    join(at)
    assert code(at.take(classic_join(at))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_must_speak_the_consumers_protocol() -> None:
    at = shard()
    join(at)
    other_type = at.take(classic_join(at, kind="connect"))
    assert code(other_type) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    broken = at.take(classic_join(at, wish=b"\x00"))
    assert code(broken) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_who_is_refused_by_a_consumer_group_is_called_by_no_id() -> None:
    at = shard()
    join(at, instance="i")
    refused = at.take(classic_join(at, "other", instance="i"))
    assert isinstance(refused, JoinGroupResponse)
    assert (refused.error_code, refused.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "")


def test_a_classic_member_that_was_told_to_join_must_do_so_in_time() -> None:
    at = shard(**{"group.consumer.session.timeout.ms": 60_000})
    old = classic_group(at)
    join(at)
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=old)
    answer = at.hear(beat, 3)
    assert getattr(answer, "error_code", None) == ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(3):
        at.wait(3_000)
        at.hear(beat, 3)
    assert old in at.state.members
    at.wait(1_500)
    assert at.state.members.keys() == {"new"}


def test_a_classic_member_that_joined_must_sync_in_time() -> None:
    at = shard(**{"group.consumer.session.timeout.ms": 60_000})
    join(at)
    joined = at.take(classic_join(at))
    assert isinstance(joined, JoinGroupResponse)
    assert joined.member_id in at.state.members
    at.wait(10_100)
    assert at.state.members.keys() == {"new"}


def test_an_administrator_removes_members_of_both_kinds() -> None:
    at = shard()
    old = classic_group(at)
    join(at, instance="i")
    members = [
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="other", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="j"),
        MemberIdentity(member_id=old),
    ]
    answer = at.hear(LeaveGroupRequest(group_id=GROUP, members=members), 5)
    assert isinstance(answer, LeaveGroupResponse)
    assert [ErrorCode(each.error_code).name for each in answer.members] == [
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
        "NONE",
    ]
    assert at.state.members == {}
