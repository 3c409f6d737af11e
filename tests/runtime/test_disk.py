"""The simulated disk: what each end of a life leaves, and what each fault does."""

from __future__ import annotations

import errno
from collections import Counter
from contextlib import closing
from random import Random

import pytest

from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled

SEEDS = range(60)


class Node:
    """A node with a disk, and the lives that it went through."""

    def __init__(self, seed: int = 1, sector_bytes: int = 16) -> None:
        self.disk = SimulatedDisk(Random(seed), sector_bytes=sector_bytes)
        self.start()

    def start(self) -> None:
        self.incarnation = Incarnation("a")
        self.files: Files = self.disk.files(self.incarnation)

    def kill(self) -> None:
        self.incarnation.poison()
        self.disk.kill()
        self.start()

    def power_loss(self, survival: float | None = None) -> None:
        self.incarnation.poison()
        self.disk.power_loss(survival)
        self.start()

    def write(self, path: str, data: bytes, *, sync: bool = False) -> None:
        with self.files.open(path, "write") as file:
            file.append(data)
            if sync:
                file.sync()

    def durable(self, path: str, data: bytes) -> None:
        self.write(path, data, sync=True)
        self.files.sync_dir("/")

    def read(self, path: str) -> bytes | None:
        return self.disk.contents(path) if self.files.exists(path) else None


def after_power_loss(data: bytes, added: bytes, seed: int) -> bytes:
    """What is left of a durable file to which bytes were appended that nobody synced."""
    node = Node(seed)
    node.durable("/log", data)
    node.write("/log", added)
    node.power_loss()
    contents = node.read("/log")
    assert contents is not None
    return contents


# Ends of lives.


def test_a_kill_loses_nothing() -> None:
    node = Node()
    node.write("/log", b"abc")
    node.files.rename("/log", "/renamed")
    node.kill()
    assert node.read("/renamed") == b"abc"
    node.power_loss(survival=0.0)
    assert node.read("/renamed") is None


def test_the_dead_touch_nothing() -> None:
    node = Node()
    file = node.files.open("/log", "create")
    file.append(b"abcd")
    mapped = file.map(4, writable=True)
    lock = node.files.lock("/lock")
    dead = node.files
    node.kill()
    for act in (
        lambda: file.append(b"x"),
        lambda: file.read_at(0, 1),
        lambda: file.size,
        lambda: file.sync(),
        file.close,
        lambda: mapped.write(0, b"x"),
        mapped.close,
        lock.release,
        lambda: dead.open("/log"),
        lambda: dead.exists("/log"),
        lambda: dead.list("/"),
        lambda: dead.make_dirs("/x"),
        lambda: dead.remove("/log"),
        lambda: dead.rename("/log", "/x"),
        lambda: dead.write_text_atomic("/log", "x"),
        lambda: dead.temporary_dir(),
        lambda: dead.free_bytes("/"),
        lambda: dead.sync_dir("/"),
        lambda: dead.stat("/log"),
    ):
        with pytest.raises(NodeKilled):
            act()
    assert node.read("/log") == b"abcd"


def test_a_kill_ends_handles_mappings_and_locks() -> None:
    node = Node()
    file = node.files.open("/log", "create")
    file.append(b"abcd")
    view = file.map(4).buffer
    node.files.lock("/lock")
    node.kill()
    node.files.lock("/lock")
    node.write("/log", b"efgh")
    assert node.read("/log") == b"abcdefgh"
    assert bytes(view) == b"abcd"


def test_a_lost_disk_is_empty() -> None:
    node = Node()
    node.durable("/log", b"abc")
    node.incarnation.poison()
    node.disk.lose()
    node.start()
    assert node.files.list("/") == []
    node.power_loss()
    assert node.files.list("/") == []


# Bytes.


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_synced_is_never_lost(seed: int) -> None:
    contents = after_power_loss(b"s" * 40, b"u" * 60, seed)
    assert 40 <= len(contents) <= 100
    assert contents[:40] == b"s" * 40
    assert set(contents[40:]) <= {0, ord("u")}


def test_what_was_not_synced_has_many_fates() -> None:
    fates = Counter[str]()
    for seed in range(400):
        rest = after_power_loss(b"s" * 40, b"u" * 60, seed)[40:]
        fates["nothing"] += not rest.strip(b"\0")
        fates["all"] += rest == b"u" * 60
        fates["hole"] += b"\0u" in rest
        fates["zeros at the end"] += rest.endswith(b"\0")
        fates["shorter"] += 0 < len(rest) < 60
        boundaries = [at for at in range(1, len(rest)) if rest[at - 1] != rest[at]]
        fates["torn"] += any((at + 40) % 16 for at in boundaries)
    assert all(count >= 10 for count in fates.values()), fates
    assert len(fates) == 6


def test_overwritten_sectors_go_back_each_on_its_own() -> None:
    seen = set()
    for seed in range(100):
        node = Node(seed)
        node.durable("/log", b"o" * 64)
        with node.files.open("/log", "update") as file:
            file.write_at(0, b"n" * 64)
        node.power_loss()
        contents = node.read("/log")
        assert contents is not None
        assert len(contents) == 64
        assert set(contents) <= set(b"on")
        seen.add(contents)
    assert {b"o" * 64, b"n" * 64} < seen


