"""Clients that are used in another event loop than the one that they were started in."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import islice

import pytest

from moldau.client import Admin, ClientClosed, Consumer, Producer, WrongLoop, sync
from moldau.testing import SyncEmbeddedBroker

PATIENCE_S = 20


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Nobody can close them any more, so Python warns of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


async def all_refused(calls: list[Callable[[], Awaitable[object]]], why: str) -> None:
    for call in calls:
        with pytest.raises(WrongLoop, match=why):
            await asyncio.wait_for(call(), PATIENCE_S)


def producer_calls(producer: Producer, topic: str) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: producer.send(topic, b"x"),
        lambda: producer.send(topic, b"x", partition=0),
        lambda: producer.send_many(topic, [b"x"]),
        lambda: producer.partitions(topic),
        producer.flush,
        producer.aclose,
    ]


def consumer_calls(consumer: Consumer, topic: str) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: consumer.poll(0.1),
        lambda: anext(aiter(consumer)),
        lambda: anext(consumer.batches()),
        consumer.commit,
        lambda: consumer.end_offsets([(topic, 0)]),
        lambda: consumer.subscribe(topic),
        consumer.unsubscribe,
        consumer.aclose,
    ]


@pytest.mark.parametrize("has_sent", [True, False])
def test_a_producer_whose_loop_has_ended_says_so(
    bootstrap: str, moldau_topic: str, has_sent: bool
) -> None:
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000)

    async def begin() -> None:
        await producer.start()
        if has_sent:
            await producer.send(moldau_topic, b"in a batch that stays open")

    asyncio.run(begin())
    asyncio.run(all_refused(producer_calls(producer, moldau_topic), "which has ended"))


def test_a_consumer_whose_loop_has_ended_says_so(bootstrap: str, moldau_topic: str) -> None:
    consumer = Consumer(bootstrap_servers=bootstrap, group_id=moldau_topic)

    async def begin() -> None:
        await consumer.start()
        await consumer.subscribe(moldau_topic)
        await consumer.poll(0.1)

    asyncio.run(begin())
    asyncio.run(all_refused(consumer_calls(consumer, moldau_topic), "which has ended"))


def test_an_admin_whose_loop_has_ended_says_so(bootstrap: str) -> None:
    admin = Admin(bootstrap_servers=bootstrap)
    asyncio.run(admin.start())
    asyncio.run(all_refused([admin.list_topics, admin.aclose], "which has ended"))


def test_clients_say_so_beside_their_own_loop_and_go_on_there(
    bootstrap: str, moldau_topic: str
) -> None:
    async def main() -> None:
        async with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Producer(bootstrap_servers=bootstrap) as producer,
            Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([(moldau_topic, 0)])
            calls = [admin.list_topics, *producer_calls(producer, moldau_topic)]
            calls += [lambda: consumer.poll(0.1), consumer.aclose]
            await asyncio.to_thread(asyncio.run, all_refused(calls, "not the one that runs here"))
            await (await producer.send(moldau_topic, b"x", partition=0))
            assert await admin.list_topics()
            async for record in consumer:
                assert record.value == b"x"
                break

    asyncio.run(main())


@pytest.mark.parametrize("has_ended", [True, False])
def test_who_awaits_in_another_loop_what_a_batch_took_does_not_wait_for_ever(
    bootstrap: str, moldau_topic: str, has_ended: bool
) -> None:
    """A loop that is closed without more ado tells nobody that it ends, and while a batch is open
    `send` asks for no loop."""
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
    loop = asyncio.new_event_loop()

    async def begin() -> list[Awaitable[object]]:
        await producer.start()
        one = await producer.send(moldau_topic, b"1")
        return [one, await producer.send_many(moldau_topic, [b"2"])]

    async def go_on(sent: list[Awaitable[object]]) -> None:
        sent.append(await producer.send(moldau_topic, b"3"))
        for each in sent:
            with pytest.raises(WrongLoop):
                await asyncio.wait_for(each, PATIENCE_S)

    sent = loop.run_until_complete(begin())
    if has_ended:
        loop.close()
    asyncio.run(go_on(sent))
    if not has_ended:
        loop.run_until_complete(producer.aclose())
        loop.close()


def test_a_stream_says_so_before_all_that_lies_there_is_given(
    bootstrap: str, moldau_topic: str
) -> None:
    """It looks at the loop as often as at the clock, not with every record."""
    given: list[object] = []

    async def go_on(stream: AsyncIterator[object]) -> None:
        async for each in stream:
            given.append(each)

    async def main() -> None:
        async with (
            Producer(bootstrap_servers=bootstrap) as producer,
            Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            await (await producer.send_many(moldau_topic, [b"x"] * 500, partition=0))
            consumer.assign([(moldau_topic, 0)])
            stream = aiter(consumer)
            await anext(stream)
            with pytest.raises(WrongLoop):
                await asyncio.to_thread(asyncio.run, go_on(stream))
            assert len(given) < 64
            assert (await anext(aiter(consumer))).offset == 1 + len(given)

    asyncio.run(main())


def test_one_that_was_closed_before_it_was_started_says_that_it_is_closed() -> None:
    async def main() -> None:
        consumer = Consumer(bootstrap_servers="localhost:1", group_id="g")
        await consumer.aclose()
        for call in (consumer.poll, consumer.commit, consumer.unsubscribe):
            with pytest.raises(ClientClosed):
                await call()

    asyncio.run(main())


def test_one_that_was_closed_says_that_it_is_in_any_loop(bootstrap: str, moldau_topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)
    consumer = Consumer(bootstrap_servers=bootstrap)

    async def whole() -> None:
        async with producer, consumer:
            pass

    async def again() -> None:
        await producer.aclose()
        await consumer.aclose()
        with pytest.raises(ClientClosed):
            await producer.send(moldau_topic, b"x")
        with pytest.raises(ClientClosed):
            await consumer.poll(0.1)

    asyncio.run(whole())
    asyncio.run(again())


def test_blocking_clients_may_be_used_where_a_loop_runs(bootstrap: str, moldau_topic: str) -> None:
    """Theirs is another one, of which nobody has to know."""

    async def main() -> None:
        with (
            sync.Producer(bootstrap_servers=bootstrap) as producer,
            sync.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
            sync.Admin(bootstrap_servers=bootstrap) as admin,
        ):
            for _ in range(100):
                producer.send(moldau_topic, b"x", partition=0)
            producer.send_many(moldau_topic, [b"y"], partition=0).result(PATIENCE_S)
            producer.flush()
            assert admin.list_topics()
            consumer.assign([(moldau_topic, 0)])
            assert len(list(islice(consumer, 100))) == 100
            assert consumer.poll(float(PATIENCE_S))[0].records[0].value == b"y"

    asyncio.run(main())
