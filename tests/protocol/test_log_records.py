"""What stands around the records of logs: types, versions, frames; good bytes and bad ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import MalformedMessage
from moldau.protocol.schemas import UnknownRecordType
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.schemas.coordinator_log import (
    GROUP_LOG,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorLog,
)
from moldau.protocol.schemas.framed_log import METADATA_LOG, REMOTE_LOG
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.protocol.schemas.metadata_log import NoOpRecord, TopicRecord
from moldau.protocol.schemas.storage import ProducerEntry, ProducerSnapshot
from moldau.protocol.schemas.versioned import (
    Readable,
    decode_as_known,
    decode_versioned,
    encode_versioned,
)

TOPIC_ID = bytes(range(16))
TOPIC = TopicRecord(name="orders", topic_id=TOPIC_ID)
# frame 1, type 2, version 0; compact "orders"; the id; no tagged fields
TOPIC_BYTES = b"\x01\x02\x00" + b"\x07orders" + TOPIC_ID + b"\x00"

KEY = OffsetCommitKey(group="g", topic="orders", partition=3)
KEY_BYTES = b"\x00\x01" + b"\x00\x01g" + b"\x00\x06orders" + b"\x00\x00\x00\x03"
VALUE = OffsetCommitValue(offset=42, leader_epoch=7, metadata="", commit_timestamp=1000)
VALUE_BYTES = (
    b"\x00\x03"
    + b"\x00" * 7
    + b"\x2a"
    + b"\x00\x00\x00\x07"
    + b"\x00\x00"
    + b"\x00" * 6
    + b"\x03\xe8"
)


def test_a_metadata_record_stands_in_its_frame() -> None:
    assert METADATA_LOG.encode(TOPIC, 0) == TOPIC_BYTES
    assert METADATA_LOG.decode(TOPIC_BYTES) == (TOPIC, 0)
    assert METADATA_LOG.encode(NoOpRecord(), 0) == b"\x01\x14\x00\x00"


def test_a_frame_is_read_from_any_buffer() -> None:
    assert METADATA_LOG.decode(memoryview(TOPIC_BYTES)) == (TOPIC, 0)
    assert METADATA_LOG.decode(bytearray(TOPIC_BYTES)) == (TOPIC, 0)


def test_the_two_framed_logs_number_their_records_apart() -> None:
    assert METADATA_LOG.record_class(2).__name__ == "TopicRecord"
    assert REMOTE_LOG.record_class(2).__name__ == "RemotePartitionDeleteMetadataRecord"
    with pytest.raises(AssertionError):
        REMOTE_LOG.encode(TOPIC, 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no frame version"),
        (b"\x02\x02\x00", "unknown frame version"),
        (b"\x00", "unknown frame version"),
        (b"\x01", "no type"),
        (b"\x01\x80", "no type"),
        (b"\x01\xff\xff\xff\xff\xff\x01", "no type"),
        (b"\x01\x06\x00", "unknown record type"),
        (b"\x01\xff\x01\x00", "unknown record type"),
        (b"\x01\x02", "no version"),
        (b"\x01\x02\x01", "unknown version"),
        (TOPIC_BYTES + b"\x00", "bytes after the record"),
    ],
)
def test_a_bad_frame_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        METADATA_LOG.decode(data)


def test_a_key_has_its_type_before_it_and_a_value_its_version() -> None:
    assert GROUP_LOG.encode_key(KEY) == KEY_BYTES
    assert GROUP_LOG.encode_value(VALUE, 3) == VALUE_BYTES
    assert GROUP_LOG.decode(KEY_BYTES, VALUE_BYTES) == (KEY, VALUE)


def test_a_record_without_value_deletes_its_key() -> None:
    assert GROUP_LOG.decode(KEY_BYTES, None) == (KEY, None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no type before the key"),
        (b"\x00", "no type before the key"),
        (b"\x00\x09" + KEY_BYTES[2:], "unknown record type"),
        (b"\xff\xff" + KEY_BYTES[2:], "unknown record type"),
        (KEY_BYTES + b"\x00", "bytes after the key"),
    ],
)
def test_a_bad_key_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        GROUP_LOG.decode_key(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no version"),
        (b"\x00", "no version"),
        (b"\x00\x05" + VALUE_BYTES[2:], "unknown version"),
        (b"\xff\xff" + VALUE_BYTES[2:], "unknown version"),
        (VALUE_BYTES + b"\x00", "bytes after the message"),
    ],
)
def test_a_bad_value_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        GROUP_LOG.decode_value(1, data)


def test_an_unknown_type_is_told_apart_from_broken_bytes() -> None:
    with pytest.raises(UnknownRecordType) as caught:
        GROUP_LOG.decode_key(b"\x00\x63")
    assert caught.value.context == {"log": "__consumer_offsets", "type": 99}
    with pytest.raises(MalformedMessage) as broken:
        GROUP_LOG.decode_key(KEY_BYTES[:-1])
    assert not isinstance(broken.value, UnknownRecordType)


@pytest.mark.parametrize("log", [GROUP_LOG, TRANSACTION_LOG, SHARE_LOG])
def test_each_key_class_of_a_log_has_a_value_class_of_the_same_type(log: CoordinatorLog) -> None:
    for record_type in log.types():
        assert log.key_class(record_type).spec.key == record_type
        assert log.value_class(record_type).spec.key == record_type


def test_a_newer_subscription_is_read_as_the_newest_that_we_know() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["orders"],
        user_data=None,
        owned_partitions=[TopicPartition(topic="orders", partitions=[0, 2])],
        generation_id=5,
        rack_id="east",
    )
    data = encode_versioned(subscription, 3)
    newer = b"\x00\x09" + data[2:] + b"something that version 9 appended"
    assert decode_as_known(ConsumerProtocolSubscription, newer) == subscription
    with pytest.raises(MalformedMessage, match="unknown version"):
        decode_as_known(ConsumerProtocolSubscription, b"\xff\xff" + data[2:])


@pytest.mark.parametrize("version", range(4))
def test_an_older_subscription_is_read_in_its_own_version(version: int) -> None:
    old = ConsumerProtocolSubscription(topics=["orders"], user_data=b"\x01")
    data = encode_versioned(old, version)
    assert decode_as_known(ConsumerProtocolSubscription, data) == old
    appended = data + b"something that nobody knows"
    assert decode_as_known(ConsumerProtocolSubscription, appended) == old


def test_an_assignment_has_its_version_before_it() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[1])], user_data=b"ab"
    )
    data = encode_versioned(assignment, 1)
    assert data == (
        b"\x00\x01" + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02ab"
    )
    assert decode_as_known(ConsumerProtocolAssignment, data) == assignment


def test_a_producer_snapshot_has_its_version_before_it() -> None:
    entry = ProducerEntry(
        producer_id=1,
        epoch=0,
        last_sequence=9,
        last_offset=9,
        offset_delta=9,
        timestamp=5,
        coordinator_epoch=-1,
        current_txn_first_offset=-1,
    )
    snapshot = ProducerSnapshot(crc=0xFFFFFFFF, producer_entries=[entry])
    data = encode_versioned(snapshot, 1)
    assert data[:10] == b"\x00\x01" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01"
    assert decode_versioned(ProducerSnapshot, data) == snapshot


READERS: list[tuple[Callable[[Readable], object], bytes]] = [
    (METADATA_LOG.decode, TOPIC_BYTES),
    (GROUP_LOG.decode_key, KEY_BYTES),
    (lambda data: GROUP_LOG.decode_value(1, data), VALUE_BYTES),
]


@pytest.mark.parametrize(("read", "data"), READERS, ids=["metadata", "key", "value"])
def test_a_record_cut_anywhere_is_malformed(read: Callable[[bytes], object], data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(MalformedMessage):
            read(data[:size])


@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_malformed(data: bytes) -> None:
    for read, _ in READERS:
        try:
            read(data)
        except MalformedMessage:
            continue
