"""Cleaned segments take the place of old ones: before or after, never half, wherever it stops."""

from __future__ import annotations

import pytest

from moldau.broker.log import names
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.segment import Segment
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.machine import DIRECTORY, NOW, Machine, batch, contents


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
    log.replace_segments(new, old, NOW)
    after = contents(log)
    kept = [each for each in before if each[0] >= log.segments[2].base_offset]
    assert after == [(e.header.base_offset, bytes(e.data)) for e in expected] + kept
    assert piece.read() == whole
    for offset in range(90):
        assert len(log.read(offset, 1))
    assert log.remove_deleted(NOW + 1000) == 4
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
            log.replace_segments(new, old, NOW)
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
        left = [name for name in machine.files.list(DIRECTORY) if "." in name[20:].lstrip(".")]
        assert not [name for name in left if name.endswith((".swap", ".cleaned", ".deleted"))]
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
    log.replace_segments(new, old, NOW)
    starts = {each.base_offset for each in log.segments}
    assert gone not in log.snapshots.offsets
    assert set(log.snapshots.offsets) <= starts
    assert f"{gone:020d}.snapshot" not in machine.files.list(DIRECTORY)
