"""Steps that order what a loss of power may undo: each is left out once, and that is noticed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from moldau.broker.log import names
from moldau.broker.log.compaction import Replacement
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.segment import Segment
from moldau.runtime.files import Files
from moldau.runtime.simulated.incarnation import NodeKilled
from tests import suites
from tests.broker.log.cleaning import put_in_place
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch, contents

ROUNDS = 2
SYNCS = 3
SEEDS = 3
"""For each call before which the power fails."""


def filled(machine: Machine, batches: int) -> PartitionLog:
    log = machine.open()
    for number in range(batches):
        log.append_as_leader(batch(timestamp=NOW + number), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    return log


class SyncsLeftOut:
    """Files of which the calls of `sync_dir` with one number, modulo `SYNCS`, do nothing."""

    def __init__(self, files: Files, left_out: int | None) -> None:
        self._files = files
        self._left_out = left_out
        self._count = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def sync_dir(self, path: str) -> None:
        number, self._count = self._count % SYNCS, self._count + 1
        if number != self._left_out:
            self._files.sync_dir(path)


def merge(machine: Machine, log: PartitionLog) -> tuple[list[Segment], list[Segment]]:
    """Two pairs of segments, one segment each, with all that is in them."""
    old, new = list(log.segments)[:4], []
    for pair in (old[:2], old[2:]):
        merged = Segment.create(
            machine.files,
            DIRECTORY,
            pair[0].base_offset,
            replace(SMALL, segment_bytes=1 << 20),
            names.CLEANED,
        )
        for segment in pair:
            for each in segment.batches():
                merged.append(each.data, each.header.last_offset, each.header.max_timestamp)
        merged.seal()
        merged.sync()
        new.append(merged)
    machine.files.sync_dir(DIRECTORY)
    return new, old


def replaced_until(calls: int, seed: int, left_out: int | None) -> tuple[bool, bool]:
    """Merge segments twice, lose power before that call: whether all was over, and all is there."""
    machine = Machine(1000 * calls + seed)
    log = filled(machine, 40)
    machine.persist_points()
    before = contents(log)
    machine.disk.calls_left = calls
    is_over = False
    try:
        for _ in range(ROUNDS):
            new, old = merge(machine, log)
            log.state.files = SyncsLeftOut(machine.files, left_out)  # type: ignore[assignment]
            assert put_in_place(log, Replacement(tuple(new), tuple(old)), NOW)
            log.state.files = machine.files
            log.retention.remove_deleted(NOW + SMALL.file_delete_delay_ms)
        is_over = True
    except NodeKilled:
        pass
    machine.lose_power()
    return is_over, contents(machine.open()) == before


def search(left_out: int | None, seeds: Iterable[int] = range(SEEDS)) -> Iterator[bool]:
    """What became of the log for each call and seed."""
    calls, is_over = 0, False
    while not is_over:
        for seed in seeds:
            is_over, is_kept = replaced_until(calls, seed, left_out)
            yield is_kept
        calls += 1


@pytest.mark.parametrize("seed", suites.seeds(range(SEEDS), quick=1))
def test_merged_segments_take_their_places_wherever_the_power_fails(seed: int) -> None:
    assert all(search(None, [seed]))


@pytest.mark.parametrize("left_out", range(SYNCS))
def test_each_sync_of_a_replacement_is_needed(left_out: int) -> None:
    assert not all(search(left_out))


def forgotten_until(calls: int, seed: int, *, are_points_durable: bool) -> tuple[bool, bool]:
    """Let retention take all but the newest segments, lose power: whether it was over, and whether
    what is left is an end of the log, as long as it must be."""
    config = replace(SMALL, retention_bytes=1500)
    machine = Machine(1000 * calls + seed, config)
    log = filled(machine, 60)
    machine.persist_points()
    before = contents(log)
    kept = before[-10:]
    with durable_points(machine, are_durable=are_points_durable):
        machine.disk.calls_left = calls
        is_over = False
        try:
            assert log.delete_old_segments(NOW) > 4
            is_over = True
        except NodeKilled:
            pass
        machine.lose_power()
    found = contents(machine.open())
    return is_over, found == before[len(before) - len(found) :] and found[-10:] == kept


@contextmanager
def durable_points(machine: Machine, *, are_durable: bool) -> Iterator[None]:
    """Unless `are_durable` the directory forgets to write where logs begin."""
    start = machine.log_start_offset
    yield
    if not are_durable:
        machine.log_start_offset = start


def retention(*, are_points_durable: bool) -> Iterator[bool]:
    calls, is_over = 0, False
    while not is_over:
        for seed in range(SEEDS):
            is_over, is_kept = forgotten_until(calls, seed, are_points_durable=are_points_durable)
            yield is_kept
        calls += 1


def test_retention_leaves_an_end_of_the_log_wherever_the_power_fails() -> None:
    assert all(retention(are_points_durable=True))


def test_retention_needs_durable_points() -> None:
    assert not all(retention(are_points_durable=False))
