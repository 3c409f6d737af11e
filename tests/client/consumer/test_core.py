"""The core of a consumer: where to begin, replicas near by, truncated logs, topics that are made
again, and how much is kept."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.offsets import EpochEnd, FoundOffset
from moldau.client.consumer.consumer_core import ConsumerCore
from moldau.client.consumer.position import PositionState
from moldau.client.settings.offset_reset import Reset, parse_reset
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Partition, Topic, TopicPartition
from tests.client.consumer.cores import (
    DENIED,
    T0,
    at,
    cluster,
    core,
    data,
    fetched,
    fetches,
    look_up,
    look_ups,
    looked_up,
    new_leader,
    reading,
    respond,
)

UNKNOWN, VALIDATING = PositionState.UNKNOWN, PositionState.VALIDATING
COMMITTED = PositionState.COMMITTED


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
    made = core("by_duration:PT1H")
    (found,) = look_up(made, UNKNOWN).positions
    assert found.look_up.timestamp(10_000_000) == 6_400_000


def test_a_new_leader_is_asked_before_it_is_read() -> None:
    made = core()
    position = reading(made)
    (fetch,) = fetches(made).values()
    new_leader(made)
    asked = look_up(made, VALIDATING)
    assert position.state is VALIDATING
    assert fetches(made) == {}
    assert made.take(10) == [], "it is not known yet whether these are in the log still"
    respond(made, fetch, data(15, 5, 5))
    assert position.fetch_offset == 15, "the old leader's answer is void"
    assert fetches(made) == {}
    made.on_looked_up(asked, {T0: EpochEnd(5, 20)}, 0.0)
    assert made.take(10)[0].records[0].offset == 10
    ready = made.ready(0.0)
    assert (list(ready.look_ups), len(ready.fetches)) == ([], 1), "once is enough"


def test_metadata_as_new_as_a_position_are_waited_for_but_not_for_ever() -> None:
    """Its epoch may be made up, or be of another cluster."""
    made = core()
    position = at(made)
    position.seek(7, 6)
    now, tries = 0.0, 0
    while not (ready := made.ready(now)).look_ups:
        assert (ready.is_stale, position.state) == (True, VALIDATING)
        assert ready.wake is not None
        assert ready.wake > now
        now, tries = ready.wake, tries + 1
    assert (30 <= now < 35, tries < 400) == (True, True)
    position.seek(7, 5)
    ready = made.ready(now)
    assert not ready.is_stale


def test_what_was_fetched_and_truncated_is_dropped_and_fetched_again() -> None:
    made = core()
    position = reading(made)
    new_leader(made)
    looked_up(made, VALIDATING, EpochEnd(5, 12))
    assert (position.state, position.fetch_offset) == (PositionState.READING, 10)
    assert made.take(10) == []


@pytest.mark.parametrize(("reset", "end", "place"), [("latest", 7, 7), ("earliest", -1, None)])
def test_what_was_given_out_and_truncated_goes_where_the_log_still_agrees(
    reset: str, end: int, place: int | None
) -> None:
    made = core(reset)
    position = reading(made)
    new_leader(made)
    looked_up(made, VALIDATING, EpochEnd(5, end))
    if place is None:
        assert position.state is UNKNOWN
    else:
        assert (position.state, position.position) == (PositionState.READING, place)


def test_without_a_reset_a_truncation_is_told() -> None:
    made = core("none")
    position = reading(made)
    new_leader(made)
    looked_up(made, VALIDATING, EpochEnd(5, 7))
    with pytest.raises(KafkaError, match="truncated") as caught:
        made.take(10)
    context = caught.value.context
    assert (context["topic"], context["offset"], context["log_ends"]) == ("t", 10, 7)
    assert (position.position, position.fetch_offset, position.fetch_epoch) == (10, 10, 5)
    ready = made.ready(0.0)
    assert not ready.fetches, "nothing is read of a log that has diverged"
    (asked,) = ready.look_ups
    made.on_looked_up(asked, {T0: EpochEnd(5, 7)}, 0.0)
    with pytest.raises(KafkaError, match="seek to go on"):
        made.take(10)
    position.seek(7)
    assert (made.take(10), position.state) == ([], PositionState.READING)


def test_without_a_reset_what_was_read_is_gone_on_with_when_it_is_back() -> None:
    made = core("none")
    position = reading(made)
    new_leader(made)
    looked_up(made, VALIDATING, EpochEnd(5, 7))
    with pytest.raises(KafkaError, match="truncated"):
        made.take(10)
    looked_up(made, VALIDATING, EpochEnd(5, 15))
    assert (position.state, position.fetch_offset) == (PositionState.READING, 10), (
        "no gap behind it"
    )


def refused_check() -> ConsumerCore:
    made = core()
    reading(made)
    new_leader(made)
    looked_up(made, VALIDATING, DENIED, 1.0)
    return made


def test_what_lies_here_is_not_given_out_while_its_check_has_failed() -> None:
    made = refused_check()
    with pytest.raises(KafkaError):
        made.take(10)
    assert at(made).state is VALIDATING
    assert made.take(10) == []
    ready = made.ready(1.0)
    assert not ready.look_ups
    assert ready.wake is not None
    looked_up(made, VALIDATING, EpochEnd(5, 20), ready.wake)
    assert made.take(10)[0].records[0].offset == 10


def test_a_second_error_does_not_hide_where_the_first_came_from() -> None:
    made = refused_check()
    at(made).fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    with pytest.raises(KafkaError):
        made.take(10)
    assert at(made).state is VALIDATING


def test_a_seek_settles_what_a_failed_check_left_open() -> None:
    made = refused_check()
    position = at(made)
    position.seek(7)
    assert (position.state, position.error) == (PositionState.READING, None)
    position.fail(KafkaError(ErrorCode.CORRUPT_MESSAGE))
    with pytest.raises(KafkaError):
        made.take(10)
    assert position.state is PositionState.READING


def test_a_partition_that_is_known_by_no_id_does_not_hide_its_siblings() -> None:
    """1. A topic is deleted. 2. Another partition of it is assigned while it is away. 3. Another
    topic has its name: what was read of the first one is not committed to that."""
    other = TopicPartition("t", 1)
    made = core()
    metadata = made.metadata
    metadata.topics["t"] = Topic("t", b"o" * 16, metadata.topics["t"].partitions)
    made.on_topics()
    metadata.topics.pop("t")
    made.on_assigned([T0, other])
    assert made.topic_ids([T0, other]) == dict.fromkeys((T0, other), b"o" * 16)
    at(made, other).identity.topic_id = b"n" * 16
    assert made.topic_ids([T0, other]) == {T0: b"o" * 16, other: b"n" * 16}
    metadata.topics["u"] = Topic("u", b"u" * 16, ())
    elsewhere = TopicPartition("u", 0), TopicPartition("v", 0)
    assert made.topic_ids(elsewhere) == {elsewhere[0]: b"u" * 16, elsewhere[1]: bytes(16)}


def test_a_replica_near_by_is_read_until_it_fails_or_its_time_is_over() -> None:
    made = core()
    position = at(made)
    position.seek(0)
    fetched(made, data(0, 1, 5, near=2))
    (fetch,) = fetches(made, 1.0).values()
    assert fetch.node_id == 2
    respond(made, fetch, data(0, 0, 5, code=ErrorCode.OFFSET_OUT_OF_RANGE), now=1.0)
    (fetch,) = fetches(made, 1.0).values()
    assert fetch.node_id == 1, "the leader knows better"
    assert position.fetch_offset == 1, "and nothing was reset"
    respond(made, fetch, data(1, 1, 5, near=2), now=1.0)
    (fetch,) = fetches(made, 30.0).values()
    assert fetch.node_id == 2
    respond(made, fetch, data(2, 1, 5), now=30.0)
    assert list(fetches(made, 32.0)) == [1]


def test_no_more_is_kept_than_was_said() -> None:
    made = core(memory=900)
    position = at(made)
    position.seek(0)
    while found := fetches(made):
        respond(made, found[1], data(position.fetch_offset, 4, 5))
    assert 900 <= position.buffered_bytes < 900 + 400
    made.take(100)
    made.take(100)
    assert fetches(made)


def test_what_is_paused_and_full_does_not_keep_others_from_being_read() -> None:
    other = TopicPartition("u", 0)
    made = core(memory=100, metadata=cluster(topics=("t", "u")))
    at(made).seek(0)
    fetched(made, data(0, 4, 5))
    made.on_pause([T0], is_paused=True)
    made.on_assigned([T0, other])
    at(made, other).seek(0)
    assert [each.where for each in fetches(made)[1].requested] == [other]


def test_an_answer_from_before_a_partition_was_assigned_anew_is_void() -> None:
    made = core()
    made.on_assigned([])
    made.on_assigned([T0], from_committed=True)
    before = look_up(made, COMMITTED)
    made.on_assigned([], from_committed=True)
    made.on_assigned([T0], from_committed=True)
    made.on_looked_up(before, {T0: FoundOffset(7, -1, 0)}, 0.0)
    assert at(made).state is COMMITTED
    looked_up(made, COMMITTED, OffsetAndMetadata(9, "", 0))
    assert at(made).position == 9


@pytest.mark.parametrize("is_new", [True, False], ids=["made again", "the same"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_partition_that_comes_back_begins_anew_in_another_topic_only(
    is_new: bool, times: int
) -> None:
    """A group takes it away while there is no such topic, and gives it back later."""
    made = core("latest")
    metadata = made.metadata
    metadata.topics["t"] = Topic("t", b"o" * 16, metadata.topics["t"].partitions)
    made.on_topics()
    at(made).seek(7)
    topic = metadata.topics.pop("t")
    for _ in range(times):
        made.on_assigned([], from_committed=True)
        made.on_assigned([T0], from_committed=True)
    metadata.topics["t"] = replace(topic, topic_id=(b"n" if is_new else b"o") * 16)
    made.on_topics()
    assert (at(made).state, at(made).position) == (COMMITTED, -1)
    looked_up(made, COMMITTED, None)
    assert looked_up(made, UNKNOWN, FoundOffset(0, -1, -1)) == {T0: -2 if is_new else -1}
    notices = made.ready(0.0).notices
    assert [("old_offset", 7) in each.context.items() for each in notices] == [True] * is_new


def test_who_chooses_anew_takes_up_nothing() -> None:
    made = core("latest")
    metadata = made.metadata
    metadata.topics["t"] = Topic("t", b"o" * 16, metadata.topics["t"].partitions)
    made.on_topics()
    at(made).seek(7)
    made.on_assigned([])
    made.on_interest(made.interest)
    made.on_assigned([T0])
    metadata.topics["t"] = replace(metadata.topics["t"], topic_id=b"n" * 16)
    made.on_topics()
    assert looked_up(made, UNKNOWN, FoundOffset(0, -1, -1)) == {T0: -1}


@pytest.mark.parametrize("waits", [True, False])
def test_in_a_topic_that_was_made_again_a_partition_begins_anew(waits: bool) -> None:
    made = of_topic(OLD, is_assigned_by_id=waits)
    at(made).seek(5)
    asked = at(made).requested()
    made.metadata.topics.pop("t")
    made.on_topics()
    assert made.current(asked) is not None, "gone, and who knows for how long"
    assert made.topic_ids([T0]) == {T0: OLD}
    named(made, NEW)
    assert made.current(asked) is None
    assert at(made).state is (PositionState.GONE if waits else COMMITTED)
    assert (fetches(made), at(made).position) == ({}, -1)


OLD, NEW, NEXT = (each * 16 for each in (b"o", b"n", b"x"))


def of_topic(topic_id: bytes, *, is_assigned_by_id: bool = False) -> ConsumerCore:
    """`t` of this id, assigned by a group."""
    made = core("latest")
    made.on_assigned([])
    ids = {T0: topic_id} if is_assigned_by_id else {}
    made.on_assigned([T0], from_committed=True, ids=ids)
    before = at(made).generation
    named(made, topic_id)
    assert at(made).generation == before, "it is known for the first time"
    return made


def named(made: ConsumerCore, topic_id: bytes) -> None:
    """Metadata say that `t` is this one."""
    made.metadata.topics["t"] = Topic("t", topic_id, cluster().topics["t"].partitions)
    with patch.object(made.progress, "returned", lambda: {T0: 3}):
        made.on_topics()


def begins_at(made: ConsumerCore) -> int | None:
    """Where it is looked up, since the group has committed nothing."""
    assert at(made).state is COMMITTED
    looked_up(made, COMMITTED, None)
    (found,) = look_up(made, UNKNOWN).positions
    return found.look_up.timestamp(0)


@pytest.mark.parametrize("is_found", [True, False])
def test_what_was_made_again_twice_is_read_from_its_beginning_though_nothing_was_read_between(
    is_found: bool,
) -> None:
    made = of_topic(OLD)
    at(made).seek(5)
    named(made, NEW)
    if is_found:
        looked_up(made, COMMITTED, None)
        assert looked_up(made, UNKNOWN, FoundOffset(0, -1, -1)) == {T0: -2}
    named(made, NEXT)
    assert begins_at(made) == -2
    assert made.given_ids([T0]) == {T0: OLD}


def test_a_former_topic_is_remembered_over_rebalances_until_something_of_the_next_is_given() -> (
    None
):
    made = of_topic(OLD)
    at(made).seek(5)
    named(made, NEW)
    for _ in range(2):
        made.on_assigned([], from_committed=True)
        assert made.given_ids([T0]) == {T0: OLD}
        made.on_assigned([T0], from_committed=True)
        named(made, NEW)
        assert made.given_ids([T0]) == {T0: OLD}
    looked_up(made, COMMITTED, None)
    assert looked_up(made, UNKNOWN, FoundOffset(0, -1, -1)) == {T0: -2}
    fetched(made, data(0, 3, 5))
    assert made.given_ids([T0]) == {T0: OLD}
    made.take(1)
    assert made.given_ids([T0]) == {T0: NEW}


@pytest.mark.parametrize("by_id", [True, False])
def test_one_old_answer_changes_nothing_of_what_is_read_when_the_right_one_is_back(
    by_id: bool,
) -> None:
    made = of_topic(NEW, is_assigned_by_id=by_id)
    at(made).seek(5)
    named(made, OLD)
    assert made.ready(0.0).is_stale is by_id
    assert (made.troubles(None) != {}) is by_id
    named(made, NEW)
    position = at(made)
    assert (position.state, position.position) == (PositionState.READING, 3), "where its user is"
    assert made.troubles(None) == {}


def test_what_others_may_have_read_on_is_not_gone_on_with_when_an_old_answer_is_over() -> None:
    made = of_topic(NEW)
    at(made).seek(5)
    named(made, OLD)
    made.on_assigned([], from_committed=True)
    made.on_assigned([T0], from_committed=True)
    named(made, OLD)
    named(made, NEW)
    assert begins_at(made) == -1


def test_who_seeks_while_the_topic_is_another_one_seeks_in_his_own() -> None:
    made = of_topic(NEW, is_assigned_by_id=True)
    named(made, OLD)
    made.on_seek({T0: (7, -1)})
    assert at(made).state is PositionState.GONE
    named(made, NEW)
    assert at(made).position == 7


def test_an_error_is_heard_beside_partitions_that_always_have_more() -> None:
    """And one does not hide another."""
    made = core()
    others = [TopicPartition("t", each) for each in (1, 2)]
    made.on_assigned([T0, *others])
    at(made).seek(0)
    for where in others:
        at(made, where).seek(0)
        at(made, where).fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, str(where)))
    heard: list[str] = []
    for _ in range(6):
        at(made).on_data(data(at(made).fetch_offset, 1, 5), 0.0)
        try:
            heard.append(str(len(made.take(1))))
        except KafkaError as error:
            heard.append(error.reason)
    assert heard == ["1", "1", "t-1", "1", "t-2", "1"]


def test_a_fetch_waits_at_its_broker_only_if_it_names_all_that_is_read_there() -> None:
    other = TopicPartition("u", 0)
    made = core(metadata=cluster(topics=("t", "u")))
    made.on_assigned([T0, other])
    for where in (T0, other):
        at(made, where).seek(0)
    fetch = fetches(made)[1]
    assert (fetch.may_wait, len(fetch.requested)) == (True, 2)
    respond(made, fetch, data(0, 20, 5))
    assert at(made).buffered_bytes > 1_000, "it is full"
    fetch = fetches(made)[1]
    assert (fetch.may_wait, [each.where for each in fetch.requested]) == (False, [other])
    respond(made, fetch)
    assert fetches(made) == {}, "the broker had nothing of the one with room"
    made.take(1)
    made.on_emptied(makes_room=False)
    assert list(fetches(made)) == [1]


def test_one_fetch_a_broker_and_one_look_up_of_a_kind_are_under_way() -> None:
    other = TopicPartition("u", 0)
    made = core(metadata=cluster(topics=("t", "u")))
    made.on_assigned([T0, other])
    at(made).seek(0)
    ready = made.ready(0.0)
    assert ([each.node_id for each in ready.fetches], len(ready.look_ups)) == ([1], 1)
    again = made.ready(0.0)
    assert (list(again.fetches), list(again.look_ups), again.wake) == ([], [], None)
    (fetch,) = ready.fetches
    made.on_fetched(fetch, KafkaError(ErrorCode.NETWORK_EXCEPTION), 0.0)
    (asked,) = ready.look_ups
    made.on_looked_up(asked, KafkaError(ErrorCode.NETWORK_EXCEPTION), 0.0)
    failed = made.ready(0.0)
    assert (list(failed.fetches), list(failed.look_ups), failed.is_stale) == ([], [], True)
    assert failed.wake is not None
    later = made.ready(failed.wake)
    assert (len(later.fetches), len(later.look_ups)) == (1, 1)


def test_a_position_without_a_leader_is_tried_when_there_is_one() -> None:
    made = core()
    at(made).seek(0)
    made.metadata.topics["t"] = cluster(leader=-1).topics["t"]
    ready = made.ready(0.0)
    assert (list(ready.fetches), ready.is_stale) == ([], True)
    assert made.troubles(None).keys() == {T0}
    new_leader(made)
    assert list(fetches(made)) == [1]


def test_a_committed_offset_waits_for_pending_commits_and_for_listeners() -> None:
    made = core()
    made.on_assigned([])
    made.on_assigned([T0], from_committed=True)
    made.progress.on_undecided([T0])
    made.progress.on_commit("one", {T0: OffsetAndMetadata(3)}, until=5.0)
    assert look_ups(made, COMMITTED) == []
    made.progress.on_decided()
    ready = made.ready(0.0)
    assert (list(ready.look_ups), ready.wake) == ([], 5.0)
    made.progress.on_committed("one", {T0: OffsetAndMetadata(3)}, (), was_cut_off=False)
    assert len(look_ups(made, COMMITTED)) == 1


def test_a_partition_that_does_not_exist_is_an_error_of_the_next_poll() -> None:
    made = core()
    made.metadata.topics["t"] = Topic("t", bytes(16), tuple[Partition, ...]())
    at(made).seek(0)
    assert made.ready(0.0).has_failed
    with pytest.raises(KafkaError, match="no such partition"):
        made.take(10)
