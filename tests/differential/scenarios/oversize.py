"""`max.decompressed.message.bytes`: records that are large behind their compression.

It bounds a record and not its batch, and only where the broker decompresses. What was stored before
it was lowered is still read, but neither looked up by time nor compacted.
"""

from __future__ import annotations

from functools import partial

from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.records import Codec, encode_batch
from tests.broker.api.requests import fetch, list_offsets, produce, want
from tests.differential.requests import THEN, batch, new_topic
from tests.differential.scenarios.dynamic_settings import DELETE, SET, changed
from tests.differential.scenarios.files_compacted import FILLER, SETTINGS, cleaned, of
from tests.differential.talk import Talk, versions

__all__ = ("SETTINGS", "scenario")

NAME = "max.decompressed.message.bytes"
LIMIT = 100
FITS, EXCEEDS = 92, 93
"""Values whose records, in a batch of their own, are as large as the limit, and larger."""
PACKED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


async def scenario(talk: Talk) -> None:
    await _values(talk)
    await talk.topic("t", max_decompressed_message_bytes=str(LIMIT))
    await _produced(talk, "t")
    await _recompressed(talk)
    await _of_the_broker(talk)
    await _looked_up(talk)
    await _compacted(talk)


async def _values(talk: Talk) -> None:
    """What may be set."""
    for value in ("0", "1", "2147483639", "2147483640", "x"):
        topic = new_topic("v", max_decompressed_message_bytes=value)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=True)
        await talk.ask(f"a topic with {value}", request)


async def _produced(talk: Talk, topic: str) -> None:
    for codec in (Codec.NONE, *PACKED):
        for what, one in (
            ("that fits", batch(1, size=FITS, codec=codec)),
            ("that does not fit", batch(1, size=EXCEEDS, codec=codec)),
            ("of many", batch(50, size=60, codec=codec)),
            ("with a large one behind", batch(2, size=EXCEEDS, codec=codec)),
            ("far too large", batch(1, size=900_000, codec=codec)),
        ):
            name = codec.name.lower()
            await talk.ask(f"{topic}: {name} batch {what}", produce(topic, one), 12)
    large = batch(1, size=EXCEEDS, codec=Codec.GZIP)
    await talk.ask("each version", produce(topic, large), versions(ProduceRequest, 3, 12))
    rows = [(THEN, None, b"v" * EXCEEDS * 2, ())]
    keyless = bytes(encode_batch(rows, 0, codec=Codec.GZIP))
    await talk.topic("keyed", cleanup_policy="compact", max_decompressed_message_bytes="100")
    await talk.ask("large, and without a key", produce("keyed", keyless), 12)
    old = batch(1, size=EXCEEDS, codec=Codec.GZIP, at=1)
    await talk.topic(
        "new", message_timestamp_before_max_ms="1000", max_decompressed_message_bytes="100"
    )
    await talk.ask("large, and too old", produce("new", old), 12)


async def _recompressed(talk: Talk) -> None:
    for target in ("uncompressed", "zstd"):
        await talk.topic(target, compression_type=target, max_decompressed_message_bytes="100")
        for codec in (Codec.NONE, Codec.GZIP):
            for size in (FITS, EXCEEDS):
                one = batch(1, size=size, codec=codec)
                name = f"{codec.name.lower()} of {size} becomes {target}"
                await talk.ask(name, produce(target, one), 12)


async def _of_the_broker(talk: Talk) -> None:
    await talk.topic("b")
    one = batch(1, size=EXCEEDS, codec=Codec.LZ4)
    await talk.ask("a limit for all", changed("", (NAME, SET, "100"), validate_only=False))
    await talk.settled()
    await talk.ask("too large for the broker's", produce("b", one), 12)
    await talk.alter_topic("b", max_decompressed_message_bytes="101")
    await talk.ask("the topic's own counts", produce("b", one), 12)
    await talk.ask("no limit for all", changed("", (NAME, DELETE, None), validate_only=False))
    await talk.settled()


async def _looked_up(talk: Talk) -> None:
    """Lookups of what was stored when more was allowed."""
    await talk.topic("l")
    await talk.write("l", batch(1, size=10, at=THEN, codec=Codec.GZIP))
    await talk.write("l", batch(3, size=300, at=THEN + 10, codec=Codec.GZIP))
    await talk.write("l", batch(3, size=300, at=THEN + 20))
    await talk.write("l", batch(1, size=10, at=THEN + 30, codec=Codec.GZIP))
    for state in ("before", "after"):
        for time in (0, 10, 11, 20, 30, 31):
            at = THEN + time
            await talk.ask(f"{state}: since {time}", list_offsets(at, "l"), 10)
        await talk.ask(f"{state}: the newest", list_offsets(-3, "l"), 10)
        await talk.ask(f"{state}: read", fetch(("l", want())), 12)
        await talk.alter_topic("l", max_decompressed_message_bytes="100")
    await talk.topic("m")
    await talk.write("m", batch(3, size=300, at=THEN + 10, codec=Codec.GZIP))
    await talk.alter_topic("m", max_decompressed_message_bytes="100")
    await talk.ask("the newest is too large", list_offsets(-3, "m"), 10)


async def _compacted(talk: Talk) -> None:
    large = "x" * 300
    for topic in ("large", "small"):
        await talk.topic(
            topic,
            cleanup_policy="compact",
            segment_bytes="1048576",
            file_delete_delay_ms="100",
            min_cleanable_dirty_ratio="0.9",
        )
    rows = (("a", large), ("a", "2"))
    for topic, codec in (("large", Codec.GZIP), ("small", Codec.NONE)):
        await talk.write(topic, of(*rows, codec=codec))
        await talk.alter_topic(topic, max_decompressed_message_bytes="100")
        await talk.write(topic, batch(1, size=FILLER, at=THEN + 50))
        await talk.write(topic, batch(1, size=FILLER, at=THEN + 60))
        await talk.alter_topic(topic, min_cleanable_dirty_ratio="0.01")
    await talk.until(partial(cleaned, talk, "small", 3))
    one = fetch(("large", want(partition_max_bytes=10_000)))
    await talk.ask("what is left of large", one, 12)
