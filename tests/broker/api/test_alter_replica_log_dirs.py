"""AlterReplicaLogDirs: a replica moves under the eyes of its clients, or says why it cannot."""

from __future__ import annotations

from moldau.broker.log.log_settings import MoveOptions
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.broker.api.requests import batch, produce
from tests.broker.api.serving import Sent, Serving, serving

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
OTHER = {"/d1": "/d2", "/d2": "/d1"}


def request(**wanted: list[tuple[str, int]]) -> AlterReplicaLogDirsRequest:
    """By path, without its slash."""
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=f"/{path}",
                topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])],
            )
            for path, names in wanted.items()
            for topic, index in names
        ]
    )


async def move(at: Serving, path: str, topic: str, index: int = 0, version: int = 2) -> int:
    """The error code."""
    asked = request(**{path.strip("/"): [(topic, index)]})
    answer = await at.ask(asked, AlterReplicaLogDirsResponse, version)
    ((row,),) = [each.partitions for each in answer.results]
    assert row.partition_index == index
    return row.error_code


def described(at: Serving) -> dict[str, list[tuple[str, int, int, bool]]]:
    """By path: topic, size, lag, and whether it is a copy on its way."""
    sent: Sent = at.send(DescribeLogDirsRequest(topics=None))
    (answer,) = sent.answers
    return {
        each.log_dir: [
            (topic.name, row.partition_size, row.offset_lag, row.is_future_key)
            for topic in each.topics
            for row in topic.partitions
        ]
        for each in answer.results  # type: ignore[attr-defined]
    }


@serving()
async def test_a_replica_moves_and_clients_go_on(at: Serving) -> None:
    for version in (1, 2):
        topic = f"t{version}"
        at.create(topic)
        await at.replicas.logs_made()
        sent = batch(9)
        at.send(produce(topic, batch(9)), 12)
        here = at.directory_of(topic)
        old = at.partition(topic).log
        assert await move(at, OTHER[here], topic, version=version) == 0
        await at.replicas.moves.idle()
        assert at.directory_of(topic) == OTHER[here]
        assert [row[0] for row in described(at)[OTHER[here]]].count(topic) == 1
        assert topic not in [row[0] for row in described(at)[here]]
        at.send(produce(topic, sent), 12)
        log = at.partition(topic).log
        assert log is not old
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 18, 18)


@serving(**{RATE: "100"})
async def test_a_copy_is_told_until_it_has_caught_up(at: Serving) -> None:
    at.create("t")
    at.replicas.start(at.node.settings)
    at.send(produce("t", batch(20)), 12)
    size = at.partition("t").log.size_bytes
    here = at.directory_of("t")
    assert await move(at, OTHER[here], "t") == 0
    found = described(at)
    assert found[here] == [("t", size, 0, False)]
    assert found[OTHER[here]][0][3]
    await at.pass_ms(100)
    at.send(produce("t", batch(5)), 12)
    assert described(at)[OTHER[here]] == [("t", size, 5, True)], "it waits, to be no faster"
    await at.replicas.moves.idle()
    assert at.now_ms > 1000 * size / 100
    assert described(at)[here] == []
    await at.replicas.aclose()


@serving(**{RATE: "1"})
async def test_a_lifted_throttle_ends_the_wait_of_a_move(at: Serving) -> None:
    at.create("t")
    at.replicas.start(at.node.settings)
    at.send(produce("t", batch(20)), 12)
    here = at.directory_of("t")
    assert await move(at, OTHER[here], "t") == 0
    await at.pass_ms(1000)
    assert len(at.replicas.moves) == 1
    began_ms = at.now_ms
    at.replicas.moves.configure(MoveOptions())
    await at.replicas.moves.idle()
    assert at.now_ms - began_ms < 1000
    assert at.directory_of("t") == OTHER[here]
    await at.replicas.aclose()


@serving(**{RATE: "10"})
async def test_who_changes_his_mind_ends_the_move(at: Serving) -> None:
    at.create("t")
    at.replicas.start(at.node.settings)
    at.send(produce("t", batch(20)), 12)
    here = at.directory_of("t")
    assert await move(at, OTHER[here], "t") == 0
    assert await move(at, OTHER[here], "t") == 0, "the same again"
    assert len(at.replicas.moves) == 1
    await at.pass_ms(50)
    assert await move(at, here, "t") == 0
    assert len(at.replicas.moves) == 0
    assert described(at)[OTHER[here]] == []
    assert [each for each in at.runtime.files.list(OTHER[here]) if each.startswith("t-")] == []
    assert at.directory_of("t") == here
    await at.replicas.aclose()


@serving(**{RATE: "10"})
async def test_a_topic_that_is_deleted_takes_its_copy_along(at: Serving) -> None:
    at.create("t")
    at.replicas.start(at.node.settings)
    at.send(produce("t", batch(20)), 12)
    here = at.directory_of("t")
    assert await move(at, OTHER[here], "t") == 0
    at.replicas.remove("t", 0)
    await at.replicas.moves.idle()
    assert described(at) == {"/d1": [], "/d2": []}
    assert [each for each in at.runtime.files.list(OTHER[here]) if each.startswith("t-")] == []
    await at.replicas.aclose()


@serving()
async def test_what_is_refused(at: Serving) -> None:
    at.create("t", 2)
    at.create("x" * 249)
    assert await move(at, "/nowhere", "t") == ErrorCode.LOG_DIR_NOT_FOUND
    assert await move(at, "/d1", "nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await move(at, "/d1", "t", 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await move(at, "/d1", "x" * 249) == ErrorCode.INVALID_TOPIC_EXCEPTION
    at.replicas.remove("t", 1)
    assert await move(at, "/d1", "t", 1) == ErrorCode.REPLICA_NOT_AVAILABLE
    nothing = await at.ask(AlterReplicaLogDirsRequest(dirs=[]), AlterReplicaLogDirsResponse)
    assert nothing.results == []
    here = at.directory_of("t")
    at.disk.fail_next("write", path_part=f"{OTHER[here]}/t-0")
    assert await move(at, OTHER[here], "t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert [each.path for each in at.directories.in_service()] == [here]
    assert await move(at, OTHER[here], "t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert at.partition("t").is_leader, "it stays where it is, in service"


@serving()
async def test_the_last_of_several_directories_counts(at: Serving) -> None:
    at.create("t")
    here = at.directory_of("t")
    asked = request(
        **{OTHER[here].strip("/"): [("t", 0)]},
        **{here.strip("/"): [("t", 0)]},
    )
    answer = await at.ask(asked, AlterReplicaLogDirsResponse)
    ((row,),) = [each.partitions for each in answer.results]
    assert row.error_code == 0
    assert at.directory_of("t") == here


@serving()
async def test_a_target_that_fills_up_keeps_the_replica_where_it_was(at: Serving) -> None:
    at.create("t")
    at.send(produce("t", batch(9)), 12)
    here = at.directory_of("t")
    at.disk.fail_next("write", path_part="-future/00000000000000000000.log")
    code = await move(at, OTHER[here], "t")
    await at.replicas.moves.idle()
    assert code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert at.directory_of("t") == here
    at.send(produce("t", batch(9)), 12)
    assert at.partition("t").high_watermark == 18
