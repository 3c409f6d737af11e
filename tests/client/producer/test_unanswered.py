"""acks=0: nobody answers, so a record counts as sent as soon as the network has taken it."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from moldau.client import Producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated import LinkOptions, Options
from tests.client.world import BOOTSTRAP, ClientWorld

MUCH = [bytes(1000)] * 2000
"""More than a connection takes while nobody reads at its other end."""


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, acks=0, **options)


def test_a_flush_and_a_close_wait_for_a_broker_that_reads_later() -> None:
    async def main(runtime: Runtime) -> tuple[float, int]:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"first"))
            world.nodes["b1"].pause()
            world.after(5, world.nodes["b1"].resume)
            begun = runtime.clock.monotonic()
            sent = await sender.send_many("t", MUCH)
            with pytest.raises(KafkaError, match="not all records"):
                await sender.flush(1.0)
            assert sender.metrics()["producer-metrics"]["requests-in-flight"] > 0
        ranges = await sent
        return runtime.clock.monotonic() - begun, sum(each.records for each in ranges)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        seconds, told = world.run_client(main)
        world.run_for(5)
        assert told == len(MUCH) == len(log.values()) - 1
    assert 5 <= seconds < 7


def test_a_close_that_is_bounded_fails_what_has_not_left() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        sender = producer(runtime)
        await sender.start()
        await (await sender.send("t", b"first"))
        world.nodes["b1"].pause()
        sent = await sender.send_many("t", MUCH)
        with pytest.raises(KafkaError):
            await sender.aclose(1.0)
        with pytest.raises(KafkaError) as caught:
            await sent
        return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main).code is ErrorCode.REQUEST_TIMED_OUT


def test_a_connection_that_takes_nothing_more_is_made_again() -> None:
    async def main(runtime: Runtime) -> int:
        async with producer(runtime, request_timeout_ms=2000) as sender:
            await (await sender.send("t", b"first"))
            world.network.sever("client1", "b1")
            sent = await sender.send_many("t", MUCH)
            return sum(each.records for each in await sent)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        assert world.run_client(main) == len(MUCH)
        assert 2 < world.now < 10
        world.run_for(5)
        assert len(log.values()) > len(MUCH) - 300, "all but what the network had taken"


def test_a_broker_that_reads_slowly_is_left_its_time() -> None:
    """It takes longer than request.timeout.ms for a request, and takes some of it now and then."""

    async def main(runtime: Runtime) -> tuple[int, int]:
        async with producer(
            runtime, request_timeout_ms=2000, delivery_timeout_ms=100_000
        ) as sender:
            await (await sender.send("t", b"first"))
            connection = sender._cluster.ready_connection(1)
            assert connection is not None
            world.nodes["b1"].pause()
            world.after(1.5, read_some)
            sent = await sender.send_many("t", [bytes(800_000)])
            told = sum(each.records for each in await sent)
            assert sender._cluster.ready_connection(1) is connection
            return told, connection.in_flight

    def read_some() -> None:
        world.nodes["b1"].resume()
        world.after(0.001, world.nodes["b1"].pause)
        world.after(1.5, read_some)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == (1, 0)
        assert world.now > 3


def test_nothing_is_looked_at_again_and_again_while_nothing_can_be_sent() -> None:
    async def main(runtime: Runtime) -> int:
        sender = producer(runtime, linger_ms=0)
        await sender.start()
        await (await sender.send("t", b"0", partition=0))
        await sender.send("t", b"1", partition=1)
        with patch.object(sender._accumulator, "drain", wraps=sender._accumulator.drain) as drain:
            await asyncio.sleep(10)
        await sender.aclose(abort=True)
        return drain.call_count

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, -1])
        assert world.run_client(main) < 100


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_broker_that_ends_the_connection_has_refused_what_it_was_sent(
    is_made_again: bool,
) -> None:
    """Nothing else tells that another one leads now, or that the topic is another one: what comes
    later would be lost until metadata are too old."""

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, linger_ms=0) as sender:
            await (await sender.send("t", b"first"))
            if is_made_again:
                world.cluster.add_topic("t", [1])
            else:
                world.cluster.move("t", 0, 2)
            for number in range(100):
                await (await sender.send("t", b"%d" % number))
                await asyncio.sleep(0.1)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main, within=60)
        world.run_for(5)
        (log,) = world.cluster.topics["t"]
        assert log.values()[-95:] == [b"%d" % number for number in range(5, 100)]


def test_partitions_without_leader_keep_no_other_waiting_behind_a_connection_that_ended() -> None:
    """They ask for metadata again and again; what is waited for is what was asked for since."""
    count = 200

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, linger_ms=0) as sender:
            await (await sender.send("t", b"first", partition=0))
            for number in range(count):
                await sender.send("t", b"waits", partition=1 + number)
            await asyncio.sleep(3.0)
            connection = sender._cluster.ready_connection(1)
            assert connection is not None
            connection.close()
            async with asyncio.timeout(5.0):
                await (await sender.send("t", b"second", partition=0))
            await sender.aclose(abort=True)

    slow = Options(link=LinkOptions(latency_min_ns=25_000_000))
    with ClientWorld(options=slow) as world:
        log, *_ = world.cluster.add_topic("t", [1] + [-1] * count)
        world.run_client(main)
        world.run_for(1)
        assert log.values() == [b"first", b"second"]
