"""The store of the replicated log: what it finds after a crash is what it was told to keep."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from examples.replicated_log.messages import Record
from examples.replicated_log.replica import Vote
from examples.replicated_log.store import Store
from moldau.errors import CorruptLog
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation

DIRECTORY = "/log"


def records(epoch: int, *values: str) -> list[Record]:
    return [Record(epoch=epoch, value=value.encode()) for value in values]


class Machine:
    def __init__(self, seed: int = 1, store_class: type[Store] = Store) -> None:
        self.disk = SimulatedDisk(Random(seed), sector_bytes=32)
        self.store_class = store_class
        self.incarnation = Incarnation("node")
        self.store().format()

    def store(self) -> Store:
        return self.store_class(self.disk.files(self.incarnation), DIRECTORY)

    def open(self) -> tuple[Store, Vote, list[Record]]:
        self.incarnation.poison()
        self.disk.kill()
        self.incarnation = Incarnation("node")
        store = self.store()
        return store, *store.open()

    def lose_power(self) -> list[Record]:
        """What is there afterwards."""
        self.incarnation.poison()
        self.disk.power_loss()
        return self.open()[2]


def test_a_new_store_is_empty() -> None:
    _, vote, found = Machine().open()
    assert (vote, found) == (Vote(), [])


def test_records_and_vote_come_back() -> None:
    machine = Machine()
    store, _, _ = machine.open()
    store.append(records(1, "a", "", "c"))
    store.sync()
    store.save_vote(Vote(3, 2))
    _, vote, found = machine.open()
    assert vote == Vote(3, 2)
    assert found == records(1, "a", "", "c")


def test_appending_goes_on_after_what_was_cut() -> None:
    machine = Machine()
    store, _, _ = machine.open()
    store.append(records(1, "a", "b", "c"))
    store.truncate(1)
    store.append(records(2, "x"))
    store.sync()
    store, _, found = machine.open()
    assert found == records(1, "a") + records(2, "x")
    store.append(records(2, "y"))
    assert machine.open()[2] == records(1, "a") + records(2, "x", "y")


def after_a_cut(seed: int, store_class: type[Store]) -> list[Record]:
    """A synced log is cut and continued, and the power fails before the sync."""
    machine = Machine(seed, store_class)
    store, _, _ = machine.open()
    store.append(OLD)
    store.sync()
    store.truncate(2)
    store.append(NEW[2:])
    return machine.lose_power()


# Entries as long as the mark before an append: the new ones begin where old ones began.
OLD = records(3, *(f"old {number:4}" for number in range(9)))
NEW = OLD[:2] + records(2, *(f"new {number:4}" for number in range(5)))


def test_a_log_is_never_new_and_then_old() -> None:
    lengths = set()
    for seed in range(300):
        found = after_a_cut(seed, Store)
        assert found[:2] == OLD[:2]
        assert found in (OLD[: len(found)], NEW[: len(found)])
        lengths.add(len(found))
    assert len(lengths) > 4


class Unchained(Store):
    """Each entry is intact by itself."""

    def _checksum(self, value: bytes, epoch: int, before: int) -> int:
        return super()._checksum(value, epoch, 0)


def test_without_the_chain_it_would_be() -> None:
    found = [after_a_cut(seed, Unchained) for seed in range(300)]
    assert any(log not in (OLD[: len(log)], NEW[: len(log)]) for log in found)


@pytest.mark.parametrize("seed", range(40))
def test_the_end_that_was_not_synced_is_cut_cleanly(seed: int) -> None:
    machine = Machine(seed)
    store, _, _ = machine.open()
    kept = records(1, *(f"kept {number}" for number in range(5)))
    more = records(1, *(f"more {number}" for number in range(20)))
    store.append(kept)
    store.sync()
    store.append(more)
    found = machine.lose_power()
    assert found == (kept + more)[: len(found)]
    assert len(found) >= len(kept)
    assert machine.open()[2] == found


def test_only_one_process_opens_it() -> None:
    machine = Machine()
    machine.open()
    second = Store(machine.disk.files(machine.incarnation), DIRECTORY)
    with pytest.raises(BlockingIOError):
        second.open()


def test_a_vote_that_is_none_is_refused() -> None:
    machine = Machine()
    machine.open()
    machine.disk.put(f"{DIRECTORY}/vote", b"???\n")
    with pytest.raises(CorruptLog, match="not a vote"):
        machine.open()


def test_an_empty_disk_is_no_new_nodes() -> None:
    machine = Machine()
    machine.open()
    machine.disk.lose()
    with pytest.raises(CorruptLog, match="not a node's disk: new, or lost"):
        machine.open()


def with_three_appends(store_class: type[Store] = Store) -> Machine:
    machine = Machine(store_class=store_class)
    store, _, _ = machine.open()
    store.save_vote(Vote(4, 1))
    for number in range(3):
        store.append(THREE[2 * number : 2 * number + 2])
        store.sync()
    return machine


THREE = records(4, "zero", "one", "", "three", "four", "five")


def what_rot_leaves(machine: Machine, path: str) -> list[tuple[int, Vote, list[Record]] | None]:
    """What is found after each bit has flipped, one at a time; None where it was refused."""
    found: list[tuple[int, Vote, list[Record]] | None] = []
    intact = machine.disk.contents(path)
    for bit in range(len(intact) * 8):
        machine.disk.put(path, intact)
        machine.disk.rot(path, bit)
        try:
            _, vote, log = machine.open()
            found.append((bit, vote, log))
        except CorruptLog:
            found.append(None)
    return found


def test_no_rotten_bit_of_what_was_durable_goes_unseen() -> None:
    machine = with_three_appends()
    contents = machine.disk.contents(f"{DIRECTORY}/log")
    last_append = contents.rfind(b"\xffend")
    for each in what_rot_leaves(machine, f"{DIRECTORY}/log"):
        if each is not None:
            bit, vote, log = each
            assert (vote, log) == (Vote(4, 1), THREE[: len(log)])
            is_like_torn = bit >= last_append * 8 and len(log) >= 4
            assert is_like_torn or log == THREE, "an old mark is all that may rot"


def test_no_rotten_bit_of_a_vote_goes_unseen() -> None:
    assert set(what_rot_leaves(with_three_appends(), f"{DIRECTORY}/vote")) == {None}


def test_rot_behind_a_cut_is_seen_before_anything_follows() -> None:
    machine = with_three_appends()
    store, _, _ = machine.open()
    store.truncate(4)
    store.sync()
    found = what_rot_leaves(machine, f"{DIRECTORY}/log")
    assert all(each is None or each[2] == THREE[:4] for each in found)
    assert found.count(None) > len(found) / 2


@pytest.mark.parametrize("seed", range(60))
def test_a_cut_that_power_loss_undid_is_not_taken_for_rot(seed: int) -> None:
    machine = Machine(seed)
    store, _, _ = machine.open()
    for number in range(3):
        store.append(THREE[2 * number : 2 * number + 2])
        store.sync()
    store.truncate(3)
    if seed % 2:
        store.append(records(5, "new", "newer"))
    found = machine.lose_power()
    assert found[:3] == THREE[:3]


def test_a_sector_that_went_astray_is_seen_when_more_was_written() -> None:
    seen = Counter[bool]()
    for seed in range(40):
        machine = Machine(seed)
        store, _, _ = machine.open()
        for number in range(8):
            machine.disk.faults.misdirected_write = float(number == 3)
            store.append(records(1, f"value number {number} which fills a sector or two"))
            store.sync()
        machine.disk.drop_caches()
        try:
            _, _, log = machine.open()
            assert len(log) == 8, "what is missing was durable"
            seen[False] += 1
        except CorruptLog:
            seen[True] += 1
    assert seen[True] > 30
