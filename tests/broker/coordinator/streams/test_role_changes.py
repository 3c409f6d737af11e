"""Tasks that change their roles at the member that has them, with their state open."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.reconciliation import Progress, Target
from moldau.broker.coordinator.group.streams.member import TaskProgress
from moldau.broker.coordinator.group.streams.role_changes import next_step_of_tasks
from moldau.broker.coordinator.group.streams.tasks import Role, SubtopologyRole, Tasks
from tests.broker.coordinator.streams.shard import Member, Shard, ready, until_stable

EPOCH = 5
NEXT = 6
EVERYTHING = {SubtopologyRole(role, "1") for role in Role}

Given = Mapping[Role, set[int]]


def tasks(given: Given) -> Tasks:
    return {SubtopologyRole(role, "1"): frozenset(found) for role, found in given.items() if found}


def progress(given: Given, revoking: Given | None = None) -> TaskProgress:
    owned = {key: dict.fromkeys(found, EPOCH) for key, found in tasks(given).items()}
    given_up = {key: dict.fromkeys(found, EPOCH) for key, found in tasks(revoking or {}).items()}
    state = MemberState.UNREVOKED_PARTITIONS if given_up else MemberState.STABLE
    return Progress(EPOCH, EPOCH - 1, state, owned, given_up)


def step(
    now: TaskProgress, wanted: Given, reported: Given, taken: frozenset[SubtopologyRole]
) -> tuple[dict[Role, set[int]], dict[Role, set[int]], MemberState]:
    """What the member has, is to give up, and its state after a heartbeat, while others hold all
    tasks in the roles `taken`."""
    target = Target(NEXT, tasks(wanted), EVERYTHING, lambda key, partition: key not in taken)
    after = next_step_of_tasks(now, target, tasks(reported))
    has = {key.role: set(owned) for key, owned in after.assigned.items()}
    return has, {key.role: set(owned) for key, owned in after.revoking.items()}, after.state


FREE: frozenset[SubtopologyRole] = frozenset()
ACTIVE_TAKEN = frozenset({SubtopologyRole(Role.ACTIVE, "1")})
COPIES = (Role.STANDBY, Role.WARMUP)


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_becomes_active_in_one_step(copy: Role) -> None:
    given = {copy: {0, 1}}
    found = step(progress(given), {Role.ACTIVE: {0}, copy: {1}}, given, FREE)
    assert found == ({Role.ACTIVE: {0}, copy: {1}}, {}, MemberState.STABLE)


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_stays_until_the_active_task_is_free(copy: Role) -> None:
    given = {copy: {0}}
    found = step(progress(given), {Role.ACTIVE: {0}}, given, ACTIVE_TAKEN)
    assert found == ({copy: {0}}, {}, MemberState.UNRELEASED_PARTITIONS)


def test_a_copy_stays_until_the_member_has_given_up_other_tasks() -> None:
    given = {Role.STANDBY: {0}, Role.ACTIVE: {1}}
    found = step(progress(given), {Role.ACTIVE: {0}}, given, FREE)
    assert found == (
        {Role.STANDBY: {0}},
        {Role.ACTIVE: {1}},
        MemberState.UNREVOKED_PARTITIONS,
    )
    waiting = progress({Role.STANDBY: {0}}, {Role.ACTIVE: {1}})
    found = step(waiting, {Role.ACTIVE: {0}}, {Role.STANDBY: {0}}, FREE)
    assert found == ({Role.ACTIVE: {0}}, {}, MemberState.STABLE)


@pytest.mark.parametrize(("before", "after"), [COPIES, COPIES[::-1]])
def test_a_copy_takes_the_other_role_of_copies_at_once(before: Role, after: Role) -> None:
    given = {before: {0, 1}}
    found = step(progress(given), {before: {1}, after: {0}}, given, FREE)
    assert found == ({before: {1}, after: {0}}, {}, MemberState.STABLE)


def test_a_copy_that_another_member_of_the_process_has_is_not_taken_over() -> None:
    given = {Role.WARMUP: {0}}
    taken = frozenset({SubtopologyRole(Role.STANDBY, "1")})
    found = step(progress(given), {Role.STANDBY: {0}}, given, taken)
    assert found == ({}, {Role.WARMUP: {0}}, MemberState.UNREVOKED_PARTITIONS)


@pytest.mark.parametrize("copy", COPIES)
def test_an_active_task_becomes_a_copy_at_once_and_is_still_to_be_given_up(copy: Role) -> None:
    given = {Role.ACTIVE: {0}}
    found = step(progress(given), {copy: {0}}, given, FREE)
    assert found == ({copy: {0}}, {Role.ACTIVE: {0}}, MemberState.UNREVOKED_PARTITIONS)
    waiting = progress({copy: {0}}, {Role.ACTIVE: {0}})
    assert step(waiting, {copy: {0}}, {copy: {0}}, FREE) == (
        {copy: {0}},
        {},
        MemberState.STABLE,
    )


def test_a_step_that_changes_nothing_is_the_same_object() -> None:
    waiting = progress({Role.STANDBY: {0}}, {Role.ACTIVE: {1}})
    wanted = tasks({Role.ACTIVE: {0}, Role.WARMUP: {1}})
    target = Target(NEXT, wanted, EVERYTHING, lambda key, partition: True)
    assert next_step_of_tasks(waiting, target, None) is waiting


# The group.


def two_with_standbys() -> tuple[Shard, Member, Member]:
    shard = ready(group_streams_num_standby_replicas=1)
    a, b = (shard.member(each) for each in "ab")
    a.join()
    shard.now_ms += 1000
    b.join()
    until_stable(shard, a, b)
    assert a.standby
    assert b.standby
    return shard, a, b


def test_no_answer_takes_a_standby_away_before_it_becomes_active() -> None:
    shard, a, b = two_with_standbys()
    b.leave()
    held = []
    while shard.state_name() != "Stable" or len(a.active["1"]) < 2:
        shard.now_ms += 1000
        a.beat()
        held.append(sorted(a.active["1"] + a.standby.get("1", [])))
    assert held
    assert all(each == [0, 1] for each in held), held


def test_the_next_owner_waits_until_the_one_that_keeps_a_copy_has_reported_it() -> None:
    shard = ready(group_streams_num_standby_replicas=1)
    a, b = (shard.member(each) for each in "ab")
    a.join()
    until_stable(shard, a)
    shard.now_ms += 1000
    b.join()
    a.stay_silent_about_tasks()
    (kept,) = a.active["1"]
    assert a.standby == {"1": [1 - kept]}, "the copy comes as the active task goes"
    for _ in range(2):
        b.beat()
        a.stay_silent_about_tasks()
    assert "1" not in b.active
    until_stable(shard, a, b)
    assert b.active["1"] == [1 - kept]
