"""The store of the replicated log: what it finds after a crash is what it was told to keep."""

from __future__ import annotations

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

    def open(self) -> tuple[Store, Vote, list[Record]]:
        self.incarnation.poison()
        self.disk.kill()
        self.incarnation = Incarnation("node")
        store = self.store_class(self.disk.files(self.incarnation), DIRECTORY)
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
    store.append(records(3, *(f"old {number}" for number in range(9))))
    store.sync()
    store.truncate(2)
    store.append(records(2, *(f"new {number}" for number in range(5))))
    return machine.lose_power()


OLD = records(3, *(f"old {number}" for number in range(9)))
NEW = OLD[:2] + records(2, *(f"new {number}" for number in range(5)))


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
