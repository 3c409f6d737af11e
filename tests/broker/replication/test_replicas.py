"""Which replica a name leads to; what becomes of logs when topics, disks and nodes come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.broker.log.directory import LogDirectory
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker.log.machine import NOW, batch
from tests.broker.one_node import simulate
from tests.broker.replication.hosting import (
    CONFIG,
    FLUSHED,
    Host,
    leadership,
    topic_id_of,
)

FIRST, SECOND = bytes(15) + bytes([101]), bytes(15) + bytes([102])
LOST = bytes(15) + b"\x02"


def code_of(host: Host, topic: str, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        host.replicas.partition(topic, index)
    return error.value.code


def test_a_name_and_an_id_lead_to_the_same() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        found = [host.lead("t", index) for index in range(3)]
        assert host.replicas.partition("t", 1) is found[1]
        assert host.replicas.partition_by_id(topic_id_of("t"), 2) is found[2]
        assert list(host.replicas) == found
        assert code_of(host, "t", 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(host, "u") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError) as error:
            host.replicas.partition_by_id(topic_id_of("u"), 0)
        assert error.value.code is ErrorCode.UNKNOWN_TOPIC_ID

    simulate(main)


def test_to_be_told_again_changes_nothing() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t")
        partition.append(batch(), 1, NOW)
        assert host.lead("t") is partition
        assert host.lead("t", epoch=2) is partition
        assert (partition.leader_epoch, partition.high_watermark) == (2, 3)
        partition.append(batch(), 1, NOW)
        assert [each.epoch for each in partition.log.leader_epochs.entries] == [0, 2]

    simulate(main)


def test_who_resigns_keeps_his_log_and_may_lead_again() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        host.replicas.resign("t", 0, topic_id_of("t"), 1)
        assert code_of(host, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = host.lead("t", epoch=2)
        partition.append(batch(), 1, NOW)
        host.replicas.resign("t", 0, topic_id_of("t"), 3)
        assert code_of(host, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.leader_epoch == 3
        assert host.lead("t", epoch=4) is partition
        assert partition.high_watermark == 3

    simulate(main)


def test_a_deleted_topic_is_gone_and_one_of_its_name_begins_anew() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        for index in range(2):
            host.lead("t", index).append(batch(), 1, NOW)
        for index in range(2):
            host.replicas.remove("t", index)
        host.replicas.remove("t", 7)
        assert code_of(host, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError) as error:
            host.replicas.partition_by_id(topic_id_of("t"), 0)
        assert error.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert (await host.led("t", topic_id=topic_id_of("new"))).log_end_offset == 0
        assert host.replicas.partition_by_id(topic_id_of("new"), 0).topic == "t"

    simulate(main)


def test_a_deletion_that_was_missed_is_made_up_for() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        old = host.lead("t")
        old.append(batch(), 1, NOW)
        new = await host.led("t", topic_id=topic_id_of("new"))
        assert new.log_end_offset == 0
        with pytest.raises(KafkaError):
            old.append(batch(), 1, NOW)
        with pytest.raises(KafkaError):
            host.replicas.partition_by_id(topic_id_of("t"), 0)

    simulate(main)


def test_what_the_metadata_do_not_name_is_set_aside_with_its_files() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        for topic in ("known", "unled", "stray", "renamed"):
            host.lead(topic).append(batch(), 1, NOW)
        await host.replicas.aclose()
        host.directories.close()
        again = Host.open(runtime)
        again.lead("known", is_new=False)
        again.replicas.resign("unled", 0, topic_id_of("unled"), 1)
        again.replicas.resign("renamed", 0, topic_id_of("other"), 1)
        again.replicas.set_aside_strays()
        names = sorted(
            name
            for directory in again.directories.directories
            for name in runtime.files.list(directory.path)
            if "-0" in name
        )
        assert [name.split("-0")[0] for name in names] == ["known", "renamed", "stray", "unled"]
        assert [name.endswith("-stray") for name in names] == [False, True, True, False]
        assert again.replicas.partition("known", 0).log_end_offset == 3
        assert len([line for line in again.lines if "does not know" in line]) == 2

    simulate(main)


def test_what_is_known_to_have_been_deleted_is_deleted_and_nothing_else() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        for topic in ("known", "deleted", "made-again", "stray", "torn", "torn-stray"):
            host.lead(topic).append(batch(), 1, NOW)
        await host.replicas.aclose()
        host.directories.close()
        for directory in host.directories.directories:
            for name in runtime.files.list(directory.path):
                if name.startswith("torn"):
                    runtime.files.remove(f"{directory.path}/{name}/partition.metadata")
        again = Host.open(runtime)
        again.replicas.deleted_topics = lambda: {
            topic_id_of("deleted"): None,
            topic_id_of("made-again"): "made-again",
            topic_id_of("torn"): "torn",
            topic_id_of("known"): "known",  # nobody says so of a topic that lives; it would not do
        }
        again.lead("known", is_new=False)
        made_again = await again.led("made-again", topic_id=topic_id_of("new"))
        assert made_again.log_end_offset == 0
        again.replicas.set_aside_strays()
        names = {
            name.rpartition("-")[0].partition("-0.")[0]: name.rpartition("-")[2]
            for directory in again.directories.directories
            for name in runtime.files.list(directory.path)
            if "-0." in name
        }
        assert names == {
            "deleted": "delete",
            "made-again": "delete",
            "torn": "delete",
            "stray": "stray",
            "torn-stray": "stray",
        }
        assert again.replicas.partition("known", 0).log_end_offset == 3

    simulate(main)


def test_a_log_of_another_topic_is_not_opened_as_this_one() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        host.lead("t").append(batch(), 1, NOW)
        await host.replicas.aclose()
        host.directories.close()
        again = Host.open(runtime)
        other = await again.led("t", topic_id=topic_id_of("other"), is_new=False)
        assert other.log_end_offset == 0
        assert any("does not know" in line for line in again.lines)

    simulate(main)


def test_the_quorums_log_is_left_alone() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        host.directories.release()
        runtime.files.make_dirs("/a/__cluster_metadata-0")
        again = Host.open(runtime)
        again.replicas.set_aside_strays()
        assert "__cluster_metadata-0" in runtime.files.list("/a")
        assert not list(again.directories.logs())

    simulate(main)


def failing(host: Host, nodes: list[Node]) -> None:
    """The disk refuses the next write to the partition "bad"."""
    nodes[0].disk.fail_next("write", path_part="/a/bad-0")


def test_a_disk_that_fails_takes_its_partitions_and_no_others() -> None:
    nodes: list[Node] = []

    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        heard: list[LogDirectory] = []
        host.replicas.on_directory_failure = heard.append
        bad = host.lead("bad", directory_id=FIRST)
        neighbour = host.lead("neighbour", directory_id=FIRST)
        good = host.lead("good", directory_id=SECOND)
        for each in (bad, neighbour, good):
            each.append(batch(), 1, NOW)
        failing(host, nodes)
        for _ in range(2):
            with pytest.raises(KafkaError) as error:
                bad.append(batch(), 1, NOW)
            assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert code_of(host, "bad") is code_of(host, "neighbour") is ErrorCode.KAFKA_STORAGE_ERROR
        host.replicas.partition("good", 0).append(batch(), 1, NOW)
        assert list(host.replicas) == [good]
        assert [each.path for each in heard] == ["/a"]
        (line,) = [line for line in host.lines if "out of service" in line]
        assert "directory=/a" in line
        assert "directories_left=1" in line
        # What happens to the lost ones afterwards makes nothing of them serve again.
        host.replicas.lead(leadership("bad", epoch=1), CONFIG)
        host.replicas.resign("neighbour", 0, topic_id_of("neighbour"), 5)
        assert code_of(host, "bad") is code_of(host, "neighbour") is ErrorCode.KAFKA_STORAGE_ERROR
        host.replicas.remove("bad", 0)
        assert code_of(host, "bad") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # A new topic goes to the disk that works.
        assert host.lead("new").log.directory == "/b/new-0"
        await host.replicas.aclose()
        host.directories.close()
        assert runtime.files.exists("/a/bad-0"), "nobody touches a failed disk"

    simulate(main, prepare=nodes.append)


@pytest.mark.parametrize(
    ("more", "is_served"),
    [
        ({"directory_id": FIRST}, False),
        ({"directory_id": LOST}, False),
        ({"is_new": False}, False),
        ({"is_new": True}, True),
        ({"directory_id": SECOND}, True),
    ],
)
def test_no_empty_log_stands_in_for_one_that_cannot_be_seen(
    more: dict[str, Any], is_served: bool
) -> None:
    nodes: list[Node] = []

    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        host.lead("t", directory_id=FIRST).append(batch(), 1, NOW)
        host.directories.release()
        nodes[0].disk.fail_next("read", path_part="/a/meta.properties")
        again = Host.open(runtime)
        assert any("cannot be used" in line and "/a" in line for line in again.lines)
        again.replicas.lead(leadership("t", **more), CONFIG)
        if is_served:
            assert again.replicas.partition("t", 0).log_end_offset == 0
        else:
            assert code_of(again, "t") is ErrorCode.KAFKA_STORAGE_ERROR
            assert "t-0" not in runtime.files.list("/b")

    simulate(main, prepare=nodes.append)


def test_what_was_repaired_at_the_start_is_told() -> None:
    nodes: list[Node] = []

    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t", directory_id=FIRST)
        for _ in range(2):
            partition.append(batch(), 1, NOW)
        path = partition.log.segments.active.log_path
        host.directories.release()
        whole = bytearray(nodes[0].disk.contents(path))
        whole[-1] ^= 1
        nodes[0].disk.put(path, bytes(whole))
        again = Host.open(runtime)
        assert any("cut at offset 3" in line and "WARN" in line for line in again.lines)

    simulate(main, prepare=nodes.append)


def test_closing_lets_flushes_end_and_then_answers_the_rest() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t", config=FLUSHED)
        flushing = asyncio.ensure_future(host.acknowledged(partition, batch()))
        await asyncio.sleep(0)
        await host.replicas.aclose()
        assert await flushing == 0
        host.directories.close()

    simulate(main)
