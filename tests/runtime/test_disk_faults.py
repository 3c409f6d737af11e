"""The simulated disk: what each fault does, and what its tormentor can do by hand."""

from __future__ import annotations

import errno
from collections import Counter
from contextlib import closing
from random import Random

import pytest

from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation
from tests.runtime.disk_promises import a_sync_that_failed_is_never_made_good_by_the_next
from tests.runtime.machine import Node


def test_errors_come_at_their_rate_and_name_the_file() -> None:
    node = Node()
    node.durable("/log", b"abc")
    node.disk.faults.read_error = 0.5
    codes = Counter[int | None]()
    for _ in range(200):
        try:
            with node.files.open("/log") as file:
                file.read_at(0, 3)
            codes[None] += 1
        except OSError as error:
            codes[error.errno] += error.filename == "/log"
    assert codes[errno.EIO] > 100 > codes[None] > 20
    assert node.disk.fault_counts["read_error"] == codes[errno.EIO]


def test_a_failed_write_leaves_a_prefix() -> None:
    sizes = set()
    for seed in range(60):
        node = Node(seed)
        file = node.files.open("/log", "create")
        file.append(b"abc")
        node.disk.fail_next("write")
        with pytest.raises(OSError, match="Input/output"):
            file.append(b"defgh")
        assert b"abcdefgh".startswith(file.read_at(0, 100))
        sizes.add(file.size)
        file.truncate(3)
        assert file.append(b"xyz") == 3
    assert sizes == {3, 4, 5, 6, 7, 8}


def test_a_sync_that_failed_is_never_made_good_by_the_next() -> None:
    a_sync_that_failed_is_never_made_good_by_the_next()


def test_what_is_written_again_after_a_failed_sync_is_durable_again() -> None:
    for seed in range(40):
        node = Node(seed)
        node.durable("/log", b"")
        file = node.files.open("/log", "update")
        file.append(b"u" * 64)
        node.disk.fail_next("sync")
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        file.write_at(0, b"v" * 64)
        file.sync()
        node.power_loss(survival=0.0)
        assert node.read("/log") == b"v" * 64


def test_a_failed_sync_of_names_ends_all_writing() -> None:
    node = Node()
    node.durable("/log", b"abc")
    node.write("/more", b"x", sync=True)
    node.disk.fail_next("sync", path_part="/")
    with pytest.raises(OSError, match="Input/output"):
        node.files.sync_dir("/")
    with pytest.raises(OSError, match="Read-only"):
        node.write("/log", b"d")
    with pytest.raises(OSError, match="Read-only"):
        node.files.sync_dir("/")
    assert node.read("/log") == b"abc"
    node.power_loss(survival=0.0)
    assert node.files.list("/") == ["log"]
    node.write("/log", b"d")


def test_planned_errors_meet_the_path_they_were_meant_for() -> None:
    node = Node()
    node.durable("/a.log", b"")
    node.durable("/b.log", b"")
    node.disk.fail_next("write", errno.ENOSPC, path_part="b.log")
    node.write("/a.log", b"x")
    with pytest.raises(OSError, match="No space"):
        node.write("/b.log", b"x")
    node.write("/b.log", b"x")
    node.disk.fail_next("write")
    node.kill()
    node.write("/b.log", b"x")


def test_a_full_disk_stores_what_fits() -> None:
    node = Node()
    node.disk.faults.capacity_bytes = 10
    file = node.files.open("/log", "create")
    file.append(b"12345678")
    assert node.files.free_bytes("/") == 2
    assert node.files.total_bytes("/") == 10
    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"abcde")
    assert caught.value.filename == "/log"
    assert node.read("/log") == b"12345678ab"
    file.write_at(0, b"overwrites")
    file.truncate(4)
    assert node.files.free_bytes("/") == 6
    with pytest.raises(OSError, match="No space"):
        file.truncate(11)
    with pytest.raises(OSError, match="No space"):
        file.allocate(11)
    file.allocate(10)
    assert node.files.free_bytes("/") == 0
    assert file.size == 4
    file.append(b"123456")
    node.files.remove("/log")
    assert node.files.free_bytes("/") == 0
    file.close()
    assert node.files.free_bytes("/") == 10


def test_rot_changes_one_bit_for_good() -> None:
    node = Node()
    node.durable("/log", bytes(8))
    node.disk.rot("/log", bit=9)
    assert node.read("/log") == b"\0\x02" + bytes(6)
    node.power_loss()
    assert node.read("/log") == b"\0\x02" + bytes(6)
    node.durable("/other", bytes(100))
    node.disk.rot("/other")
    assert sum(byte.bit_count() for byte in node.disk.contents("/other")) == 1


def test_rot_shows_where_one_reads() -> None:
    node = Node()
    node.durable("/log", bytes(64))
    node.disk.faults.bit_rot = 1.0
    with node.files.open("/log") as file:
        assert sum(byte.bit_count() for byte in file.read_at(16, 8)) == 1
        node.disk.faults.bit_rot = 0.0
        assert sum(byte.bit_count() for byte in file.read_at(0, 64)) == 1
        node.disk.faults.bit_rot = 1.0
        assert file.read_at(64, 8) == b""
    assert node.disk.fault_counts == {"bit_rot": 1}


