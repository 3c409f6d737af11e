"""Aborted transactions of a segment. (What Kafka does: test_kafka_log_cores.)"""

from __future__ import annotations

import struct

import pytest

from moldau.broker.log.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    collect_aborted,
)
from moldau.errors import CorruptLog
from tests.broker.log.simulated_node import SimulatedNode

PATH = "/p/00000000000000000000.txnindex"
FIRST = AbortedTransaction(1, 0, 10, 5)
SECOND = AbortedTransaction(2, 5, 20, 15)
THIRD = AbortedTransaction(3, 15, 30, 31)


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode()


def index_of(node: SimulatedNode, *entries: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex(node.files, PATH, 0)
    index.append(*entries)
    return index


def test_there_is_no_file_before_there_is_an_entry(node: SimulatedNode) -> None:
    index = index_of(node)
    assert index.is_empty
    assert index.collect(0, 100) == ([], False)
    index.check()
    index.reset()
    index.truncate_to(0)
    index.remove()
    assert node.files.list("/p") == []


def test_entries_are_found_again_by_another_life(node: SimulatedNode) -> None:
    index_of(node, FIRST).append(SECOND, THIRD)
    again = TransactionIndex(node.files, PATH, 0)
    assert again.all() == [FIRST, SECOND, THIRD]
    assert again.size_bytes == 3 * 34
    again.append(AbortedTransaction(1, 32, 33, 34))
    assert len(TransactionIndex(node.files, PATH, 0).all()) == 4


@pytest.mark.parametrize(
    ("fetched", "upper", "found", "complete"),
    [
        (0, 5, [FIRST], True),
        (0, 6, [FIRST, SECOND], True),
        (11, 16, [SECOND, THIRD], True),
        (21, 31, [THIRD], True),
        (21, 32, [THIRD], False),
        (31, 40, [], False),
    ],
)
def test_a_fetch_finds_what_touches_it(
    node: SimulatedNode,
    fetched: int,
    upper: int,
    found: list[AbortedTransaction],
    complete: bool,
) -> None:
    assert index_of(node, FIRST, SECOND, THIRD).collect(fetched, upper) == (found, complete)


def test_a_fetch_goes_on_in_the_next_segments_until_all_is_decided(node: SimulatedNode) -> None:
    indexes = [index_of(node, FIRST), TransactionIndex(node.files, "/p/1.txnindex", 11)]
    indexes.append(TransactionIndex(node.files, "/p/2.txnindex", 20))
    indexes[2].append(SECOND, THIRD)
    assert collect_aborted(indexes, 0, 12) == [FIRST, SECOND]
    assert collect_aborted(indexes, 0, 5) == [FIRST]


def test_a_truncation_drops_the_markers_behind_it(node: SimulatedNode) -> None:
    index = index_of(node, FIRST, SECOND, THIRD)
    index.truncate_to(31)
    assert len(index.all()) == 3
    index.truncate_to(20)
    assert index.all() == TransactionIndex(node.files, PATH, 0).all() == [FIRST]
    index.append(SECOND)
    index.reset()
    assert index.is_empty
    assert node.disk.contents(PATH) == b""


def test_it_follows_its_segment(node: SimulatedNode) -> None:
    index = index_of(node, FIRST)
    index.rename(PATH + ".deleted")
    assert index.all() == [FIRST]
    assert node.files.list("/p") == ["00000000000000000000.txnindex.deleted"]
    index.remove()
    assert node.files.list("/p") == []
    assert index.is_empty


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_what_was_synced_survives(seed: int, closes: bool) -> None:
    node = SimulatedNode(seed)
    index = index_of(node, FIRST, SECOND)
    if closes:
        index.close()
    index.sync()
    node.files.sync_dir("/p")
    node.power_loss()
    assert TransactionIndex(node.files, PATH, 0).all() == [FIRST, SECOND]


@pytest.mark.parametrize(
    "damage",
    [
        b"\0",
        struct.pack(">hqqqq", 1, 1, 0, 10, 5),
        struct.pack(">hqqqq", 0, 1, 0, 2, 5),  # before the segment
        struct.pack(">hqqqq", 0, 1, 11, 10, 5),
        struct.pack(">hqqqq", 0, 1, -1, 10, 5),
        struct.pack(">hqqqq", 0, 1, 0, 10, 5) * 2,
    ],
)
def test_damage_is_found(node: SimulatedNode, damage: bytes) -> None:
    node.disk.put(PATH, damage)
    with pytest.raises(CorruptLog):
        TransactionIndex(node.files, PATH, 3).check()


def test_markers_out_of_order_are_our_bug(node: SimulatedNode) -> None:
    with pytest.raises(AssertionError):
        index_of(node, SECOND, FIRST)
