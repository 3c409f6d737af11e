"""A log as its users see it: appended, refused, read, looked up, forgotten, truncated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.log.log import AppendInfo, PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.offset_lookup import OffsetAt
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.recovery import Opening
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.records import (
    Codec,
    ControlType,
    Producer,
    encode_batch,
    encode_control_batch,
    iter_records,
    open_batch,
    walk,
)
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch, contents, out_of_use

BIG = LogConfig(segment_index_bytes=1200, index_interval_bytes=100, retention_ms=-1)
CLEAN = Opening(NOW, is_clean=True, recovery_point=1 << 40)


def append(log: PartitionLog, values: int = 3, epoch: int = 0, **how: object) -> AppendInfo:
    appended = log.append_as_leader(batch(values, **how), epoch, NOW)  # type: ignore[arg-type]
    log.update_high_watermark(log.log_end_offset)
    return appended


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in iter_records(data)]


def refused(log: PartitionLog, data: bytes | bytearray, epoch: int = 0) -> ErrorCode:
    before = contents(log)
    with pytest.raises(KafkaError) as error:
        log.append_as_leader(data, epoch, NOW)
    assert contents(log) == before
    return error.value.code


# Appending.


def test_a_new_log_is_empty() -> None:
    log = Machine().open()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert len(log.read(0, 100)) == 0


def test_offsets_follow_one_another_and_the_bytes_are_stamped_in_place() -> None:
    log = Machine().open()
    first, second = batch(3), batch(2)
    assert log.append_as_leader(first, 4, NOW) == AppendInfo(0, 2)
    assert log.append_as_leader(memoryview(second), 5, NOW) == AppendInfo(3, 4)
    assert (open_batch(second).header.base_offset, log.log_end_offset) == (3, 5)
    assert open_batch(second).header.partition_leader_epoch == 5
    assert log.read(0, 10_000).read() == bytes(first + second)
    assert list(log.leader_epochs.entries) == [(4, 0), (5, 3)]


def test_bytes_that_cannot_be_written_are_copied() -> None:
    log = Machine().open()
    data = bytes(batch(2))
    log.append_as_leader(batch(1), 7, NOW)
    log.append_as_leader(data, 7, NOW)
    assert open_batch(data).header.base_offset == 0
    assert [each[0] for each in contents(log)] == [0, 1]


@pytest.mark.parametrize(
    ("data", "config", "code"),
    [
        (batch()[:-1] + b"?", SMALL, ErrorCode.CORRUPT_MESSAGE),
        (batch()[:40], SMALL, ErrorCode.CORRUPT_MESSAGE),
        (batch() + batch(), SMALL, ErrorCode.CORRUPT_MESSAGE),
        (batch(key=None), replace(SMALL, is_compacted=True), ErrorCode.INVALID_RECORD),
        (
            encode_control_batch([(ControlType.ABORT, bytes(6))], NOW),
            SMALL,
            ErrorCode.INVALID_RECORD,
        ),
        (batch(), replace(SMALL, max_message_bytes=80), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(), replace(SMALL, segment_bytes=100), ErrorCode.RECORD_LIST_TOO_LARGE),
        (batch(timestamp=NOW + 3_600_001), SMALL, ErrorCode.INVALID_TIMESTAMP),
        (
            batch(timestamp=NOW - 11),
            replace(SMALL, timestamp_before_max_ms=10),
            ErrorCode.INVALID_TIMESTAMP,
        ),
        (batch(timestamp=-7), SMALL, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_what_a_leader_does_not_take(data: bytearray, config: LogConfig, code: ErrorCode) -> None:
    log = Machine(config=config).open()
    assert refused(log, data) is code


def test_the_brokers_time_is_stamped_where_the_topic_wants_it() -> None:
    log = Machine(config=replace(BIG, is_append_time=True)).open()
    data = batch(2, timestamp=5)
    assert log.append_as_leader(data, 0, NOW) == AppendInfo(0, 1, NOW)
    header = open_batch(data).header
    assert (header.max_timestamp, header.is_log_append_time) == (NOW, True)
    open_batch(data).check_crc()
    assert log.reading.find_offset(NOW) == OffsetAt(NOW, 0, 0)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.NONE, Codec.LZ4])
def test_the_topics_codec_replaces_the_producers(codec: Codec) -> None:
    log = Machine(config=replace(BIG, compression=codec)).open()
    sent = batch(50, codec=Codec.GZIP)
    expected = open_batch(sent).records()
    append(log)
    log.append_as_leader(sent, 0, NOW)
    kept = list(walk(log.read(3, 10_000).read()))
    assert kept[0].codec is codec
    kept[0].check_crc()
    assert [each.value for each in kept[0].records()] == [each.value for each in expected]


def test_a_batch_that_comes_again_is_answered_with_its_first_offset() -> None:
    log = Machine().open()
    append(log)
    one = Producer(9, 0, 0)
    assert append(log, 2, producer=one) == AppendInfo(3, 4)
    assert append(log, 2, producer=Producer(9, 0, 2)) == AppendInfo(5, 6)
    assert append(log, 2, producer=one) == AppendInfo(3, 4, NOW + 1, True)
    assert log.log_end_offset == 7
    assert refused(log, batch(producer=Producer(9, 0, 9))) is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert log.producers.entries[9].last_sequence == 3


def test_a_follower_keeps_the_leaders_offsets() -> None:
    log = Machine(config=BIG).open()
    data = encode_batch([(NOW, b"k", b"v", ())] * 2, 10, leader_epoch=3)
    data += encode_batch([(NOW, b"k", b"v", ())], 15, leader_epoch=4)
    assert log.append_as_follower(data + data[:30], NOW) == AppendInfo(10, 15)
    assert log.log_end_offset == 16
    assert list(log.leader_epochs.entries) == [(3, 10), (4, 15)]
    assert log.read(0, 10_000).read() == bytes(data)
    with pytest.raises(KafkaError, match="does not go on"):
        log.append_as_follower(data, NOW)
    rotten = bytearray(encode_batch([(NOW, b"k", b"v", ())], 20))
    rotten[-1] ^= 1
    with pytest.raises(KafkaError, match="checksum"):
        log.append_as_follower(rotten, NOW)
    assert log.log_end_offset == 16


def test_a_followers_batches_fill_several_segments() -> None:
    log = Machine().open()
    data = bytearray()
    for number in range(30):
        data += encode_batch([(NOW, b"k", bytes(100), ())], number, leader_epoch=1)
    log.append_as_follower(data, NOW)
    assert len(log.segments) > 4
    assert all(each.size_bytes <= SMALL.segment_bytes for each in log.segments)
    assert b"".join(each for _, each in contents(log)) == bytes(data)


# Rolling.


def test_a_segment_is_left_when_it_is_full_and_its_indexes_are_cut() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(20):
        append(log)
    bases = [each.base_offset for each in log.segments]
    assert len(bases) > 2
    for segment in list(log.segments)[:-1]:
        assert segment.size_bytes <= SMALL.segment_bytes
        size = machine.files.stat(segment.path(".timeindex")).size_bytes
        assert size == 12 * segment.time_index.count > 0
        assert segment.time_index.last.timestamp == segment.max_timestamp == NOW + 2
    assert set(bases[1:]) <= set(log.snapshots.offsets)


def test_a_segment_is_left_when_its_time_is_over() -> None:
    log = Machine(config=replace(BIG, segment_ms=1000)).open()
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 900)
    assert len(log.segments) == 1
    append(log, timestamp=NOW + 1100)
    assert [each.base_offset for each in log.segments] == [0, 6]


def test_a_segment_is_left_when_its_index_is_full() -> None:
    log = Machine(config=replace(BIG, segment_index_bytes=40, index_interval_bytes=0)).open()
    for _ in range(8):
        append(log)
    assert len(log.segments) == 2


def test_records_without_time_roll_by_the_clock() -> None:
    log = Machine(config=replace(BIG, segment_ms=1000)).open()
    log.append_as_leader(encode_batch([(-1, b"k", b"v", ())]), 0, NOW + 500)
    log.append_as_leader(encode_batch([(-1, b"k", b"v", ())]), 0, NOW + 1001)
    assert len(log.segments) == 2


# Reading.


@pytest.mark.parametrize("config", [SMALL, BIG])
def test_every_offset_is_found_in_its_batch(config: LogConfig) -> None:
    log = Machine(config=config).open()
    for number in range(30):
        append(log, 1 + number % 4)
    for offset in range(log.log_end_offset):
        first = next(walk(log.read(offset, 1).read())).header
        assert first.base_offset <= offset <= first.last_offset


def test_a_read_is_as_long_as_asked_but_never_without_a_whole_batch() -> None:
    log = Machine(config=BIG).open()
    append(log)
    append(log)
    size = log.segments.active.size_bytes
    assert len(log.read(0, 1)) == size // 2
    assert len(log.read(0, 1, min_one_batch=False)) == 0
    assert len(log.read(0, size - 5)) == size - 5
    assert len(log.read(0, 1 << 20)) == size
    assert len(log.read(4, 1 << 20)) == size // 2


def test_a_read_ends_at_the_bound() -> None:
    log = Machine().open()
    for _ in range(12):
        append(log)
    for upper in range(0, 37, 3):
        offset, got = 0, []
        while part := offsets(log.read(offset, 1 << 20, upper).read()):
            got += part
            offset = part[-1] + 1
        assert got == list(range(upper))


@pytest.mark.parametrize("offset", [-1, 4, 7])
def test_an_offset_outside_is_out_of_range(offset: int) -> None:
    log = Machine(config=BIG).open()
    append(log)
    with pytest.raises(KafkaError) as error:
        log.read(offset, 100)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_outlives_its_segment() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(12):
        append(log)
    piece = log.read(0, 1 << 20)
    expected = piece.read()
    log.increment_log_start_offset(30)
    assert log.delete_old_segments(NOW)
    assert log.retention.remove_deleted(NOW + 1000)
    assert piece.read() == expected
    assert piece.read_at(5, 7) == expected[5:12]
    buffer = bytearray(9)
    assert piece.read_into(len(piece) - 4, buffer) == 4
    assert buffer[:4] == expected[-4:]


def test_a_damaged_index_is_made_anew() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(20):
        append(log)
    log.close()
    expected = contents(PartitionLog.open(machine.files, DIRECTORY, SMALL, CLEAN))
    machine.kill()
    path = f"{DIRECTORY}/{0:020d}.index"
    machine.disk.put(path, b"\0\0\0\1\0\0\0\7")
    again = PartitionLog.open(machine.files, DIRECTORY, SMALL, CLEAN)
    assert [each[0] for each in contents(again)] == [each[0] for each in expected]
    assert offsets(again.read(4, 100).read())[0] == 3


@pytest.mark.parametrize("bit", [0x80, 0x40])
@pytest.mark.parametrize("segment_bytes", [SMALL.segment_bytes, 1 << 30])
def test_an_index_that_leads_out_of_the_log_costs_no_read(bit: int, segment_bytes: int) -> None:
    """One flipped bit of a position, in sealed segments and in the active one."""
    machine = Machine(config=replace(SMALL, index_interval_bytes=0, segment_bytes=segment_bytes))
    log = machine.open()
    for _ in range(20):
        append(log)
    end = log.log_end_offset
    log.close()
    machine.kill()
    damaged = 0
    for name in machine.files.list(DIRECTORY):
        if name.endswith(".index"):
            path = f"{DIRECTORY}/{name}"
            with machine.files.open(path) as file:
                data = bytearray(file.read_at(0, file.size))
            if len(data) > 8:
                data[4] ^= bit
                machine.disk.put(path, bytes(data))
                damaged += 1
    assert damaged
    again = PartitionLog.open(machine.files, DIRECTORY, machine.config, CLEAN)
    for offset in range(end):
        assert offset in offsets(again.read(offset, 100).read())
    assert again.failure is None


# Times.


def test_timestamps_find_their_records() -> None:
    log = Machine().open()
    for number in range(20):
        append(log, 3, timestamp=NOW + 10 * number)
    for timestamp in range(NOW - 5, NOW + 192):
        number, rest = divmod(max(0, timestamp - NOW), 10)
        number, rest = (number, rest) if rest < 3 else (number + 1, 0)
        expected = OffsetAt(NOW + 10 * number + rest, 3 * number + rest, 0)
        assert log.reading.find_offset(timestamp) == expected
    assert log.reading.find_offset(NOW + 193) is None
    assert log.reading.find_offset(NOW + 100, 30) is None


def test_the_greatest_time_of_records_without_one_is_that_of_the_first() -> None:
    log = Machine().open()
    assert log.reading.find_offset(-3) is None
    for number in range(3):
        append(log, 1, epoch=number, timestamp=-1)
    assert log.reading.find_offset(-3) == OffsetAt(-1, 0, 0)
    log.increment_log_start_offset(1)
    assert log.reading.find_offset(-3) == OffsetAt(-1, 1, 1)
    append(log, 1, epoch=3, timestamp=NOW)
    assert log.reading.find_offset(-3) == OffsetAt(NOW, 3, 3)


def test_the_special_timestamps() -> None:
    log = Machine().open()
    for number in range(10):
        append(log, 3, epoch=number, timestamp=NOW - 10 * abs(number - 4))
    log.increment_log_start_offset(5)
    assert log.reading.find_offset(-1, 17) == OffsetAt(-1, 17, 9)
    assert log.reading.find_offset(-2) == OffsetAt(-1, 5, 1)
    assert log.reading.find_offset(-3) == OffsetAt(NOW + 2, 14, 4)
    assert log.reading.find_offset(-4) == OffsetAt(-1, 5, 1)
    assert log.reading.find_offset(-5) == OffsetAt(-1, -1, None)
    assert log.reading.find_offset(-6) == OffsetAt(-1, -1, None)


# Transactions.


def end_transaction(log: PartitionLog, producer: int, kind: ControlType) -> None:
    value = b"\0\0" + EndTxnMarker(coordinator_epoch=0).encode(0)
    marker = encode_control_batch(
        [(kind, value)], NOW, producer=Producer(producer, 0, -1, is_transactional=True)
    )
    log.append_as_leader(marker, 0, NOW, origin=Origin.COORDINATOR)


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    log = Machine(config=BIG).open()
    append(log)
    append(log, 2, producer=Producer(1, 0, 0, is_transactional=True))
    append(log, 4)
    assert (log.last_stable_offset, log.high_watermark) == (3, 9)
    end_transaction(log, 1, ControlType.ABORT)
    assert log.last_stable_offset == 3, "the marker is not replicated yet"
    log.update_high_watermark(10)
    assert log.last_stable_offset == 10
    aborted = log.reading.aborted_transactions(0, log.read(0, 1 << 20))
    assert [tuple(each) for each in aborted] == [(1, 3, 9, 10)]


def test_the_last_stable_offset_is_not_before_the_start_of_the_log() -> None:
    """Otherwise readers of committed records begin there, are out of range, and miss records."""
    log = Machine(config=BIG).open()
    append(log, 4, producer=Producer(1, 0, 0, is_transactional=True))
    append(log)
    log.increment_log_start_offset(5)
    assert (log.last_stable_offset, log.high_watermark) == (5, 7)
    end_transaction(log, 1, ControlType.COMMIT)
    log.update_high_watermark(8)
    assert log.last_stable_offset == 8


# Forgetting.


def test_delete_records_moves_the_start_and_the_segments_follow() -> None:
    log = Machine().open()
    for number in range(12):
        append(log, epoch=number // 6)
    assert log.increment_log_start_offset(20)
    assert not log.increment_log_start_offset(20)
    assert list(log.leader_epochs.entries) == [(0, 0), (1, 18)], "the start is not durable yet"
    log.retention.forget_epochs()
    assert list(log.leader_epochs.entries) == [(1, 20)]
    count = log.delete_old_segments(NOW)
    assert count == 1
    assert log.segments[0].base_offset <= 20 < log.segments.end_of(0)
    with pytest.raises(KafkaError):
        log.read(19, 100)
    with pytest.raises(KafkaError):
        log.increment_log_start_offset(37)
    assert offsets(log.read(20, 1 << 20).read())[0] <= 20


def test_old_segments_go_even_the_one_in_use() -> None:
    log = Machine(config=replace(SMALL, retention_ms=1000)).open()
    for _ in range(12):
        append(log)
    assert log.delete_old_segments(NOW + 1002) == 0
    assert log.delete_old_segments(NOW + 1003) == 2
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (36, 36, 0)
    assert append(log) == AppendInfo(36, 38)


def test_a_log_is_kept_as_small_as_asked() -> None:
    log = Machine(config=replace(SMALL, retention_bytes=2000)).open()
    for _ in range(40):
        append(log)
    log.delete_old_segments(NOW)
    assert 2000 <= log.size_bytes < 2000 + SMALL.segment_bytes


def test_nothing_above_the_high_watermark_is_forgotten() -> None:
    log = Machine(config=replace(SMALL, retention_ms=0)).open()
    for _ in range(12):
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(20)
    log.delete_old_segments(NOW + 10_000)
    assert 0 < log.log_start_offset <= 20


def test_a_compacted_log_does_not_age() -> None:
    config = replace(SMALL, retention_ms=0, is_compacted=True, is_deleted=False)
    log = Machine(config=config).open()
    for _ in range(12):
        append(log)
    assert log.delete_old_segments(NOW + 10_000) == 0


def test_deleted_files_stay_for_a_while() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(12):
        append(log)
    log.increment_log_start_offset(36)
    log.delete_old_segments(NOW)
    assert out_of_use(machine)
    assert log.retention.remove_deleted(NOW + 999) == 0
    assert log.retention.remove_deleted(NOW + 1000)
    assert not out_of_use(machine)


# Truncating.


@pytest.mark.parametrize("offset", range(37))
def test_a_log_is_truncated_to_whole_batches(offset: int) -> None:
    log = Machine().open()
    for number in range(12):
        append(log, epoch=number, producer=Producer(5, 0, 3 * number))
    before = contents(log)
    assert log.truncate_to(offset) is (offset < 36)
    kept = 12 if offset == 36 else offset // 3
    assert log.log_end_offset == log.high_watermark == 3 * kept
    assert contents(log) == before[:kept]
    assert log.leader_epochs.latest_epoch == (kept - 1 if kept else None)
    expected = 3 * kept - 1 if kept else None
    known = log.producers.entries.get(5)
    assert (known.last_sequence if known else None) == expected
    assert append(log, epoch=50) == AppendInfo(3 * kept, 3 * kept + 2)


def test_a_log_starts_again_elsewhere() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(12):
        append(log, producer=None)
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (500, 500, 500)
    assert append(log, epoch=3) == AppendInfo(500, 502)
    assert list(log.leader_epochs.entries) == [(3, 500)]
    log.flush()
    machine.lose_power()
    again = machine.open()
    assert (again.log_start_offset, again.log_end_offset) == (500, 503)


# Flushing.


def test_the_settings_say_when_to_flush() -> None:
    log = Machine(config=replace(BIG, flush_messages=5, flush_ms=1000)).open()
    append(log)
    assert not log.flushing.is_due(NOW + 999)
    assert log.flushing.is_due(NOW + 1000)
    append(log)
    assert log.flushing.is_due(NOW)
    log.flush()
    assert not log.flushing.is_due(NOW + 5000)
    assert log.flushed_end_offset == 6


def test_a_sealed_segment_is_to_be_flushed_and_moves_the_recovery_point() -> None:
    log = Machine().open()
    while len(log.segments) == 1:
        append(log)
    assert log.flushing.is_due(NOW)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == log.segments.active.base_offset
    assert not log.flushing.is_due(NOW)


def test_a_flush_that_began_before_a_truncation_says_nothing() -> None:
    log = Machine(config=BIG).open()
    append(log)
    append(log)
    job = log.flushing.begin()
    log.truncate_to(3)
    append(log, 5)
    job.run()
    log.flushing.end(job)
    assert log.flushed_end_offset <= 3


def test_a_clean_end_needs_no_recovery() -> None:
    machine = Machine()
    log = machine.open()
    for number in range(12):
        append(log, producer=Producer(5, 0, 3 * number), epoch=number // 4)
    before = contents(log)
    log.close()
    machine.lose_power()
    machine.recovery_point = 36
    again = machine.open(is_clean=True)
    assert contents(again) == before
    assert again.notes == []
    assert again.producers.entries[5].last_sequence == 35
    assert again.flushed_end_offset == 36
    assert append(again, producer=Producer(5, 0, 36)) == AppendInfo(36, 38)


@pytest.mark.parametrize("is_empty", [True, False])
def test_epochs_without_a_byte_are_damage_only_beside_records(is_empty: bool) -> None:
    """Kafka leaves such a file beside an empty log."""
    machine = Machine()
    log = machine.open()
    if not is_empty:
        append(log, epoch=3)
    log.close()
    machine.disk.put(f"{DIRECTORY}/leader-epoch-checkpoint", b"")
    again = machine.open(is_clean=True)
    assert bool(again.notes) is not is_empty
    assert again.leader_epochs.latest_epoch == (None if is_empty else 3)


def test_what_is_said_to_be_clean_and_is_not_is_looked_at() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(12):
        append(log)
    log.close()
    machine.kill()
    path = f"{DIRECTORY}/{log.segments.active.base_offset:020d}.log"
    machine.disk.put(path, machine.disk.contents(path) + bytes(500))
    machine.recovery_point = 36
    again = machine.open(is_clean=True)
    assert again.log_end_offset == 36
    assert again.notes
