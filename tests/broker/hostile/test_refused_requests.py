"""Refused requests leave nothing in memory: neither their bytes nor what was decompressed. Batches
that decompress to much take little of it, and hold up no others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import zstandard

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records import HEADER_BYTES, encode_batch
from moldau.records.batch import seal
from moldau.records.codecs import Codec
from moldau.records.header import ATTRIBUTES_AT, OVERHEAD_BYTES
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.hostile.resident_memory import resident_bytes
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.broker.server.wire import PRODUCE_VERSION, Wire, wired

pytestmark = pytest.mark.real

TOPIC = "refusing"
REFUSED_BYTES_MAX = 35 << 20
BOMB_BYTES_MAX = 5 << 20
BOMB_CONTENT_BYTES = 127 << 20
LARGE_BATCHES = 6
LARGE_BYTES_MAX = 32 << 20
BYSTANDER_SECONDS_MAX = 0.25


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path, "--log-level", "error") as process:
        yield process


def large_batch() -> bytes:
    return bytes(encode_batch([(1, None, bytes(900_000), ())]))


def wrong_checksum() -> bytes:
    batch = bytearray(large_batch())
    batch[-1] ^= 1
    return bytes(batch)


def bomb() -> bytes:
    """Return a batch whose records end within what its zstd frames decompress to."""
    plain = encode_batch([(1, None, b"value", ())])
    frames = zstandard.compress(bytes(plain[HEADER_BYTES:]) + bytes(BOMB_CONTENT_BYTES), 1)
    batch = bytearray(plain[:HEADER_BYTES]) + frames
    batch[8:12] = (len(batch) - OVERHEAD_BYTES).to_bytes(4, "big")
    batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = int(Codec.ZSTD).to_bytes(2, "big")
    seal(batch, 0, len(batch))
    return bytes(batch)


async def refuse(wire: Wire, batch: bytes, codes: Sequence[ErrorCode]) -> None:
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    answer = await wire.ask(request, ProduceResponse, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code in codes


@pytest.mark.parametrize(
    ("batch", "warm", "count", "bytes_max"),
    [
        (wrong_checksum, 10, 150, REFUSED_BYTES_MAX),
        (bomb, 2, 8, BOMB_BYTES_MAX),
    ],
)
def test_refused_batches_are_not_kept(
    broker: BrokerProcess, batch: object, warm: int, count: int, bytes_max: int
) -> None:
    assert callable(batch)
    content = batch()
    codes = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)

    async def main(runtime: Runtime) -> None:
        async with wired(runtime, broker.host, broker.port) as wire:
            assert await wire.create(TOPIC) is ErrorCode.NONE
            for _ in range(warm):
                await refuse(wire, content, codes)
            before = resident_bytes(broker)
            for _ in range(count):
                await refuse(wire, content, codes)
            grown = resident_bytes(broker) - before
            assert grown <= bytes_max, f"{grown >> 20} MiB are kept"

    run(main)


def large(codec: Codec) -> bytes:
    """Return a good batch that decompresses to a hundred megabytes."""
    return bytes(encode_batch([(1, None, bytes(100 << 20), ())], codec=codec))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_batches_that_decompress_to_much_hold_up_no_others(
    broker: BrokerProcess, codec: Codec
) -> None:
    """On a quiet machine the 99th percentile is below 50 ms; in one call a check takes seconds."""
    content = large(codec)

    async def main(runtime: Runtime) -> None:
        async with (
            wired(runtime, broker.host, broker.port) as wire,
            wired(runtime, broker.host, broker.port) as other,
        ):
            assert await wire.create(TOPIC) is ErrorCode.NONE
            assert await other.create("bystander") is ErrorCode.NONE
            await refuse(wire, content, [ErrorCode.NONE])
            before = resident_bytes(broker)
            writing = asyncio.ensure_future(write_all(wire, content))
            waits, grown = [], 0
            while not writing.done():
                began = time.monotonic()
                assert (await other.produce("bystander", [b"value"])).error_code == 0
                waits.append(time.monotonic() - began)
                grown = max(grown, resident_bytes(broker) - before)
            await writing
            assert sorted(waits)[len(waits) * 99 // 100] < BYSTANDER_SECONDS_MAX
            assert grown <= LARGE_BYTES_MAX, f"a check took {grown >> 20} MiB"

    run(main)


async def write_all(wire: Wire, content: bytes) -> None:
    for _ in range(LARGE_BATCHES):
        await refuse(wire, content, [ErrorCode.NONE])
