"""The floor of free room on a disk, below which produces are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.log.disk_room import DiskRoom
from moldau.broker.log.rounds import rest
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker.log.keeping import UPKEEP, Keeper, simulate

MB = 1 << 20


def room(*measures: int, floor: int = 256 * MB, total: int = 100 << 30) -> DiskRoom:
    found = DiskRoom("/data")
    for each in measures:
        found.on_measured(each * MB, total, floor)
    return found


def test_produces_are_refused_below_the_floor_and_taken_well_above_it() -> None:
    assert [room(free).is_short for free in (257, 256, 255, 0)] == [False, False, True, True]
    assert room(255, 300).is_short, "a quarter more than the floor is needed"
    assert not room(255, 320).is_short
    assert room(255, 320, 255).is_short


def test_a_refusal_can_be_retried_and_says_how_much_is_missing() -> None:
    room(300).check()
    with pytest.raises(KafkaError, match="free_bytes=1048576") as caught:
        room(1).check()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.code.retriable


def test_the_floor_of_a_small_disk_is_a_twentieth_of_it() -> None:
    assert not room(6, total=100 * MB).is_short
    assert room(4, total=100 * MB).is_short


def test_without_a_floor_nothing_is_refused_or_watched() -> None:
    found = room(0, floor=0)
    assert not found.is_short
    assert not found.is_near


def test_the_room_is_watched_when_it_may_be_used_up_within_a_second() -> None:
    assert not room(10_000).is_near
    assert room(3_000).is_near


def test_one_line_says_that_a_disk_is_nearly_full_and_one_that_there_is_room() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        keeper.upkeep.start(replace(UPKEEP, free_bytes_min=MB))
        directories, faults = keeper.directories, node.disk.faults
        seen = []
        for capacity_bytes in (None, node.disk.used_bytes() + 1, None):
            faults.capacity_bytes = capacity_bytes
            await rest(3)
            seen.append(directories.is_short_of_room)
        assert seen == [False, True, False]
        full, again = "a disk is nearly full", "there is room again"
        told = [line for line in keeper.lines if full in line or again in line]
        assert [full in line for line in told] == [True, True, False, False], "two directories"
        await keeper.aclose()

    simulate(main)


def test_a_shortage_that_ends_before_the_next_look_is_logged() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        keeper.upkeep.start(replace(UPKEEP, free_bytes_min=MB))
        directories, faults = keeper.directories, node.disk.faults
        await rest(3)
        for capacity_bytes in (node.disk.used_bytes() + 1, None):
            faults.capacity_bytes = capacity_bytes
            directories.measure_room(runtime.clock.wall_ms())
        assert not directories.is_short_of_room
        await keeper.aclose()
        full, again = "a disk is nearly full", "there is room again"
        told = [full in line for line in keeper.lines if full in line or again in line]
        assert told == [True, False, True, False], "two directories"

    simulate(main)
