"""When offsets go by themselves, and groups with them."""

from __future__ import annotations

from moldau.broker.coordinator.outcome import Outcome
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from tests.broker.coordinator.table import HOUR_MS, Table

CHECK_MS = 600_000


def table(**more: object) -> Table:
    """Offsets last for an hour; it is looked for old ones every ten minutes."""
    at = Table(offsets_retention_minutes=60, **more)
    assert at.groups.settle(0) is None
    return at


def left(at: Table, group: str = "g") -> list[tuple[str, int]]:
    topics = at.groups.offsets.of_group(group)
    return [(topic, index) for topic, partitions in topics.items() for index in partitions]


def test_a_commit_without_a_group_expires_by_itself() -> None:
    at = table()
    at.commit("c", "g")
    at.pass_ms(HOUR_MS // 2)
    at.commit("d", "g", partition=1)

    at.pass_ms(HOUR_MS // 2 + CHECK_MS)
    assert left(at) == [("t", 1)]
    assert len(at.groups) == 1

    at.pass_ms(HOUR_MS)
    assert left(at) == []
    assert len(at.groups) == len(at.reloaded()) == 0


def test_a_retention_of_the_commits_own_counts_instead() -> None:
    at = table()
    at.commit("c", "g", retention_ms=CHECK_MS, version=4)
    at.commit("d", "g", partition=1, retention_ms=3 * HOUR_MS, version=4)
    assert [record.version for _, record in at.log] == [1, 1]

    at.pass_ms(2 * CHECK_MS)
    assert left(at) == [("t", 1)]
    at.pass_ms(2 * HOUR_MS)
    assert left(at) == [("t", 1)]
    at.pass_ms(HOUR_MS)
    assert left(at) == []


def test_a_retention_for_ever_is_one() -> None:
    at = table()
    at.commit("c", "g", retention_ms=2**63 - 1, version=4)
    ((_, record),) = at.log
    value = record.value
    assert isinstance(value, OffsetCommitValue)
    assert OffsetCommitValue.decode(value.encode(1), 1).expire_timestamp == 2**63 - 1

    at.pass_ms(100 * HOUR_MS)
    assert left(at) == [("t", 0)]


def test_a_classic_groups_offsets_stay_while_it_has_members() -> None:
    at = table(group_initial_rebalance_delay_ms=0)
    at.join("j", "g")
    at.pass_ms(1)
    member, generation = at.heard["j"].member_id, at.heard["j"].generation_id
    at.sync("s", "g", member, generation)
    at.now_ms += 5_000
    at.commit("c", "g", member=member, epoch=generation)
    at.pass_ms(HOUR_MS - 1_000)  # it is silent: its session ended ten seconds after the commit
    assert at.groups.classic("g").is_empty
    assert left(at) == [("t", 0)]

    at.pass_ms(2 * CHECK_MS)
    assert left(at) == []
    assert len(at.groups) == len(at.reloaded()) == 0


def test_what_members_of_a_consumer_group_read_stays() -> None:
    at = table(group_consumer_session_timeout_ms=45_000)
    at.beat("b", "g", "m", 0, "t")
    epoch = at.heard["b"].member_epoch
    at.commit("c", "g", "t", member="m", epoch=epoch)
    at.commit("d", "g", "u", member="m", epoch=epoch)
    group = at.groups.consumer("g")
    assert group.is_subscribed_to("t")
    at.now_ms += 2 * HOUR_MS
    records, is_done = at.groups.expiry.expired("g", at.now_ms)

    assert is_done
    assert [record.key for record in records] == [
        OffsetCommitKey(group="g", topic="u", partition=0)
    ]


def test_what_a_transaction_may_still_change_stays() -> None:
    at = table()
    at.commit("c", "g")
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=9, metadata="", commit_timestamp=0)
    at.groups.replay(1, 77, key, value, at.now_ms)
    at.pass_ms(2 * HOUR_MS)
    assert left(at) == [("t", 0)]

    at.groups.replay_end(77, is_commit=False)
    at.pass_ms(CHECK_MS)
    assert left(at) == []
    assert NO_PRODUCER == -1


def test_many_old_offsets_go_in_parts() -> None:
    at = table()
    for index in range(2_500):
        key = OffsetCommitKey(group="g", topic="t", partition=index)
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)
        at.groups.replay(index, NO_PRODUCER, key, value, 0)
    at.do(Outcome())
    at.now_ms = CHECK_MS
    sizes = []
    while left(at):
        outcome = at.groups.on_tick(at.now_ms)
        sizes.append(len(outcome.records))
        at.do(outcome)

    assert sizes == [1000, 1000, 501]  # the last is the group itself
