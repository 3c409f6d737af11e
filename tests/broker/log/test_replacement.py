"""Cleaned segments take the place of old ones: before or after, never half, wherever it stops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.broker.log import names
from moldau.broker.log.compaction import Replacement, begin_to_put_in_place
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.segment import Segment
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.cleaning import put_in_place
from tests.broker.log.machine import DIRECTORY, NOW, Machine, batch, contents, out_of_use


def filled(machine: Machine) -> PartitionLog:
    log = machine.open()
    for _ in range(30):
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(90)
    log.flush()
    assert len(log.segments) > 4
    return log


def clean(machine: Machine, log: PartitionLog) -> tuple[list[Segment], list[Segment]]:
    """Every other batch of two pairs of segments, in one cleaned segment each."""
    old, new = list(log.segments)[:4], []
    for pair in (old[:2], old[2:]):
        cleaned = Segment.create(
            machine.files, DIRECTORY, pair[0].base_offset, machine.config, names.CLEANED
        )
        for segment in pair:
            for number, each in enumerate(segment.batches()):
                if number % 2 == 0:
                    header = each.header
                    cleaned.append(each.data, header.last_offset, header.max_timestamp)
        cleaned.seal()
        cleaned.sync()
        new.append(cleaned)
    machine.files.sync_dir(DIRECTORY)
    return new, old


def test_a_replaced_log_reads_on() -> None:
    machine = Machine()
    log = filled(machine)
    new, old = clean(machine, log)
    expected = [each for segment in new for each in segment.batches()]
    before = contents(log)
    piece = log.read(0, 1 << 20)
    whole = piece.read()
    assert put_in_place(log, Replacement(tuple(new), tuple(old)), NOW)
    after = contents(log)
    kept = [each for each in before if each[0] >= log.segments[2].base_offset]
    assert after == [(e.header.base_offset, bytes(e.data)) for e in expected] + kept
    assert piece.read() == whole
    for offset in range(90):
        assert len(log.read(offset, 1))
    assert log.retention.remove_deleted(NOW + 1000) == 4
    machine.lose_power()
    machine.recovery_point = log.persisted_recovery_point
    assert contents(machine.open()) == after


@pytest.mark.parametrize("is_power", [False, True])
def test_a_stop_anywhere_leaves_each_part_old_or_new(is_power: bool) -> None:
    outcomes = set()
    for calls in range(60):
        machine = Machine(calls)
        log = filled(machine)
        before = contents(log)
        new, old = clean(machine, log)
        halves = [log.segments[2].base_offset, log.segments[4].base_offset]
        cleaned = [
            [(e.header.base_offset, bytes(e.data)) for e in segment.batches()] for segment in new
        ]
        machine.disk.calls_left = calls
        try:
            assert put_in_place(log, Replacement(tuple(new), tuple(old)), NOW)
            machine.disk.incarnation.poison()
        except NodeKilled:
            pass
        if is_power:
            machine.lose_power()
        else:
            machine.kill()
        again = machine.open()
        found = contents(again)
        first = [each for each in found if each[0] < halves[0]]
        second = [each for each in found if halves[0] <= each[0] < halves[1]]
        assert first in ([e for e in before if e[0] < halves[0]], cleaned[0])
        assert second in ([e for e in before if halves[0] <= e[0] < halves[1]], cleaned[1])
        assert found[len(first) + len(second) :] == [e for e in before if e[0] >= halves[1]]
        assert not out_of_use(machine)
        outcomes.add((first == cleaned[0], second == cleaned[1]))
    assert {(False, False), (True, True)} <= outcomes


def test_a_left_over_of_offset_zero_is_not_nothing() -> None:
    """1. The last new segment is `.swap`, 2. the first, at offset 0, is still `.cleaned` when the
    process dies: the step was not over, so none of them counts, though 9 is above 0."""
    machine = Machine()
    log = filled(machine)
    before = contents(log)
    new, _ = clean(machine, log)
    assert new[0].base_offset == 0
    extra = Segment.create(machine.files, DIRECTORY, new[1].base_offset + 1, log.config, ".cleaned")
    extra.forget()
    new[1].rename(names.SWAP)
    machine.files.sync_dir(DIRECTORY)
    machine.kill()
    assert contents(machine.open()) == before


def test_producer_snapshots_go_with_their_segments() -> None:
    machine = Machine()
    log = filled(machine)
    new, old = clean(machine, log)
    gone = old[1].base_offset
    assert gone in log.snapshots.offsets
    assert put_in_place(log, Replacement(tuple(new), tuple(old)), NOW)
    starts = {each.base_offset for each in log.segments}
    assert gone not in log.snapshots.offsets
    assert set(log.snapshots.offsets) <= starts
    assert f"{gone:020d}.snapshot" not in machine.files.list(DIRECTORY)


Act = Callable[[PartitionLog], object]


def appended(log: PartitionLog) -> None:
    for _ in range(10):
        log.append_as_leader(batch(), 0, NOW)


def forgotten(log: PartitionLog) -> None:
    log.increment_log_start_offset(40)
    log.retention.drop_expired(NOW)


MEANWHILE: dict[str, Act] = {
    "append and roll": appended,
    "read": contents,
    "flush": lambda log: log.flush(),
    "retention": forgotten,
    "truncation": lambda log: log.truncate_to(80),
    "deep truncation": lambda log: log.truncate_to(10),
    "truncation of all": lambda log: log.truncate_fully_and_start_at(200),
    "a new name": lambda log: log.move("/data/t-0.x-delete"),
}


@pytest.mark.parametrize("how", MEANWHILE)
@pytest.mark.parametrize("steps", range(4))
def test_the_log_is_used_between_two_steps(how: str, steps: int) -> None:
    once, whole = Machine(), Machine()
    log, other = filled(once), filled(whole)
    new, old = clean(once, log)
    swap = begin_to_put_in_place(log, Replacement(tuple(new), tuple(old)), NOW)
    assert swap is not None
    for _ in range(steps):
        assert log.replacing.go_on(swap)
        swap.sync()
    MEANWHILE[how](log)
    while log.replacing.go_on(swap):
        swap.sync()
    swap.sync()  # of a thread that was late
    new, old = clean(whole, other)
    assert put_in_place(other, Replacement(tuple(new), tuple(old)), NOW)
    MEANWHILE[how](other)
    assert contents(log) == contents(other)
    assert log.log_start_offset == other.log_start_offset
    log.retention.remove_deleted(NOW + 100_000)
    assert not out_of_use(once, log.directory)
    log.close()
    other.close()


@pytest.mark.parametrize("is_power", [False, True])
@pytest.mark.parametrize("how", ["append and roll", "retention", "truncation", "deep truncation"])
def test_a_stop_after_what_was_done_between_two_steps_leaves_all_of_it(
    how: str, is_power: bool
) -> None:
    for steps in range(4):
        machine = Machine()
        log = filled(machine)
        new, old = clean(machine, log)
        swap = begin_to_put_in_place(log, Replacement(tuple(new), tuple(old)), NOW)
        assert swap is not None
        for _ in range(steps):
            assert log.replacing.go_on(swap)
            swap.sync()
        MEANWHILE[how](log)
        log.flush()
        ends = log.log_start_offset, log.log_end_offset
        while log.replacing.go_on(swap):
            swap.sync()
        expected = contents(log)
        machine.recovery_point = log.persisted_recovery_point
        if is_power:
            machine.lose_power()
        else:
            machine.kill()
        again = machine.open()
        assert again.log_end_offset == ends[1]
        found = [each for each in contents(again) if each[0] >= ends[0]]
        assert found == [each for each in expected if each[0] >= ends[0]]
