"""Following the topic of remote segments, and writing to it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.broker.tiered.metadata_records import encode
from moldau.broker.tiered.metadata_topic import (
    MetadataTopic,
    PartitionKey,
    TopicMadeAnew,
)
from moldau.broker.tiered.remote_segment import RemoteEvent, SegmentState
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.network.virtual_pause import after
from tests.broker.tiered.memory_topic import MemoryTopic
from tests.broker.tiered.segments import TOPIC_ID, changed, segment

KEY = PartitionKey(TOPIC_ID, 0)
OTHER = PartitionKey(bytes(16), 1)
FIRST = segment(1, range(10))
DONE = changed(1, SegmentState.COPY_FINISHED)


class Records:
    """What a receiver was given."""

    def __init__(self) -> None:
        self.events: list[RemoteEvent] = []

    def on_record(self, event: RemoteEvent) -> None:
        self.events.append(event)


def simulated(main: Any) -> list[str]:
    """Run `main(topic, access)` in virtual time; return the lines of the log."""
    world, lines = Simulation(1), list[str]()

    async def whole(runtime: Runtime) -> None:
        access = MemoryTopic()
        log = Loggers(runtime.clock, lines.append).get("test")
        topic = MetadataTopic(runtime, access, log)
        await topic.found()
        try:
            await main(topic, access)
        finally:
            await topic.aclose()

    with world:
        node = world.add_node("broker", whole)
        world.run_until(lambda: not node.is_alive, within=600)
        assert not node.has_failed
    return lines


def test_the_topic_is_created_if_it_is_missing() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        assert await topic.found() == access.topic_id

    simulated(main)


def test_a_receiver_has_all_records_of_its_partition_after_a_read_to_the_end() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        access.values = [encode(FIRST), encode(DONE)]
        mine, others, whole = Records(), Records(), Records()
        topic.follow(KEY, mine)
        topic.follow(OTHER, others)
        topic.follow_whole(0, whole)
        await topic.read_to_end(KEY)
        await topic.whole_read_to_end(0)
        assert mine.events == whole.events == [FIRST, DONE]
        assert not others.events

    simulated(main)


def test_a_read_to_the_end_waits_for_what_only_the_leader_has_yet() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        access.values, access.visible = [encode(FIRST), encode(DONE)], 1
        mine = Records()
        topic.follow(KEY, mine)
        reading = asyncio.ensure_future(topic.read_to_end(KEY))
        await after(10)
        assert not reading.done()
        access.show(2)
        await reading
        assert mine.events == [FIRST, DONE]

    simulated(main)


def test_a_late_receiver_begins_with_the_first_record_and_others_see_none_twice() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        access.values = [encode(FIRST)]
        early, late = Records(), Records()
        topic.follow(KEY, early)
        await topic.read_to_end(KEY)
        topic.follow_whole(0, late)
        await topic.append(DONE)
        await topic.read_to_end(KEY)
        await topic.whole_read_to_end(0)
        assert early.events == late.events == [FIRST, DONE]

    simulated(main)


def test_a_receiver_that_follows_no_more_has_no_more_records() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        gone, other = Records(), Records()
        topic.follow(KEY, gone)
        topic.follow_whole(0, other)
        topic.unfollow(KEY)
        await topic.append(FIRST)
        await topic.whole_read_to_end(0)
        assert (gone.events, other.events) == ([], [FIRST])

    simulated(main)


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.LEADER_NOT_AVAILABLE), CorruptRecord("torn"), OSError("EIO")]
)
def test_failed_reads_are_made_again_and_reported_only_if_they_last(error: Exception) -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        access.values, access.failures = [encode(FIRST)], [error] * failures
        mine = Records()
        topic.follow(KEY, mine)
        await topic.read_to_end(KEY)
        assert mine.events == [FIRST]

    failures = 3
    assert not simulated(main)
    failures = 10
    assert len(simulated(main)) == 1


def test_a_malformed_record_is_reported_and_left_out() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        access.values = [b"\xff\xff", encode(FIRST)]
        mine = Records()
        topic.follow(KEY, mine)
        await topic.read_to_end(KEY)
        assert mine.events == [FIRST]

    assert len(simulated(main)) == 1


def test_a_topic_that_was_made_anew_is_not_read_on() -> None:
    async def main(topic: MetadataTopic, access: MemoryTopic) -> None:
        mine = Records()
        topic.follow(KEY, mine)
        await topic.append(FIRST)
        await topic.read_to_end(KEY)
        access.topic_id = b"n" * 16
        for call in (topic.read_to_end(KEY), topic.append(DONE)):
            await refused(call)
        assert mine.events == [FIRST]

    simulated(main)


async def refused(call: Coroutine[Any, Any, None]) -> None:
    with pytest.raises(TopicMadeAnew):
        await call
