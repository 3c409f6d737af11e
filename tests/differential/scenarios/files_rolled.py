"""Files after rolls: by size, by the records' times, by full indexes, over restarts."""

from __future__ import annotations

from moldau.records import Producer
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk

HOUR_MS = 3_600_000


async def scenario(talk: Talk) -> None:
    await talk.topic("by-size", segment_bytes="1048576")
    await talk.topic("by-time", segment_ms=str(HOUR_MS))
    await talk.topic("by-index", segment_index_bytes="24", index_interval_bytes="0")
    await talk.topic("over-restarts")
    producer_id = await talk.producer_id()
    for number in range(6):
        producer = Producer(producer_id, 0, number)
        await talk.write("by-size", batch(1, size=400_000, at=THEN + number, producer=producer))
    for hours in (0, 0.5, 1.5, 1.6, 0.1, 4, 9):
        await talk.write("by-time", batch(2, at=THEN + int(hours * HOUR_MS)))
    await talk.write("by-index", *(batch(2, at=THEN + number) for number in range(8)))
    for number in range(3):
        producer = Producer(producer_id, 0, number * 2)
        await talk.write("over-restarts", batch(2, producer=producer))
        await talk.restart()
        await talk.until(lambda: talk.is_led("over-restarts"))
    await talk.stop_and_read()
