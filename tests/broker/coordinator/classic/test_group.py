"""What the table of groups asks of a group beside what members ask: see also the scripts."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.membership import Membership
from moldau.broker.coordinator.group.classic.states import TRANSITIONS, ClassicGroupState
from moldau.broker.coordinator.group.classic.validation import check_join, check_sync
from moldau.broker.coordinator.group.contract import Downgrade, GroupKind
from moldau.broker.coordinator.parked import as_answer
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.schemas.group_log import GroupMetadataValue, MemberMetadata
from tests.broker.coordinator.classic.peer import OurPeer
from tests.broker.coordinator.classic.script import play
from tests.broker.coordinator.classic.world import BOOT_WALL_MS, SmallWorld

CONTEXT = RequestContext("c", "/127.0.0.1", 4, "PLAINTEXT")
AS_LOADED = Downgrade(rebalances=True, offers={})
STABLE = "join a version=3\n----\n\nwait 1000\n----\n\nsync a assign=a:one\n----\n"
JOINING = STABLE + "\njoin b version=3\n----\n"
SYNCING = JOINING + "\njoin a\n----\n\nsync b\n----\n"


def after(script: str) -> ClassicGroup:
    """The group when that has been played."""
    peer = OurPeer()
    play(script, peer)
    assert peer.place.group is not None
    return peer.place.group


def stored(*, count: int = 2, rebalance_timeout: int = -1, leader: str | None = "m0") -> object:
    """A group of consumers as an old Kafka may have written it."""
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader=leader,
        members=[
            MemberMetadata(
                member_id=f"m{number}",
                client_id="c",
                client_host="/h",
                session_timeout=3_000,
                rebalance_timeout=rebalance_timeout,
                subscription=b"\x00\x00\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xff",
                assignment=b"share",
            )
            for number in range(count)
        ],
    )


def loaded(value: object, **named: object) -> ClassicGroup:
    """That group, read by us."""
    assert isinstance(value, GroupMetadataValue)
    group = ClassicGroup("g", SmallWorld({name.replace("_", "."): x for name, x in named.items()}))
    group.replay_group_metadata(value, 0)
    group.check()
    return group


def test_the_transitions_are_those_of_kafka() -> None:
    told = {
        before.name: {after.name for after in afterwards}
        for before, afterwards in TRANSITIONS.items()
    }
    assert told == {
        "EMPTY": {"PREPARING_REBALANCE", "DEAD"},
        "PREPARING_REBALANCE": {"COMPLETING_REBALANCE", "EMPTY", "DEAD"},
        "COMPLETING_REBALANCE": {"STABLE", "PREPARING_REBALANCE", "DEAD"},
        "STABLE": {"PREPARING_REBALANCE", "DEAD"},
        "DEAD": set(),
    }


def test_no_other_transition_is_made() -> None:
    group = Membership("g")
    with pytest.raises(AssertionError, match="cannot become"):
        group.enter(ClassicGroupState.STABLE, 0)


def test_a_group_of_an_old_kafka_is_read() -> None:
    group = loaded(stored())
    assert (group.kind, group.state, group.generation_id) == (
        GroupKind.CLASSIC,
        ClassicGroupState.STABLE,
        7,
    )
    assert group.leader_id == "m0"
    assert [each.rebalance_timeout_ms for each in group.members.values()] == [3_000, 3_000]
    assert group.is_subscribed_to("t1")
    assert not group.is_subscribed_to("t2")


@pytest.mark.parametrize("leader", [None, "somebody else"])
def test_without_a_leader_in_the_record_the_first_member_leads(leader: str | None) -> None:
    assert loaded(stored(leader=leader)).leader_id == "m0"


def test_sessions_begin_when_all_is_loaded() -> None:
    group = loaded(stored())
    assert group.next_deadline_ms() is None
    assert not group.on_loaded(1_000).records
    assert group.next_deadline_ms() == 4_000
    group.on_tick(4_000)
    group.on_tick(4_000)
    assert set(group.members) == set()


def test_loaded_again_nothing_begins_again() -> None:
    group = loaded(stored())
    group.on_loaded(1_000)
    group.on_loaded(2_000)
    assert group.next_deadline_ms() == 4_000
    group.on_tick(4_000)
    group.on_tick(4_000)
    assert not group.members


def test_a_group_that_is_too_large_by_now_rebalances() -> None:
    group = loaded(stored(count=3), group_max_size=2)
    group.on_loaded(0)
    assert group.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_group_that_was_a_consumer_group_rebalances() -> None:
    group = loaded(stored(leader=None))
    group.on_downgraded(AS_LOADED, 1_000)
    assert group.state is ClassicGroupState.PREPARING_REBALANCE
    assert group.next_deadline_ms() == 4_000
    group.check()


def test_a_consumer_group_without_members_becomes_an_empty_one() -> None:
    group = loaded(stored(count=0, leader=None))
    group.on_downgraded(AS_LOADED, 1_000)
    assert group.is_empty


@pytest.mark.parametrize(
    ("script", "waits"), [(JOINING, JoinGroupResponse), (SYNCING, SyncGroupResponse)]
)
def test_who_waits_when_a_consumer_group_takes_over_joins_again(
    script: str, waits: type[JoinGroupResponse | SyncGroupResponse]
) -> None:
    group = after(script)
    ((_ticket, answer),) = group.on_upgraded()
    assert isinstance(answer, waits)
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not group.on_upgraded()
    if isinstance(answer, JoinGroupResponse):
        assert answer.member_id in group.members
    group.check()


@pytest.mark.parametrize("script", [JOINING, SYNCING])
def test_who_waits_when_the_group_goes_elsewhere_is_given_back_once(script: str) -> None:
    group = after(script)
    assert len(group.on_unloaded()) == 1
    assert group.next_deadline_ms() is None
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="a")
    with pytest.raises(KafkaError) as refused:
        group.on_heartbeat(heartbeat, "ticket", 0)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_offsets_of_a_simple_group_age_since_their_commit() -> None:
    group = ClassicGroup("g", SmallWorld())
    assert group.offset_age_since_ms(5, "t1") == 5
    assert not group.is_subscribed_to("t1")


def test_offsets_of_an_empty_group_age_since_it_is_empty() -> None:
    group = after(STABLE + "\nwait 500\n----\n\nleave a\n----\n")
    assert group.is_empty
    assert group.offset_age_since_ms(5, "t1") == BOOT_WALL_MS + 1_500
    assert not group.is_subscribed_to("t1")


def test_the_log_knows_the_leader_and_the_assignor_while_there_are_members() -> None:
    peer = OurPeer()
    play(STABLE, peer)
    assert peer.place.group is not None
    (leader_id,) = peer.place.group.members
    stable = peer.place.log[-1].value
    assert isinstance(stable, GroupMetadataValue)
    assert (stable.leader, stable.protocol) == (leader_id, "range")
    play(STABLE + "\nleave a\n----\n", peer := OurPeer())
    empty = peer.place.log[-1].value
    assert isinstance(empty, GroupMetadataValue)
    assert (empty.leader, empty.protocol, empty.members) == (None, None, [])


def test_offsets_of_an_empty_group_of_an_old_kafka_age_since_their_commit() -> None:
    assert loaded(stored(count=0)).offset_age_since_ms(5, "t1") == 5


def test_offsets_of_consumers_age_only_while_the_group_is_stable() -> None:
    assert after(STABLE).offset_age_since_ms(5, "t1") == 5
    assert after(JOINING).offset_age_since_ms(5, "t1") is None
    assert after(SYNCING).offset_age_since_ms(5, "t1") is None


def test_offsets_of_others_do_not_age_while_they_have_members() -> None:
    group = after(STABLE.replace("version=3", "version=3 type=connect"))
    assert group.state is ClassicGroupState.STABLE
    assert group.offset_age_since_ms(5, "t1") is None


def test_transactions_name_their_member_or_nobody() -> None:
    group = after(SYNCING)
    group.check_commit("", None, -1, 0, is_txn=True)
    with pytest.raises(KafkaError) as refused:
        group.check_commit("nobody", None, 1, 3, is_txn=True)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    member_id = next(iter(group.members))
    group.check_commit(member_id, None, group.generation_id, 3, is_txn=True)
    with pytest.raises(KafkaError) as refused:
        group.check_commit(member_id, None, group.generation_id, 3, is_txn=False)
    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_names_a_static_member_must_be_it() -> None:
    group = after(STABLE.replace("version=3", "instance=A"))
    for is_txn in (False, True):
        with pytest.raises(KafkaError) as refused:
            group.check_commit("", "A", -1, 9, is_txn=is_txn)
        assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_names_its_generation() -> None:
    group = after(STABLE)
    with pytest.raises(KafkaError) as refused:
        group.check_commit(next(iter(group.members)), None, -1, 9, is_txn=False)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(("script", "lives"), [(STABLE, True), (JOINING, True), (SYNCING, False)])
def test_a_commit_is_a_sign_of_life_but_not_while_the_leader_assigns(
    script: str, lives: bool
) -> None:
    group = after(script)
    member = next(iter(group.members.values()))
    group.on_commit(member.member_id, 1_000_000)
    group.on_commit("nobody", 1_000_000)
    ends_ms = group._group.deadlines._due[member.member_id]
    assert (ends_ms == 1_000_000 + member.session_timeout_ms) == lives


def test_anybody_may_read_offsets() -> None:
    group = after(SYNCING)
    group.check_fetch("nobody", 99)
    assert not group.on_topics_changed(["t1"], 0).records


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_members_hear_when_the_log_refuses(error: ErrorCode, told: ErrorCode) -> None:
    assert as_answer(KafkaError(error)).code is told


@pytest.mark.parametrize(
    ("session_ms", "is_fine"),
    [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)],
)
def test_sessions_are_bounded(session_ms: int, is_fine: bool) -> None:
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_ms,
        member_id="m",
        protocol_type="consumer",
        protocols=[],
    )
    refusal = check_join(message, SmallWorld().settings)
    assert (refusal is None) == is_fine
    if refusal is not None:
        assert refusal.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert refusal.member_id == "m"


@pytest.mark.parametrize(
    ("version", "protocol_type", "name", "is_fine"),
    [
        (4, None, None, True),
        (5, "consumer", "range", True),
        (5, None, "range", False),
        (5, "consumer", None, False),
    ],
)
def test_members_name_their_protocol(
    version: int, protocol_type: str | None, name: str | None, is_fine: bool
) -> None:
    message = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type=protocol_type,
        protocol_name=name,
        assignments=[],
    )
    assert (check_sync(message, version) is None) == is_fine
