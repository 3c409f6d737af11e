"""Power fails, or the process dies, before any call to the disk: what was flushed is there, in
order and undamaged, and everything that is kept beside the log says what the log says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from moldau.broker.log.log_config import LogConfig
from moldau.runtime.simulated.incarnation import NodeKilled
from tests import suites
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch, contents
from tests.broker.log.story import Story


def run_seeds(seeds: range, *, with_errors: bool = False, config: LogConfig = SMALL) -> list[Story]:
    stories = []
    for seed in seeds:
        story = Story(seed, with_errors=with_errors, config=config)
        try:
            story.run()
        except Exception as error:
            raise AssertionError(f"seed={seed}") from error
        stories.append(story)
    return stories


@pytest.mark.parametrize("first", range(0, 150, 25))
def test_what_was_flushed_survives_and_nothing_damaged_is_served(first: int) -> None:
    stories = run_seeds(range(first, first + 25))
    assert sum(story.cut_count for story in stories) > 25, "power loss does cut something"


@pytest.mark.parametrize(
    "seed",
    [
        10728,  # an index that was cut to nothing got its entries back
        32580,  # an epoch that recovery had cut off came back inside a gap
    ],
)
def test_stories_that_went_wrong_once(seed: int) -> None:
    run_seeds(range(seed, seed + 1), with_errors=seed % 2 == 0)


@pytest.mark.parametrize("first", range(2000, 2100, 25))
def test_nor_is_there_a_hole_in_a_log_of_ours_that_may_be_compacted(first: int) -> None:
    stories = run_seeds(range(first, first + 25), config=replace(SMALL, is_compacted=True))
    assert sum(story.cut_count for story in stories) > 25


@pytest.mark.parametrize("first", range(1000, 1100, 25))
def test_an_error_of_the_disk_loses_nothing_that_was_flushed(first: int) -> None:
    stories = run_seeds(range(first, first + 25), with_errors=True)
    assert sum(story.error_count for story in stories) > 10


@pytest.mark.parametrize("seed", range(40))
def test_good_batches_behind_a_bad_one_do_not_come_back(seed: int) -> None:
    """1. Recovery cuts at a torn batch, 2. another of its size is appended, 3. the power fails."""
    machine = Machine(seed, replace(SMALL, segment_bytes=1 << 20))
    log = machine.open()
    for _ in range(4):
        log.append_as_leader(batch(), 0, NOW)
    path = log.segments.active.log_path
    whole = bytearray(machine.disk.contents(path))
    size = len(whole) // 4
    machine.kill()
    whole[size + 70] ^= 1
    machine.disk.put(path, bytes(whole))
    log = machine.open()
    assert log.log_end_offset == 3
    log.append_as_leader(batch(timestamp=NOW + 9), 0, NOW)
    expected = contents(log)
    machine.lose_power()
    found = contents(machine.open())
    assert found == expected[: len(found)]


@pytest.mark.parametrize("seed", range(40))
def test_what_follows_a_truncation_is_looked_at_again(seed: int) -> None:
    """1. A recovery point is noted, 2. the log is cut below it, 3. what is written there is torn
    by a loss of power: the old point must not vouch for it."""
    machine = Machine(seed)
    log = machine.open()
    for _ in range(20):
        log.append_as_leader(batch(), 0, NOW)
    log.flush()
    machine.persist_points()
    before = contents(log)[:5]
    assert log.recovery_point > 40
    log.truncate_to(15)
    for _ in range(15):
        log.append_as_leader(batch(timestamp=NOW + 9), 1, NOW)
    expected = contents(log)
    machine.lose_power()
    log = machine.open()
    found = contents(log)
    assert found[:5] == before
    assert found == expected[: len(found)]
    for each in log.batches(0):
        each.check_crc()


@pytest.mark.parametrize("calls", range(1, 10))
def test_a_truncation_that_a_kill_interrupts_does_not_come_undone(calls: int) -> None:
    """1. A batch is durable, 2. the log is cut before it, and the process dies before the sync,
    3. another batch is appended, 4. the power fails before a flush: the first one is not back."""
    for seed in range(60):
        machine = Machine(seed, replace(SMALL, segment_bytes=1 << 20))
        log = machine.open()
        for _ in range(4):
            log.append_as_leader(batch(1, size=1), 0, NOW)
        log.flush()
        machine.disk.calls_left = calls
        with suppress(NodeKilled):
            log.truncate_to(3)
        machine.kill()
        log = machine.open()
        log.append_as_leader(batch(1, size=1, timestamp=NOW + 9), 1, NOW)
        expected = contents(log)
        machine.lose_power()
        found = contents(machine.open())
        assert found == expected[: len(found)], seed


@pytest.mark.slow
@pytest.mark.parametrize("first", suites.seeds(range(10_000, 12_000, 100), quick=0))
def test_two_thousand_lives(first: int) -> None:
    run_seeds(range(first, first + 100), with_errors=first % 200 == 0)


@pytest.mark.parametrize("is_moved", [False, True])
def test_an_index_that_lost_all_its_entries_does_not_get_them_back_with_the_power(
    *, is_moved: bool
) -> None:
    """1. its entries are durable, 2. the log is cut to where its segment begins, 3. too little
    comes for another entry, 4. the log is closed in order, so its indexes are believed. In between
    its directory may get another name, as that of a copy does, and its own again."""
    machine = Machine()
    log = machine.open()
    while len(log.segments) < 3:
        log.append_as_leader(batch(2), 0, NOW)
    log.close()
    machine.lose_power()
    log = machine.open(is_clean=True)
    base = log.segments[1].base_offset
    assert log.truncate_to(base)
    if is_moved:
        log.move(f"{DIRECTORY}-future")
        log.move(DIRECTORY)
    log.append_as_leader(batch(2), 0, NOW)
    log.close()
    end = log.log_end_offset
    assert end == base + 2
    machine.lose_power()
    assert machine.open(is_clean=True).log_end_offset == end


def test_indexes_of_a_segment_that_was_full_before_the_log_moved_are_made_durable() -> None:
    machine = Machine()
    log = machine.open()
    while len(log.segments) < 2:
        log.append_as_leader(batch(2), 0, NOW)
    expected = log.segments[0].offset_index.entries()
    assert expected
    log.move(f"{DIRECTORY}-future")
    log.move(DIRECTORY)
    log.close()
    machine.lose_power()
    log = machine.open(is_clean=True)
    assert log.segments[0].offset_index.entries() == expected