def test_a_misdirected_write_shows_when_the_cache_is_gone() -> None:
    node = Node()
    node.durable("/log", b"a" * 16 + b"b" * 16)
    node.disk.faults.misdirected_write = 1.0
    with node.files.open("/log", "update") as file:
        file.write_at(0, b"n" * 16)
        file.sync()
        assert file.read_at(0, 32) == b"n" * 16 + b"b" * 16
        node.disk.drop_caches()
        assert file.read_at(0, 32) == b"a" * 16 + b"n" * 16


def test_a_write_goes_astray_only_where_there_is_one() -> None:
    node = Node()
    node.durable("/log", b"a" * 48)
    node.disk.faults.misdirected_write = 1.0
    with node.files.open("/log", "update") as file:
        file.sync()
        file.truncate(16)
        file.sync()
    assert node.disk.fault_counts.get("misdirected_write", 0) == 0
    node.disk.drop_caches()
    assert node.read("/log") == b"a" * 16


def test_a_slow_sync_takes_virtual_time() -> None:
    node = Node()
    node.write("/log", b"x")
    node.disk.take_latency_ns()
    node.write("/log", b"x", sync=True)
    usual = node.disk.take_latency_ns()
    assert 500_000 <= usual < 1_000_000
    assert node.disk.take_latency_ns() == 0
    node.disk.faults.slow_sync = 1.0
    node.write("/log", b"x", sync=True)
    assert node.disk.take_latency_ns() >= 10_000_000_000


def test_a_stale_copy_can_be_put_back() -> None:
    node = Node()
    node.files.make_dirs("/t-0")
    node.durable("/t-0/checkpoint", b"1")
    stale = node.disk.contents("/t-0/checkpoint")
    node.files.write_text_atomic("/t-0/checkpoint", "2")
    node.disk.put("/t-0/checkpoint", stale)
    node.power_loss()
    assert node.read("/t-0/checkpoint") == b"1"
    assert node.disk.paths() == ["/t-0/checkpoint"]
    node.disk.drop("/t-0/checkpoint")
    with pytest.raises(FileNotFoundError):
        node.disk.drop("/t-0/checkpoint")
    node.power_loss()
    assert node.disk.paths() == []


def test_times_come_from_the_nodes_clock() -> None:
    now = [1_000]
    disk = SimulatedDisk(Random(1), now_ms=lambda: now[0])
    files = disk.files(Incarnation("a"))
    with files.open("/log", "create") as file:
        now[0] = 2_000
        file.append(b"x")
    now[0] = 3_000
    assert files.stat("/log").modified_ms == 2_000
    assert files.stat("/").modified_ms == 1_000


def story(seed: int) -> list[object]:
    node = Node(seed)
    node.disk.faults.write_error = node.disk.faults.sync_error = 0.1
    node.disk.faults.write_back = 0.2
    seen: list[object] = []
    for step in range(60):
        try:
            node.write(f"/{step % 3}", b"%d" % step * 20, sync=step % 4 == 0)
        except OSError as error:
            seen.append((step, error.errno))
        if step % 10 == 9:
            node.power_loss()
            seen.append([(path, node.disk.contents(path)) for path in node.disk.paths()])
    return seen


def test_the_same_seed_tells_the_same_story() -> None:
    assert story(1) == story(1)
    assert story(1) != story(2)


@pytest.mark.parametrize("seed", range(8))
def test_caches_can_be_dropped_while_a_file_is_mapped(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    with disk.files(Incarnation("a")).open("/log", "write") as file:
        file.append(b"x" * 700)
        file.sync()
        file.write_at(600, b"y" * 100)
        disk.fail_next("sync")
        with pytest.raises(OSError, match="Errno"):
            file.sync()
        with closing(file.map(700)) as mapped:
            disk.drop_caches()
            assert len(mapped.buffer) == file.size == 700
            assert bytes(mapped.buffer[600:]) in (b"x" * 100, b"y" * 100)


def test_what_a_failed_sync_gave_up_is_gone_after_a_remount() -> None:
    lost = 0
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        with disk.files(Incarnation("a")).open("/log", "write") as file:
            file.append(b"old")
            file.sync()
            file.write_at(0, b"new")
            disk.fail_next("sync")
            with pytest.raises(OSError, match="Errno"):
                file.sync()
        disk.kill()
        disk.remount()
        assert not disk.needs_remount
        lost += disk.contents("/log") == b"old"
    assert 0 < lost < 20


def test_what_was_cut_off_and_never_arrived_does_not_come_back() -> None:
    disk = SimulatedDisk(Random(1), sector_bytes=32)
    with disk.files(Incarnation("a")).open("/log", "write") as file:
        file.append(b"a" * 96)
        file.sync()
        file.write_at(0, bytes(96))  # zeros need no image when they are cut
        disk.fail_next("sync")
        with pytest.raises(OSError, match="Errno"):
            file.sync()
        assert disk.needs_remount
        file.truncate(0)
        file.sync()
        file.append(b"c" * 96)
        file.sync()
        disk.drop_caches()
        assert file.read_at(0, 96) == b"c" * 96
