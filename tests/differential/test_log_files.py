"""The reader of log directories tells files apart, and does not pass over any."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import Any

import pytest

from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation
from tests.differential import log_files
from tests.differential.plain import Symbols

CHECKPOINT = "recovery-point-offset-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    files = disk.files(Incarnation("node"))
    for name in ("t-0", "__cluster_metadata-0", "__consumer_offsets-3"):
        files.make_dirs(f"/data/{name}")
    return disk


def read(disk: SimulatedDisk) -> Any:
    files: Files = disk.files(Incarnation("node"))
    return log_files.read(files, "/data", Symbols(lambda: 0))


def test_aborted_transactions_are_told_one_by_one(disk: SimulatedDisk) -> None:
    disk.put("/data/t-0/0.txnindex", pack(">hqqqq", 0, 7, 1, 4, 2) + pack(">hqqqq", 0, 8, 5, 9, 6))
    (_, partition) = read(disk)["partitions"]
    assert partition["files"]["0.txnindex"] == [
        "version 0: producer 7, 1 to 4, stable 2",
        "version 0: producer 8, 5 to 9, stable 6",
    ]


def test_the_brokers_own_partitions_and_their_points_are_told(disk: SimulatedDisk) -> None:
    disk.put(f"/data/{CHECKPOINT}", b"0\n2\nt 0 5\n__consumer_offsets 3 7\n")
    found = read(disk)
    assert [each["name"] for each in found["partitions"]] == ["__consumer_offsets-3", "t-0"]
    assert found["files"][CHECKPOINT] == ["0", "2", "__consumer_offsets 3 7", "t 0 5"]


@pytest.mark.parametrize("name", ["t-0/surprise", "surprise", "t-0/00.surprise"])
def test_a_file_that_nobody_can_read_is_a_failure(disk: SimulatedDisk, name: str) -> None:
    disk.put(f"/data/{name}", b"x")
    with pytest.raises(AssertionError, match="surprise: say here how it is read"):
        read(disk)
