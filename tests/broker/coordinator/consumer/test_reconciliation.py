"""One member's steps: revoke, move, take."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.broker.coordinator.group.consumer.member_state import (
    TRANSITIONS,
    MemberState,
    may_follow,
)
from moldau.broker.coordinator.group.consumer.reconciliation import Progress, Target, next_step
from moldau.errors.codes import ErrorCode, KafkaError

T1, T2 = b"1" * 16, b"2" * 16
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def target(
    epoch: int,
    partitions: Mapping[bytes, set[int]],
    *,
    taken: tuple[tuple[bytes, int], ...] = (),
    subscribed: tuple[bytes, ...] = (T1, T2),
    changed: bool = False,
) -> Target[bytes]:
    wanted = {each: frozenset(held) for each, held in partitions.items()}
    return Target(epoch, wanted, subscribed, lambda *where: where not in taken, changed)


def test_a_new_member_takes_what_is_free() -> None:
    after = next_step(Progress(), target(2, {T1: {0, 1}}), {})
    assert after == Progress(2, 0, STABLE, {T1: {0: 2, 1: 2}})


def test_a_new_member_waits_for_what_others_hold() -> None:
    after = next_step(Progress(), target(2, {T1: {0, 1}}, taken=((T1, 1),)), {})
    assert after == Progress(2, 0, UNRELEASED, {T1: {0: 2}})


def test_a_member_gives_up_before_it_moves_on() -> None:
    now = Progress(2, 0, STABLE, {T1: {0: 2, 1: 2}})
    to = target(3, {T1: {0}, T2: {5}})
    after = next_step(now, to, {T1: frozenset({0, 1})})
    assert after == Progress(2, 2, UNREVOKED, {T1: {0: 2}}, {T1: {1: 2}})
    assert next_step(after, to, {T1: frozenset({0, 1})}) is after
    assert next_step(after, to, None) is after
    assert next_step(after, to, {T1: frozenset({0})}) == Progress(
        3, 2, STABLE, {T1: {0: 2}, T2: {5: 3}}
    )


def test_who_does_not_own_it_any_more_need_not_be_asked_for_it() -> None:
    now = Progress(2, 0, STABLE, {T1: {0: 2, 1: 2}})
    after = next_step(now, target(3, {T1: {0}}), {T1: frozenset({0})})
    assert after == Progress(3, 2, STABLE, {T1: {0: 2}})


def test_a_partition_that_comes_back_while_it_is_given_up_is_its_own() -> None:
    now = Progress(2, 2, UNREVOKED, {T1: {0: 2}}, {T1: {1: 2}})
    to = target(4, {T1: {0, 1}}, taken=((T1, 1),))
    assert next_step(now, to, {T1: frozenset({0})}) == Progress(4, 2, STABLE, {T1: {0: 2, 1: 4}})


def test_who_waits_takes_what_has_become_free_and_keeps_its_epoch() -> None:
    now = Progress(3, 2, UNRELEASED, {T1: {0: 2}})
    after = next_step(now, target(3, {T1: {0, 1, 2}}, taken=((T1, 2),)), None)
    assert after == Progress(3, 3, UNRELEASED, {T1: {0: 2, 1: 3}})


def test_a_topic_that_is_not_wanted_any_more_goes_before_there_is_a_new_target() -> None:
    now = Progress(2, 0, STABLE, {T1: {0: 2}, T2: {0: 2}})
    to = target(2, {T1: {0}, T2: {0}}, subscribed=(T1,), changed=True)
    after = next_step(now, to, None)
    assert after == Progress(2, 2, UNREVOKED, {T1: {0: 2}}, {T2: {0: 2}})


def test_a_target_of_a_topic_that_is_not_wanted_is_not_followed() -> None:
    after = next_step(Progress(), target(2, {T1: {0}, T2: {0}}, subscribed=(T1,)), {})
    assert after == Progress(2, 0, STABLE, {T1: {0: 2}})


def test_a_state_of_a_later_version_is_left_by_joining_again() -> None:
    now = Progress(5, 4, MemberState.UNKNOWN, {T1: {0: 2}})
    with pytest.raises(KafkaError) as refused:
        next_step(now, target(6, {T1: {0}}), None)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert next_step(now, target(6, {T1: {0}}), {}).state is STABLE


def test_the_table_of_transitions_knows_every_state() -> None:
    assert TRANSITIONS.keys() == set(MemberState)
    assert all(may_follow(state, state) for state in MemberState)
    assert not any(MemberState.UNKNOWN in after for after in TRANSITIONS.values())
    assert MemberState.of_number(1) is UNREVOKED
    assert MemberState.of_number(77) is MemberState.UNKNOWN
