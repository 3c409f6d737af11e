"""How soon after one assignment the next may come, by a clock that somebody sets."""

from __future__ import annotations

import pytest

from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.broker.coordinator.consumer import world
from tests.broker.coordinator.consumer.shard import GROUP, Shard

INTERVAL_MS = 1_000


def owned_by(at: Shard, member_id: str, epoch: int) -> tuple[int, int]:
    """The member's epoch, and how many partitions it is told to have; -1 if it is told nothing."""
    answer = at.hear(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
    )
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert not answer.error_code
    told = answer.assignment
    count = -1 if told is None else sum(len(each.partitions) for each in told.topic_partitions)
    return answer.member_epoch, count


@pytest.mark.parametrize(
    ("set_by_ms", "is_assigned"),
    [(0, False), (INTERVAL_MS, True), (-3_600_000, True)],
    ids=["at once", "later", "the clock was set back by an hour"],
)
def test_a_group_waits_for_its_interval_and_not_for_a_clock_to_catch_up(
    set_by_ms: int, is_assigned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Shard({"t": 4}, {"group.consumer.assignment.interval.ms": INTERVAL_MS})
    epoch, count = owned_by(at, "first", 0)
    assert count == 4
    monkeypatch.setattr(world, "BOOT_WALL_MS", world.BOOT_WALL_MS + set_by_ms)
    owned_by(at, "second", 0)
    _, count = owned_by(at, "first", epoch)
    assert count == (2 if is_assigned else 4), "half of it goes to the second"
