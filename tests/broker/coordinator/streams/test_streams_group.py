"""Streams groups as a kind of group: joins, tasks, obstacles, moves, fencing, commits, restart."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.broker.coordinator.group.commits import delete_group
from moldau.broker.coordinator.group.contract import GroupKind
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.streams.group import StreamsGroup
from moldau.broker.coordinator.group.streams.member import Member as StoredMember
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, ids_of
from moldau.broker.settings.streams import group_streams_session_timeout_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.broker.coordinator.streams.shard import (
    GROUP,
    Member,
    Shard,
    ready,
    task_offsets,
    until_stable,
)
from tests.broker.coordinator.streams.topologies import (
    WORD_COUNT,
    internal,
    subtopology,
    topology,
)

STALE, NO_SOURCES, WRONG_SIZE, NO_INTERNALS, SHUTDOWN, DELAYED = range(6)
INTERVAL_MS = 1000


def refused(call: Any, *args: Any, **named: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call(*args, **named)
    return raised.value.code


def test_the_first_member_gets_all_tasks() -> None:
    shard = ready()
    a = shard.member("a")
    response = a.join()
    assert (a.epoch, response.heartbeat_interval_ms) == (2, 5000)
    assert a.active == {"0": [0, 1], "1": [0, 1]}
    assert a.standby == {}
    assert response.status == []
    assert shard.state_name() == "Stable"
    assert a.beat().active_tasks is None, "nothing has changed"
    assert len(shard.log) == 6, "profile, topology, epoch, two of the target, progress"


def test_the_group_waits_for_its_topics_and_asks_for_the_internal_ones() -> None:
    shard = Shard()
    a = shard.member("a")
    a.join()
    assert a.statuses == {NO_SOURCES: "Source topics lines are missing."}
    assert (a.active, shard.state_name()) == ({}, "NotReady")
    shard.topics.put("lines", 3)
    shard.change_topics(["lines"])
    shard.now_ms += INTERVAL_MS
    a.beat()
    names = "app-count-changelog, app-count-repartition"
    assert a.statuses == {NO_INTERNALS: f"Internal topics are missing: {names}"}
    (effect,) = shard.wanted
    assert {each.name: each.num_partitions for each in effect.topics} == {
        "app-count-changelog": 3,
        "app-count-repartition": 3,
    }
    a.beat()
    assert len(shard.wanted) == 1, "one request at a time"
    shard.create_internal_topics()
    shard.now_ms += INTERVAL_MS
    a.beat()
    assert a.statuses == {}
    assert a.active == {"0": [0, 1, 2], "1": [0, 1, 2]}
    assert shard.state_name() == "Stable"


def test_a_status_says_why_internal_topics_are_not_created() -> None:
    shard = Shard()
    shard.topics.put("lines", 1)
    shard.denied = frozenset(("app-count-changelog",))
    a = shard.member("a")
    a.join()
    assert a.statuses[NO_INTERNALS].endswith(
        "; Unauthorized to CREATE on topics app-count-changelog."
    )
    assert shard.wanted == []
    shard.denied = frozenset()
    a.beat()
    shard.refuse_internal_topics({"app-count-changelog": "no brokers"})
    a.beat()
    assert a.statuses[NO_INTERNALS].endswith("; Creation failed: app-count-changelog (no brokers).")
    assert len(shard.wanted) == 1, "it is tried again"


def test_a_topic_that_loses_its_fit_takes_all_tasks_away() -> None:
    shard = ready()
    a = shard.member("a")
    a.join()
    del shard.topics.known["lines"]
    shard.change_topics(["lines"])
    shard.now_ms += INTERVAL_MS
    a.beat()
    assert (a.active, shard.state_name()) == ({}, "NotReady")
    assert NO_SOURCES in a.statuses


def test_a_second_member_gets_half_when_the_first_has_given_it_up() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    assert (b.epoch, b.active) == (3, {}), "the tasks are not free yet"
    assert shard.state_name() == "Reconciling"
    kept = a.beat()
    assert kept.member_epoch == 2, "it has not confirmed yet"
    b.beat()
    assert b.active == {}
    a.beat()
    assert a.epoch == 3
    b.beat()
    assert sum(len(each) for each in a.active.values()) == 2
    assert sum(len(each) for each in b.active.values()) == 2
    assert shard.state_name() == "Stable"


def test_a_member_that_waits_for_tasks_of_another_asks_again_soon() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    usual_ms = a.join().heartbeat_interval_ms
    shard.now_ms += INTERVAL_MS
    assert b.join().heartbeat_interval_ms == 100 < usual_ms
    for each in range(38):
        shard.member(f"other-{each}").join()
    assert b.beat().heartbeat_interval_ms == 200, "200 times a second in a group"
    assert a.beat().heartbeat_interval_ms == usual_ms, "it has them"
    a.beat()
    assert b.beat().heartbeat_interval_ms == usual_ms
    assert b.active


def test_a_member_that_waits_asks_no_later_than_usual() -> None:
    shard = ready(group_streams_min_heartbeat_interval_ms=1, group_streams_heartbeat_interval_ms=20)
    shard.member("a").join()
    shard.now_ms += INTERVAL_MS
    assert shard.member("b").join().heartbeat_interval_ms == 20


def test_threads_of_a_process_share_its_tasks_and_have_no_standby_of_each_other() -> None:
    shard = ready(group_streams_num_standby_replicas=1)
    a, b = shard.member("a", "p"), shard.member("b", "p")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    until_stable(shard, a, b)
    assert a.standby == b.standby == {}
    c = shard.member("c", "q")
    shard.now_ms += INTERVAL_MS
    c.join()
    until_stable(shard, a, b, c)
    copies = {partition for each in (a, b, c) for partition in each.standby.get("1", ())}
    assert copies == {0, 1}


def test_a_standby_becomes_active_with_the_heartbeat_that_gives_it_up() -> None:
    shard = ready(group_streams_num_standby_replicas=1)
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    until_stable(shard, a, b)
    had = b.standby["1"]
    a.leave()
    shard.now_ms += INTERVAL_MS
    b.beat()
    assert b.standby == {}
    b.beat()
    assert set(had) <= set(b.active["1"])
    assert b.active == {"0": [0, 1], "1": [0, 1]}


def test_a_silent_member_loses_its_tasks() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    until_stable(shard, a, b)
    session_ms = shard.groups.services.settings[group_streams_session_timeout_ms]
    shard.pass_ms(session_ms - 1000)
    b.beat()
    shard.pass_ms(2000)
    assert list(shard.group.state.members) == ["b"]
    until_stable(shard, b)
    assert b.active == {"0": [0, 1], "1": [0, 1]}
    assert refused(a.beat) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_keeps_what_it_should_give_up_is_removed() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    a.beat()
    for _ in range(13):
        shard.pass_ms(5000)
        for member in (a, b):
            if member.member_id in shard.group.state.members:
                member.stay_silent_about_tasks()
    assert list(shard.group.state.members) == ["b"]


def test_a_first_target_waits_for_more_members() -> None:
    shard = ready(group_streams_initial_rebalance_delay_ms=3000)
    a, b = shard.member("a"), shard.member("b")
    a.join()
    assert DELAYED in a.statuses
    assert (a.epoch, a.active) == (1, {})
    shard.pass_ms(1000)
    b.join()
    shard.pass_ms(2000)
    a.beat()
    b.beat()
    assert sum(len(each) for each in a.active.values()) == 2
    assert sum(len(each) for each in b.active.values()) == 2
    assert shard.state_name() == "Stable"


def test_targets_are_apart() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    b.join()
    assert DELAYED in b.statuses
    assert shard.state_name() == "Assigning"
    shard.now_ms += INTERVAL_MS
    b.beat()
    assert DELAYED not in b.statuses


def test_other_settings_for_assignments_lead_to_a_new_one() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    until_stable(shard, a, b)
    shard.own = {"streams.num.standby.replicas": "1"}
    shard.now_ms += INTERVAL_MS
    a.beat()
    until_stable(shard, a, b)
    assert sorted(a.standby.get("1", []) + b.standby.get("1", [])) == [0, 1]


def test_an_old_epoch_is_fenced_unless_the_answer_may_have_been_lost() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    a.beat()
    given_up = a.tasks
    a.beat()
    assert a.epoch == 3
    a.epoch, a.tasks = 2, given_up
    a.beat()
    assert a.epoch == 3, "it had not heard of its new epoch"
    a.epoch = 9
    assert refused(a.beat) is ErrorCode.FENCED_MEMBER_EPOCH
    a.epoch = 1
    assert refused(a.beat) is ErrorCode.FENCED_MEMBER_EPOCH
    a.join()
    assert a.epoch == 3


def test_a_topology_is_one_for_all_members_of_an_epoch() -> None:
    shard = ready()
    a = shard.member("a", topology=topology(*WORD_COUNT.subtopologies, epoch=1))
    a.join()
    other = topology(subtopology("0", "lines"), epoch=1)
    assert refused(shard.member("b", topology=other).join) is ErrorCode.INVALID_REQUEST
    stale = shard.member("c", topology=WORD_COUNT)
    stale.join()
    assert stale.statuses[STALE] == (
        "The member's topology epoch 0 is behind the group's topology epoch 1."
    )


def test_all_members_hear_that_one_wants_to_stop_the_application() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    b.join()
    a.leave(shutdown_application=True)
    b.beat()
    assert "Streams group member a " in b.statuses[SHUTDOWN]
    b.leave()
    b.join()
    assert SHUTDOWN not in b.statuses, "an application that starts again is not stopped"


def test_members_learn_where_state_can_be_queried() -> None:
    shard = ready(group_streams_num_standby_replicas=1)
    a = shard.member("a", endpoint=("host-a", 8080))
    b = shard.member("b", endpoint=("host-b", 8081))
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    until_stable(shard, a, b)
    a.endpoint_epoch = -1
    response = a.beat()
    assert response.partitions_by_user_endpoint is not None
    found = {
        each.user_endpoint.port: {part.topic: part.partitions for part in each.active_partitions}
        for each in response.partitions_by_user_endpoint
    }
    read = sorted(p for of_port in found.values() for p in of_port.get("lines", ()))
    assert (set(found), read) == ({8080, 8081}, [0, 1])
    copies = [
        part.topic
        for each in response.partitions_by_user_endpoint
        for part in each.standby_partitions
    ]
    assert set(copies) == {"app-count-repartition"}
    assert a.beat().partitions_by_user_endpoint is None


def test_commits_are_checked_by_the_epoch_of_the_task() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    until_stable(shard, a, b)
    group, mine = shard.group, a.active["0"]
    assert group.check_commit("a", None, 3, 9, is_txn=False) is None
    check = group.check_commit("a", None, 2, 9, is_txn=False)
    assert check is not None
    check("lines", bytes(16), mine[0])
    for topic, partition in (("lines", 1 - mine[0]), ("unknown", 0)):
        assert refused(check, topic, bytes(16), partition) is ErrorCode.STALE_MEMBER_EPOCH
    late = group.check_commit("b", None, 2, 9, is_txn=False)
    assert late is not None
    assert refused(late, "lines", bytes(16), b.active["0"][0]) is ErrorCode.STALE_MEMBER_EPOCH
    for member, epoch, version, code in (
        ("a", 4, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("c", 3, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        got = refused(group.check_commit, member, None, epoch, version, is_txn=False)
        assert got is code
    group.check_fetch("a", 3)
    assert refused(group.check_fetch, "a", 2) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_group_without_members_is_deleted_with_all_its_records() -> None:
    shard = ready()
    a = shard.member("a")
    a.join()
    assert refused(delete_group, shard.groups, GROUP, "t") is ErrorCode.NON_EMPTY_GROUP
    a.leave()
    shard.do(delete_group(shard.groups, GROUP, "t"))
    assert shard.groups.get(GROUP) is None
    assert shard.reloaded().get(GROUP) is None


def test_the_next_coordinator_goes_on_where_the_last_one_was() -> None:
    shard = ready()
    a, b = shard.member("a"), shard.member("b")
    a.join()
    shard.now_ms += INTERVAL_MS
    b.join()
    a.beat()
    before = shard.group.describe()
    shard.groups = shard.reloaded()
    assert shard.group.describe() == before
    until_stable(shard, a, b)
    assert sorted(a.active.get("0", []) + b.active.get("0", [])) == [0, 1]


def test_a_group_of_another_kind_makes_room_only_if_it_is_a_classic_one_without_members() -> None:
    shard = ready()
    shard.commit("c", GROUP, "lines", offset=7, epoch=-1)
    a = shard.member("a")
    a.join()
    assert shard.group.kind is GroupKind.STREAMS
    assert shard.groups.offsets.get(GROUP, "lines", 0) is not None, "the offsets stay"
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["lines"],
        topic_partitions=[],
    )
    code = refused(shard.groups.on_request, consumer, shard.context(), "t", 0)
    assert code is ErrorCode.GROUP_ID_NOT_FOUND
    a.leave()
    code = refused(shard.groups.on_request, consumer, shard.context(), "t", 0)
    assert code is ErrorCode.GROUP_ID_NOT_FOUND, "an empty one makes no room either"
    classic = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    shard.do(shard.groups.on_request(classic, shard.context(3), "j", 0))
    group = shard.groups.get(GROUP)
    assert group is not None
    assert group.kind is GroupKind.CLASSIC
    assert refused(a.join) is ErrorCode.GROUP_ID_NOT_FOUND


TWICE = task_offsets({"1_0": 1}) * 2


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"active_tasks": None}, ErrorCode.INVALID_REQUEST),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"task_offsets": TWICE}, ErrorCode.INVALID_REQUEST),
        ({"task_offsets": [], "task_end_offsets": TWICE}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_join_is_refused(changed: dict[str, Any], code: ErrorCode) -> None:
    shard = ready()
    message = shard.member("a").request(0)
    named = {
        "rebalance_timeout_ms": 1000,
        "topology": WORD_COUNT,
        "process_id": "p",
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        **changed,
    }
    for name, value in named.items():
        setattr(message, name, value)
    assert refused(shard.ask_for, message) is code


def test_a_topology_that_cannot_be_is_refused() -> None:
    shard = ready()
    sized = subtopology("0", "lines")
    sized.state_changelog_topics = [internal("log", 3)]
    unknown = subtopology("0", "lines", together=[((1,), ())])
    for each in (sized, unknown):
        member = shard.member("a", topology=topology(each))
        assert refused(member.join) is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert shard.groups.get(GROUP) is None


def test_tasks_that_the_topology_does_not_have_are_refused() -> None:
    shard = ready()
    a = shard.member("a")
    a.join()
    for tasks in ({"7": [0]}, {"0": [2]}, {"0": [-1]}):
        a.tasks["active"] = tasks
        assert refused(a.beat) is ErrorCode.INVALID_REQUEST


class Life(RuleBasedStateMachine):
    """Members that join, beat, leave, fall silent and lose answers; topics come; the coordinator
    moves. A task is never active twice, and in a process never twice at all."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = ready(group_streams_num_standby_replicas=1)
        self.members: dict[str, Member] = {}
        self.lost: Counter[str] = Counter()
        """How many answers in a row each member has missed. One that has missed two is too far
        behind if they were steps: it joins again."""

    @initialize(own=st.sampled_from(["0", "1", "2"]))
    def begin(self, own: str) -> None:
        self.shard.own = {"streams.num.standby.replicas": own}

    @rule(name=st.sampled_from("abcdef"), process=st.sampled_from("pqr"))
    def join(self, name: str, process: str) -> None:
        if name not in self.members:
            self.members[name] = self.shard.member(name, process)
            self.members[name].join()
            self.lost[name] = 0

    @precondition(lambda self: self.members)
    @rule(data=st.data(), is_lost=st.booleans())
    def beat(self, data: st.DataObject, is_lost: bool) -> None:
        member = self.members[data.draw(st.sampled_from(sorted(self.members)))]
        epoch, tasks = member.epoch, member.tasks
        try:
            member.beat()
        except KafkaError as error:
            is_behind = self.lost[member.member_id] > 1
            if error.code is not ErrorCode.FENCED_MEMBER_EPOCH or not is_behind:
                raise
            member.join()
        self.lost[member.member_id] = self.lost[member.member_id] + 1 if is_lost else 0
        if is_lost:
            member.epoch = epoch
            # It still runs what it had, and does not know of more.
            member.tasks = tasks

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.members.pop(data.draw(st.sampled_from(sorted(self.members)))).leave()

    @rule(ms=st.sampled_from([500, 3000]))
    def wait(self, ms: int) -> None:
        self.shard.pass_ms(ms)
        self._forget_removed()

    @rule()
    def move_coordinator(self) -> None:
        self.shard.groups = self.shard.reloaded()

    @rule(count=st.sampled_from([2, 4]))
    def resize(self, count: int) -> None:
        for name in ("lines", "app-count-repartition", "app-count-changelog"):
            self.shard.topics.put(name, count)
        self.shard.change_topics(["lines", "app-count-repartition", "app-count-changelog"])

    def _forget_removed(self) -> None:
        group = self.shard.groups.get(GROUP)
        known = group.state.members if isinstance(group, StreamsGroup) else {}
        self.members = {name: each for name, each in self.members.items() if name in known}

    @invariant()
    def tasks_are_where_they_may_be(self) -> None:
        group = self.shard.groups.get(GROUP)
        if not isinstance(group, StreamsGroup):
            return
        active: dict[TaskId, str] = {}
        in_process: set[tuple[str, TaskId]] = set()
        for task, roles in group.state.holders.items():
            for member_id, of_member in roles.items():
                if len(of_member) > 1:
                    self._becomes_a_copy(group.state.members[member_id], task, of_member)
                if Role.ACTIVE in of_member:
                    assert active.setdefault(task, member_id) == member_id
                place = group.state.members[member_id].process_id, task
                assert place not in in_process
                in_process.add(place)
        for member in group.state.members.values():
            assert member.epoch <= max(group.state.target_epoch, 1) <= group.state.epoch

    def _becomes_a_copy(self, member: StoredMember, task: TaskId, roles: frozenset[Role]) -> None:
        """A member has a task in two roles only while it turns an active one into a copy."""
        assert len(roles) == 2
        assert task not in ids_of(member.progress.assigned, Role.ACTIVE)
        assert task in ids_of(member.progress.revoking, Role.ACTIVE)
        (copy,) = roles - {Role.ACTIVE}
        assert task in ids_of(member.progress.assigned, copy)

    @invariant()
    def the_log_says_the_same(self) -> None:
        group = self.shard.groups.get(GROUP)
        reloaded: Groups = self.shard.reloaded()
        again = reloaded.get(GROUP)
        assert (again is None) == (group is None)
        if isinstance(group, StreamsGroup) and isinstance(again, StreamsGroup):
            assert again.describe() == group.describe()

    def teardown(self) -> None:
        """What is left alone becomes stable, with each task active once."""
        if not self.members:
            return
        for member in self.members.values():
            member.join()
        self.shard.now_ms += INTERVAL_MS
        until_stable(self.shard, *self.members.values(), beats=30)
        found = sorted(
            (subtopology_id, partition)
            for each in self.members.values()
            for subtopology_id, partitions in each.active.items()
            for partition in partitions
        )
        count = self.shard.topics.known["lines"].partition_count
        assert found == [(each, number) for each in "01" for number in range(count)]


Life.TestCase.settings = profile(max_examples=40, stateful_step_count=25, deadline=None)
TestLife = Life.TestCase
