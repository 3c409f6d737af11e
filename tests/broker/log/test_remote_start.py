"""A tiered log that begins behind remote records knows their epochs and producers, or says that it
does not."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

import pytest

from moldau.broker.log import names
from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.producer_state import BatchMetadata, ProducerStateEntry
from moldau.broker.log.truncation import LogHistory
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Producer
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.machine import NOW, SMALL, Machine, batch
from tests.broker.log.producing import data_batch, marker_batch

TIERED: Final = replace(SMALL, is_tiered=True)
BATCHES: Final = 30
ID: Final = 7
CALLS: Final = range(60)


def producer(sequence: int) -> Producer:
    return Producer(ID, 0, sequence)


def machine_with_log(seed: int = 1) -> tuple[Machine, PartitionLog]:
    """A log of several segments, all of it replicated and durable, of one producer."""
    machine = Machine(seed, TIERED)
    log = machine.open()
    for number in range(BATCHES):
        log.append_as_leader(batch(producer=producer(3 * number)), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    machine.persist_points()
    return machine, log


def history(offset: int) -> LogHistory:
    """The leader's: another epoch began in the midst, and another producer wrote there."""
    last = BatchMetadata(41, offset - 1, 2, NOW)
    entry = ProducerStateEntry(ID + 1, 0, -1, NOW, None, (last,))
    return LogHistory(offset, (EpochEntry(0, 0), EpochEntry(4, 50)), (entry,))


def test_a_log_begins_behind_remote_records() -> None:
    _, log = machine_with_log()

    log.begin_behind(history(200), 10, NOW)

    assert (log.log_start_offset, log.local_log_start_offset) == (10, 200)
    assert log.log_end_offset == log.high_watermark == 200
    assert log.leader_epochs.entries == [(0, 0), (4, 50)]
    assert log.producers.entries.keys() == {ID + 1}
    assert log.state.is_history_known
    repeated = batch(producer=Producer(ID + 1, 0, 39))
    assert log.append_as_leader(repeated, 5, NOW).is_duplicate


def test_an_open_transaction_in_remote_records_holds_back_what_is_stable() -> None:
    _, log = machine_with_log()
    last = BatchMetadata(41, 199, 2, NOW)
    entry = ProducerStateEntry(ID, 0, -1, NOW, 180, (last,))

    log.begin_behind(LogHistory(200, (EpochEntry(0, 0),), (entry,)), 10, NOW)

    assert log.last_stable_offset == 180


@pytest.mark.parametrize("has_power", [True, False])
@pytest.mark.parametrize("offset", [200, 40], ids=["above its end", "below its end"])
@pytest.mark.parametrize("calls", CALLS)
def test_a_crash_leaves_the_log_as_it_was_or_asks_for_its_history_again(
    calls: int, offset: int, has_power: bool
) -> None:
    machine, log = machine_with_log(calls)
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.delete_old_segments(NOW)
    machine.disk.calls_left = calls
    is_done = False
    with contextlib.suppress(NodeKilled):
        log.begin_behind(history(offset), 0, NOW)
        is_done = True
    machine.kill() if has_power else machine.lose_power()

    log = machine.open()

    is_new = log.log_end_offset == offset and log.log_end_offset == log.local_log_start_offset
    if is_done or (is_new and log.state.is_history_known):
        assert is_new
        assert log.producers.entries.keys() == {ID + 1}
        known = [each for each in history(offset).epochs if each.start_offset < offset]
        assert log.leader_epochs.entries == known
    elif log.log_end_offset > log.local_log_start_offset:
        assert log.producers.entries.keys() == {ID}, "as it was, if shorter"
        assert log.leader_epochs.entries == [(0, 0)]
        assert log.log_end_offset <= 3 * BATCHES
    else:
        is_same = log.producers.entries.keys() == {ID} and log.local_log_start_offset == third
        assert is_same or not log.state.is_history_known
    log.begin_behind(history(offset), 0, NOW)
    assert log.state.is_history_known


@pytest.mark.parametrize("has_power", [True, False])
def test_a_start_knows_the_producers_of_records_that_are_remote_only(has_power: bool) -> None:
    machine, log = machine_with_log()
    for _ in range(BATCHES):
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    log.retention.raise_local_start(log.segments[-1].base_offset)
    log.delete_old_segments(NOW)
    assert log.local_log_start_offset > 3 * BATCHES
    machine.kill() if has_power else machine.lose_power()

    log = machine.open()

    again = batch(producer=producer(3 * BATCHES - 3))
    assert log.append_as_leader(again, 1, NOW).is_duplicate


@pytest.mark.parametrize("seed", range(20))
def test_the_snapshot_at_the_start_of_a_segment_survives_a_loss_of_power(seed: int) -> None:
    """Also if a flush came when the segment had no records yet."""
    machine, log = machine_with_log(seed)
    log.rolling.roll(NOW)
    log.flush()
    base = log.segments.active.base_offset
    log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    log.retention.raise_local_start(base)
    log.delete_old_segments(NOW)
    machine.lose_power()

    log = machine.open()

    again = batch(producer=producer(3 * BATCHES - 3))
    assert log.local_log_start_offset == base
    assert log.append_as_leader(again, 1, NOW).is_duplicate


def test_segments_that_a_start_has_checked_begin_with_a_snapshot() -> None:
    machine = Machine(1, TIERED)
    log = machine.open()
    for number in range(BATCHES):
        log.append_as_leader(batch(producer=producer(3 * number)), 0, NOW)
    bases = [each.base_offset for each in log.segments][1:]
    assert bases
    machine.kill()

    again = machine.open()

    assert [each for each in bases if each not in again.state.snapshots.offsets] == []


