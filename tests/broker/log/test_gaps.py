"""Logs with gaps between their segments: what compaction left is kept and read as Kafka does, and
what a loss of power left is the end of the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.offset_lookup import EARLIEST
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.recovery import Opening
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.records import ControlType, Producer, encode_batch, encode_control_batch
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.cleaning import Writer, clean, open_log, pairs_of
from tests.broker.log.gapped_log import (
    COMPACTED,
    RECORDS,
    append,
    bases,
    mark_of,
    opened_by_kafka,
    shorten,
)
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch, contents


def cleaned_by_kafka(machine: Machine) -> list[tuple[int, bytes]]:
    """A log that is killed while Kafka cleans it for the first time: a gap at the end of the first
    segment, nothing in the second one, the rest as it was. What is in it."""
    log = machine.open()
    append(log, 40)
    everything, starts = contents(log), bases(log)
    assert len(starts) > 5
    log.close()
    machine.kill()
    opened_by_kafka(machine)
    shorten(machine, starts[0])
    shorten(machine, starts[1], 0)
    gone = range(starts[1] - RECORDS, starts[2])
    return [each for each in everything if each[0] not in gone]


# Recovery.


def test_a_log_that_kafka_was_cleaning_when_it_died_keeps_all_behind_the_gaps() -> None:
    machine = Machine(config=COMPACTED)
    expected = cleaned_by_kafka(machine)
    log = machine.open()
    assert contents(log) == expected
    assert (log.log_end_offset, log.notes) == (120, [])
    assert mark_of(machine) == 120
    machine.kill()
    assert contents(machine.open()) == expected, "also when we are the ones who died"


def test_a_log_that_was_compacted_once_keeps_them_too() -> None:
    machine = Machine(config=SMALL)
    expected = cleaned_by_kafka(machine)
    opening = Opening(NOW, cleaned_offset=1)
    assert contents(PartitionLog.open(machine.files, DIRECTORY, SMALL, opening)) == expected


@pytest.mark.parametrize("config", [SMALL, COMPACTED])
def test_a_lost_tail_is_the_end_of_a_log_of_ours_and_the_rest_is_set_aside(
    config: LogConfig,
) -> None:
    machine = Machine(config=config)
    log = machine.open()
    append(log, 40)
    everything, starts = contents(log), bases(log)
    machine.kill()
    shorten(machine, starts[1])
    lost = machine.disk.contents(f"{DIRECTORY}/{starts[2]:020d}.log")
    log = machine.open()
    assert contents(log) == [each for each in everything if each[0] < starts[2] - RECORDS]
    assert machine.disk.contents(f"{DIRECTORY}/{starts[2]:020d}.log.lost") == lost
    assert [each for each in log.notes if f"{starts[2]:020d}.log does not go on" in each]
    assert [each for each in log.notes if f"set aside {len(starts) - 2} segments" in each]
    append(log, 40)
    machine.kill()
    assert machine.open().log_end_offset == starts[2] - RECORDS + 120


def test_what_is_set_aside_twice_under_one_name_is_all_there() -> None:
    machine = Machine()
    log = machine.open()
    append(log, 40)
    base, following = bases(log)[1:3]
    lost = []
    for timestamp in (NOW + 9, NOW):
        machine.kill()
        shorten(machine, base)
        lost.append(machine.disk.contents(f"{DIRECTORY}/{following:020d}.log"))
        log = machine.open()
        assert log.log_end_offset == following - RECORDS
        for _ in range(20):
            log.append_as_leader(batch(RECORDS, timestamp=timestamp), 0, NOW)
    first, second = (f"{following:020d}.log{ending}" for ending in (".lost", ".2.lost"))
    assert [machine.disk.contents(f"{DIRECTORY}/{name}") for name in (first, second)] == lost
    assert lost[0] != lost[1]
    assert any(second in each for each in log.notes)
    expected = contents(log)
    machine.kill()
    assert contents(machine.open()) == expected, "nobody takes them for segments"
    assert {first, second} < set(machine.files.list(DIRECTORY))


def test_what_we_append_to_a_log_of_kafkas_may_not_miss_a_tail() -> None:
    machine = Machine(config=COMPACTED)
    expected = cleaned_by_kafka(machine)
    log = machine.open()
    append(log, 40)
    ours = [each for each in bases(log) if each >= 120]
    added = [each for each in contents(log) if 120 <= each[0] < ours[2] - RECORDS]
    machine.kill()
    shorten(machine, ours[1])
    assert contents(machine.open()) == expected + added


def test_the_mark_of_a_log_that_was_closed_in_order_survives_the_loss_of_power() -> None:
    machine = Machine(config=COMPACTED)
    append(machine.open(), 3)
    assert mark_of(machine) == 0
    assert machine.log is not None
    machine.log.close()
    machine.kill()
    opened_by_kafka(machine)
    machine.recovery_point = 9
    machine.open(is_clean=True)
    machine.lose_power()
    assert mark_of(machine) == 9


def test_a_log_that_we_clean_needs_no_points_to_be_recovered() -> None:
    """A crash within the round: nothing tells that it was cleaned, and nobody knows its points."""
    machine = Machine()
    log = open_log(machine.files)
    writer = Writer(log)
    for number in range(40):
        writer.write((f"k{number % 2}" if number % 10 > 3 else f"once {number}", "v" * 50))
    writer.roll()
    before = pairs_of(log)
    clean(log, NOW)
    expected = pairs_of(log)
    assert len(expected) < len(before)
    machine.kill()
    again = open_log(machine.files)
    assert (pairs_of(again), again.notes) == (expected, [])


def test_the_epochs_whose_batches_are_cleaned_are_those_of_their_file() -> None:
    machine = Machine(config=COMPACTED)
    log = machine.open()
    for epoch in range(4):
        append(log, 10, epoch)
    log.flush()
    log.flush()
    entries = list(log.leader_epochs.entries)
    assert entries == [(epoch, 30 * epoch) for epoch in range(4)]
    starts = bases(log)
    machine.kill()
    opened_by_kafka(machine)
    for base in starts[:-2]:
        shorten(machine, base, 0)
    log = machine.open()
    assert list(log.leader_epochs.entries) == entries
    assert log.leader_epochs.end_offset_for(1, log.log_end_offset) == (1, 60)
    earliest = log.reading.find_offset(EARLIEST)
    assert earliest is not None
    assert earliest.leader_epoch == 0


def test_epochs_that_begin_at_the_logs_start_survive_batches_before_it() -> None:
    """The log begins within a segment; the batch with which the last epoch began is cleaned."""
    machine = Machine(config=COMPACTED)
    log = machine.open()
    append(log, 3, 0)
    append(log, 10, 1)
    append(log, 30, 2)
    log.increment_log_start_offset(13)
    machine.persist_points()
    log.retention.forget_epochs()
    log.flush()
    log.flush()
    assert list(log.leader_epochs.entries) == [(1, 13), (2, 39)]
    starts = bases(log)
    machine.kill()
    opened_by_kafka(machine)
    for base in starts[1:-1]:
        shorten(machine, base, 0)
    assert list(machine.open().leader_epochs.entries) == [(1, 13), (2, 39)]


def test_an_epoch_that_was_cut_off_does_not_come_back_in_a_gap() -> None:
    """1. epochs are saved, 2. a follower truncates, 3. its leader's next batch comes behind a gap,
    4. a crash: no batch refutes the file, which would lead another replica astray."""
    machine = Machine(config=COMPACTED)
    log = machine.open()
    append(log, 2, 1)
    append(log, 2, 3)
    log.flush()
    log.flush()
    log.truncate_to(6)
    made = encode_batch([(NOW, b"k", b"v", ())], 7, leader_epoch=4)
    log.append_as_follower(made, NOW)
    machine.kill()
    log = machine.open()
    assert log.log_end_offset == 8
    assert list(log.leader_epochs.entries) == [(1, 0), (4, 7)]


# Reading.


def abort(log: PartitionLog, producer: int) -> None:
    marker = EndTxnMarker(coordinator_epoch=1).encode(0)
    made = encode_control_batch(
        [(ControlType.ABORT, b"\0\0" + marker)],
        NOW,
        producer=Producer(producer, 0, -1, is_transactional=True),
    )
    log.append_as_leader(made, 0, NOW, origin=Origin.COORDINATOR)


def test_what_was_aborted_is_told_of_the_segment_that_was_read() -> None:
    """The offset that is asked for lies in the gap before it."""
    machine = Machine(config=COMPACTED)
    log = machine.open()
    append(log, 3)
    log.rolling.roll(NOW)
    log.append_as_leader(batch(producer=Producer(1, 0, 0, is_transactional=True)), 0, NOW)
    abort(log, 1)
    append(log)
    log.flush()
    log.close()
    machine.kill()
    shorten(machine, 0, 1)
    machine.recovery_point = 16
    log = machine.open(is_clean=True)
    for offset in (3, 8, 9, 12):
        read = log.read(offset, 1 << 20)
        assert log.segments[1].log_file.is_opened_as(read.source)
        aborted = log.reading.aborted_transactions(offset, read)
        assert [(each.producer_id, each.first_offset) for each in aborted] == [(1, 9)], offset
    assert log.reading.aborted_transactions(13, log.read(13, 1 << 20)) == []
    assert log.reading.aborted_transactions(0, log.read(0, 1 << 20)) == []


# Forgetting.


def emptied(**how: object) -> PartitionLog:
    """A log whose first two segments are empty."""
    machine = Machine(config=replace(SMALL, is_compacted=True, **how))  # type: ignore[arg-type]
    log = machine.open()
    append(log, 40)
    starts = bases(log)
    log.close()
    machine.kill()
    for base in starts[:2]:
        shorten(machine, base, 0)
    machine.recovery_point = 120
    log = machine.open(is_clean=True)
    log.update_high_watermark(120)
    assert [not each.size_bytes for each in log.segments][:3] == [True, True, False]
    return log


def test_age_takes_empty_segments_and_what_is_behind_them() -> None:
    log = emptied(retention_ms=1000)
    log.delete_old_segments(NOW + 10_000)
    assert (log.log_start_offset, log.size_bytes) == (120, 0)
    assert log.delete_old_segments(NOW + 10_000) == 0, "one in use stays"


def test_a_limit_of_size_takes_empty_segments_and_what_is_behind_them() -> None:
    log = emptied(retention_bytes=2000)
    log.delete_old_segments(NOW)
    assert 2000 <= log.size_bytes < 2000 + SMALL.segment_bytes


def test_the_logs_start_takes_empty_segments_of_a_log_that_is_only_compacted() -> None:
    log = emptied(is_deleted=False)
    start = bases(log)[3]
    log.increment_log_start_offset(start)
    assert log.delete_old_segments(NOW) == 3
    assert bases(log)[0] == start


# Truncating.


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_log_that_is_truncated_in_a_gap_ends_there(*, is_clean: bool) -> None:
    """Were it to end behind the gap, it would never fetch what its leader has in there."""
    machine = Machine(config=COMPACTED)
    log = machine.open()
    append(log, 40)
    base, following = bases(log)[2:4]
    log.close()
    machine.kill()
    opened_by_kafka(machine)
    shorten(machine, base, 1)
    if is_clean:
        machine.open().close()  # with indexes that fit
        machine.kill()
        machine.recovery_point = 120
    log = machine.open(is_clean=is_clean)
    assert log.log_end_offset == 120
    assert log.truncate_to(following - 2)
    assert base + RECORDS <= log.log_end_offset <= following - 2
    append(log)
    assert contents(log)[-1][0] <= following - 2


# The mark, over a log's life.


def lost_tail(machine: Machine, log: PartitionLog, number: int) -> None:
    """A loss of power takes the end of that segment, and nothing of those behind it."""
    base = bases(log)[number]
    log.close()
    machine.kill()
    machine.recovery_point = 0
    shorten(machine, base)


@pytest.mark.parametrize("is_down", [False, True])
def test_a_log_that_is_compacted_from_now_on_has_no_gap_for_a_reason(*, is_down: bool) -> None:
    """Also when its topic is altered while nobody serves it."""
    machine = Machine()
    log = machine.open()
    append(log, 40)
    assert mark_of(machine) == 0
    if not is_down:
        log.configure(COMPACTED)
    lost_tail(machine, log, 1)
    machine.config = COMPACTED
    assert len(machine.open().segments) == 2


def test_how_far_it_was_cleaned_excuses_no_gap_behind_the_mark() -> None:
    machine = Machine(config=COMPACTED)
    log = machine.open()
    append(log, 40)
    lost_tail(machine, log, 1)
    opening = Opening(NOW, cleaned_offset=log.log_end_offset)
    assert len(PartitionLog.open(machine.files, DIRECTORY, COMPACTED, opening).segments) == 2


@pytest.mark.parametrize("config", [SMALL, COMPACTED])
def test_what_ended_in_order_keeps_its_gaps_whatever_becomes_of_its_topic(
    config: LogConfig,
) -> None:
    machine = Machine(config=COMPACTED)
    expected = cleaned_by_kafka(machine)
    machine.config = SMALL
    machine.recovery_point = expected[-1][0] + RECORDS
    log = machine.open(is_clean=True)
    log.configure(config)
    log.flush()
    log.close()
    machine.kill()
    machine.config, machine.recovery_point = config, 0
    assert contents(machine.open()) == expected


@pytest.mark.parametrize("fully", [False, True])
def test_the_mark_is_never_beyond_the_end(*, fully: bool) -> None:
    machine = Machine(config=COMPACTED)
    cleaned_by_kafka(machine)
    log = machine.open()
    end = log.log_end_offset
    assert mark_of(machine) == end
    if fully:
        log.truncate_fully_and_start_at(9)
    else:
        log.truncate_to(end - 30)
    marked = log.log_end_offset
    assert mark_of(machine) == marked < end
    append(log, 40)
    following = bases(log)[-2]
    lost_tail(machine, log, len(bases(log)) - 3)
    log = machine.open()
    assert log.log_end_offset < following
    assert mark_of(machine) == marked


def test_a_crash_in_a_recovery_makes_no_gap_of_damage() -> None:
    """Whole segments behind the damage are set aside before that is cut off."""
    calls, is_over = 0, False
    while not is_over:
        machine = Machine(config=COMPACTED)
        log = machine.open()
        append(log, 30)
        starts = bases(log)
        log.close()
        machine.kill()
        opened_by_kafka(machine)
        path = f"{DIRECTORY}/{starts[1]:020d}.log"
        data = bytearray(machine.disk.contents(path))
        data[-1] ^= 1
        machine.disk.put(path, bytes(data))
        machine.disk.calls_left = calls = calls + 1
        try:
            machine.open()
            is_over = True
        except NodeKilled:
            pass
        machine.kill()
        found = contents(machine.open())
        assert [base for base, _ in found] == list(range(0, RECORDS * len(found), RECORDS))
    assert calls > 20


@pytest.mark.parametrize("seed", range(20, 45))
def test_no_recovery_point_vouches_for_what_is_written_where_damage_was_cut(seed: int) -> None:
    """The log ended in order, was damaged since, is cut far below its recovery point, written on,
    and loses its power."""
    machine = Machine(seed)
    where = TopicPartition("orders", 0)

    def directory() -> LogDirectory:
        opened = LogDirectory.open(machine.files, "/data")
        opened.load(lambda partition, topic_id: SMALL, NOW)
        return opened

    opened = directory()
    log = opened.partitions.create(where, None, SMALL, NOW)
    append(log, 40)
    starts = bases(log)
    opened.close()
    machine.kill()
    for base in (starts[-1], starts[2]):
        path = f"{DIRECTORY}/{base:020d}"
        data = machine.disk.contents(f"{path}.log")
        machine.disk.put(f"{path}.log", data[:70] + bytes(len(data) - 70))
        machine.disk.drop(f"{path}.index")  # so that the last one is looked at
    opened = directory()
    assert opened.was_clean
    log = opened.logs[where]
    assert log.log_end_offset < starts[3]
    append(log, 20)
    expected = contents(log)
    machine.lose_power()
    log = directory().logs[where]
    found = contents(log)
    assert found == expected[: len(found)]
    assert log.log_end_offset == RECORDS * len(found)
