"""The simulated disk: what each end of a life leaves of bytes and names."""

from __future__ import annotations

import errno
from collections import Counter
from contextlib import closing

import pytest

from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled
from tests.runtime.disk_promises import (
    after_power_loss,
    names_arrive_in_any_order,
    overwritten_sectors_go_back_each_on_its_own,
    what_was_not_synced_has_many_fates,
)
from tests.runtime.machine import Node

SEEDS = range(60)


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
        lambda: dead.total_bytes("/"),
        lambda: dead.make_dir("/other"),
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
    what_was_not_synced_has_many_fates()


def test_overwritten_sectors_go_back_each_on_its_own() -> None:
    overwritten_sectors_go_back_each_on_its_own()


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


@pytest.mark.parametrize("at", [0, 65_535, 65_536, 131_071, 200_000, 299_999])
def test_what_was_cut_off_a_large_file_of_zeros_is_there_again(at: int) -> None:
    node = Node()
    data = bytearray(300_000)
    data[at] = 7
    node.durable("/index", bytes(data))
    with node.files.open("/index", "update") as file:
        file.truncate(10)
    node.power_loss(survival=0.0)
    assert node.read("/index") == bytes(data)


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


def test_names_arrive_in_any_order() -> None:
    names_arrive_in_any_order()


def test_a_name_that_is_made_again_leads_to_one_of_its_files() -> None:
    found = set()
    for seed in range(200):
        node = Node(seed)
        node.durable("/log", b"old")
        node.files.remove("/log")
        node.write("/log", b"new", sync=True)
        node.power_loss()
        found.add(node.read("/log"))
    assert found == {b"old", None, b"new"}


def test_a_mapping_makes_durable_what_it_maps_and_the_size() -> None:
    node = Node(sector_bytes=16)
    node.durable("/index", b"o" * 48)
    with node.files.open("/index", "update") as file:
        file.write_at(0, b"n" * 48)
        file.append(b"n" * 16)
        with closing(file.map(20, writable=True)) as mapped:
            mapped.write(0, b"m")
            mapped.sync()
    node.power_loss(survival=0.0)
    assert node.read("/index") == b"m" + b"n" * 31 + b"o" * 16 + bytes(16)


def test_a_cut_that_a_mapping_made_durable_stays() -> None:
    node = Node(sector_bytes=16)
    node.durable("/index", b"o" * 64)
    with node.files.open("/index", "update") as file:
        file.truncate(20)
        with closing(file.map(8, writable=True)) as mapped:
            mapped.sync()
        file.truncate(64)
    node.power_loss(survival=0.0)
    assert node.read("/index") == b"o" * 20
    with node.files.open("/index", "update") as file:
        file.truncate(64)
        file.sync()
    assert node.read("/index") == b"o" * 20 + bytes(44)


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


def test_a_directory_is_whole_under_one_name_whatever_was_done_to_it() -> None:
    found = Counter[tuple[str, ...]]()
    for seed in range(200):
        node = Node(seed)
        node.files.make_dirs("/t-0")
        node.write("/t-0/log", b"abc", sync=True)
        node.files.sync_dir("/t-0")
        node.files.rename("/t-0", "/t-0.delete")
        node.write("/t-0.delete/late", b"x", sync=True)
        node.files.remove("/t-0.delete/log")
        node.power_loss()
        (name,) = node.files.list("/")
        children = node.files.list(f"/{name}")
        if "log" in children:
            assert node.read(f"/{name}/log") == b"abc"
        found[(name, *children)] += 1
    assert len(found) == 8, "each change is kept or lost on its own"


def test_a_tree_that_was_removed_comes_back_with_what_it_held() -> None:
    node = Node()
    node.files.make_dirs("/a/b")
    node.write("/a/b/log", b"abc", sync=True)
    node.files.sync_dir("/a/b")
    node.files.remove_tree("/a")
    node.power_loss(survival=0.0)
    assert node.read("/a/b/log") == b"abc"
