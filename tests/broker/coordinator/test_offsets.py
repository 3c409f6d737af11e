"""Offsets as the log tells them: replaced, deleted, pending until a marker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.offsets import Offsets, from_legacy, tombstone
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.schemas.group_log import (
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)


def key(group: str = "g", topic: str = "t", partition: int = 0) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


def value(offset: int, topic_id: Uuid = ZERO_UUID) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0, topic_id=topic_id)


def offset_of(offsets: Offsets, group: str = "g", topic: str = "t", partition: int = 0) -> int:
    found = offsets.get(group, topic, partition)
    return -1 if found is None else found.offset


def test_a_later_record_takes_the_place_of_an_earlier_one() -> None:
    offsets = Offsets()
    offsets.replay(0, NO_PRODUCER, key(), value(5))
    offsets.replay(1, NO_PRODUCER, key(), value(3))
    offsets.replay(2, NO_PRODUCER, key(partition=1), value(8))

    assert offset_of(offsets) == 3
    assert offset_of(offsets, partition=1) == 8
    assert offset_of(offsets, topic="u") == offset_of(offsets, group="h") == -1


def test_a_tombstone_leaves_nothing_behind() -> None:
    offsets = Offsets()
    offsets.replay(0, NO_PRODUCER, key(), value(5))
    offsets.replay(1, NO_PRODUCER, key(), None)
    offsets.replay(2, NO_PRODUCER, key(), None)

    assert not offsets.has_any("g")
    assert list(offsets.groups()) == []


def test_a_tombstone_of_what_was_never_committed_takes_nothing() -> None:
    offsets = Offsets()
    offsets.replay(0, NO_PRODUCER, key(), value(5))
    offsets.replay(1, 77, key(topic="u"), value(6))
    for at, (group, topic) in enumerate((("g", "v"), ("h", "t"), ("g", "u")), 2):
        offsets.replay(at, NO_PRODUCER, key(group, topic), None)

    assert offset_of(offsets) == 5
    assert not offsets.is_in_transaction("g")


def test_an_offset_of_a_transaction_is_pending_until_it_commits() -> None:
    offsets = Offsets()
    offsets.replay(0, NO_PRODUCER, key(), value(5))
    offsets.replay(1, 77, key(), value(9))
    assert offset_of(offsets) == 5
    assert offsets.is_pending("g", "t", 0)
    assert not offsets.is_pending("g", "t", 1)

    assert list(offsets.replay_end(77, is_commit=True)) == ["g"]

    assert offset_of(offsets) == 9
    assert not offsets.is_pending("g", "t", 0)


def test_an_aborted_transaction_changes_nothing() -> None:
    offsets = Offsets()
    offsets.replay(0, 77, key(), value(9))
    assert offsets.has_any("g")
    assert list(offsets.replay_end(77, is_commit=False)) == ["g"]
    assert not offsets.has_any("g")
    assert list(offsets.replay_end(77, is_commit=True)) == []


def test_a_commit_that_was_written_after_the_transactions_stays() -> None:
    """1. a transaction writes 9, 2. somebody commits 7 without one, 3. the transaction ends."""
    offsets = Offsets()
    offsets.replay(0, 77, key(), value(9))
    offsets.replay(1, NO_PRODUCER, key(), value(7))
    offsets.replay_end(77, is_commit=True)

    assert offset_of(offsets) == 7


def test_a_tombstone_ends_pending_offsets_too() -> None:
    offsets = Offsets()
    offsets.replay(0, 77, key(), value(9))
    offsets.replay(1, NO_PRODUCER, key(), None)
    assert not offsets.is_in_transaction("g")
    offsets.replay_end(77, is_commit=True)
    assert offset_of(offsets) == -1


def test_tombstones_of_a_group_name_pending_offsets_once() -> None:
    offsets = Offsets()
    offsets.replay(0, NO_PRODUCER, key(), value(1))
    offsets.replay(1, 77, key(), value(9))
    offsets.replay(2, 77, key(partition=1), value(9))
    offsets.replay(3, NO_PRODUCER, key("h"), value(9))

    assert list(offsets.tombstones("g")) == [tombstone("g", "t", 0), tombstone("g", "t", 1)]
    places = [("g", ("t", 0)), ("h", ("t", 0)), ("g", ("t", 1))]
    assert list(offsets.places_of_topics(["t", "u"])) == places


def test_the_oldest_form_of_the_record_is_read() -> None:
    read = from_legacy(LegacyOffsetCommitValue(offset=4, metadata="m", commit_timestamp=7))
    assert (read.offset, read.metadata, read.commit_timestamp) == (4, "m", 7)
    assert (read.leader_epoch, read.expire_timestamp) == (-1, -1)


steps = st.lists(
    st.tuples(
        st.sampled_from(("commit", "delete", "txn", "end", "abort")),
        st.sampled_from(("g", "h")),
        st.integers(0, 2),
        st.integers(1, 2),
    )
)


@given(steps)
def test_nothing_empty_stays_behind(given_steps: list[tuple[str, str, int, int]]) -> None:
    offsets = Offsets()
    for at, (what, group, partition, producer) in enumerate(given_steps):
        if what in ("end", "abort"):
            offsets.replay_end(producer, is_commit=what == "end")
        else:
            producer_id = producer if what == "txn" else NO_PRODUCER
            written = None if what == "delete" else value(at)
            offsets.replay(at, producer_id, key(group, "t", partition), written)
    for group in ("g", "h"):
        topics = offsets.of_group(group)
        assert all(topics.values())
        assert bool(topics) == (group in offsets.groups())
        for record in list(offsets.tombstones(group)):
            assert isinstance(record.key, OffsetCommitKey)
            offsets.replay(1000, NO_PRODUCER, record.key, None)
        assert not offsets.has_any(group)


def test_offsets_are_of_a_former_topic_when_all_at_their_place_are() -> None:
    old, new = b"o" * 16, b"n" * 16
    offsets = Offsets()
    for at, (partition, producer_id, topic_id) in enumerate(
        (
            (0, NO_PRODUCER, old),
            (1, NO_PRODUCER, new),
            (2, NO_PRODUCER, ZERO_UUID),
            (3, 77, old),
            (4, NO_PRODUCER, old),
            (4, 77, new),
            (5, 77, old),
            (5, NO_PRODUCER, new),
        )
    ):
        offsets.replay(at, producer_id, key(partition=partition), value(at, topic_id))
    offsets.replay(9, NO_PRODUCER, key("h", "gone", 1), value(9, old))
    found = offsets.places_of_former_topics({"t": new}.get)
    assert sorted(found) == [("g", ("t", 0)), ("g", ("t", 3)), ("h", ("gone", 1))]
