"""Snapshot files: whole or refused, byte for byte what Kafka can read."""

from __future__ import annotations

import pytest

from moldau.broker.raft.snapshots import (
    SnapshotHeader,
    SnapshotId,
    list_snapshots,
    parse_snapshot_name,
    read_snapshot,
    remove_leftovers,
    write_snapshot,
)
from moldau.broker.raft.voters import DYNAMIC, STATIC, Voter, Voters
from moldau.errors import CorruptLog
from moldau.records import encode_batch
from tests.broker.controller.kafka_log import snapshot_bytes
from tests.broker.log.simulated_node import SimulatedNode

NOBODY = Voters(STATIC, ())
VOTERS = Voters(DYNAMIC, (Voter(1, b"d" * 16, (("CONTROLLER", "127.0.0.1", 9093),)),))
PATH = "/p/" + SnapshotId(195, 1).file_name


def rows(*values: bytes) -> bytearray:
    return encode_batch([(5, None, value, ()) for value in values])


def test_what_is_written_is_read_again() -> None:
    node = SimulatedNode()
    heading = SnapshotHeader(7, 123, 456, VOTERS)
    write_snapshot(node.files, PATH, heading, [rows(b"a", b"b"), rows(b"c")])
    found = read_snapshot(node.files, PATH, NOBODY)
    assert (found.last_contained_timestamp_ms, found.voters) == (123, VOTERS)
    records = [record for batch in found.batches for record in batch.records()]
    assert [record.value for record in records] == [b"a", b"b", b"c"]
    assert [record.offset for record in records] == [3, 4, 5]
    assert {batch.header.partition_leader_epoch for batch in found.batches} == {7}


def test_kafkas_snapshot_is_read() -> None:
    node = SimulatedNode()
    with node.files.open(PATH, "create") as file:
        file.append(snapshot_bytes())
    found = read_snapshot(node.files, PATH, VOTERS)
    assert found.voters == VOTERS, "it names none, so those of the settings stay"
    assert len(found.batches) == 1


def test_anything_less_than_the_whole_is_refused() -> None:
    node = SimulatedNode()
    whole = snapshot_bytes()
    for size in [*range(0, len(whole), 97), len(whole) - 1, len(whole) - 75]:
        with node.files.open(PATH, "write") as file:
            file.truncate(0)
            file.append(whole[:size])
        with pytest.raises(CorruptLog):
            read_snapshot(node.files, PATH, NOBODY)


def test_a_flipped_bit_is_refused() -> None:
    node = SimulatedNode()
    for position in range(30, len(snapshot_bytes()), 101):
        damaged = bytearray(snapshot_bytes())
        damaged[position] ^= 4
        with node.files.open(PATH, "write") as file:
            file.truncate(0)
            file.append(damaged)
        if damaged[12:16] == snapshot_bytes()[12:16]:  # no checksum covers the epoch
            with pytest.raises(CorruptLog):
                read_snapshot(node.files, PATH, NOBODY)


def test_names_sort_by_offset_and_strangers_are_left_alone() -> None:
    node = SimulatedNode()
    ids = [SnapshotId(10, 2), SnapshotId(9, 5)]
    names = [each.file_name for each in ids]
    for name in (*names, "quorum-state", names[0] + ".part", names[1] + ".deleted"):
        node.files.open(f"/p/{name}", "create").close()
    assert list_snapshots(node.files, "/p") == [SnapshotId(9, 5), SnapshotId(10, 2)]
    assert remove_leftovers(node.files, "/p") == [names[1] + ".deleted", names[0] + ".part"]
    assert parse_snapshot_name("00000000000000000010-0000000002.checkpoint") == ids[0]
    assert parse_snapshot_name("bootstrap.checkpoint") is None
