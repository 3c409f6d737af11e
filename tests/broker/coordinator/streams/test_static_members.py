"""Static members of streams groups: they keep their tasks while they are away for a moment."""

from __future__ import annotations

from functools import partial

import pytest

from moldau.broker.settings.streams import group_streams_session_timeout_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from tests.broker.coordinator.streams.shard import Member, Shard, ready, until_stable

AWAY = -2


def two_static() -> tuple[Shard, Member, Member]:
    shard = ready()
    a, b = shard.member("a", instance_id="i"), shard.member("b", instance_id="j")
    a.join()
    shard.now_ms += 1000
    b.join()
    until_stable(shard, a, b)
    return shard, a, b


def test_a_static_member_that_comes_back_has_its_tasks_again() -> None:
    shard, a, b = two_static()
    epoch, had = shard.group.state.epoch, dict(a.active)
    a.leave(AWAY)
    b.beat()
    assert shard.group.state.epoch == epoch, "nothing is assigned anew"
    again = shard.member("a2", "process-of-a", instance_id="i")
    again.join()
    until_stable(shard, again, b)
    assert again.active == had
    assert set(shard.group.state.members) == {"a2", "b"}
    shard.groups = shard.reloaded()
    assert again.beat().member_epoch == again.epoch


def ports_of(response: StreamsGroupHeartbeatResponse) -> list[int] | None:
    """The endpoints that a response names; None if it names none because nothing has changed."""
    found = response.partitions_by_user_endpoint
    return None if found is None else sorted(each.user_endpoint.port for each in found)


@pytest.mark.parametrize("endpoint", [("host", 3), None])
def test_the_endpoint_of_a_static_member_is_the_one_that_it_comes_back_with(
    endpoint: tuple[str, int] | None,
) -> None:
    shard = ready()
    a = shard.member("a", instance_id="i", endpoint=("host", 1))
    b = shard.member("b", instance_id="j", endpoint=("host", 2))
    a.join()
    shard.now_ms += 1000
    b.join()
    until_stable(shard, a, b)
    b.beat()
    assert ports_of(b.beat()) is None, "it knows where all are"
    a.leave(AWAY)
    again = shard.member("a2", "process-of-a", instance_id="i", endpoint=endpoint)
    expected = [2] if endpoint is None else [2, 3]
    assert ports_of(again.join()) == expected, "without the endpoint that it had before"
    assert ports_of(b.beat()) == expected


def test_a_static_member_that_stays_away_loses_its_tasks_with_its_session() -> None:
    shard, a, b = two_static()
    a.leave(AWAY)
    session_ms = shard.groups.services.settings[group_streams_session_timeout_ms]
    for _ in range(4):
        shard.pass_ms(session_ms // 3)
        b.beat()
    until_stable(shard, b)
    assert b.active == {"0": [0, 1], "1": [0, 1]}


def test_a_static_member_that_leaves_for_good_is_gone() -> None:
    shard, a, _ = two_static()
    a.leave()
    assert set(shard.group.state.members) == {"b"}
    assert shard.group.state.static == {"j": "b"}


@pytest.mark.parametrize(
    ("member_id", "instance_id", "epoch", "code"),
    [
        ("c", "i", 0, ErrorCode.UNRELEASED_INSTANCE_ID),
        ("c", "i", 3, ErrorCode.FENCED_INSTANCE_ID),
        ("c", "i", AWAY, ErrorCode.FENCED_INSTANCE_ID),
        ("a", "x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", None, AWAY, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_instance_id_has_one_member(
    member_id: str, instance_id: str | None, epoch: int, code: ErrorCode
) -> None:
    shard, _, _ = two_static()
    other = shard.member(member_id, instance_id=instance_id)
    other.epoch = epoch
    leave = partial(other.leave, epoch)
    send = other.beat if epoch > 0 else leave if epoch else other.join
    with pytest.raises(KafkaError) as refused:
        send()
    assert refused.value.code is code
