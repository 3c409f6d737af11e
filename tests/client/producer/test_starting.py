"""What `start` does to a client that was started, closed, or could not be started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.client import Admin, ClientClosed, Consumer, Producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld

of_each_kind = pytest.mark.parametrize("kind", [Producer, Consumer, Admin])


def made(kind: Callable[..., Any], runtime: Runtime, **options: Any) -> Any:
    return kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


async def is_usable(client: Any) -> bool:
    """It can ask the cluster something."""
    if isinstance(client, Admin):
        return bool((await client.describe_cluster()).brokers)
    return bool(await client.partitions("t"))


@of_each_kind
@pytest.mark.parametrize("was_started", [True, False])
def test_a_client_that_was_closed_cannot_be_started(kind: Any, was_started: bool) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        if was_started:
            await client.start()
        await client.aclose()
        with pytest.raises(ClientClosed, match="is closed"):
            await client.start()
        with pytest.raises(ClientClosed, match="is closed"):
            async with client:
                pass
        await client.aclose()

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_a_start_of_what_is_started_does_nothing(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        await client.start()
        cluster = client._cluster
        async with client:
            await client.start()
            assert client._cluster is cluster
            assert await is_usable(client)
        with pytest.raises(ClientClosed):
            await client.partitions("t")

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_what_was_sent_before_a_second_start_is_delivered() -> None:
    async def main(runtime: Runtime) -> None:
        sender = made(Producer, runtime, linger_ms=1000)
        await sender.start()
        before = await sender.send("t", b"before")
        async with sender:
            await sender.send("t", b"after")
            await sender.flush()
            assert before.is_done

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"before", b"after"]


@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_a_client_that_could_not_be_started_may_be_started_again(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        with pytest.raises(KafkaError) as caught:
            await client.start()
        assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        for name in ("b1", "b2"):
            world.nodes[name].restart()
        await client.start()
        assert await is_usable(client)
        if isinstance(client, Consumer):
            client.assign([("t", 0)])
            assert await client.poll(0.1) == []
        await client.aclose()
        with pytest.raises(ClientClosed):
            await client.start()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        for name in ("b1", "b2"):
            world.nodes[name].crash()
        world.run_client(main)


def test_a_failure_is_told_by_a_producer_that_was_started_at_the_second_attempt() -> None:
    async def main(runtime: Runtime) -> None:
        sender = made(Producer, runtime)
        with pytest.raises(KafkaError):
            await sender.start()
        for name in ("b1", "b2"):
            world.nodes[name].restart()
        await sender.start()
        await sender.send("t", b"v", partition=0)
        close = asyncio.ensure_future(sender.aclose())
        await asyncio.sleep(1)
        close.cancel()
        await asyncio.gather(close, return_exceptions=True)
        with pytest.raises(KafkaError, match="was cancelled"):
            await sender.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        for name in ("b1", "b2"):
            world.nodes[name].crash()
        world.run_client(main)


@of_each_kind
def test_a_close_while_it_starts_is_for_good(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        start = asyncio.ensure_future(client.start())
        await asyncio.sleep(1)
        assert not start.done()
        await client.aclose()
        with pytest.raises(ClientClosed):
            await start
        with pytest.raises(ClientClosed):
            await client.start()

    with ClientWorld() as world:
        world.cluster.silence.add(MetadataRequest)
        world.run_client(main)


@of_each_kind
def test_who_starts_what_is_being_started_waits_until_it_is(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        first = asyncio.ensure_future(client.start())
        await asyncio.sleep(0.1)
        await client.start()
        assert first.done()
        cluster = client._cluster
        await first
        assert client._cluster is cluster
        assert await is_usable(client)
        await client.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.delay_s = 0.5
        world.run_client(main)


@of_each_kind
@pytest.mark.parametrize("is_cancelled", [True, False])
def test_who_waits_for_a_start_that_comes_to_nothing_starts_it_himself(
    kind: Any, is_cancelled: bool
) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime, default_api_timeout_ms=5000, request_timeout_ms=2000)
        first = asyncio.ensure_future(client.start())
        await asyncio.sleep(1)
        second = asyncio.ensure_future(client.start())
        await asyncio.sleep(1)
        if is_cancelled:
            first.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else KafkaError):
            await first
        world.cluster.silence.clear()
        await second
        assert await is_usable(client)
        await client.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(MetadataRequest)
        world.run_client(main)


@of_each_kind
def test_what_is_closed_while_a_failed_start_is_cleared_up_stays_closed(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        start = asyncio.ensure_future(client.start())
        await asyncio.sleep(1)
        another = asyncio.ensure_future(client.start())
        start.cancel()
        await asyncio.sleep(0)
        assert not start.done()
        await client.aclose()
        with pytest.raises(asyncio.CancelledError):
            await start
        for each in (another, client.start()):
            with pytest.raises(ClientClosed):
                await each

    with ClientWorld() as world:
        world.cluster.silence.add(MetadataRequest)
        world.run_client(main)


@of_each_kind
def test_what_a_cancelled_start_had_no_time_to_close_is_closed_by_the_next(kind: Any) -> None:
    """1. It is cancelled, 2. and once more while it ends what it has begun."""
    ended = []

    async def main(runtime: Runtime) -> None:
        client = made(kind, runtime)
        start = asyncio.ensure_future(client.start())
        await asyncio.sleep(1)
        first = client._cluster
        aclose = first.aclose

        async def closes() -> None:
            await aclose()
            ended.append(first)

        first.aclose = closes
        for _ in range(2):
            start.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await start
        assert ended == []
        world.cluster.silence.clear()
        await client.start()
        assert ended == [first]
        assert client._cluster is not first
        assert await is_usable(client)
        await client.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(MetadataRequest)
        world.run_client(main)
