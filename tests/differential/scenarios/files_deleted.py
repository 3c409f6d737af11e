"""Files after retention and DeleteRecords took segments away."""

from __future__ import annotations

from functools import partial

from moldau.records import Producer
from tests.broker.api.requests import delete_records, list_offsets
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk

SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
SIZE = 400_000


async def has(talk: Talk, topic: str, segments: int) -> bool:
    """Are so many segments left, and the files of the others gone?"""
    names = talk.files_of(f"{topic}-0")
    is_left = sum(name.endswith(".log") for name in names) == segments
    return is_left and not any(name.endswith(".deleted") for name in names)


async def scenario(talk: Talk) -> None:
    await talk.topic("by-size", segment_bytes="1048576", file_delete_delay_ms="100")
    await talk.topic("by-time", segment_bytes="1048576", file_delete_delay_ms="100")
    await talk.topic("by-request", segment_bytes="1048576", file_delete_delay_ms="100")
    producer_id = await talk.producer_id()
    for topic in ("by-size", "by-time", "by-request"):
        for number in range(8):
            producer = Producer(producer_id, 0, number)
            await talk.write(topic, batch(1, size=SIZE, at=THEN + number, producer=producer))
    await talk.alter_topic("by-size", retention_bytes="1000000")
    await talk.until(partial(has, talk, "by-size", 2))
    await talk.ask("by request", delete_records("by-request", 5))
    await talk.until(partial(has, talk, "by-request", 2))
    await talk.alter_topic("by-time", retention_ms="86400000")
    await talk.until(partial(has, talk, "by-time", 1))
    await talk.ask("earliest", list_offsets(-2, "by-time"), 11)
    await talk.stop_and_read()
