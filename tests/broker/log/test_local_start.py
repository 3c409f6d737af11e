"""A tiered log has two starts: that of its records, and that of its own segments."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.future_log import CopyLocation, FutureLog
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.offset_lookup import EARLIEST, EARLIEST_LOCAL
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import Files
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch

TIERED = replace(SMALL, is_tiered=True, retention_ms=1, retention_bytes=1)
BATCHES = 30
TOPIC_ID = bytes(15) + b"t"


def machine_with_log(seed: int = 1) -> tuple[Machine, PartitionLog]:
    """A log of several segments and two epochs, all of it replicated and durable."""
    machine = Machine(seed, TIERED)
    log = machine.open()
    for number in range(BATCHES):
        log.append_as_leader(batch(), number // (BATCHES // 2), NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    machine.persist_points()
    assert len(log.segments) > 4
    return machine, log


def test_a_tiered_log_keeps_its_start_when_it_loses_segments() -> None:
    _, log = machine_with_log()
    end, third = log.log_end_offset, log.segments[2].base_offset

    assert not log.delete_old_segments(NOW + 1_000_000), "what is old is decided outside"
    assert log.retention.raise_local_start(third + 1), "a segment stays whole"
    assert log.delete_old_segments(NOW) == 2

    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, third, end)
    assert log.segments[0].base_offset == third
    assert log.leader_epochs.epoch_for_offset(0) == 0, "epochs of records in the other tier stay"
    assert len(log.read(third, 1 << 20)) > 0
    with pytest.raises(KafkaError) as raised:
        log.read(third - 1, 1 << 20)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_both_starts_can_be_asked_for() -> None:
    _, log = machine_with_log()
    log.retention.raise_local_start(log.segments[2].base_offset)

    earliest = log.reading.find_offset(EARLIEST)
    local = log.reading.find_offset(EARLIEST_LOCAL)

    assert earliest is not None
    assert local is not None
    assert (earliest.offset, local.offset) == (0, log.segments[2].base_offset)


def test_deleted_records_move_both_starts() -> None:
    _, log = machine_with_log()
    fourth = log.segments[3].base_offset
    log.retention.raise_local_start(log.segments[1].base_offset)

    assert log.increment_log_start_offset(fourth)

    assert log.log_start_offset == log.local_log_start_offset == fourth


def test_the_local_start_never_passes_what_is_replicated() -> None:
    machine = Machine(config=TIERED)
    log = machine.open()
    for _ in range(BATCHES):
        log.append_as_leader(batch(), 0, NOW)
    with pytest.raises(KafkaError):
        log.retention.raise_local_start(log.log_end_offset)


@pytest.mark.parametrize("seed", range(20))
def test_segments_that_come_back_with_a_power_loss_leave_no_gap(seed: int) -> None:
    machine, log = machine_with_log(seed)
    fourth, end = log.segments[3].base_offset, log.log_end_offset
    log.retention.raise_local_start(fourth)
    log.delete_old_segments(NOW)

    machine.lose_power()
    log = machine.open()

    assert (log.log_start_offset, log.local_log_start_offset) == (0, fourth)
    assert log.segments[0].base_offset == fourth
    assert [each.header.base_offset for each in log.batches(fourth)] == list(range(fourth, end, 3))
    assert log.leader_epochs.epoch_for_offset(0) == 0


def test_a_log_that_is_tiered_no_more_begins_where_its_segments_do() -> None:
    machine, log = machine_with_log()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.delete_old_segments(NOW)
    machine.kill()
    machine.config = replace(TIERED, is_tiered=False)

    log = machine.open()

    assert log.log_start_offset == log.local_log_start_offset == third


@pytest.mark.parametrize("calls", range(40))
def test_a_log_cut_below_its_segments_keeps_what_is_in_the_other_tier(calls: int) -> None:
    """Killed before any of the calls that the cut makes, or after it."""
    machine, log = machine_with_log()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.delete_old_segments(NOW)
    cut = third - 5
    machine.disk.calls_left = calls
    is_cut = False
    with contextlib.suppress(NodeKilled):
        is_cut = log.truncate_to(cut)
    if is_cut:
        assert (log.local_log_start_offset, log.log_end_offset) == (cut, cut)
        assert log.leader_epochs.epoch_for_offset(0) == 0
    machine.kill()

    log = machine.open()

    assert log.log_start_offset == 0
    assert log.local_log_start_offset <= log.log_end_offset
    assert log.segments[0].base_offset >= log.local_log_start_offset
    if is_cut:
        assert log.log_end_offset == cut


def directory_of(files: Files) -> LogDirectory:
    directory = LogDirectory.open(files, "/data")
    directory.load(lambda partition, topic_id: TIERED, NOW)
    return directory


def test_the_checkpoint_of_local_starts_is_written_only_if_there_is_one() -> None:
    files = Machine().files
    directory = directory_of(files)
    place = TopicPartition("orders", 0)
    log = directory.partitions.create(place, TOPIC_ID, TIERED, NOW)
    for _ in range(BATCHES):
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    directory.checkpoints.persist_points()
    path = f"/data/{names.LOCAL_STARTS}"
    assert not files.exists(path)

    log.flush()
    base = log.segments[1].base_offset
    log.retention.raise_local_start(base)
    directory.checkpoints.persist_points()
    assert read_offsets(files, path) == {place: base}

    log.increment_log_start_offset(base)
    directory.checkpoints.persist_points()
    assert read_offsets(files, path) == {}, "the log's start says it as well"


def test_the_log_of_another_directory_has_both_starts() -> None:
    _, log = machine_with_log()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.delete_old_segments(NOW)
    target = f"{DIRECTORY}.copy-future"
    copy = FutureLog(log, CopyLocation(target, TOPIC_ID))
    copy.open(NOW)
    copy.take_over(log.state.owner, NOW)

    starts = (copy.log.log_start_offset, copy.log.local_log_start_offset)

    assert starts == (0, third)
    assert copy.log.leader_epochs.entries == log.leader_epochs.entries


@pytest.mark.parametrize("flushes", range(3))
@pytest.mark.parametrize("seed", range(20))
def test_the_epochs_of_remote_records_are_durable_before_the_local_start_moves(
    seed: int, flushes: int
) -> None:
    """Without its segments nothing on the disk says which epochs the remote records are of."""
    machine = Machine(seed, TIERED)
    log = machine.open()
    for number in range(BATCHES):
        log.append_as_leader(batch(), number // (BATCHES // 2), NOW)
    log.update_high_watermark(log.log_end_offset)
    expected = log.leader_epochs.entries
    base = log.segments.active.base_offset
    for _ in range(flushes):
        log.retention.raise_local_start(base)
        assert log.flushing.is_due(NOW)
        job = log.flushing.begin()
        job.run()
        log.flushing.end(job)

    is_cut = log.retention.raise_local_start(base)
    machine.persist_points()
    if is_cut:
        assert log.delete_old_segments(NOW)
        log.retention.remove_deleted(NOW + 1_000_000)
    machine.lose_power()

    log = machine.open()
    assert is_cut == (flushes == 2)
    if is_cut:
        assert log.leader_epochs.entries == expected


def test_a_log_without_the_epochs_of_its_remote_records_asks_for_its_history() -> None:
    machine, log = machine_with_log()
    log.retention.raise_local_start(log.segments[2].base_offset)
    log.delete_old_segments(NOW)
    assert log.state.is_history_known
    machine.kill()
    machine.disk.put(f"{DIRECTORY}/{names.LEADER_EPOCHS}", b"torn")

    log = machine.open()

    assert log.log_start_offset < log.local_log_start_offset < log.log_end_offset
    assert not log.state.is_history_known
