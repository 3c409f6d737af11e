"""DescribeLogDirs: sizes to the byte."""

from __future__ import annotations

from moldau.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.broker.api.requests import delete_records
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions

ALL = versions(DescribeLogDirsRequest)


def describe(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=at) for name, at in topics]
    )


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    await talk.topic("rolled", segment_bytes="1048576")
    everything = DescribeLogDirsRequest(topics=None)
    await talk.ask("all, empty", everything, ALL)
    await talk.write("t", batch(3), batch(30, size=100))
    await talk.write("t", batch(3), index=1)
    await talk.write("rolled", *(batch(2, size=300_000) for _ in range(4)))
    await talk.ask("all", everything, ALL)
    await talk.ask("one", describe(("t", [0])), ALL)
    await talk.ask("one that is not there", describe(("t", [0, 9]), ("nope", [0])), ALL)
    await talk.ask("none", describe(), ALL)
    await talk.ask("a topic without partitions", describe(("t", [])), ALL)
    await talk.ask("cut", delete_records("rolled", 3))
    await talk.ask("after a cut inside of a segment", describe(("rolled", [0])), ALL)
