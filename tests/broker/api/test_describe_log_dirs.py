"""DescribeLogDirs: what lies where, and what is out of service."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tests.broker.api.requests import batch, produce
from tests.broker.api.serving import Serving, serving


async def describe(
    at: Serving, topics: dict[str, list[int]] | None = None, version: int = 5
) -> dict[str, DescribeLogDirsResult]:
    asked = None
    if topics is not None:
        asked = [
            DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ]
    answer = await at.ask(DescribeLogDirsRequest(topics=asked), DescribeLogDirsResponse, version)
    assert answer.error_code == 0
    return {each.log_dir: each for each in answer.results}


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    for topic in result.topics:
        for each in topic.partitions:
            assert (each.offset_lag, each.is_future_key) == (0, False)
    return {
        (topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }


@serving()
async def test_every_log_and_its_size(at: Serving) -> None:
    at.create("t", 3)
    at.create("u")
    at.send(produce("t", batch(), index=1), 12)
    for version in range(1, 6):
        found = await describe(at, version=version)
        assert list(found) == ["/d1", "/d2"]
        everything = {**sizes(found["/d1"]), **sizes(found["/d2"])}
        assert everything == {("t", 0): 0, ("t", 1): len(batch()), ("t", 2): 0, ("u", 0): 0}
        for path, result in found.items():
            for topic, index in sizes(result):
                assert at.directory_of(topic, index) == path
            assert (result.usable_bytes > 0) == (version >= 4)
            assert (result.total_bytes > 0) == (version >= 4)
            assert not result.is_cordoned


@serving()
async def test_only_what_is_asked_for(at: Serving) -> None:
    at.create("t", 2)
    at.create("u")
    found = await describe(at, {"t": [1, 9], "nope": [0]})
    assert {**sizes(found["/d1"]), **sizes(found["/d2"])} == {("t", 1): 0}
    nothing = await describe(at, {})
    assert [each.topics for each in nothing.values()] == [[], []]


@serving()
async def test_a_directory_that_failed_is_told(at: Serving) -> None:
    at.create("t", 2)
    path = at.directory_of("t", 0)
    at.disk.fail_next("write", path_part=f"{path}/t-0")
    at.send(produce("t", batch()), 12)
    found = await describe(at)
    failed = found.pop(path)
    assert (failed.error_code, failed.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert (failed.total_bytes, failed.usable_bytes) == (-1, -1)
    (other,) = found.values()
    assert list(sizes(other)) == [("t", 1)]