def test_a_truncation_that_was_not_synced_can_come_back() -> None:
    sizes = set()
    for seed in range(100):
        node = Node(seed)
        node.durable("/log", b"d" * 50)
        with node.files.open("/log", "update") as file:
            file.truncate(20)
        node.power_loss()
        contents = node.read("/log")
        assert contents is not None
        assert contents[:20] == b"d" * 20
        assert set(contents[20:]) <= {0, ord("d")}
        sizes.add(len(contents))
    assert {20, 50} < sizes


@pytest.mark.parametrize("size", [0, 20, 32, 49])
def test_what_a_lost_truncation_cut_is_there_again(size: int) -> None:
    node = Node()
    node.durable("/log", b"d" * 50)
    with node.files.open("/log", "update") as file:
        file.truncate(size)
        file.append(b"n" * 60)
    node.power_loss(survival=0.0)
    assert node.read("/log") == b"d" * 50


def test_a_synced_truncation_stays() -> None:
    node = Node()
    node.durable("/log", b"d" * 50)
    with node.files.open("/log", "update") as file:
        file.truncate(20)
        file.sync()
        file.truncate(50)
    node.power_loss(survival=1.0)
    assert node.read("/log") == b"d" * 20 + bytes(30)


def test_mapped_writes_are_lost_like_others() -> None:
    node = Node()
    node.durable("/index", bytes(32))
    with node.files.open("/index", "update") as file:
        mapped = file.map(32, writable=True)
        mapped.write(0, b"a" * 8)
        mapped.sync()
        mapped.write(8, b"b" * 8)
    node.power_loss(survival=0.0)
    assert node.read("/index") == b"a" * 8 + bytes(24)


def test_a_kernel_that_writes_on_its_own_keeps_what_was_there_in_between() -> None:
    seen = set()
    for seed in range(60):
        node = Node(seed)
        node.durable("/log", b"1")
        with node.files.open("/log", "update") as file:
            file.write_at(0, b"2")
            node.disk.faults.write_back = 1.0
            file.write_at(0, b"3")
        node.power_loss(survival=0.0)
        seen.add(node.read("/log"))
    assert seen == {b"1", b"2"}


# Names.


def test_a_synced_file_without_a_synced_name_can_be_gone() -> None:
    node = Node()
    node.write("/log", b"abc", sync=True)
    node.power_loss(survival=0.0)
    assert node.files.list("/") == []


def test_a_synced_name_can_lead_to_an_empty_file() -> None:
    node = Node()
    node.write("/log", b"abc")
    node.files.sync_dir("/")
    node.power_loss(survival=0.0)
    assert node.read("/log") == b""


def test_a_rename_that_was_not_synced_is_undone() -> None:
    node = Node()
    node.durable("/old", b"old")
    node.durable("/new", b"new")
    node.files.rename("/old", "/new")
    node.power_loss(survival=0.0)
    assert (node.read("/old"), node.read("/new")) == (b"old", b"new")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rename_is_never_half_done(seed: int) -> None:
    node = Node(seed)
    node.durable("/old", b"old")
    node.durable("/new", b"new")
    node.files.rename("/old", "/new")
    node.files.remove("/new")
    node.files.open("/old", "create").close()
    node.power_loss()
    assert (node.read("/old"), node.read("/new")) in {
        (b"old", b"new"),
        (None, b"old"),
        (None, None),
        (b"", b"old"),
        (b"", None),
    }


def test_a_removal_that_was_not_synced_is_undone() -> None:
    node = Node()
    node.durable("/log", b"abc")
    node.files.remove("/log")
    node.power_loss(survival=0.0)
    assert node.read("/log") == b"abc"


def test_made_directories_are_durable() -> None:
    node = Node()
    node.files.make_dirs("/a/b")
    node.power_loss(survival=0.0)
    assert node.files.list("/a") == ["b"]


def test_a_directory_that_another_life_made_becomes_durable_too() -> None:
    node = Node()
    node.disk.fail_next("sync", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        node.files.make_dirs("/a")
    node.disk.is_read_only = False
    node.kill()
    node.files.make_dirs("/a")
    node.power_loss(survival=0.0)
    assert node.files.list("/") == ["a"]


class Countdown(Incarnation):
    """Dies after so many calls."""

    def __init__(self, calls: int) -> None:
        super().__init__("a")
        self.calls = calls

    def check(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            self.poison()
        super().check()


@pytest.mark.parametrize("ends_by", ["kill", "power_loss"])
def test_text_is_whole_wherever_its_writer_dies(ends_by: str) -> None:
    outcomes = Counter[str]()
    for calls in range(20):
        for seed in range(20):
            node = Node(seed, sector_bytes=4)
            node.files.write_text_atomic("/vote", "the old text")
            files = node.disk.files(Countdown(calls))
            returned = True
            try:
                files.write_text_atomic("/vote", "the new text, longer")
            except NodeKilled:
                returned = False
            if ends_by == "kill":
                node.kill()
            else:
                node.power_loss()
            text = node.files.read_text("/vote")
            assert text in {"the old text", "the new text, longer"}
            assert not returned or text == "the new text, longer"
            outcomes[text] += 1
    assert len(outcomes) == 2


# Faults.


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
    lost = 0
    for seed in range(40):
        node = Node(seed)
        node.files.sync_dir("/")
        file = node.files.open("/log", "create")
        node.files.sync_dir("/")
        file.append(b"u" * 64)
        node.disk.fail_next("sync")
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        file.sync()
        assert file.read_at(0, 64) == b"u" * 64
        node.power_loss(survival=1.0)
        lost += node.read("/log") != b"u" * 64
    assert lost > 20


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
