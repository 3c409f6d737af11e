"""Files of topics whose codec is not the producer's: the broker compresses anew."""

from __future__ import annotations

from moldau.records import Codec
from tests.differential.requests import batch
from tests.differential.talk import Talk


async def scenario(talk: Talk) -> None:
    for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        await talk.topic(name, compression_type=name)
        for codec in Codec:
            await talk.write(name, batch(20, size=50, codec=codec))
    await talk.stop_and_read()
