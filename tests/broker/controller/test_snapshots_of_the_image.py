"""Snapshots of the image while it changes: what is in them, and how long they stall a node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from moldau.broker.controller.image import Image
from moldau.broker.controller.metadata_batches import decode_records, snapshot_batches
from moldau.broker.raft.quorum import Membership, Quorum
from moldau.broker.raft.snapshotting import SnapshotKeeper
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from moldau.records import encode_batch
from moldau.runtime import Runtime
from tests.broker.raft.leading import lead
from tests.runtime.arena import REAL_ARENAS, play
from tests.uncollected import no_collections

SLICE_MS_MAX = 10
DIRECTORY_ID = b"d" * 16


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def partition(topic: int, index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id(topic),
        replicas=[1, 2, 3],
        isr=[1, 2, 3],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY_ID] * 3,
    )


def image_of(topics: int, partitions: int) -> Image:
    image = Image()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=29))
    for topic in range(topics):
        image.replay(TopicRecord(name=f"topic-{topic}", topic_id=topic_id(topic)))
        for index in range(partitions):
            image.replay(partition(topic, index))
    return image


def config(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="topic-0", name=name, value=value)


def quota(value: float, *, remove: bool = False) -> ClientQuotaRecord:
    entity = [EntityData(entity_type="user", entity_name="u")]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


CHANGES: tuple[MetadataRecord, ...] = (
    PartitionChangeRecord(partition_id=1, topic_id=topic_id(0), leader=2),
    partition(0, 3),
    TopicRecord(name="topic.0", topic_id=topic_id(9)),
    RemoveTopicRecord(topic_id=topic_id(1)),
    config("retention.ms", "6"),
    config("cleanup.policy", "compact"),
    config("retention.ms", None),
    quota(2.0),
    quota(0.0, remove=True),
    ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=2000),
    FeatureLevelRecord(name="metadata.version", feature_level=30),
)


def folded(records: Iterable[MetadataRecord]) -> Image:
    made = Image()
    made.replay_all(records)
    return made


def restored(image: Image) -> Image:
    return folded(image.records())


@pytest.mark.parametrize("record", CHANGES, ids=lambda each: type(each).__name__)
def test_a_change_is_not_in_a_snapshot_that_was_begun_before(record: MetadataRecord) -> None:
    image = image_of(2, 3)
    image.replay_all([config("retention.ms", "5"), quota(1.0)])
    before = restored(image)
    first = image.records()
    image.replay(record)
    second = image.records()
    after = restored(image)
    image.replay(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=9000))
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id(0), leader=3))
    assert folded(first) == before
    assert folded(second) == after
    assert before != after
    assert image.topics.by_id[topic_id(0)].partitions[0].leader == 3


class Turns:
    """How much of the processor each turn of the event loop takes, so that a busy machine does not
    count."""

    def __init__(self) -> None:
        self.took_ms: list[float] = []

    async def measure(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.took_ms.append((time.thread_time() - began) * 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topics", "partitions"),
    [
        (1, 100_000),
        (100_000, 1),
        pytest.param(1000, 100, marks=(pytest.mark.deep, pytest.mark.soak)),
    ],
)
def test_a_snapshot_of_100_000_partitions_stalls_the_event_loop_for_milliseconds(
    topics: int, partitions: int, tmp_path: Path
) -> None:
    image = image_of(topics, partitions)

    async def scenario(runtime: Runtime) -> None:
        quorum = Quorum.open(runtime.files, str(tmp_path), Membership(1, (1,)), 0)
        lead(quorum, 0)
        quorum.append(encode_batch([(0, None, b"", ())]), 0)
        quorum.flush()
        keeper, turns = SnapshotKeeper(runtime, quorum), Turns()
        ended: list[Exception | None] = []
        # A broker freezes what it has loaded (moldau.runtime.process); here a test suite is loaded.
        with no_collections():
            measuring = runtime.spawn(turns.measure(), name="turns")
            await asyncio.sleep(0)
            batches = snapshot_batches(image, 0)
            keeper.write_soon(quorum.high_watermark, batches, ended.append)
            await keeper.idle()
            measuring.cancel()
        assert ended == [None]
        assert sum(turns.took_ms) > 10 * SLICE_MS_MAX, "it is much work in all"
        assert max(turns.took_ms) < SLICE_MS_MAX, sorted(turns.took_ms)[-5:]
        (made,) = quorum.snapshots
        found = Image()
        for batch in quorum.snapshot(made).batches:
            found.replay_all(decode_records(batch))
        assert found == image
        quorum.close()

    play(REAL_ARENAS[0], scenario)