def test_what_is_remote_counts_as_replicated_after_a_start() -> None:
    machine, log = machine_with_log()
    log.begin_behind(history(200), 10, NOW)
    machine.kill()

    assert machine.open().high_watermark >= 200


def test_a_log_that_is_cut_below_its_own_records_has_lost_its_history() -> None:
    machine, log = machine_with_log()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.delete_old_segments(NOW)

    log.truncate_to(third - 2)
    assert not log.state.is_history_known
    machine.kill()
    log = machine.open()
    assert not log.state.is_history_known

    log.begin_behind(history(third), 0, NOW)
    machine.lose_power()
    assert machine.open().state.is_history_known


def test_a_log_that_is_cut_where_its_own_records_begin_knows_its_history() -> None:
    machine, log = machine_with_log()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.delete_old_segments(NOW)

    log.truncate_to(third)
    machine.kill()
    log = machine.open()

    assert log.state.is_history_known
    assert log.log_end_offset == third
    again = batch(producer=producer(third - 3))
    assert log.append_as_leader(again, 1, NOW).is_duplicate


def test_a_log_without_remote_records_needs_no_history() -> None:
    machine, log = machine_with_log()
    log.truncate_fully_and_start_at(500)
    assert log.state.is_history_known
    machine.kill()
    assert machine.open().state.is_history_known


def test_records_are_deleted_in_the_remote_part() -> None:
    machine, log = machine_with_log()
    log.begin_behind(history(200), 10, NOW)

    assert log.increment_log_start_offset(60)
    machine.persist_points()
    log.retention.forget_epochs()
    log.flush()
    machine.kill()
    log = machine.open()

    assert (log.log_start_offset, log.local_log_start_offset) == (60, 200)
    assert log.leader_epochs.entries == [(4, 60)]
    with pytest.raises(KafkaError) as raised:
        log.read(60, 100)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_keeps_the_producers_at_the_start_of_each_segment() -> None:
    """Also where a segment begins within what came at once."""
    _, leader = machine_with_log()
    machine = Machine(2, TIERED)
    log = machine.open()

    log.append_as_follower(b"".join(bytes(each.data) for each in leader.batches(0)), NOW)

    bases = [each.base_offset for each in log.segments][1:]
    assert len(bases) > 3
    assert set(bases) <= set(log.snapshots.offsets)
    for base in bases:
        (entry,) = log.snapshots.read(base)
        assert entry.last_data_offset == base - 1


def test_a_follower_keeps_aborted_transactions_over_the_start_of_a_segment() -> None:
    log = Machine(2, TIERED).open()
    batches = [data_batch(ID, 0, 0, transactional=True)]
    for number in range(1, 30):
        place = number, NOW
        batches.append(data_batch(ID, 0, number, transactional=True, place=place))
    batches.append(marker_batch(ID, 0, offset=30, abort=True))

    log.append_as_follower(b"".join(bytes(each.data) for each in batches), NOW)

    assert len(log.segments) > 2
    log.update_high_watermark(31)
    assert log.last_stable_offset == 31
    found = log.reading.aborted_transactions(0, log.read(0, 1 << 20))
    assert [each.first_offset for each in found] == [0]


def machine_without_epochs(seed: int = 1) -> tuple[Machine, PartitionLog]:
    """A log whose first segments are remote only, and whose file of epochs was damaged."""
    machine, log = machine_with_log(seed)
    log.append_as_leader(batch(producer=producer(3 * BATCHES)), 6, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    machine.persist_points()
    log.delete_old_segments(NOW)
    machine.kill()
    machine.disk.put(f"{log.directory}/{names.LEADER_EPOCHS}", b"torn")
    return machine, machine.open()


@pytest.mark.parametrize("has_power", [True, False])
@pytest.mark.parametrize("calls", range(8))
def test_a_log_learns_the_epochs_of_its_remote_records(calls: int, has_power: bool) -> None:
    """A crash in between leaves it as it was, or with all of them."""
    machine, log = machine_without_epochs(calls)
    assert not log.state.are_epochs_known
    machine.disk.calls_left = calls
    is_done = False
    with contextlib.suppress(NodeKilled):
        log.truncation.learn_epochs([EpochEntry(0, 0)])
        is_done = True
        assert log.state.are_epochs_known
    machine.kill() if has_power else machine.lose_power()

    log = machine.open()

    assert log.state.are_epochs_known or not is_done
    log.truncation.learn_epochs([EpochEntry(0, 0)])
    assert log.leader_epochs.entries == [(0, 0), (6, 3 * BATCHES)]
    assert log.state.is_history_known


def test_a_log_refuses_epochs_that_its_own_records_contradict() -> None:
    _, log = machine_without_epochs()
    before = log.leader_epochs.entries

    with pytest.raises(CorruptLog):
        log.truncation.learn_epochs([EpochEntry(0, 0), EpochEntry(5, 3)])

    assert log.leader_epochs.entries == before


def test_a_log_that_is_tiered_no_more_begins_with_its_own_records() -> None:
    _, log = machine_with_log()
    third = log.segments[2].base_offset
    log.retention.raise_local_start(third)
    log.configure(replace(TIERED, is_tiered=False))

    log.retention.expire(NOW)

    assert log.log_start_offset == third
