"""What a produce request is made of: which batches, in which turn, and what the settings say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import Producer
from moldau.config import BadSettings
from moldau.protocol.messages.produce import ProduceRequest
from moldau.records import Codec, encode_batch
from moldau.records.codecs import CODEC_LEVELS
from moldau.records.header import HEADER_BYTES
from moldau.runtime import Runtime
from tests.client.producer.simulated_sender import T0, T1, Sender, metadata
from tests.client.world import BOOTSTRAP, ClientWorld

TEXT = [b"".join(b"%d " % (at * at) for at in range(first, first + 200)) for first in range(8)]


def asked(**options: Any) -> tuple[ProduceRequest, bytearray]:
    """The one request that some records become, and their batch as it is stored."""

    async def main(runtime: Runtime) -> None:
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as sender:
            await sender.send_many("t", TEXT, timestamps_ms=0, partition=0)
        await asyncio.sleep(1)  # with acks=0 nobody says when the broker has it

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        (request,) = (each for _, each in world.cluster.requests if type(each) is ProduceRequest)
        (stored,) = log.batches
        return request, stored


@pytest.mark.parametrize(("given", "sent"), [("all", -1), ("-1", -1), ("1", 1), ("0", 0)])
def test_a_request_says_who_must_have_the_records(given: str, sent: int) -> None:
    request, _ = asked(acks=given)
    assert request.acks == sent


@pytest.mark.parametrize("timeout_ms", [2_345, 30_000])
def test_a_request_says_how_long_the_replicas_may_take(timeout_ms: int) -> None:
    request, _ = asked(request_timeout_ms=timeout_ms)
    assert request.timeout_ms == timeout_ms


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 1),
        (Codec.GZIP, 3),
        (Codec.LZ4, 3),
        (Codec.LZ4, 12),
        (Codec.ZSTD, -50),
        (Codec.ZSTD, 19),
    ],
)
def test_records_are_compressed_at_the_level_that_is_asked_for(codec: Codec, level: int) -> None:
    name = codec.name.lower()
    options = {"compression_type": name, f"compression_{name}_level": level}
    _, stored = asked(**options)
    rows = [(0, None, value, ()) for value in TEXT]
    exact = encode_batch(rows, codec=codec, level=level)[HEADER_BYTES:]
    assert stored[HEADER_BYTES:] == exact
    assert exact != encode_batch(rows, codec=codec)[HEADER_BYTES:]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_every_level_that_may_be_set_is_one_of_the_codec(codec: Codec) -> None:
    name = codec.name.lower()
    for level in (-131_073, -131_072, *range(-10, 30)):
        given: dict[str, Any] = {f"compression_{name}_level": level}
        try:
            Producer(bootstrap_servers=BOOTSTRAP, **given)
        except BadSettings:
            assert level not in CODEC_LEVELS[codec], level
        else:
            assert level in CODEC_LEVELS[codec], level


def test_partitions_take_turns_at_being_first_in_a_request() -> None:
    """Else one with enough to fill each request would keep the others waiting."""
    sender = Sender(request_bytes=100)
    sender.metadata = metadata((1, 1))
    for _ in range(3):
        sender.send(T0)
        sender.send(T1)
    order = [each.batches[0].where for each in sender.drain(room={1: 6}).requests]
    assert order == [T0, T1] * 3


def test_and_so_they_do_from_one_turn_to_the_next() -> None:
    sender = Sender(request_bytes=100)
    sender.metadata = metadata((1, 1))
    for _ in range(3):
        sender.send(T0)
        sender.send(T1)
    order = []
    for _ in range(6):
        (request,) = sender.drain(room={1: 1}).requests
        order.append(request.batches[0].where)
    assert order == [T0, T1] * 3
