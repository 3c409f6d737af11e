"""Records of `__remote_log_metadata`: events to bytes and back, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.tiered.metadata_records import decode, encode, metadata_partition
from moldau.broker.tiered.remote_segment import RemoteEvent, SegmentState
from moldau.errors import MalformedMessage
from moldau.protocol.schemas.framed_log import REMOTE_LOG
from moldau.protocol.schemas.storage import RemoteLogSegmentMetadataSnapshotRecord
from tests.broker.tiered.kafka_remote_log import random_event
from tests.broker.tiered.segments import NOW, TOPIC_ID, changed, id_of, segment

SEGMENT = replace(
    segment(5, range(10, 20), ((3, 10), (4, 15))), custom_metadata=b"v1", max_timestamp_ms=7
)
TOPIC_BYTES = b"\x07orders" + TOPIC_ID + bytes(4)
SEGMENT_BYTES = (
    b"\x01\x00\x00"  # the frame; the type; the version
    + TOPIC_BYTES
    + b"\x00"  # no tagged fields of the partition
    + id_of(5).id
    + b"\x00"
    + (10).to_bytes(8, "big")
    + (19).to_bytes(8, "big")  # inclusive
    + (1).to_bytes(4, "big")
    + (7).to_bytes(8, "big")
    + NOW.to_bytes(8, "big")
    + b"\x03"  # two epochs
    + (3).to_bytes(4, "big")
    + (10).to_bytes(8, "big")
    + b"\x00"
    + (4).to_bytes(4, "big")
    + (15).to_bytes(8, "big")
    + b"\x00"
    + (100).to_bytes(4, "big")
    + b"\x03v1"
    + b"\x00"  # COPY_STARTED
    + b"\x01\x00\x01\x01"  # one tagged field: the transaction index is empty
)


def test_a_segment_is_a_record_with_an_inclusive_end() -> None:
    assert encode(SEGMENT) == SEGMENT_BYTES
    assert decode(SEGMENT_BYTES) == SEGMENT


@given(st.integers(0, 2**32))
def test_any_event_comes_back(seed: int) -> None:
    event: RemoteEvent = random_event(Random(seed))
    assert decode(encode(event)) == event


@given(st.integers(0, 2**32), st.data())
def test_a_record_that_is_cut_is_malformed(seed: int, data: st.DataObject) -> None:
    value = encode(random_event(Random(seed)))
    size = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(MalformedMessage):
        decode(value[:size])


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_malformed(value: bytes) -> None:
    try:
        decode(value)
    except MalformedMessage:
        return


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (SEGMENT_BYTES.replace((19).to_bytes(8, "big"), (9).to_bytes(8, "big")), "without records"),
        (SEGMENT_BYTES.replace(b"\x00\x00\x00\x04", b"\x00\x00\x00\x03"), "do not rise"),
        (SEGMENT_BYTES.replace(b"\x03v1\x00", b"\x03v1\x09"), "unknown SegmentState"),
    ],
)
def test_what_no_segment_is_is_malformed(wrong: bytes, reason: str) -> None:
    assert wrong != SEGMENT_BYTES
    with pytest.raises(MalformedMessage, match=reason):
        decode(wrong)


def test_a_segment_without_epochs_is_not_written() -> None:
    with pytest.raises(MalformedMessage, match="do not rise"):
        encode(replace(SEGMENT, leader_epochs=()))


def test_a_snapshot_has_no_place_in_the_topic() -> None:
    record = RemoteLogSegmentMetadataSnapshotRecord(
        segment_id=bytes(16),
        start_offset=0,
        end_offset=9,
        broker_id=1,
        max_timestamp_ms=1,
        event_timestamp_ms=1,
        segment_leader_epochs=[],
        segment_size_in_bytes=1,
        remote_log_segment_state=0,
    )
    with pytest.raises(MalformedMessage, match="without a partition"):
        decode(REMOTE_LOG.encode(record, 0))


def test_an_update_keeps_what_it_does_not_name() -> None:
    update = changed(5, SegmentState.COPY_FINISHED)
    assert update.applied_to(SEGMENT) == replace(SEGMENT, state=SegmentState.COPY_FINISHED)
    named = update._replace(custom_metadata=b"v2").applied_to(SEGMENT)
    assert named.custom_metadata == b"v2"


def test_partitions_spread_over_the_topic() -> None:
    found = [metadata_partition(TOPIC_ID, number, 50) for number in range(500)]
    assert set(found) == set(range(50))


def test_spans_begin_no_earlier_than_the_segment_and_leave_out_empty_epochs() -> None:
    begun = replace(SEGMENT, leader_epochs=(EpochEntry(1, 2), EpochEntry(2, 10), EpochEntry(4, 15)))
    assert [tuple(span) for span in begun.spans] == [(2, 10, 15), (4, 15, 20)]
