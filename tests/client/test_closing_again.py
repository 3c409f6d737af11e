"""A close that was cancelled, or that two call at once: what is ended, what is told, and that
nothing is ended twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest

from moldau.client import Admin, Consumer, Producer
from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.producer.record import ProducerInterceptor
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.world import BOOTSTRAP, ClientWorld

MADE: list[Ends] = []


class Ends(ProducerInterceptor, ConsumerInterceptor):
    """How often it was ended."""

    def __init__(self) -> None:
        self.closed = 0
        MADE.append(self)

    def close(self) -> None:
        self.closed += 1


async def cancelled(call: Awaitable[None], seconds: float = 1.0) -> None:
    """It has begun, and is cancelled."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(seconds)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def opened(runtime: Runtime, **options: Any) -> Producer:
    sender = Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)
    await sender.start()
    return sender


def test_the_close_after_a_cancelled_one_says_what_was_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = Ends()

    async def main(runtime: Runtime) -> KafkaError:
        sender = await opened(runtime, interceptors=[ends])
        for _ in range(3):
            await sender.send("t", b"v", partition=0)
        await cancelled(sender.aclose())
        with pytest.raises(KafkaError) as caught:
            await sender.aclose()
        await sender.aclose()
        return caught.value

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        error = world.run_client(main)
    assert error.code is ErrorCode.NETWORK_EXCEPTION
    assert "the call that closes it was cancelled" in error.reason
    assert caplog.text.count("producer: closed before all was delivered: 3 records") == 1
    assert ends.closed == 1


def test_the_close_after_one_that_was_cancelled_as_it_ended_says_what_had_failed() -> None:
    async def main(runtime: Runtime) -> None:
        sender = await opened(runtime)
        for _ in range(2):
            await sender.send("t", b"v", partition=0)
        await asyncio.sleep(5)
        closing = asyncio.create_task(sender.aclose())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sender._sender.is_closed
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        with pytest.raises(KafkaError) as caught:
            await sender.aclose()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert caught.value.context["failed_records"] == 2
        await sender.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        world.run_client(main)


def test_two_who_close_a_producer_at_once_end_it_once() -> None:
    ends = Ends()

    async def main(runtime: Runtime) -> None:
        sender = await opened(runtime, interceptors=[ends], linger_ms=50)
        sent = await sender.send("t", b"v", partition=0)
        await asyncio.gather(sender.aclose(), sender.aclose())
        assert sent.is_done

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"v"]
    assert ends.closed == 1


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_the_close_after_a_cancelled_one_ends_connections_too(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = kind(runtime=runtime, bootstrap_servers=BOOTSTRAP)
        await client.start()
        cluster = client._cluster
        world.cluster.silence.add(MetadataRequest)
        cluster.request_refresh()
        await asyncio.sleep(0.1)
        await cancelled(client.aclose(), 0)
        assert cluster.connections == 1, "the first has not come that far"
        await client.aclose()
        assert cluster.connections == 0

    with ClientWorld() as world:
        world.run_client(main)


def test_the_runtime_of_a_client_is_ended_by_the_close_after_a_cancelled_one() -> None:
    async def main() -> None:
        admin = Admin(bootstrap_servers=BOOTSTRAP)
        runtime: Any = admin._world.enter()
        entered, may_end = asyncio.Event(), asyncio.Event()

        async def stubborn() -> None:
            entered.set()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    may_end_soon()

        def may_end_soon() -> None:
            asyncio.get_running_loop().call_soon(may_end.set)

        task = runtime.spawn(stubborn(), name="ends late")
        await entered.wait()
        await cancelled(admin.aclose(), 0)
        await admin.aclose()
        assert task.done()
        assert admin._world._own is None

    asyncio.run(main())


def test_a_consumer_whose_close_was_cancelled_says_that_it_has_not_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = Ends()

    async def main(runtime: Runtime) -> None:
        reader = consumer(runtime, group_id="g", auto_offset_reset="earliest", interceptors=[ends])
        await reader.start()
        reader.assign([("t", 0)])
        assert await reader.poll(5.0)
        await cancelled(reader.aclose())
        await reader.aclose()
        assert reader._cluster.connections == 0

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        world.run_client(main)
    assert "was closed before its offsets were committed" in caplog.text
    assert "partitions=['t-0']" in caplog.text
    assert ends.closed == 1


@pytest.mark.parametrize("kind", [Producer, Consumer])
@pytest.mark.parametrize("is_tried_again", [True, False])
def test_interceptors_are_ended_when_it_is_closed_for_good(kind: Any, is_tried_again: bool) -> None:
    """Not when it could not be opened, for it may be opened again; those that were made here of
    their names are made anew then."""
    given = [Ends(), Ends()]

    async def main(runtime: Runtime) -> None:
        client = kind(
            runtime=runtime,
            bootstrap_servers=BOOTSTRAP,
            interceptors=given[:1],
            interceptor_classes=[given[1], f"{__name__}.Ends"],
        )
        MADE.clear()
        with pytest.raises(KafkaError):
            await client.start()
        assert [each.closed for each in (*given, *MADE)] == [0, 0, 1]
        if is_tried_again:
            for name in ("b1", "b2"):
                world.nodes[name].restart()
            await client.start()
            assert [each.closed for each in (*given, *MADE)] == [0, 0, 1, 0]
        await client.aclose()
        assert {each.closed for each in (*given, *MADE)} == {1}

    with ClientWorld() as world:
        for name in ("b1", "b2"):
            world.nodes[name].crash()
        world.run_client(main)
