"""Offset and time index: look-ups against a plain search, files byte for byte, damage found."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.mapped_index import MAPPED_FROM
from moldau.broker.log.offset_index import OffsetIndex, OffsetPosition
from moldau.broker.log.time_index import TimeIndex, TimestampOffset
from moldau.errors import CorruptLog
from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation

BASE = 1000
PATH = "/index"


def new_disk() -> tuple[SimulatedDisk, Files]:
    disk = SimulatedDisk(Random(1))
    return disk, disk.files(Incarnation("node"))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 99)), max_size=40), st.integers(0, 400))
def test_an_offset_is_looked_up_as_a_plain_search_would(
    steps: list[tuple[int, int]], asked: int
) -> None:
    _, files = new_disk()
    index = OffsetIndex(files, PATH, BASE, 8 * 64)
    entries, offset, position = [OffsetPosition(BASE, 0)], BASE, 0
    for more, size in steps:
        offset, position = offset + more, position + size
        index.append(offset, position)
        entries.append(OffsetPosition(offset, position))
    expected = [each for each in entries if each.offset <= BASE + asked][-1]
    assert index.look_up(BASE + asked) == expected
    bound = [each.offset for each in entries[1:] if each.position >= asked]
    assert index.upper_bound(asked) == (bound[0] if bound else None)
    index.trim()
    again = OffsetIndex(files, PATH, BASE, 8 * 64)
    assert again.look_up(BASE + asked) == expected
    again.truncate_to(BASE + asked)
    assert again.entries() == [each for each in entries[1:] if each.offset < BASE + asked]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=40), st.integers(0, 400))
def test_a_time_is_looked_up_as_a_plain_search_would(
    steps: list[tuple[int, int]], asked: int
) -> None:
    _, files = new_disk()
    index = TimeIndex(files, PATH, BASE, 12 * 64)
    entries, timestamp, offset = [TimestampOffset(-1, BASE)], 0, BASE
    for later, more in steps:
        timestamp, offset = timestamp + later, offset + more
        index.append(timestamp, offset)
        if timestamp > entries[-1].timestamp:
            entries.append(TimestampOffset(timestamp, offset))
    assert index.look_up(asked) == [each for each in entries if each.timestamp <= asked][-1]
    index.trim()
    again = TimeIndex(files, PATH, BASE, 12 * 64)
    assert again.entries() == entries[1:]
    again.truncate_to(BASE + asked)
    assert again.entries() == [each for each in entries[1:] if each.offset < BASE + asked]


def test_an_index_in_use_is_as_large_as_it_may_become_and_is_cut_when_trimmed() -> None:
    disk, files = new_disk()
    index = OffsetIndex(files, PATH, BASE, 100)
    assert not files.exists(PATH)
    index.append(BASE + 5, 400)
    index.append(BASE + 9, 800)
    assert disk.contents(PATH) == struct.pack(">iiii", 5, 400, 9, 800) + bytes(96 - 16)
    index.trim()
    assert disk.contents(PATH) == struct.pack(">iiii", 5, 400, 9, 800)
    index.append(BASE + 12, 900)
    assert index.look_up(BASE + 20) == (BASE + 12, 900)
    assert index.look_up(BASE + 6) == (BASE + 5, 400)


def test_the_time_index_keeps_room_for_the_last_entry() -> None:
    _, files = new_disk()
    offset_index = OffsetIndex(files, "/o", BASE, 24)
    time_index = TimeIndex(files, "/t", BASE, 36)
    was_full = []
    for number in range(1, 4):
        was_full.append((offset_index.is_full, time_index.is_full))
        offset_index.append(BASE + number, number)
        time_index.append(number, BASE)
    assert was_full == [(False, False), (False, False), (False, True)]
    assert offset_index.is_full
    assert time_index.count == 3


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 7,
        bytes(32),  # an index that was in use when the process died
        struct.pack(">ii", -1, 5),
        struct.pack(">iiii", 5, 5, -3, 5),
        struct.pack(">ii", 5, -5),
    ],
)
def test_a_damaged_offset_index_is_refused(content: bytes) -> None:
    disk, files = new_disk()
    disk.put(PATH, content)
    with pytest.raises(CorruptLog):
        OffsetIndex(files, PATH, BASE, 100)


@pytest.mark.parametrize(
    "content",
    [b"\0" * 13, struct.pack(">qi", 5, -1), struct.pack(">qi", 5, 1) + bytes(24)],
)
def test_a_damaged_time_index_is_refused(content: bytes) -> None:
    disk, files = new_disk()
    disk.put(PATH, content)
    with pytest.raises(CorruptLog):
        TimeIndex(files, PATH, BASE, 100)


def test_a_reset_index_is_empty() -> None:
    disk, files = new_disk()
    for index in (OffsetIndex(files, "/o", BASE, 96), TimeIndex(files, "/t", BASE, 96)):
        index.append(BASE + 7, BASE + 7)
        index.reset()
        assert index.entries() == []
        assert disk.contents(index.path) == b""
        index.append(BASE + 1, BASE + 1)
        assert index.count == 1


def test_the_first_entries_are_written_without_a_mapping() -> None:
    """Many partitions of new topics get few entries: a mapping of each is the larger cost."""
    disk, files = new_disk()
    index = TimeIndex(files, PATH, BASE, 12 * 64)
    expected = b""
    for number in range(1, 2 * MAPPED_FROM):
        index.append(number, BASE + number)
        expected += struct.pack(">qi", number, number)
        assert (index._map is not None) == (number > MAPPED_FROM)
        assert disk.contents(PATH) == expected + bytes(12 * 64 - len(expected))
    assert index.look_up(3) == (3, BASE + 3)


def test_an_entry_after_a_read_is_added_to_a_short_index() -> None:
    _, files = new_disk()
    index = OffsetIndex(files, PATH, BASE, 8 * 64)
    for number in range(1, 5):
        index.append(BASE + number, number)
        assert index.look_up(BASE + 1) == (BASE + 1, 1), "a read maps the file"
    assert [each.position for each in index.entries()] == [1, 2, 3, 4]


def test_a_full_disk_refuses_the_first_entry() -> None:
    disk, files = new_disk()
    index = OffsetIndex(files, PATH, BASE, 8 * 64)
    disk.faults.capacity_bytes = 0
    with pytest.raises(OSError, match="space"):
        index.append(BASE + 1, 1)
    assert index.count == 0
    disk.faults.capacity_bytes = None
    index.append(BASE + 2, 2)
    assert index.entries() == [(BASE + 2, 2)]
