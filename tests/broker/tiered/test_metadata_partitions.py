"""Reads of the topic of remote segments end, also where a disk or a leader gives damaged bytes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from moldau.broker.api.internal_topics import (
    REMOTE_SEGMENTS_TOPIC,
    BrokerCounts,
    creatable,
    unsafe_remote_segments,
)
from moldau.broker.log.slice import LogSlice, SegmentFile
from moldau.broker.server.metadata_partitions import TOPIC, MetadataPartitions
from moldau.broker.settings import topic_settings
from moldau.broker.tiered.metadata_topic import TopicRead
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from moldau.records import encode_batch
from moldau.runtime import Runtime
from tests.broker.one_node import simulate
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import broker
from tests.broker.tiered.segments import NOW

LEADER: Final = 2
GOOD: Final = bytes(encode_batch([(NOW, None, b"value", ())]))
HUGE: Final = GOOD[:8] + b"\x7f\xff\xff\xff" + GOOD[12:]
DAMAGED: Final = [GOOD[:61] + b"\xff" * (len(GOOD) - 61), HUGE, GOOD[:20], b"\xff" * 100]
KINDS: Final = ["records", "length", "cut short", "no batch"]
READ: Final = TopicRead([(0, b"value")], 1)


class Leader:
    """Answers a fetch. Satisfies what is used of `Peers`."""

    def __init__(self, records: list[bytes]) -> None:
        self._records = records

    async def request(self, to: int, request: Any, answer: Any, **_: object) -> FetchResponse:
        assert to == LEADER
        wanted = [each.partition for topic in request.topics for each in topic.partitions]
        rows = [
            PartitionData(
                partition_index=index,
                error_code=0,
                high_watermark=1,
                aborted_transactions=None,
                records=self._records[index],
            )
            for index in wanted
        ]
        return FetchResponse(
            session_id=0, responses=[FetchableTopicResponse(topic=TOPIC, partitions=rows)]
        )


class File:
    """The file of a segment of a local replica."""

    path = "log"

    def __init__(self, data: bytes | OSError) -> None:
        self._data = data

    def read_at(self, position: int, size: int) -> bytes:
        if isinstance(self._data, OSError):
            raise self._data
        return self._data[position : position + size]

    def close(self) -> None:
        pass


def access(runtime: Runtime, records: list[bytes], here: bytes | OSError | None) -> Any:
    """Partitions of the leader with these records, and one that this node has, too."""

    def readable(topic: str, index: int) -> Any:
        if here is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        file: Any = File(here)
        found = LogSlice(SegmentFile(file), 0, 1 << 20)
        return SimpleNamespace(high_watermark=1, index=index, read=lambda *_: found)

    known = SimpleNamespace(
        topic_id=b"m" * 16,
        partitions={index: SimpleNamespace(leader=LEADER) for index in range(len(records))},
    )
    node: Any = SimpleNamespace(
        node_id=1,
        runtime=runtime,
        peers=Leader(records),
        replicas=SimpleNamespace(readable=readable),
        image=SimpleNamespace(topics=SimpleNamespace(by_name=lambda _: known)),
    )
    return MetadataPartitions(node)


@pytest.mark.parametrize("damaged", DAMAGED, ids=KINDS)
def test_a_damaged_batch_of_a_leader_fails_its_read_and_no_other(damaged: bytes) -> None:
    async def main(runtime: Runtime) -> list[Any]:
        topic = access(runtime, [damaged, GOOD], None)
        reads = topic.read(0, 0), topic.read(1, 0)
        return list(await asyncio.gather(*reads, return_exceptions=True))

    error, found = simulate(main)

    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.CORRUPT_MESSAGE
    assert found == READ


@pytest.mark.parametrize("damaged", [*DAMAGED, OSError("EIO")], ids=[*KINDS, "error"])
def test_what_the_own_disk_does_not_give_is_read_from_the_leader(damaged: bytes | OSError) -> None:
    async def main(runtime: Runtime) -> TopicRead:
        found: TopicRead = await access(runtime, [GOOD], damaged).read(0, 0)
        return found

    assert simulate(main) == READ


def unsafe(changes: dict[str, str], **node: str) -> dict[str, str]:
    """What must change of a topic that a broker would make, and that was changed then."""
    named = {f"rlmm.config.remote.log.metadata.topic.{name}": each for name, each in node.items()}
    settings = broker({"file": {**BASE, **named}})
    made = creatable(REMOTE_SEGMENTS_TOPIC, settings, BrokerCounts(3, 3))
    own = {each.name: each.value or "" for each in made.configs}
    return unsafe_remote_segments(topic_settings(TOPIC, {**own, **changes}, settings))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, {}),
        ({"flush.messages": "2"}, {"flush.messages": "1"}),
        ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "compact,delete"}, {"cleanup.policy": "delete"}),
        ({"retention.ms": "1000"}, {"retention.ms": "-1"}),
        ({"retention.bytes": "1000"}, {"retention.bytes": "-1"}),
    ],
)
def test_a_topic_with_other_settings_than_it_is_made_with_is_not_safe(
    changes: dict[str, str], found: dict[str, str]
) -> None:
    assert unsafe(changes) == found


def test_the_retention_that_a_broker_gives_the_topic_is_safe() -> None:
    given = {"retention.ms": "1000"}
    assert unsafe({}, **given) == unsafe({"retention.ms": "2000"}, **given) == {}
    assert unsafe({"retention.ms": "-1"}, **given) == {}
    assert unsafe({"retention.ms": "999"}, **given) == given
