"""Checkpoints, markers and metadata files: as Kafka writes them, and refused when they are not."""

from __future__ import annotations

import json
from random import Random

import pytest

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets, read_pairs, write_offsets, write_pairs
from moldau.broker.log.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from moldau.broker.log.meta_properties import (
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.partition_metadata import read_partition_metadata, write_partition_metadata
from moldau.errors import ConfigError, CorruptLog
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation

TOPIC_ID = bytes(range(16))
PATH = "/data/checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    disk.files(Incarnation("node")).make_dirs("/data")
    return disk


def test_offsets_are_written_as_kafka_does(disk: SimulatedDisk) -> None:
    files = disk.files(Incarnation("node"))
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 0): 1 << 40}
    write_offsets(files, PATH, offsets)
    assert disk.contents(PATH) == b"0\n2\na 0 1099511627776\nb 1 7\n"
    assert read_offsets(files, PATH) == offsets


def test_pairs_come_back(disk: SimulatedDisk) -> None:
    files = disk.files(Incarnation("node"))
    write_pairs(files, PATH, [(0, 0), (3, 17)])
    assert disk.contents(PATH) == b"0\n2\n0 0\n3 17\n"
    assert read_pairs(files, PATH) == [(0, 0), (3, 17)]


def test_a_missing_checkpoint_is_empty(disk: SimulatedDisk) -> None:
    files = disk.files(Incarnation("node"))
    assert read_offsets(files, PATH) == {}
    assert read_pairs(files, PATH) == []


@pytest.mark.parametrize(
    "text",
    [
        b"\n",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n0\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na x 1\n",
        b"0\n1\na -1 1\n",
        b"0\n1\na 0 1e3\n",
        b"\xff\n",
        b"0\nx\n",
    ],
)
def test_a_damaged_checkpoint_is_refused(disk: SimulatedDisk, text: bytes) -> None:
    disk.put(PATH, text)
    with pytest.raises(CorruptLog):
        read_offsets(disk.files(Incarnation("node")), PATH)


def test_offsets_in_a_file_without_a_byte_are_none(disk: SimulatedDisk) -> None:
    """Kafka makes such files when it starts."""
    disk.put(PATH, b"")
    assert read_offsets(disk.files(Incarnation("node")), PATH) == {}


def test_epochs_in_a_file_without_a_byte_are_not_known(disk: SimulatedDisk) -> None:
    disk.put(PATH, b"")
    with pytest.raises(CorruptLog, match="cut short"):
        read_pairs(disk.files(Incarnation("node")), PATH)


@pytest.mark.parametrize("seed", range(30))
def test_power_loss_leaves_the_old_checkpoint_or_the_new_one(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    incarnation = Incarnation("node")
    files = disk.files(incarnation)
    files.make_dirs("/data")
    write_pairs(files, PATH, [(1, 1)])
    disk.fail_next("sync" if seed % 2 else "write", path_part=PATH)
    with pytest.raises(OSError, match=PATH):
        write_pairs(files, PATH, [(2, 2)])
    incarnation.poison()
    disk.power_loss()
    assert read_pairs(disk.files(Incarnation("node")), PATH) in ([(1, 1)], [(2, 2)])


def test_the_marker_is_taken_once(disk: SimulatedDisk) -> None:
    files = disk.files(Incarnation("node"))
    assert take_clean_shutdown(files, "/data") is None
    write_clean_shutdown(files, "/data", 12)
    held = json.loads(disk.contents(f"/data/{names.CLEAN_SHUTDOWN}"))
    assert held == {"version": 0, "brokerEpoch": 12}
    assert take_clean_shutdown(files, "/data") == 12
    disk.power_loss(survival=0.0)
    assert take_clean_shutdown(files, "/data") is None


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version":0}', b"\xff"])
def test_a_marker_without_an_epoch_marks_all_the_same(disk: SimulatedDisk, content: bytes) -> None:
    disk.put(f"/data/{names.CLEAN_SHUTDOWN}", content)
    assert take_clean_shutdown(disk.files(Incarnation("node")), "/data") == -1


def test_partition_metadata_is_as_kafka_writes_it(disk: SimulatedDisk) -> None:
    files = disk.files(Incarnation("node"))
    assert read_partition_metadata(files, "/data") is None
    write_partition_metadata(files, "/data", TOPIC_ID)
    expected = f"version: 0\ntopic_id: {format_uuid(TOPIC_ID)}\n"
    assert disk.contents(f"/data/{names.PARTITION_METADATA}") == expected.encode()
    assert read_partition_metadata(files, "/data") == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0\n",
        "topic_id: AAECAwQFBgcICQoLDA0ODw\n",
        "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n",
        f"version: 0\ntopic_id: {format_uuid(ZERO_UUID)}\n",
        "version: 0\ntopic_id: short\n",
        "version 0\n",
    ],
)
def test_damaged_partition_metadata_is_refused(disk: SimulatedDisk, text: str) -> None:
    disk.put(f"/data/{names.PARTITION_METADATA}", text.encode())
    with pytest.raises(CorruptLog):
        read_partition_metadata(disk.files(Incarnation("node")), "/data")


def test_meta_properties_come_back(disk: SimulatedDisk) -> None:
    files = disk.files(Incarnation("node"))
    meta = MetaProperties("MkU3OEVBNTcwNTJENDM2Qk", 3, TOPIC_ID)
    assert read_meta_properties(files, "/data") is None
    write_meta_properties(files, "/data", meta)
    assert b"cluster.id=MkU3OEVBNTcwNTJENDM2Qk\n" in disk.contents("/data/meta.properties")
    assert read_meta_properties(files, "/data") == meta
    check_meta_properties(meta, "MkU3OEVBNTcwNTJENDM2Qk", 3, "/data")


def test_kafkas_own_meta_properties_are_read(disk: SimulatedDisk) -> None:
    text = (
        "#\n#Thu Nov 20 10:00:00 UTC 2026\ncluster.id=abc\ndirectory.id=%s\nnode.id=1\nversion=1\n"
    )
    disk.put("/data/meta.properties", (text % format_uuid(TOPIC_ID)).encode())
    found = read_meta_properties(disk.files(Incarnation("node")), "/data")
    assert found == MetaProperties("abc", 1, TOPIC_ID)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "version", "word"),
    [("other", 1, 1, "cluster"), ("abc", 2, 1, "node"), ("abc", 1, 0, "ZooKeeper")],
)
def test_somebody_elses_directory_is_refused(
    cluster_id: str, node_id: int, version: int, word: str
) -> None:
    meta = MetaProperties("abc", 1, TOPIC_ID, version)
    with pytest.raises(ConfigError, match=word):
        check_meta_properties(meta, cluster_id, node_id, "/data")


@pytest.mark.parametrize(
    "text", ["version=x\n", "version=2\n", "node.id=one\nversion=1\n", "directory.id=x\n"]
)
def test_damaged_meta_properties_are_refused(disk: SimulatedDisk, text: str) -> None:
    disk.put("/data/meta.properties", text.encode())
    with pytest.raises(CorruptLog):
        read_meta_properties(disk.files(Incarnation("node")), "/data")
