"""Files after appends: every codec, every kind of time, producers, index entries."""

from __future__ import annotations

from moldau.records import Codec, Producer
from tests.broker.api.requests import delete_records
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk


async def scenario(talk: Talk) -> None:
    await talk.topic("plain", 2, index_interval_bytes="200")
    await talk.topic("packed")
    await talk.topic("stamped", message_timestamp_type="LogAppendTime")
    await talk.topic("once")
    await talk.topic("empty")
    await talk.topic("cut")
    await talk.write("plain", *(batch(3, size=40, at=THEN + 10 * n) for n in range(12)))
    back_in_time = (batch(2, size=100, at=THEN - 10 * n) for n in range(6))
    await talk.write("plain", *back_in_time, index=1)
    for codec in Codec:
        await talk.write("packed", batch(20, size=50, codec=codec))
    await talk.write("stamped", batch(3))
    await talk.pause(0.01)  # so that the second one has a later time
    await talk.write("stamped", batch(2, codec=Codec.LZ4))
    await _producers(talk)
    await talk.write("cut", batch(3), batch(3))
    await talk.ask("cut", delete_records("cut", 4))
    await talk.stop_and_read()


async def _producers(talk: Talk) -> None:
    first, second = await talk.producer_id(), await talk.producer_id()
    for producer_id, epoch, sequence in (
        (first, 0, 0),
        (second, 0, 0),
        (first, 0, 2),
        (second, 3, 0),
        (first, 0, 4),
    ):
        await talk.write("once", batch(2, producer=Producer(producer_id, epoch, sequence)))
    await talk.write("once", batch(4))
