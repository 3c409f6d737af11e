"""Positions: where to begin, replicas near by, truncated logs, and how much is kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest

from moldau.client.consumer.backlog import Backlog
from moldau.client.consumer.position import Position, PositionState
from moldau.client.consumer.positions import Bounds, Positions
from moldau.client.settings.offset_reset import Reset, parse_reset
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.backoff import Backoff
from moldau.link.metadata import Broker, Metadata, Partition, Topic, TopicPartition
from moldau.protocol.messages.fetch import PartitionData
from moldau.records import encode_batch, stamp

T0 = TopicPartition("t", 0)


def cluster(epoch: int = 5, leader: int = 1) -> Metadata:
    metadata = Metadata()
    metadata.brokers = {n: Broker(n, Address(f"b{n}", 9092)) for n in (1, 2)}
    partition = Partition(0, leader, epoch, (1, 2), (1, 2))
    metadata.topics["t"] = Topic("t", bytes(16), (partition,))
    return metadata


def positions(reset: str = "latest", memory: int = 10_000) -> Positions:
    made = Positions(
        Bounds(1_000, memory, replica_s=30.0),
        parse_reset(reset),
        Backoff(100, 1000),
        Random(1),
        Backlog(),
    )
    made.assignment.assign([T0])
    return made


def data(first: int, count: int, epoch: int, near: int = -1) -> PartitionData:
    batch = encode_batch([(n, None, b"x" * 50, ()) for n in range(count)])
    stamp(batch, first, epoch)
    return PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=first + count,
        aborted_transactions=None,
        records=bytes(batch),
        preferred_read_replica=near,
    )


def reading(made: Positions, metadata: Metadata) -> Position:
    """At offset 10, of which 5 to 9 (epoch 5) were given out and 10 to 14 lie here."""
    position = made.assignment.require(T0)
    position.seek(5)
    made.leaders_changed(metadata)
    for first in (5, 10):
        made.arrived(position.asked(), data(first, 5, 5), is_committed=False, now=0.0)
        if first == 5:
            assert [r.offset for r in made.take(10)[0].records] == [5, 6, 7, 8, 9]
    assert (position.position, position.epoch, position.fetch_offset) == (10, 5, 15)
    return position


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("earliest", Reset(-2)),
        ("latest", Reset(-1)),
        ("none", Reset()),
        ("by_duration:PT15M", Reset(age_ms=900_000)),
        ("by_duration:P1DT2H", Reset(age_ms=93_600_000)),
        ("by_duration:pt0.5s", Reset(age_ms=500)),
    ],
)
def test_places_to_begin(text: str, reset: Reset) -> None:
    assert parse_reset(text) == reset


@pytest.mark.parametrize(
    "text", ["", "first", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:5m"]
)
def test_what_is_no_place_to_begin(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_reset(text)


def test_by_duration_asks_for_a_time() -> None:
    made = positions("by_duration:PT1H")
    assert made.to_look_up(0.0, 10_000_000) == {T0: 6_400_000}


def test_a_new_leader_is_asked_before_it_is_read() -> None:
    made, metadata = positions(), cluster()
    position = reading(made, metadata)
    asked = position.asked()
    made.leaders_changed(cluster(epoch=6))
    assert position.state is PositionState.VALIDATING
    assert made.to_fetch(0.0, metadata) == {}
    assert made.take(10) == [], "it is not known yet whether these are in the log still"
    made.arrived(asked, data(15, 5, 5), is_committed=False, now=0.0)
    assert position.fetch_offset == 15, "the old leader's answer is void"
    made.validated(position.asked(), 20, 5)
    assert made.take(10)[0].records[0].offset == 10
    made.leaders_changed(cluster(epoch=6))
    assert made.to_fetch(0.0, metadata), "once is enough"


def test_metadata_as_new_as_a_position_are_waited_for_but_not_for_ever() -> None:
    """Its epoch may be made up, or be of another cluster."""
    made, metadata = positions(), cluster(epoch=5)
    position = made.assignment.require(T0)
    position.seek(7, 6)
    made.leaders_changed(metadata)
    now, tries = 0.0, 0
    while made.awaits_epochs(metadata, now):
        assert made.waiting(PositionState.VALIDATING, now) == []
        assert position.not_before > now
        now, tries = position.not_before, tries + 1
    assert made.waiting(PositionState.VALIDATING, now) == [position]
    assert (30 <= now < 32, tries < 400) == (True, True)
    position.seek(7, 5)
    made.leaders_changed(metadata)
    assert not made.awaits_epochs(metadata, now)


def test_what_was_fetched_and_truncated_is_dropped_and_fetched_again() -> None:
    made = positions()
    position = reading(made, cluster())
    made.leaders_changed(cluster(epoch=6))
    made.validated(position.asked(), 12, 5)
    assert (position.state, position.fetch_offset) == (PositionState.READING, 10)
    assert made.take(10) == []


@pytest.mark.parametrize(("reset", "end", "place"), [("latest", 7, 7), ("earliest", -1, None)])
def test_what_was_given_out_and_truncated_goes_where_the_log_still_agrees(
    reset: str, end: int, place: int | None
) -> None:
    made = positions(reset)
    position = reading(made, cluster())
    made.leaders_changed(cluster(epoch=6))
    made.validated(position.asked(), end, 5)
    if place is None:
        assert position.state is PositionState.UNKNOWN
    else:
        assert (position.state, position.position) == (PositionState.READING, place)


def test_without_a_reset_a_truncation_is_told() -> None:
    made = positions("none")
    position = reading(made, cluster())
    made.leaders_changed(cluster(epoch=6))
    made.validated(position.asked(), 7, 5)
    with pytest.raises(KafkaError, match="truncated") as caught:
        made.take(10)
    context = caught.value.context
    assert (context["topic"], context["offset"], context["log_ends"]) == ("t", 10, 7)
    assert (position.position, position.fetch_offset, position.fetch_epoch) == (10, 10, 5)
    assert made.to_fetch(0.0, cluster(epoch=6)) == {}, "nothing is read of a log that has diverged"
    assert made.waiting(PositionState.VALIDATING, 0.0) == [position]
    made.validated(position.asked(), 7, 5)
    with pytest.raises(KafkaError, match="seek to go on"):
        made.take(10)
    position.seek(7)
    assert (made.take(10), position.state) == ([], PositionState.READING)


def test_without_a_reset_what_was_read_is_gone_on_with_when_it_is_back() -> None:
    made = positions("none")
    position = reading(made, cluster())
    made.leaders_changed(cluster(epoch=6))
    made.validated(position.asked(), 7, 5)
    with pytest.raises(KafkaError, match="truncated"):
        made.take(10)
    made.validated(position.asked(), 15, 5)
    assert (position.state, position.fetch_offset) == (PositionState.READING, 10), (
        "no gap behind it"
    )


def test_a_partition_that_is_known_by_no_id_does_not_hide_its_siblings() -> None:
    """1. A topic is deleted. 2. Another partition of it is assigned while it is away. 3. Another
    topic has its name: what was read of the first one is not committed to that."""
    other = TopicPartition("t", 1)
    made, metadata = positions(), cluster()
    metadata.topics["t"] = Topic("t", b"o" * 16, metadata.topics["t"].partitions)
    made.assignment.check_topics(metadata)
    metadata.topics.pop("t")
    made.assignment.assign([T0, other])
    made.assignment.check_topics(metadata)
    assert made.assignment.topic_ids([T0, other], metadata) == dict.fromkeys((T0, other), b"o" * 16)
    made.assignment.require(other).identity.topic_id = b"n" * 16
    assert made.assignment.topic_ids([T0, other], metadata) == {T0: b"o" * 16, other: b"n" * 16}
    metadata.topics["u"] = Topic("u", b"u" * 16, ())
    elsewhere = TopicPartition("u", 0), TopicPartition("v", 0)
    assert made.assignment.topic_ids(elsewhere, metadata) == {
        elsewhere[0]: b"u" * 16,
        elsewhere[1]: bytes(16),
    }


def test_a_replica_near_by_is_read_until_it_fails_or_its_time_is_over() -> None:
    made, metadata = positions(), cluster()
    position = made.assignment.require(T0)
    position.seek(0)
    made.arrived(position.asked(), data(0, 1, 5, near=2), is_committed=False, now=0.0)
    assert list(made.to_fetch(1.0, metadata)) == [2]
    made.refused(position.asked(), KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), 1.0)
    assert list(made.to_fetch(1.0, metadata)) == [1], "the leader knows better"
    assert position.fetch_offset == 1, "and nothing was reset"
    made.arrived(position.asked(), data(1, 1, 5, near=2), is_committed=False, now=1.0)
    assert list(made.to_fetch(30.0, metadata)) == [2]
    assert list(made.to_fetch(32.0, metadata)) == [1]


def test_no_more_is_kept_than_was_said() -> None:
    made, metadata = positions(memory=900), cluster()
    position = made.assignment.require(T0)
    position.seek(0)
    while made.to_fetch(0.0, metadata):
        made.arrived(
            position.asked(), data(position.fetch_offset, 4, 5), is_committed=False, now=0.0
        )
    assert 900 <= sum(each.buffered_bytes for each in made.assignment) < 900 + 400
    made.take(100)
    made.take(100)
    assert made.to_fetch(0.0, metadata)


def test_what_is_paused_and_full_does_not_keep_others_from_being_read() -> None:
    made, metadata = positions(memory=100), cluster()
    position = made.assignment.require(T0)
    position.seek(0)
    made.arrived(position.asked(), data(0, 4, 5), is_committed=False, now=0.0)
    position.is_paused = True
    other = TopicPartition("u", 0)
    metadata.topics["u"] = Topic("u", bytes(16), metadata.topics["t"].partitions)
    made.assignment.assign([T0, other])
    made.assignment.require(other).seek(0)
    assert [each.where for each in made.to_fetch(0.0, metadata)[1]] == [other]


def test_an_answer_from_before_a_partition_was_assigned_anew_is_void() -> None:
    made = positions()
    before = made.assignment.require(T0).asked()
    made.assignment.assign([], from_committed=True)
    made.assignment.assign([T0], from_committed=True)
    made.found_committed(before, 7, 0)
    assert made.assignment.require(T0).state is PositionState.COMMITTED
    made.found_committed(made.assignment.require(T0).asked(), 9, 0)
    assert made.assignment.require(T0).position == 9


@pytest.mark.parametrize("is_new", [True, False], ids=["made again", "the same"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_partition_that_comes_back_begins_anew_in_another_topic_only(
    is_new: bool, times: int
) -> None:
    """A group takes it away while there is no such topic, and gives it back later."""
    made = positions("latest")
    metadata = cluster()
    metadata.topics["t"] = Topic("t", b"o" * 16, metadata.topics["t"].partitions)
    made.assignment.check_topics(metadata)
    made.assignment.require(T0).seek(7)
    topic = metadata.topics.pop("t")
    for _ in range(times):
        made.assignment.assign([], from_committed=True)
        made.assignment.assign([T0], from_committed=True)
        made.assignment.check_topics(metadata)
    metadata.topics["t"] = replace(topic, topic_id=(b"n" if is_new else b"o") * 16)
    assert made.assignment.check_topics(metadata) == set()
    position = made.assignment.require(T0)
    assert (position.state, position.position) == (PositionState.COMMITTED, -1)
    made.found_committed(position.asked(), None, -1)
    assert made.to_look_up(0.0, 0) == {T0: -2 if is_new else -1}
    made.found(position.asked(), 0, -1)
    assert [("old_offset", 7) in each.context.items() for each in made.notices] == [True] * is_new


def test_who_chooses_anew_takes_up_nothing() -> None:
    made = positions("latest")
    metadata = cluster()
    metadata.topics["t"] = Topic("t", b"o" * 16, metadata.topics["t"].partitions)
    made.assignment.check_topics(metadata)
    made.assignment.require(T0).seek(7)
    made.assignment.assign([])
    made.assignment.begin()
    made.assignment.assign([T0])
    metadata.topics["t"] = replace(metadata.topics["t"], topic_id=b"n" * 16)
    made.assignment.check_topics(metadata)
    assert made.to_look_up(0.0, 0) == {T0: -1}


@pytest.mark.parametrize("waits", [True, False])
def test_in_a_topic_that_was_made_again_a_partition_begins_anew(waits: bool) -> None:
    made, metadata = of_topic(OLD, is_assigned_by_id=waits)
    made.assignment.require(T0).seek(5)
    asked = made.assignment.require(T0).asked()
    metadata.topics.pop("t")
    assert made.assignment.check_topics(metadata) == set(), "gone, and who knows for how long"
    assert made.assignment.topic_ids([T0], metadata) == {T0: OLD}
    assert named(made, metadata, NEW) == {T0}
    assert made.assignment.current(asked) is None
    assert made.assignment.require(T0).state is (
        PositionState.GONE if waits else PositionState.COMMITTED
    )
    assert (made.to_fetch(0.0, metadata), made.assignment.require(T0).position) == ({}, -1)


OLD, NEW, NEXT = (each * 16 for each in (b"o", b"n", b"x"))


def of_topic(topic_id: bytes, *, is_assigned_by_id: bool = False) -> tuple[Positions, Metadata]:
    """`t` of this id, assigned by a group."""
    made, metadata = positions("latest"), cluster()
    made.assignment.assign([])
    ids = {T0: topic_id} if is_assigned_by_id else {}
    made.assignment.assign([T0], from_committed=True, ids=ids)
    assert named(made, metadata, topic_id) == set(), "it is known for the first time"
    return made, metadata


def named(made: Positions, metadata: Metadata, topic_id: bytes) -> set[TopicPartition]:
    """Metadata say that `t` is this one."""
    metadata.topics["t"] = Topic("t", topic_id, cluster().topics["t"].partitions)
    with patch.object(made.out, "consumed", lambda: {T0: 3}):
        return made.assignment.check_topics(metadata)


def begins_at(made: Positions) -> int:
    """Where it is looked up, since the group has committed nothing."""
    position = made.assignment.require(T0)
    assert position.state is PositionState.COMMITTED
    made.found_committed(position.asked(), None, -1)
    return made.to_look_up(0.0, 0)[T0]


@pytest.mark.parametrize("is_found", [True, False])
def test_what_was_made_again_twice_is_read_from_its_beginning_though_nothing_was_read_between(
    is_found: bool,
) -> None:
    made, metadata = of_topic(OLD)
    made.assignment.require(T0).seek(5)
    named(made, metadata, NEW)
    if is_found:
        assert begins_at(made) == -2
        made.found(made.assignment.require(T0).asked(), 0, -1)
    assert named(made, metadata, NEXT) == {T0}
    assert begins_at(made) == -2
    assert made.assignment.given_ids([T0]) == {T0: OLD}


def test_a_former_topic_is_remembered_over_rebalances_until_something_of_the_next_is_given() -> (
    None
):
    made, metadata = of_topic(OLD)
    made.assignment.require(T0).seek(5)
    named(made, metadata, NEW)
    for _ in range(2):
        made.assignment.assign([], from_committed=True)
        assert made.assignment.given_ids([T0]) == {T0: OLD}
        made.assignment.assign([T0], from_committed=True)
        named(made, metadata, NEW)
        assert made.assignment.given_ids([T0]) == {T0: OLD}
    assert begins_at(made) == -2
    made.found(made.assignment.require(T0).asked(), 0, -1)
    made.arrived(made.assignment.require(T0).asked(), data(0, 3, 5), is_committed=False, now=0.0)
    assert made.assignment.given_ids([T0]) == {T0: OLD}
    made.take(1)
    assert made.assignment.given_ids([T0]) == {T0: NEW}


@pytest.mark.parametrize("by_id", [True, False])
def test_one_old_answer_changes_nothing_of_what_is_read_when_the_right_one_is_back(
    by_id: bool,
) -> None:
    made, metadata = of_topic(NEW, is_assigned_by_id=by_id)
    made.assignment.require(T0).seek(5)
    assert named(made, metadata, OLD) == {T0}
    assert made.awaits_topics(0.0) is by_id
    assert (made.troubles() != {}) is by_id
    assert named(made, metadata, NEW) == {T0}
    position = made.assignment.require(T0)
    assert (position.state, position.position) == (PositionState.READING, 3), "where its user is"
    assert made.troubles() == {}


def test_what_others_may_have_read_on_is_not_gone_on_with_when_an_old_answer_is_over() -> None:
    made, metadata = of_topic(NEW)
    made.assignment.require(T0).seek(5)
    named(made, metadata, OLD)
    made.assignment.assign([], from_committed=True)
    made.assignment.assign([T0], from_committed=True)
    named(made, metadata, OLD)
    assert named(made, metadata, NEW) == {T0}
    assert begins_at(made) == -1


def test_who_seeks_while_the_topic_is_another_one_seeks_in_his_own() -> None:
    made, metadata = of_topic(NEW, is_assigned_by_id=True)
    named(made, metadata, OLD)
    made.assignment.require(T0).sought(7, -1)
    assert made.assignment.require(T0).state is PositionState.GONE
    named(made, metadata, NEW)
    assert made.assignment.require(T0).position == 7


def test_an_error_is_heard_beside_partitions_that_always_have_more() -> None:
    """And one does not hide another."""
    made = positions()
    others = [TopicPartition("t", each) for each in (1, 2)]
    made.assignment.assign([T0, *others])
    reader = made.assignment.require(T0)
    reader.seek(0)
    for where in others:
        made.assignment.require(where).seek(0)
        made.assignment.require(where).fail(
            KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, str(where))
        )
    heard: list[str] = []
    for _ in range(6):
        made.arrived(reader.asked(), data(reader.fetch_offset, 1, 5), is_committed=False, now=0.0)
        try:
            heard.append(str(len(made.take(1))))
        except KafkaError as error:
            heard.append(error.reason)
    assert heard == ["1", "1", "t-1", "1", "t-2", "1"]
