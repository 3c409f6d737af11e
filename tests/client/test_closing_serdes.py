"""Serdes that cannot be ended: the rest is ended all the same, and the block's own error is what
comes out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from moldau.client import Consumer, Producer, RebalanceListener
from moldau.client.sync import Producer as BlockingProducer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from moldau.testing import SyncEmbeddedBroker
from tests.client.consumer.group_consumer import member
from tests.client.consumer.slow_listener import run
from tests.client.world import BOOTSTRAP, ClientWorld

ENDED: list[object] = []
OF_BOTH: Any = {
    Producer: {"key_serializer": "string", "value_serializer": "string"},
    Consumer: {"key_deserializer": "string", "value_deserializer": "string"},
}


@pytest.fixture(autouse=True)
def fails() -> Iterator[None]:
    async def close_serde(_: object, serde: object) -> None:
        ENDED.append(serde)
        raise OSError("the serde's own")

    ENDED.clear()
    with patch("moldau.client.serdes.resolve.close_serde", close_serde):
        yield


def made(kind: Any, runtime: Runtime | None = None) -> Any:
    return kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, **OF_BOTH[kind])


def test_it_does_not_hide_that_a_record_was_not_delivered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> None:
        producer = made(Producer, runtime)
        await producer.start()
        await producer.send("t", "v")
        with pytest.raises(KafkaError) as caught:
            await producer.aclose()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert "the serde's own" in caplog.text

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        world.run_client(main)


def test_it_does_not_hide_that_the_close_was_cancelled() -> None:
    async def main(runtime: Runtime) -> None:
        producer = made(Producer, runtime)
        await producer.start()

        async def flushes(_: float | None) -> None:
            await asyncio.Event().wait()

        producer._sender.settle_or_give_up = flushes
        closing = asyncio.create_task(producer.aclose())
        await asyncio.sleep(1.0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await producer.aclose()

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", OF_BOTH)
def test_all_else_is_ended_and_it_is_told(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        await client.start()
        with (
            patch.object(client._world, "aclose", wraps=client._world.aclose) as ends_runtime,
            pytest.raises(OSError, match="the serde's own"),
        ):
            await client.aclose()
        assert len(ENDED) == 2
        assert client._cluster.is_closed
        assert client._cluster.connections == 0
        ends_runtime.assert_awaited_once()
        await client.aclose()

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", OF_BOTH)
@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), asyncio.CancelledError("mine")])
def test_it_does_not_hide_what_the_block_has_raised(
    kind: Any, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(type(error), match="mine"):
            async with made(kind, runtime):
                raise error

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.run_client(main)
    client = kind.__name__.lower()
    words = f"{client}: closed by {type(error).__name__}, and what it did at its end failed: OSErr"
    assert words in caplog.text


@pytest.mark.parametrize("kind", OF_BOTH)
def test_it_does_not_hide_that_the_time_is_over(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), made(kind, runtime):
                await asyncio.Event().wait()

    with ClientWorld() as world:
        world.run_client(main)


def test_threads_hear_the_same(moldau_broker: SyncEmbeddedBroker) -> None:
    def failing(error: Exception | None) -> BlockingProducer:
        with BlockingProducer(
            bootstrap_servers=moldau_broker.bootstrap_servers, **OF_BOTH[Producer]
        ) as producer:
            clients.append(producer._client)
            if error is not None:
                raise error
        return producer

    clients: list[Any] = []
    with pytest.raises(ZeroDivisionError, match="mine"):
        failing(ZeroDivisionError("mine"))
    with pytest.raises(OSError, match="the serde's own"):
        failing(None)
    assert [each._cluster.connections for each in clients] == [0, 0]


class Refuses(RebalanceListener):
    """When all goes."""

    def on_partitions_revoked(self, partitions: Any) -> None:
        raise ZeroDivisionError("mine")


async def reads(runtime: Runtime, listener: RebalanceListener | None = None) -> Any:
    reader = member(runtime, "eager", **OF_BOTH[Consumer])
    await reader.start()
    await reader.subscribe("t", listener=listener)
    assert await reader.poll(5.0)
    return reader


def test_it_does_not_hide_that_a_consumers_close_was_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = await reads(runtime)
        world.cluster.silence.add(OffsetCommitRequest)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await reader.aclose()

    run(main)
    assert "closed by CancelledError, and what it did at its end failed: OSErr" in caplog.text


def test_it_does_not_hide_what_a_listener_raises() -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = await reads(runtime, Refuses())
        with pytest.raises(ZeroDivisionError, match="mine"):
            await reader.aclose()

    run(main)


@pytest.mark.parametrize("kind", OF_BOTH)
def test_it_does_not_hide_why_it_could_not_be_opened(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        with pytest.raises(KafkaError):
            await client.start()
        await client.aclose()

    with ClientWorld() as world:
        for name in ("b1", "b2"):
            world.nodes[name].crash()
        world.run_client(main)


def test_who_aborts_hears_of_it_although_records_are_left() -> None:
    async def main(runtime: Runtime) -> None:
        producer = made(Producer, runtime)
        await producer.start()
        await producer.send("t", "v", partition=0)
        with pytest.raises(OSError, match="the serde's own"):
            await producer.aclose(abort=True)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        world.run_client(main)
