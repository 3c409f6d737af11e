"""Requests to an app on an embedded broker, from a program beside it and from its functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.runtime import Runtime
from moldau.streams import Asker, ReplyFailed, ReplyTimeout, Streams, StreamsError
from moldau.streams.plan.replies import ReplyAddress
from moldau.streams.query.questions import StoreUnavailable
from moldau.testing import SyncEmbeddedBroker


def root(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} is below 0")
    return int(value**0.5)


async def make(servers: str, runtime: Runtime, *topics: str) -> None:
    async with Admin(bootstrap_servers=servers, runtime=runtime) as admin:
        for topic in topics:
            await admin.create_topic(NewTopic(topic, 2, 1))


@asynccontextmanager
async def running(
    app: Streams, servers: str, state: Path, **settings: object
) -> AsyncIterator[None]:
    """Run an app on this event loop."""
    given = {"commit.interval.ms": 50, **settings}
    task = asyncio.ensure_future(
        app.run_async(servers, state=str(state / app.name), settings=given)
    )
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def roots(name: str) -> Streams:
    app = Streams(name, on_error="reply")
    app.stream(f"{name}-numbers", int, key=str).map_values(root).reply()
    return app


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
async def test_many_requests_are_answered_each_with_its_own_reply(
    runtime: Runtime,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    servers, topic = moldau_broker.bootstrap_servers, f"{moldau_topic}-numbers"
    await make(servers, runtime, topic)
    settings = {"processing.guarantee": guarantee}
    async with (
        running(roots(moldau_topic), servers, tmp_path, **settings),
        Asker(moldau_topic, servers) as one,
        Asker(moldau_topic, servers) as other,
    ):
        assert await one.ask(topic, 16, key="a") == 4
        numbers = range(200)
        both = tuple(
            await asyncio.gather(
                one.ask_all(topic, [each * each for each in numbers], key=str),
                other.ask_all(topic, [each * each for each in numbers], key=str),
            )
        )
        assert both == (list(numbers), list(numbers))
        with pytest.raises(
            ReplyFailed, match=r"operator=map_values.root.: ValueError: -4 is below"
        ):
            await one.ask(topic, -4, key="a")
        with pytest.raises(StreamsError, match=f"topic={topic}: key of type object cannot be sent"):
            await one.ask(topic, 4, key=object())
        with pytest.raises(StreamsError, match=f"topic={topic}: value of type object cannot be s"):
            await one.ask(topic, object())
        with pytest.raises(StreamsError, match="the reply is no "):
            await one.ask(topic, 4, key="a", type=dict[str, int])
        await one.aclose()
        assert await one.ask(topic, 25, key="a") == 5, "a closed one connects anew"


async def test_no_reply_and_no_topic_are_told_apart(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    await make(servers, runtime, moldau_topic)
    async with Asker(moldau_topic, servers) as asker:
        with pytest.raises(ReplyTimeout, match=r"partition=\d offset=0: no reply within 300ms"):
            await asker.ask(moldau_topic, "x", timeout="300ms")
        with pytest.raises(TimeoutError, match=r"no reply within 300ms"):
            await asker.ask_all(moldau_topic, ["x", "y"], timeout="300ms")


async def test_a_late_reply_and_those_to_others_are_ignored(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    await make(servers, runtime, moldau_topic)
    async with (
        Asker(moldau_topic, servers) as asker,
        Consumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", runtime=runtime
        ) as consumer,
        Producer(bootstrap_servers=servers, runtime=runtime) as producer,
    ):
        consumer.assign(await consumer.partitions(moldau_topic))

        async def requests(count: int) -> list[ReplyAddress]:
            found: list[ReplyAddress] = []
            while len(found) < count:
                for part in await consumer.poll(0.2):
                    for record in part.records:
                        address = ReplyAddress.of(record.headers)
                        assert address is not None
                        found.append(address)
            return found

        async def reply(address: ReplyAddress, value: bytes) -> None:
            await producer.send_and_wait(
                address.topic,
                value,
                partition=address.partition,
                headers=address.reply_headers(),
            )

        with pytest.raises(ReplyTimeout):
            await asker.ask(moldau_topic, "slow", timeout="100ms")
        [late] = await requests(1)
        asking = asyncio.ensure_future(asker.ask(moldau_topic, "fast"))
        [address] = await requests(1)
        assert address[:2] == late[:2]
        await reply(late, b"late")
        await reply(address._replace(correlation_id=None), b"of nobody")
        await reply(address._replace(correlation_id=b"other"), b"of others")
        await reply(address, b"right")
        await reply(address, b"twice")
        assert await asking == "right"


async def test_an_app_asks_another_one_from_a_function_and_from_outside(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, topic = moldau_broker.bootstrap_servers, f"{moldau_topic}-numbers"
    lines, out = f"{moldau_topic}-lines", f"{moldau_topic}-out"
    await make(servers, runtime, topic, lines, out)
    front = Streams(f"{moldau_topic}-front", on_error="reply")

    async def both(value: int) -> list[int]:
        return [value, await front.ask(topic, value, timeout="30s")]

    front.stream(lines, int).map_values(both, type=list[int]).reply()
    with pytest.raises(StoreUnavailable, match="no worker of it runs in this process"):
        await front.ask(topic, 4, timeout=10)
    async with (
        running(roots(moldau_topic), servers, tmp_path),
        running(front, servers, tmp_path),
        Asker(moldau_topic, servers) as asker,
    ):
        found = await asker.ask_all(lines, [4, 9, 16], type=list[int])
        assert found == [[4, 2], [9, 3], [16, 4]]
        with pytest.raises(ReplyFailed, match=r"ReplyFailed: .* -1 is below 0"):
            await asker.ask(lines, -1)
        in_thread = await asyncio.to_thread(asyncio.run, front.ask(topic, 25))
        assert in_thread == 5


async def test_a_place_that_does_not_exist_does_not_stop_the_app(
    runtime: Runtime,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers, topic = moldau_broker.bootstrap_servers, f"{moldau_topic}-numbers"
    await make(servers, runtime, topic)
    async with (
        running(roots(moldau_topic), servers, tmp_path),
        Asker(moldau_topic, servers) as asker,
        Producer(bootstrap_servers=servers, runtime=runtime) as producer,
    ):
        for address in (
            ReplyAddress(f"{moldau_topic}-missing-replies", 0, b"id"),
            ReplyAddress(asker.topic, 99, b"id"),
        ):
            headers = address.request_headers()
            await producer.send_and_wait(topic, b"4", partition=0, headers=headers)
            await producer.send_and_wait(topic, b"4", partition=1, headers=headers)
        assert await asker.ask_all(topic, [4, 9, 16, 25], key=str) == [2, 3, 4, 5]
    assert f"wants its reply in {moldau_topic}-missing-replies, which does not" in caplog.text
    assert f"wants its reply in {asker.topic}-99: it has 4 partitions" in caplog.text
    async with Admin(bootstrap_servers=servers, runtime=runtime) as admin:
        names = {each.name for each in await admin.list_topics()}
    assert f"{moldau_topic}-missing-replies" not in names
