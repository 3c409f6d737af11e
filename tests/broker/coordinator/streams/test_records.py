"""The fold of the records of a streams group: bytes of the log and back, old logs, tombstones."""

from __future__ import annotations

from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.broker.coordinator.group.streams import records
from moldau.broker.coordinator.group.streams.member import Member, Profile, TaskProgress
from moldau.broker.coordinator.group.streams.mixed_topologies import Topologies
from moldau.broker.coordinator.group.streams.state import GroupState, StreamsGroupState
from moldau.broker.coordinator.group.streams.tasks import Role, SubtopologyRole, TaskId
from moldau.broker.coordinator.group.streams.topology import topology_of, topology_record
from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.schemas import streams_group_log as log
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from tests.broker.coordinator.classic.world import SmallWorld
from tests.broker.coordinator.streams.topologies import WORD_COUNT

GROUP = "app"
ACTIVE, STANDBY = SubtopologyRole(Role.ACTIVE, "1"), SubtopologyRole(Role.STANDBY, "1")
ONE = Topologies(topology_of(WORD_COUNT), {})
PROFILE = Profile(
    rack_id="r1",
    client_id="app-1-StreamThread-1-consumer",
    client_host="/10.0.0.1",
    rebalance_timeout_ms=300_000,
    topology_epoch=0,
    process_id="p1",
    endpoint=("host", 8080),
    client_tags=(("zone", "a"),),
)
PROGRESS: TaskProgress = Progress(
    7,
    6,
    MemberState.UNREVOKED_PARTITIONS,
    {ACTIVE: {0: 5, 2: 7}, STANDBY: {1: 7}},
    {SubtopologyRole(Role.ACTIVE, "0"): {3: 4}},
)


def apply(state: StreamsGroupState, *found: LogRecord) -> None:
    """Replay the records as the log has them: encoded and decoded."""
    for record in found:
        key = GROUP_LOG.encode_key(record.key)
        value = record.value
        stored = None if value is None else GROUP_LOG.encode_value(value, record.version or 0)
        state.replay(*GROUP_LOG.decode(key, stored))


def filled() -> StreamsGroupState:
    state = StreamsGroupState(GROUP, SmallWorld())
    apply(
        state,
        records.member_profile(GROUP, "a", PROFILE),
        records.topology(GROUP, topology_record(WORD_COUNT)),
        records.group_epoch(GROUP, 7, -5, 0, {"num.standby.replicas": "1"}),
        records.target_of_member(GROUP, "a", {ACTIVE: frozenset((2, 0)), STANDBY: frozenset((1,))}),
        records.target_epoch(GROUP, 7, 1_700_000_000_000),
        records.member_progress(GROUP, "a", PROGRESS),
    )
    return state


def test_the_records_say_all_that_is_durable() -> None:
    state = filled()
    assert (state.epoch, state.metadata_hash, state.validated_epoch) == (7, -5, 0)
    assert state.configs == {"num.standby.replicas": "1"}
    assert (state.target_epoch, state.target_timestamp_ms) == (7, 1_700_000_000_000)
    assert state.topology == topology_of(WORD_COUNT)
    assert state.target == {"a": {ACTIVE: frozenset((0, 2)), STANDBY: frozenset((1,))}}
    assert state.members == {"a": Member("a", PROFILE, PROGRESS)}
    assert state.name is GroupState.RECONCILING


def test_tasks_have_holders_until_they_are_given_up() -> None:
    state = filled()
    other = Member("b", Profile(process_id="p2"))
    assert set(state.holders) == {TaskId("1", 0), TaskId("1", 2), TaskId("1", 1), TaskId("0", 3)}
    assert not state.is_free(other, Role.ACTIVE, TaskId("0", 3), ONE), "it may still run"
    assert state.is_free(other, Role.ACTIVE, TaskId("1", 1), ONE), "a standby elsewhere"
    assert state.is_free(other, Role.STANDBY, TaskId("1", 0), ONE), "active elsewhere"
    same_process = Member("b", Profile(process_id="p1"))
    assert not state.is_free(same_process, Role.ACTIVE, TaskId("1", 1), ONE)
    assert not state.is_free(same_process, Role.STANDBY, TaskId("1", 0), ONE)
    apply(
        state, LogRecord(log.StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"))
    )
    assert not state.holders
    assert state.members["a"].progress == Progress()


def test_tombstones_leave_nothing() -> None:
    state = filled()
    apply(state, *records.member_deleted(GROUP, "a"))
    assert (state.members, state.target, state.holders) == ({}, {}, {})
    assert state.name is GroupState.EMPTY
    apply(state, *records.group_deleted(GROUP))
    assert state.topology is None


def test_a_compacted_log_may_show_members_in_any_order() -> None:
    state = StreamsGroupState(GROUP, SmallWorld())
    apply(state, records.member_progress(GROUP, "a", PROGRESS))
    apply(state, records.member_profile(GROUP, "a", PROFILE))
    assert state.members == {"a": Member("a", PROFILE, PROGRESS)}
    apply(state, *records.member_deleted(GROUP, "a"), *records.member_deleted(GROUP, "a"))
    assert state.members == {}


def test_tasks_without_an_epoch_have_that_of_their_member() -> None:
    state = StreamsGroupState(GROUP, SmallWorld())
    value = log.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=4,
        previous_member_epoch=3,
        state=1,
        active_tasks=[log.CurrentTaskIds(subtopology_id="1", partitions=[0, 1])],
        standby_tasks=[],
        warmup_tasks=[],
        active_tasks_pending_revocation=[],
        standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )
    key = log.StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    apply(state, LogRecord(key, value, 0))
    assert state.members["a"].progress == Progress(4, 3, assigned={ACTIVE: {0: 4, 1: 4}})


def test_states_of_members_have_kafkas_numbers() -> None:
    numbers = {each: records.state_number(each) for each in MemberState}
    assert numbers == {
        MemberState.STABLE: 1,
        MemberState.UNREVOKED_PARTITIONS: 2,
        MemberState.UNRELEASED_PARTITIONS: 3,
        MemberState.UNKNOWN: 127,
    }
    assert {records.state_of_number(numbers[each]) for each in numbers} == set(MemberState)
    assert records.state_of_number(9) is MemberState.UNKNOWN
