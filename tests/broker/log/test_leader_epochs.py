"""Leader epochs and where they begin. (What Kafka does: test_kafka_log_cores.)"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.names import LEADER_EPOCHS
from moldau.errors import CorruptLog
from tests.broker.log.machine import DIRECTORY, NOW, Machine, batch

UNKNOWN = EpochEnd(-1, -1)


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 10), (4, 20), (7, 30)])


def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs) -> None:
    ends = {epoch: epochs.end_offset_for(epoch, 99) for epoch in range(-1, 10)}
    assert ends == {
        -1: UNKNOWN,
        0: (0, 10),  # deleted here: a follower goes on from our start
        1: (1, 10),
        2: (2, 20),
        3: (2, 20),
        4: (4, 30),
        5: (4, 30),
        6: (4, 30),
        7: (7, 99),
        8: UNKNOWN,
        9: UNKNOWN,
    }
    assert LeaderEpochs().end_offset_for(0, 5) == UNKNOWN


def test_an_epoch_is_news_once(epochs: LeaderEpochs) -> None:
    assert not epochs.assign(7, 30)
    assert not epochs.assign(7, 35)
    assert epochs.assign(8, 40)
    assert epochs.latest == EpochEntry(8, 40)


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ((7, 25), [(2, 10), (4, 20), (7, 25)]),
        ((8, 20), [(2, 10), (8, 20)]),
        ((3, 15), [(2, 10), (3, 15)]),
        ((1, 50), [(1, 50)]),
        ((9, 5), [(9, 5)]),
    ],
)
def test_what_contradicts_a_new_entry_goes(
    epochs: LeaderEpochs, entry: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    assert epochs.assign(*entry)
    assert epochs.entries == left


@pytest.mark.parametrize(
    ("batch", "left"),
    [
        ((4, 25), [(2, 10), (4, 20), (7, 30)]),
        ((7, 99), [(2, 10), (4, 20), (7, 30)]),
        ((9, 99), [(2, 10), (4, 20), (7, 30), (9, 99)]),
        ((5, 25), [(2, 10), (4, 20), (5, 25), (7, 30)]),
        ((1, 5), [(1, 5), (2, 10), (4, 20), (7, 30)]),
        ((2, 5), [(2, 5), (4, 20), (7, 30)]),
        ((2, 25), [(2, 10), (7, 30)]),
        ((3, 35), [(2, 10), (3, 35)]),
        ((7, 25), [(2, 10), (4, 20), (7, 25)]),
        ((5, 20), [(2, 10), (5, 20), (7, 30)]),
    ],
)
def test_a_batch_refutes_what_contradicts_it_and_no_more(
    epochs: LeaderEpochs, batch: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    before = epochs.entries
    assert epochs.confirm(*batch) == (before != left)
    assert epochs.entries == left
    assert epochs.epoch_for_offset(batch[1]) == batch[0]


@pytest.mark.parametrize("entry", [(-1, 5), (8, -1)])
def test_negative_epochs_are_refused(epochs: LeaderEpochs, entry: tuple[int, int]) -> None:
    with pytest.raises(CorruptLog):
        epochs.assign(*entry)


def test_the_neighbours_of_an_epoch(epochs: LeaderEpochs) -> None:
    assert [epochs.previous_epoch(each) for each in (2, 3, 7, 9)] == [None, 2, 4, 7]
    assert [epochs.next_epoch(each) for each in (1, 2, 6, 7)] == [2, 4, 7, None]
    assert [epochs.epoch_for_offset(each) for each in (9, 10, 29, 30, 99)] == [None, 2, 4, 7, 7]


def test_a_part_of_the_log_has_a_part_of_the_epochs(epochs: LeaderEpochs) -> None:
    assert epochs.in_range(15, 30) == [(2, 15), (4, 20)]
    assert len(epochs.entries) == 3
    assert epochs.clear()
    assert not epochs.clear()
    assert (epochs.latest, epochs.earliest, epochs.latest_epoch) == (None, None, None)


steps = st.lists(st.tuples(st.sampled_from("aces"), st.integers(0, 9), st.integers(0, 40)))


@given(steps)
def test_epochs_and_offsets_always_rise(taken: list[tuple[str, int, int]]) -> None:
    epochs = LeaderEpochs()
    for step, epoch, offset in taken:
        before = epochs.entries
        if step == "a":
            changed = epochs.assign(epoch, offset)
        elif step == "c":
            changed = epochs.confirm(epoch, offset)
            assert epochs.epoch_for_offset(offset) == epoch
        elif step == "e":
            changed = epochs.truncate_from_end(offset)
        else:
            changed = epochs.truncate_from_start(offset)
        after = epochs.entries
        assert changed == (before != after)
        for low, high in pairwise(after):
            assert low.epoch < high.epoch
            assert low.start_offset < high.start_offset


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 60))
def test_the_answers_are_those_of_a_log_that_is_searched(rises: list[int], at: int) -> None:
    """Against a list that has an epoch for every offset."""
    log, epoch = [], 0
    for rise in rises:
        epoch += max(0, rise - 3)
        log.append(epoch)
    epochs = LeaderEpochs()
    for offset, each in enumerate(log):
        epochs.assign(each, offset)
    asked = at % (epoch + 1)
    known = max((each for each in log if each <= asked), default=None)
    if known is None:
        expected = (asked, 0)
    else:
        expected = (known, max(offset for offset, each in enumerate(log) if each == known) + 1)
    assert epochs.end_offset_for(asked, len(log)) == expected
    assert epochs.epoch_for_offset(at) == (log[at] if at < len(log) else log[-1])


# Their file.

FILE = f"{DIRECTORY}/{LEADER_EPOCHS}"


def with_epochs(machine: Machine) -> PartitionLog:
    """Epochs 1 and 3 from 0 and 6 on, in the file as well; the log ends at 12."""
    log = machine.open()
    for epoch in (1, 1, 3, 3):
        log.append_as_leader(batch(3), epoch, NOW)
    log.flush()
    assert machine.disk.contents(FILE) == b"0\n2\n1 0\n3 6\n"
    return log


def is_written(machine: Machine, act: Callable[[], object]) -> bool:
    """Whether `act` writes it."""
    machine.disk.put(FILE, b"as it was")
    act()
    return machine.disk.contents(FILE) != b"as it was"


def test_a_truncation_writes_the_epochs_when_one_of_them_goes() -> None:
    machine = Machine()
    log = with_epochs(machine)
    assert not is_written(machine, lambda: log.truncate_to(9))
    assert is_written(machine, lambda: log.truncate_to(6))
    assert machine.disk.contents(FILE) == b"0\n1\n1 0\n"
    assert is_written(machine, lambda: log.truncate_fully_and_start_at(20))
    assert not is_written(machine, lambda: log.truncate_fully_and_start_at(30))
    machine.kill()
    assert not LeaderEpochs(machine.open().leader_epochs.entries).entries


def test_epochs_that_were_written_when_they_went_are_not_written_by_the_next_flush() -> None:
    machine = Machine()
    log = with_epochs(machine)
    log.truncate_to(6)
    assert not is_written(machine, log.flush)


def test_epochs_that_recovery_found_are_written_once() -> None:
    machine = Machine()
    with_epochs(machine)
    machine.kill()
    machine.disk.put(FILE, b"0\n3\n1 0\n3 6\n4 12\n")
    log = machine.open()
    assert machine.disk.contents(FILE) == b"0\n2\n1 0\n3 6\n"
    log.append_as_leader(batch(3), 3, NOW)
    assert not is_written(machine, log.flush)
    log.append_as_leader(batch(3), 4, NOW)
    assert is_written(machine, log.flush)


def test_a_log_without_the_file_is_recovered_without_asking_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    machine.open().append_as_leader(batch(3), 1, NOW)
    machine.kill()
    kind = type(machine.files)
    exists, asked = kind.exists, []

    def note(files: Any, path: str) -> bool:
        asked.append(path)
        return exists(files, path)

    monkeypatch.setattr(kind, "exists", note)
    assert machine.open().leader_epochs.entries == [(1, 0)]
    assert not asked, "the names in the directory were listed"
