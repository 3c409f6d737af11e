"""Snapshot files: whole, damaged, too many, and after a loss of power."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.producer_snapshot import ProducerSnapshots, decode_snapshot, encode_snapshot
from moldau.broker.log.producer_state import (
    BatchMetadata,
    Origin,
    ProducerState,
    ProducerStateEntry,
)
from moldau.errors import CorruptLog
from tests.broker.log.producing import NOW, data_batch
from tests.broker.log.simulated_node import SimulatedNode

DAY_MS = 86_400_000
INT32 = st.integers(0, 2**31 - 1)

metadata = st.builds(
    lambda sequence, first, delta, timestamp: BatchMetadata(
        sequence, first + delta, delta, timestamp
    ),
    INT32,
    st.integers(0, 2**62),
    INT32,
    st.integers(-1, 2**62),
)
entries = st.builds(
    lambda producer_id, epoch, coordinator, timestamp, first, batch: ProducerStateEntry(
        producer_id,
        epoch,
        coordinator,
        timestamp if batch is None else batch.timestamp,
        first,
        () if batch is None else (batch,),
    ),
    st.integers(0, 2**62),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**62),
    st.none() | st.integers(0, 2**62),
    st.none() | metadata,
)
tables = st.lists(entries, max_size=5, unique_by=lambda entry: entry.producer_id)


def state_at(*counts: int) -> ProducerState:
    """One producer's batches of so many records."""
    state = ProducerState(DAY_MS)
    for count in counts:
        append = state.prepare(Origin.CLIENT)
        sequence = state.end_offset
        append.add(data_batch(7, 0, sequence, count), base_offset=state.end_offset)
        state.commit(append)
    return state


@given(tables)
def test_a_snapshot_says_what_was_known(listed: list[ProducerStateEntry]) -> None:
    assert decode_snapshot(encode_snapshot(listed)) == sorted(listed)


@given(tables, st.integers(0, 2**16), st.integers(0, 7))
def test_every_flipped_bit_is_found(listed: list[ProducerStateEntry], at: int, bit: int) -> None:
    data = bytearray(encode_snapshot(listed))
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(CorruptLog):
        decode_snapshot(bytes(data))


@given(tables, st.integers(0, 2**16), st.binary(max_size=3))
def test_every_cut_and_every_addition_is_found(
    listed: list[ProducerStateEntry], at: int, added: bytes
) -> None:
    data = encode_snapshot(listed)
    for damaged in (data[: at % len(data)], data + added + b"\0"):
        with pytest.raises(CorruptLog):
            decode_snapshot(damaged)


def test_a_snapshot_is_taken_once_an_offset() -> None:
    node = SimulatedNode()
    snapshots = ProducerSnapshots(node.files, "/p")
    assert snapshots.latest_offset is None
    assert snapshots.take(state_at(3), sync=False) == 3
    assert snapshots.take(state_at(3), sync=False) is None
    assert snapshots.take(state_at(3, 2), sync=True) == 5
    assert node.files.list("/p") == [f"{offset:020}.snapshot" for offset in (3, 5)]
    assert ProducerSnapshots(node.files, "/p").offsets == snapshots.offsets == (3, 5)
    assert snapshots.latest_offset == 5


def test_the_newest_readable_snapshot_is_loaded_and_damaged_ones_go() -> None:
    node = SimulatedNode()
    snapshots = ProducerSnapshots(node.files, "/p")
    for counts in ((3,), (3, 2), (3, 2, 1)):
        snapshots.take(state_at(*counts), sync=True)
    node.disk.rot(snapshots.path(6))
    state = ProducerState(DAY_MS)
    refused = snapshots.load_latest(state, 0, NOW)
    assert [error.context["path"] for error in refused] == [f"/p/{6:020}.snapshot"]
    assert state.end_offset == 5
    assert state.entries[7].last_sequence == 4
    assert snapshots.offsets == (3, 5)


def test_without_a_snapshot_all_begins_at_the_logs_start() -> None:
    snapshots = ProducerSnapshots(SimulatedNode().files, "/p")
    state = state_at(9)
    assert snapshots.load_latest(state, 4, NOW) == []
    assert (state.end_offset, dict(state.entries)) == (4, {})


def test_what_has_expired_is_not_loaded() -> None:
    snapshots = ProducerSnapshots(SimulatedNode().files, "/p")
    snapshots.take(state_at(1), sync=True)
    state = ProducerState(DAY_MS)
    snapshots.load_latest(state, 0, NOW + DAY_MS)
    assert (state.end_offset, dict(state.entries)) == (1, {})


def all_snapshots(node: SimulatedNode, offsets: tuple[int, ...]) -> ProducerSnapshots:
    snapshots = ProducerSnapshots(node.files, "/p")
    for offset in offsets:
        snapshots.write(offset, (), sync=True)
    return snapshots


@pytest.mark.parametrize(
    ("bases", "left"),
    [
        ([0, 10, 20], (10, 20, 25)),
        ([0, 10, 30], (10,)),
        ([0, 10, 15], (10, 15, 25)),
        ([], (25,)),
    ],
)
def test_strays_go_but_that_of_a_clean_shutdown_stays(
    bases: list[int], left: tuple[int, ...]
) -> None:
    node = SimulatedNode()
    snapshots = all_snapshots(node, (5, 10, 15, 20, 25))
    for name in (f"{3:020}.snapshot.tmp", f"{4:020}.snapshot.deleted"):
        node.files.open(f"/p/{name}", "create").close()
    node.files.open("/p/other.tmp", "create").close()
    snapshots.remove_strays(bases)
    assert snapshots.offsets == left
    assert node.files.list("/p") == [*(f"{each:020}.snapshot" for each in left), "other.tmp"]


def test_only_what_lies_within_the_log_survives_a_truncation() -> None:
    snapshots = all_snapshots(SimulatedNode(), (5, 10, 15, 20))
    left = []
    snapshots.truncate(5, 15)
    left.append(snapshots.offsets)
    snapshots.remove_all()
    left.append(snapshots.offsets)
    assert left == [(10, 15), ()]


@pytest.mark.parametrize("seed", range(40))
def test_a_truncated_snapshot_does_not_come_back_after_a_loss_of_power(seed: int) -> None:
    node = SimulatedNode(seed)
    all_snapshots(node, (5, 10)).truncate(0, 7)
    node.power_loss()
    assert ProducerSnapshots(node.files, "/p").offsets == (5,)


@pytest.mark.parametrize("seed", range(60))
def test_a_loss_of_power_leaves_a_snapshot_that_can_be_trusted(seed: int) -> None:
    node = SimulatedNode(seed)
    snapshots = ProducerSnapshots(node.files, "/p")
    snapshots.take(state_at(3), sync=True)
    snapshots.take(state_at(3, 2), sync=False)
    node.power_loss()
    state = ProducerState(DAY_MS)
    ProducerSnapshots(node.files, "/p").load_latest(state, 0, NOW)
    assert state.end_offset in (3, 5)
    assert state.entries[7].last_sequence == state.end_offset - 1


@pytest.mark.parametrize("seed", range(40))
def test_a_snapshot_that_is_replaced_is_the_old_or_the_new_one(seed: int) -> None:
    node = SimulatedNode(seed)
    snapshots = all_snapshots(node, (5,))
    snapshots.write(5, [ProducerStateEntry(1, 0)], sync=True)
    node.power_loss()
    assert ProducerSnapshots(node.files, "/p").read(5) == [ProducerStateEntry(1, 0)]
