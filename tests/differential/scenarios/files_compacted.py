"""Files after compaction: last values, tombstones, producers, compressed batches, empty ends."""

from __future__ import annotations

from functools import partial
from typing import Any

from moldau.records import Codec, Producer, encode_batch
from tests.broker.api.requests import fetch, want
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "100",
}
FILLER = 600_000


def of(*rows: tuple[str, str | None], at: int = THEN, **more: Any) -> bytes:
    """A batch of keys and values."""
    return bytes(
        encode_batch(
            [
                (at + n, key.encode(), None if value is None else value.encode(), ())
                for n, (key, value) in enumerate(rows)
            ],
            0,
            **more,
        )
    )


async def cleaned(talk: Talk, topic: str, upto: int) -> bool:
    """Has the cleaner come there, and are the files that it replaced gone?"""
    peer = talk.peer
    path = f"{peer.data}/cleaner-offset-checkpoint"
    if not peer.runtime.files.exists(path):
        return False
    lines = peer.runtime.files.read_text(path).splitlines()  # perhaps not all of them yet
    found = max(
        (int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), default=0
    )
    names = talk.files_of(f"{topic}-0")
    segments = [name for name in names if name[0].isdigit()]
    busy = any(name.endswith((".deleted", ".swap", ".cleaned")) for name in segments)
    return found >= upto and not busy


async def scenario(talk: Talk) -> None:
    for topic in ("t", "packed", "once"):
        await talk.topic(
            topic,
            cleanup_policy="compact",
            segment_bytes="1048576",
            file_delete_delay_ms="100",
            min_cleanable_dirty_ratio="0.9",
        )
    rows = (("a", "1"), ("b", "1"), ("c", "1"))
    await talk.write("t", of(*rows), of(("a", "2")), of(("b", None)), of(("d", "1"), ("d", "2")))
    for codec in (Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.NONE):
        await talk.write("packed", of(*rows, codec=codec))
    first, second = await talk.producer_id(), await talk.producer_id()
    for producer_id, sequence in ((first, 0), (second, 0), (first, 3), (first, 6)):
        await talk.write("once", of(*rows, producer=Producer(producer_id, 0, sequence)))
    ends = {"t": 7, "packed": 12, "once": 12}
    for topic, end in ends.items():
        await talk.write(
            topic, batch(1, size=FILLER, at=THEN + 50), batch(1, size=FILLER, at=THEN + 60)
        )
        await talk.alter_topic(topic, min_cleanable_dirty_ratio="0.01")
        await talk.until(partial(cleaned, talk, topic, end + 1))
    for topic in ends:
        one = fetch((topic, want(partition_max_bytes=10_000)))
        await talk.ask(f"what is left of {topic}", one, 12)
    await talk.stop_and_read()
