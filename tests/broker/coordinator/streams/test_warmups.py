"""Tasks that move when their next member has their state: warm-ups, lags, and their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.streams.assignors import MemberSpec, Work
from moldau.broker.coordinator.group.streams.assignors.sticky import assign
from moldau.broker.coordinator.group.streams.changelog_ends import on_found
from moldau.broker.coordinator.group.streams.member import LEAVING_TAG
from moldau.broker.coordinator.group.streams.positions import ASKED_MS, UNKNOWN, TaskPositions
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, Tasks, ids_of
from moldau.broker.coordinator.outcome import Outcome
from moldau.protocol.messages.streams_group_heartbeat import KeyValue
from tests.broker.coordinator.streams.shard import (
    Member,
    Shard,
    ready,
    task_offsets,
    until_stable,
)
from tests.broker.coordinator.streams.topologies import subtopology, topology

LAG = 100
TASKS = 4


def task(partition: int) -> TaskId:
    return TaskId("0", partition)


def tasks(*partitions: int) -> frozenset[TaskId]:
    return frozenset(map(task, partitions))


def work(warmups: int = 2, standbys: int = 0) -> Work:
    return Work({"0": TASKS}, frozenset("0"), standbys, warmups, LAG)


def of_role(assigned: dict[str, Tasks], role: Role) -> dict[str, frozenset[TaskId]]:
    return {each: ids_of(assigned[each], role) for each in assigned}


OWNER = MemberSpec("p", tasks(0, 1, 2, 3), lags={})


def test_tasks_stay_with_their_state_while_the_next_member_warms_up() -> None:
    assigned = assign({"a": OWNER, "b": MemberSpec("q", lags={})}, work())
    assert of_role(assigned, Role.ACTIVE) == {"a": tasks(0, 1, 2, 3), "b": tasks()}
    assert of_role(assigned, Role.WARMUP) == {"a": tasks(), "b": tasks(2, 3)}


def test_no_more_copies_warm_up_than_the_limit() -> None:
    assigned = assign({"a": OWNER, "b": MemberSpec("q", lags={})}, work(warmups=1))
    assert len(of_role(assigned, Role.WARMUP)["b"]) == 1


@pytest.mark.parametrize(("lag", "moves"), [(LAG, True), (LAG + 1, False)])
def test_a_copy_that_is_near_enough_becomes_active(lag: int, moves: bool) -> None:
    warming = MemberSpec("q", copies=tasks(2, 3), lags={task(3): lag})
    assigned = assign({"a": OWNER, "b": warming}, work())
    assert (task(3) in of_role(assigned, Role.ACTIVE)["b"]) is moves
    assert task(2) in of_role(assigned, Role.WARMUP)["b"]


def test_a_member_that_does_not_report_gets_its_tasks_at_once() -> None:
    assigned = assign({"a": OWNER, "b": MemberSpec("q")}, work())
    assert of_role(assigned, Role.ACTIVE)["b"] == tasks(2, 3)


def test_a_thread_of_the_same_process_has_the_state() -> None:
    assigned = assign({"a": OWNER, "b": MemberSpec("p", lags={})}, work())
    assert of_role(assigned, Role.ACTIVE)["b"] == tasks(2, 3)


def test_tasks_of_a_member_that_is_gone_go_to_the_copies_that_have_caught_up() -> None:
    members = {
        "a": MemberSpec("p", tasks(0, 1), lags={}),
        "b": MemberSpec("q", copies=tasks(2, 3), lags={task(2): 0, task(3): LAG + 1}),
        "c": MemberSpec("r", copies=tasks(2, 3), lags={task(2): LAG + 1, task(3): 5}),
    }
    active = of_role(assign(members, work()), Role.ACTIVE)
    assert task(2) in active["b"]
    assert task(3) in active["c"]


@pytest.mark.parametrize(("next_lag", "moves"), [(None, False), (900, False), (300, True)])
def test_an_owner_with_an_old_report_keeps_its_task_unless_the_next_member_is_nearer(
    next_lag: int | None, moves: bool
) -> None:
    owner = MemberSpec("p", tasks(0, 1, 2, 3), lags=dict.fromkeys(tasks(0, 1, 2, 3), 500))
    lags = {} if next_lag is None else dict.fromkeys(tasks(2, 3), next_lag)
    active = of_role(assign({"a": owner, "b": MemberSpec("q", lags=lags)}, work()), Role.ACTIVE)
    assert bool(active["b"]) is moves


def test_an_owner_that_had_all_when_it_reported_keeps_its_task_until_the_next_member_is_near() -> (
    None
):
    own = tasks(0, 1, 2, 3)
    owner = MemberSpec("p", own, lags=dict.fromkeys(own, 500), own_lags=dict.fromkeys(own, 0))
    newcomer = MemberSpec("q", lags=dict.fromkeys(tasks(2, 3), 300))
    active = of_role(assign({"a": owner, "b": newcomer}, work()), Role.ACTIVE)
    assert active["a"] == own


LEAVING = replace(OWNER, is_leaving=True)


def test_all_tasks_of_a_leaving_member_warm_up_at_once_beside_the_limit() -> None:
    members = {"a": LEAVING, "b": MemberSpec("q", lags={}), "c": MemberSpec("r", lags={})}
    assigned = assign(members, work(warmups=1))
    assert of_role(assigned, Role.ACTIVE)["a"] == tasks(0, 1, 2, 3)
    warming = of_role(assigned, Role.WARMUP)
    assert [len(warming[each]) for each in "abc"] == [0, 2, 2]
    assert warming["b"] | warming["c"] == tasks(0, 1, 2, 3)


def test_a_leaving_member_loses_tasks_of_which_there_is_a_copy() -> None:
    warm = MemberSpec("q", copies=tasks(0, 1, 2, 3), lags={task(1): LAG, task(2): LAG + 1})
    assigned = assign({"a": LEAVING, "b": warm}, work())
    assert of_role(assigned, Role.ACTIVE) == {"a": tasks(0, 2, 3), "b": tasks(1)}
    assert of_role(assigned, Role.WARMUP)["b"] == tasks(0, 2, 3)


def test_without_warm_ups_a_leaving_member_loses_all_tasks_at_once() -> None:
    assigned = assign({"a": LEAVING, "b": MemberSpec("q", lags={})}, work(warmups=0))
    assert of_role(assigned, Role.ACTIVE) == {"a": tasks(), "b": tasks(0, 1, 2, 3)}


def test_tasks_stay_while_all_members_leave() -> None:
    other = MemberSpec("q", lags={}, is_leaving=True)
    active = of_role(assign({"a": LEAVING, "b": other}, work(warmups=0)), Role.ACTIVE)
    assert sorted(map(len, active.values())) == [2, 2]


def test_a_leaving_member_gets_no_standby() -> None:
    members = {"a": replace(LEAVING, active=frozenset()), "b": replace(OWNER, process_id="q")}
    assigned = assign(members, work(standbys=1))
    assert of_role(assigned, Role.STANDBY) == {"a": tasks(), "b": tasks()}


def test_standbys_are_on_other_processes_than_the_task_and_its_warm_up() -> None:
    members = {"a": OWNER, "b": MemberSpec("q", lags={}), "c": MemberSpec("r", lags={})}
    assigned = assign(members, work(warmups=9, standbys=1))
    held = [
        (members[each].process_id, one)
        for role in Role
        for each, some in of_role(assigned, role).items()
        for one in some
    ]
    assert len(held) == len(set(held))


@st.composite
def reporting_members(draw: st.DrawFn) -> dict[str, MemberSpec]:
    count = draw(st.integers(1, 5))
    places = st.builds(TaskId, st.just("0"), st.integers(0, TASKS - 1))
    owned = draw(st.dictionaries(places, st.integers(0, count - 1)))
    found = {}
    for number in range(count):
        active = frozenset(each for each, owner in owned.items() if owner == number)
        copies = frozenset(draw(st.sets(places))) - active
        lags = draw(st.none() | st.dictionaries(places, st.sampled_from([0, LAG, LAG + 1])))
        process_id = draw(st.sampled_from("xyz"))
        found[f"m{number}"] = MemberSpec(process_id, active, copies, lags)
    return found


@given(reporting_members(), st.integers(0, 3), st.integers(0, 2))
def test_each_task_is_active_once_and_a_process_has_it_once(
    members: dict[str, MemberSpec], warmups: int, standbys: int
) -> None:
    assigned = assign(members, work(warmups, standbys))
    active = [one for some in of_role(assigned, Role.ACTIVE).values() for one in some]
    assert sorted(active) == [task(each) for each in range(TASKS)]
    held = [
        (members[each].process_id, one)
        for role in Role
        for each, some in of_role(assigned, role).items()
        for one in some
    ]
    assert len(held) == len(set(held))
    assert sum(map(len, of_role(assigned, Role.WARMUP).values())) <= warmups


@given(reporting_members(), st.integers(1, 3))
def test_a_copy_that_has_caught_up_is_no_warm_up(
    members: dict[str, MemberSpec], warmups: int
) -> None:
    """Else the report of the same lag would lead to one target after the other."""
    for member_id, warming in of_role(assign(members, work(warmups)), Role.WARMUP).items():
        lags = members[member_id].lags or {}
        assert all(lags.get(each, LAG + 1) > LAG for each in warming)


@given(reporting_members(), st.sets(st.integers(0, 4)), st.integers(0, 3), st.integers(0, 2))
def test_each_task_has_one_owner_while_members_leave(
    members: dict[str, MemberSpec], leaving: set[int], warmups: int, standbys: int
) -> None:
    members = {
        each: replace(members[each], is_leaving=index in leaving)
        for index, each in enumerate(sorted(members))
    }
    assigned = assign(members, work(warmups, standbys))
    owners = {one: each for each, some in of_role(assigned, Role.ACTIVE).items() for one in some}
    assert sum(map(len, of_role(assigned, Role.ACTIVE).values())) == len(owners) == TASKS
    held = [
        (members[each].process_id, one)
        for role in Role
        for each, some in of_role(assigned, role).items()
        for one in some
    ]
    assert len(held) == len(set(held))
    warming = [one for some in of_role(assigned, Role.WARMUP).values() for one in some]
    assert sum(not members[owners[one]].is_leaving for one in warming) <= warmups
    for each in members:
        if members[each].is_leaving:
            assert not of_role(assigned, Role.STANDBY)[each]


def test_tags_decide_where_standbys_are() -> None:
    members = {
        "a": MemberSpec("p", tasks(0, 1, 2, 3), tags={"zone": "1"}),
        "b": MemberSpec("q", copies=tasks(0, 1, 2, 3), tags={"zone": "1"}),
        "c": MemberSpec("r", tags={"zone": "2"}),
    }
    spread = Work({"0": TASKS}, frozenset("0"), 1, spread_tags=("zone",))
    assigned = assign(members, spread)
    active, standby = of_role(assigned, Role.ACTIVE), of_role(assigned, Role.STANDBY)
    zones = {each: members[each].tags["zone"] for each in members}
    for one in tasks(0, 1, 2, 3):
        (owner,) = (each for each in members if one in active[each])
        (copy,) = (each for each in members if one in standby[each])
        assert zones[owner] != zones[copy]


# Reports.


def test_the_end_of_a_task_is_the_highest_that_any_member_knows() -> None:
    positions = TaskPositions()
    positions.on_report("a", task_offsets({"0_1": 500}), None)
    positions.on_report("b", task_offsets({"0_1": 100}), task_offsets({"0_1": 100}))
    assert positions.lag("b", task(1), 0) == 400
    positions.forget("a")
    assert positions.lag("b", task(1), 0) == 0


def test_an_end_that_is_not_sent_again_is_still_known() -> None:
    positions = TaskPositions()
    positions.on_report("b", task_offsets({"0_1": 100}), task_offsets({"0_1": 900}))
    positions.on_report("b", task_offsets({"0_1": 150}), None)
    assert positions.lag("b", task(1), 0) == 750
    assert positions.lag("b", task(2), 0) is None
    assert positions.lag("x", task(1), 0) is None


# The group.

OFFSETS = {"1_0": 1000, "1_1": 1000}


def owner_and_newcomer(**named: object) -> tuple[Shard, Member, Member]:
    """`a` runs all tasks and `b` has joined; both report how far they are."""
    shard = ready(group_streams_acceptable_recovery_lag=LAG, **named)
    a, b = (shard.member(each, version=1) for each in "ab")
    a.join(task_offsets=task_offsets(OFFSETS), task_end_offsets=[])
    shard.now_ms += 1000
    b.join(task_offsets=[], task_end_offsets=[])
    until_stable(shard, a, b)
    return shard, a, b


def test_a_newcomer_warms_up_and_then_gets_the_task() -> None:
    shard, a, b = owner_and_newcomer()
    assert "1" in b.warmup
    assert "1" not in b.active
    (partition,) = b.warmup["1"]
    name = f"1_{partition}"
    epoch = shard.group.state.epoch
    shard.now_ms += 1000
    b.report({name: 100}, {name: 1000})
    assert shard.group.state.epoch == epoch, "it is too far behind"
    shard.now_ms += 1000
    b.report({name: 1000 - LAG})
    assert shard.group.state.epoch == epoch + 1
    until_stable(shard, a, b)
    assert b.active["1"] == [partition]
    assert b.warmup == {}
    assert a.active["1"] == [1 - partition]


def test_a_member_that_never_reports_again_gets_its_tasks_when_it_was_awaited() -> None:
    shard, a, b = owner_and_newcomer()
    (partition,) = b.warmup["1"]
    shard.groups = shard.reloaded()
    shard.group.on_loaded(shard.now_ms)
    shard.pass_ms(30_000)
    for each in (a, b):
        each.beat()
    shard.pass_ms(30_000)
    until_moved(shard, a, b)
    assert b.active["1"] == [partition]


def until_moved(shard: Shard, *members: Member) -> None:
    for _ in range(4):
        for each in members:
            shard.now_ms += 1000
            each.beat()


def test_the_response_has_the_terms_of_warm_ups() -> None:
    _, a, _ = owner_and_newcomer()
    response = a.beat()
    assert response.acceptable_recovery_lag == LAG
    assert response.task_offset_interval_ms == 60_000


def test_the_next_coordinator_waits_for_a_report_before_a_warm_up_becomes_active() -> None:
    shard, a, b = owner_and_newcomer()
    (partition,) = b.warmup["1"]
    shard.groups = shard.reloaded()
    shard.group.on_loaded(shard.now_ms)
    shard.own["streams.num.standby.replicas"] = "1"  # leads to a new target
    for each in (b, a, b):
        shard.now_ms += 1000
        each.beat()
    assert b.warmup == {"1": [partition]}
    b.report({f"1_{partition}": 1000}, {f"1_{partition}": 1000})
    until_stable(shard, a, b)
    assert b.active["1"] == [partition]


def test_a_missing_client_tag_is_reported_to_clients_that_know_the_status() -> None:
    shard = ready(group_streams_rack_aware_assignment_tags="zone")
    old, new = shard.member("a"), shard.member("b", version=1)
    tagged = shard.member("c", version=1, tags={"zone": "1"})
    for each in (old, new, tagged):
        each.join()
    assert [6 in each.statuses for each in (old, new, tagged)] == [False, True, False]


def test_a_member_that_says_that_it_leaves_is_asked_often_and_hands_its_tasks_over() -> None:
    shard, a, b = owner_and_newcomer(group_streams_num_warmup_replicas=1)
    a.beat(client_tags=[KeyValue(key=LEAVING_TAG, value="true")])
    assert a.last is not None
    assert a.last.heartbeat_interval_ms == 100
    until_stable(shard, a, b)
    assert sorted(b.warmup["1"] + b.active.get("1", [])) == [0, 1]
    assert a.active["1"], "its state is nowhere else"
    shard.now_ms += 1000
    b.report(OFFSETS, OFFSETS)
    until_stable(shard, a, b)
    assert a.active == {}
    assert sorted(b.active["1"]) == [0, 1]


def test_a_leaving_member_keeps_its_tasks_until_their_next_owner_asks_for_them() -> None:
    _, a, b = owner_and_newcomer(group_streams_num_warmup_replicas=0)
    kept = a.active
    assert kept["1"]
    a.beat(client_tags=[KeyValue(key=LEAVING_TAG, value="true")])
    a.beat()
    assert a.active == kept, "the other has not heard of it"
    b.beat()
    assert b.last is not None
    assert b.last.heartbeat_interval_ms == 100
    a.beat()
    assert a.active == {}
    a.beat()
    b.beat()
    assert all(set(kept[each]) <= set(b.active[each]) for each in kept)


# The ends of changelogs.

LOG = "app-count-changelog"


def ends(first: int, second: int) -> dict[tuple[str, int], int]:
    return {(LOG, 0): first, (LOG, 1): second}


def silent_owner_and_newcomer() -> tuple[Shard, Member, Member]:
    """`a` runs all tasks and reports nothing of them, as Kafka Streams does; `b` has joined."""
    shard = ready(group_streams_acceptable_recovery_lag=LAG)
    a, b = (shard.member(each, version=1) for each in "ab")
    for each in (a, b):
        each.join(task_offsets=[], task_end_offsets=[])
        shard.now_ms += 1000
        until_stable(shard, *((a, b) if each is b else (a,)))
    return shard, a, b


@pytest.mark.parametrize(("length", "moves"), [(0, True), (LAG, True), (LAG + 1, False)])
def test_a_task_moves_at_once_if_its_whole_log_is_short(length: int, moves: bool) -> None:
    shard, a, b = silent_owner_and_newcomer()
    assert "1" in b.warmup
    shard.tell_ends(ends(length, length))
    until_moved(shard, a, b)
    assert ("1" in b.active) is moves
    assert ("1" in b.warmup) is not moves


def test_a_copy_of_a_quiet_log_becomes_active_though_its_member_knows_no_end() -> None:
    """A client knows the end of a log only when it has read a record of it."""
    shard, a, b = silent_owner_and_newcomer()
    (partition,) = b.warmup["1"]
    name = f"1_{partition}"
    shard.tell_ends({})  # no leader could be reached
    b.report({name: 1000}, {name: UNKNOWN})
    assert b.warmup == {"1": [partition]}
    shard.pass_ms(ASKED_MS)
    b.report({name: 1000}, {name: UNKNOWN})
    shard.tell_ends(ends(1000, 1000))
    until_moved(shard, a, b)
    assert b.active["1"] == [partition]
    assert b.warmup == {}


def test_leaders_are_asked_once_until_they_have_answered_and_again_when_that_is_old() -> None:
    shard, a, b = silent_owner_and_newcomer()
    assert [(one.group_id, dict(one.partitions)) for one in shard.asked] == [
        ("app", {LOG: range(2)})
    ]
    shard.tell_ends(ends(LAG + 1, LAG + 1))
    b.beat()
    assert shard.asked == []
    for _ in range(2):
        shard.pass_ms(30_000)
        a.beat()
        b.beat()
    assert len(shard.asked) == 1
    shard.pass_ms(ASKED_MS - 1)
    b.beat()
    assert len(shard.asked) == 1
    shard.pass_ms(1)
    b.beat()
    assert len(shard.asked) == 2


def test_ends_that_come_for_a_group_that_is_gone_change_nothing() -> None:
    shard, a, b = silent_owner_and_newcomer()
    for each in (a, b):
        each.leave()
    epoch = shard.group.state.epoch
    shard.tell_ends(ends(0, 0))
    assert shard.group.state.epoch == epoch
    assert on_found(shard.groups, "other", ends(0, 0), 0) == Outcome()


def test_an_unknown_end_is_none_and_the_lag_is_that_of_the_known_ones() -> None:
    positions = TaskPositions()
    positions.on_report("b", task_offsets({"0_1": 100}), task_offsets({"0_1": UNKNOWN}))
    assert positions.lag("b", task(1), 0) is None
    assert positions.own_lags("b") == {}
    assert positions.reported("b") == ({task(1): 100}, {task(1): UNKNOWN})
    positions.on_report("c", task_offsets({"0_1": 300}), task_offsets({"0_1": 350}))
    assert positions.lag("b", task(1), 0) == 250
    positions.on_log_ends({task(1): 500}, 10)
    assert positions.lags_of("b", 9) == {task(1): 400}
    assert positions.lag("b", task(1), 10) == 250, "the ends are old"
    positions.on_report("b", None, task_offsets({"0_1": 120}))
    positions.forget("c")
    assert positions.lag("b", task(1), 10) == 20
    positions.on_report("b", task_offsets({"0_1": UNKNOWN}), None)
    assert positions.lag("b", task(1), 10) is None


def test_the_ends_of_a_task_with_several_logs_are_added_up() -> None:
    shard = Shard()
    shard.topics.put("lines", 1)
    for name in ("one", "two"):
        shard.topics.put(name, 1)
    given = topology(subtopology("0", "lines", changelogs=["one", "two"]))
    shard.member("a", topology=given, version=1).join(task_offsets=[], task_end_offsets=[])
    shard.do(on_found(shard.groups, "app", {("one", 0): 3, ("two", 0): 4}, 0))
    found = shard.group.state.volatile.positions
    assert found.log_ends(0) == {task(0): 7}
    shard.do(on_found(shard.groups, "app", {("one", 0): 3, ("other", 0): 1}, 0))
    assert found.log_ends(0) == {}
