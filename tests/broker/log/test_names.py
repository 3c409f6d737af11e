"""File and directory names, and what is read back from them."""

from __future__ import annotations

import pytest

from moldau.broker.log import names
from moldau.broker.log.names import TopicPartition

UNIQUE = bytes(range(16))
ORDERS = TopicPartition("orders", 3)


def test_segment_files_have_twenty_digits() -> None:
    assert names.segment_file_name(42, names.LOG) == "00000000000000000042.log"
    assert names.segment_file_name(1, names.TIME_INDEX, ".swap").endswith("1.timeindex.swap")
    assert names.snapshot_name(7) == "00000000000000000007.snapshot"


@pytest.mark.parametrize("kind", [names.LOG, names.INDEX, names.TRANSACTION_INDEX, names.SNAPSHOT])
def test_segment_files_are_read_back(kind: str) -> None:
    assert names.parse_segment_file(names.segment_file_name(99, kind)) == (99, kind)
    cleaned = names.segment_file_name(99, kind, names.CLEANED)
    assert names.parse_segment_file(cleaned, names.CLEANED) == (99, kind)
    assert names.parse_segment_file(cleaned) is None
    assert names.parse_segment_file(cleaned, names.SWAP) is None


@pytest.mark.parametrize("name", ["42.log", "leader-epoch-checkpoint", "a" * 20 + ".log"])
def test_other_files_are_not_segments(name: str) -> None:
    assert names.parse_segment_file(name) is None


@pytest.mark.parametrize("partition", [ORDERS, TopicPartition("a-b.c_d", 0)])
def test_partition_directories_are_read_back(partition: TopicPartition) -> None:
    assert names.parse_partition_dir(names.partition_dir_name(partition)) == partition


def test_marked_directories_are_no_partitions() -> None:
    name = names.marked_dir_name(ORDERS, UNIQUE, names.DELETE_DIR)
    assert name == f"orders-3.{UNIQUE.hex()}-delete"
    assert names.parse_partition_dir(name) is None
    marked = names.parse_marked_dir(name)
    assert marked is not None
    assert marked.mark == names.DELETE_DIR
    assert names.parse_marked_dir("orders-3") is None


def test_a_future_directory_names_its_partition() -> None:
    name = names.marked_dir_name(ORDERS, UNIQUE, names.FUTURE_DIR)
    assert names.parse_future_dir(name) == ORDERS
    assert names.parse_future_dir(names.marked_dir_name(ORDERS, UNIQUE, names.STRAY_DIR)) is None


def test_a_marked_name_is_cut_to_what_a_file_system_takes() -> None:
    name = names.marked_dir_name(TopicPartition("t" * 249, 1), UNIQUE, names.DELETE_DIR)
    assert len(name) == names.NAME_BYTES_MAX
    assert names.parse_marked_dir(name) is not None
