"""Code of a user's that raises CancelledError while nobody cancels: it asks a future that was
cancelled for its result, or awaits a task that was. That is an error like any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from moldau.client import ConsumerInterceptor, PartitionRecords, ProducerInterceptor, TopicPartition
from moldau.client.producer.batch import Batch, BatchState
from moldau.client.producer.delivery import Sent
from moldau.client.serdes.contract import Place
from moldau.records import BatchBuilder
from moldau.runtime import Runtime
from moldau.values.failures import DeserializationFailed, SerializationFailed
from tests.client.consumer.intercepted_reading import all_is_read_and_committed
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.producer.scripted_producer import producer
from tests.client.world import ClientWorld


def ask_what_was_cancelled(*_: object) -> Any:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone.cancel()
    return gone.result()


async def await_what_was_cancelled(*_: object) -> Any:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone.cancel()
    return await gone


ASK: Any = ask_what_was_cancelled


class OfProducer(ProducerInterceptor):
    on_send = on_acknowledgement = ASK


class OfConsumer(ConsumerInterceptor):
    on_consume = on_commit = ASK


class Columns:
    """A serde of whole columns."""

    __call__ = staticmethod(await_what_was_cancelled)

    async def many(self, values: Sequence[Any], place: Place, /) -> list[Any]:
        return [await await_what_was_cancelled()]


SERDES = [ask_what_was_cancelled, await_what_was_cancelled, Columns()]


# Callbacks and interceptors


def test_a_callback_or_interceptor_of_a_producer_changes_nothing_by_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with producer(runtime, interceptors=[OfProducer()], linger_ms=20) as sender:
            tell = ask_what_was_cancelled
            sent = [
                await sender.send("t", b"%d" % n, partition=0, on_delivery=tell) for n in range(3)
            ]
            async with asyncio.timeout(5):
                await sender.flush()
                return [(await each).offset for each in sent]

    with ClientWorld() as world, caplog.at_level(logging.ERROR, "moldau.client"):
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == [0, 1, 2]
    words = {each.getMessage().split(" failed")[0] for each in caplog.records}
    assert words == {"OfProducer.on_send", "OfProducer.on_acknowledgement", "on_delivery"}


def test_an_interceptor_of_a_consumer_costs_no_record_by_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "moldau.client"):
        all_is_read_and_committed(OfConsumer())
    assert "OfConsumer.on_consume failed" in caplog.text
    assert "OfConsumer.on_commit failed" in caplog.text


class Exits(ConsumerInterceptor):
    """Ends the program, the first time."""

    def __init__(self) -> None:
        self.has_ended = False

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        if not self.has_ended:
            self.has_ended = True
            raise SystemExit(3)
        return parts


def test_records_that_an_interceptor_ends_the_program_at_are_not_given_out() -> None:
    async def main(runtime: Runtime) -> tuple[int, dict[int, list[int]]]:
        async with consumer(runtime, interceptors=[Exits()]) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            with pytest.raises(SystemExit):
                await reader.poll(5.0)
            consumed = reader.consumed()[TopicPartition("t", 0)].offset
            return consumed, await read_all(reader, 20)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == (0, {0: list(range(20))})


def test_whatever_one_raises_all_who_wait_for_a_batch_are_told() -> None:
    told: list[str] = []

    def end() -> NoReturn:
        told.append("ends")
        raise SystemExit(3)

    batch = Batch(TopicPartition("t", 0), BatchBuilder(), 0.0)
    for tell in (lambda: told.append("first"), end, end, lambda: told.append("last")):
        batch.when_done(tell)
    batch.become(BatchState.READY)
    batch.become(BatchState.SENT)
    with pytest.raises(SystemExit):
        batch.finish(7)
    assert sorted(told) == ["ends", "ends", "first", "last"]
    assert (batch.is_done, batch.base_offset) == (True, 7)


# A partitioner


class Lost:
    """It never knows where to."""

    partition = ASK


@pytest.mark.parametrize("many", [False, True])
def test_a_partitioner_that_fails_by_it_is_named(*, many: bool) -> None:
    heard: list[object] = []

    class Hears(ProducerInterceptor):
        def on_acknowledgement(self, sent: Sent, error: object) -> None:
            heard.append(error)

    async def main(runtime: Runtime) -> None:
        listener = Hears()
        async with producer(runtime, partitioner_class=Lost(), interceptors=[listener]) as sender:
            with pytest.raises(RuntimeError, match=r"^Lost\.partition raised CancelledError$"):
                await (sender.send_many("t", [b"x"]) if many else sender.send("t", b"x"))
            assert (await (await sender.send("t", b"y", partition=0))).offset == 0

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert len(heard) == 2
    assert "Lost.partition raised CancelledError" in str(heard[0])


# Serdes


@pytest.mark.parametrize("deserializer", SERDES)
def test_a_deserializer_that_fails_by_it_is_named(deserializer: Any) -> None:
    async def main(runtime: Runtime) -> list[dict[str, object]]:
        async with consumer(runtime, value_deserializer=deserializer) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            found = []
            for _ in range(2):
                with pytest.raises(DeserializationFailed, match="CancelledError") as caught:
                    await reader.poll(5.0)
                found.append(caught.value.context)
            assert reader.position(("t", 0)) == 0
            return found

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 3)
        for context in world.run_client(main):
            assert (context["topic"], context["partition"], context["offset"]) == ("t", 0, 0)


@pytest.mark.parametrize("serializer", SERDES)
def test_a_serializer_that_fails_by_it_is_named(serializer: Any) -> None:
    heard: list[object] = []

    class Hears(ProducerInterceptor):
        def on_acknowledgement(self, sent: Sent, error: object) -> None:
            heard.append(error)

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, value_serializer=serializer, interceptors=[Hears()]) as sender:
            with pytest.raises(SerializationFailed, match="CancelledError"):
                await sender.send("t", "x")
        async with producer(runtime, value_serializer=serializer) as sender:
            with pytest.raises(SerializationFailed, match="CancelledError"):
                await sender.send_many("t", ["x"])

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert [type(each) for each in heard] == [SerializationFailed]


@pytest.mark.parametrize("what", ["poll", "send"])
def test_who_is_cancelled_while_a_serde_waits_hears_of_that(what: str) -> None:
    async def main(runtime: Runtime) -> bool:
        begun = asyncio.Event()

        async def waits(*_: object) -> NoReturn:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with (
            consumer(runtime, value_deserializer=waits) as reader,
            producer(runtime, value_serializer=waits) as sender,
        ):
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            doing: Any = reader.poll(5.0) if what == "poll" else sender.send("t", "x")
            task = asyncio.ensure_future(doing)
            await begun.wait()
            task.cancel()
            await asyncio.wait([task])
            was_cancelled: bool = task.cancelled()
            return was_cancelled

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 3)
        assert world.run_client(main) is True
