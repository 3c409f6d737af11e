"""What a producer promises where things go wrong: brokers that forget, sends that are cancelled,
blocks that fail, ids that are refused, times that run out, topics that are not what they were."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from moldau.client import Producer, ProducerInterceptor, Sent
from moldau.client.producer.record import SendOptions
from moldau.client.producer.sync.shared_producer import SharedProducer
from moldau.client.serdes.contract import Place
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from moldau.values.failures import SerializationFailed
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


async def failure(awaitable: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value


# Told as stored, and stored once


def test_what_a_broker_that_forgot_the_producer_does_not_have_is_not_told_as_stored() -> None:
    async def main(runtime: Runtime) -> int:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"before"))
            log.producers.clear()
            world.cluster.refuse[ProduceRequest] = [ErrorCode.NOT_ENOUGH_REPLICAS]
            sent = [await sender.send("t", b"%02d" % n + bytes(5000)) for n in range(12)]
            results = await asyncio.gather(*map(outcome, sent))
        return sum(isinstance(each, Sent) for each in results)

    async def outcome(delivery: Any) -> Sent | KafkaError:
        try:
            sent: Sent = await delivery
        except KafkaError as error:
            return error
        return sent

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        assert 0 < world.run_client(main) == len(log.values()) - 1 < 12


def test_a_topic_that_was_made_again_while_it_was_forgotten_gets_all_in_order() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, metadata_max_idle_ms=5000, metadata_max_age_ms=3000) as sender:
            await (await sender.send("t", b"old"))
            await asyncio.sleep(20)
            world.cluster.add_topic("t", [1])
            world.cluster.refuse[ProduceRequest] = [ErrorCode.NOT_ENOUGH_REPLICAS]
            await sender.send_many("t", [b"%02d" % n + bytes(5000) for n in range(12)])

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
        values = [int((each or b"")[:2]) for each in world.cluster.topics["t"][0].values()]
        assert values == list(range(12))


def test_an_answer_is_understood_though_metadata_has_lost_the_topic_meanwhile() -> None:
    """Without idempotence it would be sent again, and stored twice."""

    async def main(runtime: Runtime) -> int:
        async with producer(runtime, enable_idempotence=False) as sender:
            for partition in (0, 1):  # so that there is another broker to ask
                await (await sender.send("t", b"0", partition=partition))
            world.cluster.delay_s = 0.5
            delivery = await sender.send("t", b"1", partition=0)
            await asyncio.sleep(0.1)
            world.cluster.delay_s = 0.0
            topics = dict(world.cluster.topics)
            world.cluster.topics.clear()
            await sender._cluster.refresh()
            world.cluster.topics |= topics
            return (await delivery).offset

    with ClientWorld() as world:
        log, _ = world.cluster.add_topic("t", [1, 2])
        assert world.run_client(main) == 1
        assert log.values() == [b"0", b"1"]


@pytest.mark.parametrize("more", [{"acks": "1"}, {"enable_idempotence": False}])
def test_a_topic_of_small_batches_keeps_the_order_without_idempotence(more: dict[str, Any]) -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, **more) as sender:
            for number in range(5000):
                await sender.send("t", b"%08d" % number + bytes(100))

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.max_message_bytes = 100_000
        world.cluster.delay_s = 0.002
        world.run_client(main)
        values = [each or b"" for each in log.values()]
        assert len(values) == 5000
        assert values == sorted(values)


@pytest.mark.parametrize("more", [{}, {"timestamp_ms": 1}])
def test_a_send_that_was_cancelled_has_sent_nothing(more: SendOptions) -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, linger_ms=0) as sender:
            await (await sender.send("t", b"first"))
            for turns in range(1, 30):
                sent: list[bytes] = []
                task = asyncio.ensure_future(send_for_ever(sender, sent))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await sender.flush()
                accepted.extend(sent)

    async def send_for_ever(sender: Producer, sent: list[bytes]) -> None:
        while True:
            value = b"%06d" % (len(accepted) + len(sent)) + bytes(1000)
            await sender.send("t", value, **more)
            sent.append(value)

    accepted = [b"first"]
    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert len(accepted) > 100
        assert log.values() == accepted


# The end


async def failing_block(sender: Producer) -> None:
    async with sender:
        await sender.send("t", b"v")
        raise ValueError("the block's own")


@pytest.mark.parametrize("kind", [Producer, SharedProducer])
def test_what_was_accepted_before_an_exception_in_the_block_is_delivered(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        sender = kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=50)
        with pytest.raises(ValueError, match="the block's own"):
            await failing_block(sender)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"v"]


@pytest.mark.parametrize("kind", [Producer, SharedProducer])
def test_so_it_is_when_nobody_wants_the_rest_of_a_generator(kind: Any) -> None:
    async def writing(runtime: Runtime) -> AsyncGenerator[int, None]:
        async with kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=50) as sender:
            for number in range(3):
                await sender.send("t", b"%d" % number)
                yield number

    async def main(runtime: Runtime) -> None:
        async with aclosing(writing(runtime)) as rows:
            async for number in rows:
                if number == 1:
                    break

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"0", b"1"]


def test_what_fails_after_an_exception_in_the_block_is_logged_and_does_not_hide_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ValueError, match="the block's own"):
            await failing_block(producer(runtime))

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        world.run_client(main)
    assert "closed by ValueError, not all was delivered" in caplog.text


def test_a_block_that_is_cancelled_gives_up_at_once_and_says_how_much(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def block(runtime: Runtime) -> None:
        async with producer(runtime, linger_ms=60_000) as sender:
            for _ in range(10):
                await sender.send("t", b"v")
            await asyncio.Event().wait()

    async def main(runtime: Runtime) -> float:
        task = asyncio.ensure_future(block(runtime))
        await asyncio.sleep(1)
        begun = runtime.clock.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return runtime.clock.monotonic() - begun

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        assert world.run_client(main) < 0.1
        assert log.values() == []
    assert "closed before all was delivered: 10 records" in caplog.text


@pytest.mark.parametrize("kind", [Producer, SharedProducer])
def test_interceptors_are_closed_after_they_have_heard_of_all(kind: Any) -> None:
    heard: list[str] = []

    class Listener(ProducerInterceptor):
        def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
            heard.append("told")

        def close(self) -> None:
            heard.append("closed")

    async def main(runtime: Runtime) -> None:
        sender = kind(
            runtime=runtime,
            bootstrap_servers=BOOTSTRAP,
            linger_ms=1000,
            interceptors=[Listener()],
        )
        await sender.start()
        await sender.send("t", b"1")
        await sender.send("t", b"2")
        await sender.aclose(abort=True)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert heard == ["told", "told", "closed"]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_who_gives_up_a_second_close_leaves_the_first_to_it(is_cancelled: bool) -> None:
    async def main(runtime: Runtime) -> int:
        sender = producer(runtime, linger_ms=0)
        await sender.start()
        await (await sender.send("t", b"0"))
        world.cluster.delay_s = 2.0
        delivery = await sender.send("t", b"1")
        first = asyncio.ensure_future(sender.aclose())
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(sender.aclose(None if is_cancelled else 0.5))
        await asyncio.sleep(0.1)
        if is_cancelled:
            second.cancel()
        else:
            await failure(second)
        await first
        assert second.cancelled() == is_cancelled
        return (await delivery).offset

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 1


# In time, and no more often than needed


def test_a_producer_id_that_is_refused_for_good_is_asked_for_when_it_is_needed() -> None:
    async def main(runtime: Runtime) -> list[int]:
        counts = []
        sender = producer(runtime)
        await sender.start()
        await asyncio.sleep(10)
        counts.append(asked())
        for _ in range(100):
            error = await failure(await sender.send("t", b"v"))
            assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        counts.append(asked())
        world.cluster.refuse[InitProducerIdRequest].clear()
        await asyncio.sleep(1)
        await (await sender.send("t", b"at last"))
        await sender.aclose()
        return counts

    def asked() -> int:
        return sum(isinstance(each, InitProducerIdRequest) for _, each in world.cluster.requests)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        refused = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 10_000
        world.cluster.refuse[InitProducerIdRequest] = refused  # type: ignore[assignment]
        assert world.run_client(main) == [1, 101]
        assert world.now > 50, "with a backoff between them"
        assert log.values() == [b"at last"]


def test_a_record_has_its_own_time_though_no_producer_id_came_in_that_of_others() -> None:
    async def main(runtime: Runtime) -> int:
        options = {"delivery_timeout_ms": 10_000, "request_timeout_ms": 2_000}
        async with producer(runtime, **options) as sender:
            await sender.partitions("t")
            await asyncio.sleep(6)
            delivery = await sender.send("t", b"v")
            await asyncio.sleep(5)
            world.cluster.silence.clear()
            return (await delivery).offset

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(InitProducerIdRequest)
        assert world.run_client(main) == 0


def test_a_new_partition_is_waited_for_though_metadata_are_lost_once() -> None:
    async def main(runtime: Runtime) -> int:
        async with producer(runtime, max_block_ms=20_000) as sender:
            await (await sender.send("t", b"0"))
            world.cluster.topics["t"].append(Log(1))
            world.cluster.lose_answers.add(MetadataRequest)
            return (await (await sender.send("t", b"1", partition=1))).partition

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 1


def test_a_batch_behind_one_that_was_too_late_fails_in_its_own_time() -> None:
    async def main(runtime: Runtime) -> float:
        async with producer(
            runtime, delivery_timeout_ms=30_000, request_timeout_ms=29_000, linger_ms=0
        ) as sender:
            await (await sender.send("t", b"0"))
            world.cluster.move("t", 0, -1)
            await sender._cluster.refresh()
            await sender.send("t", b"A")
            await asyncio.sleep(10)
            begun = runtime.clock.monotonic()
            late = await sender.send("t", b"B")
            await asyncio.sleep(14)
            world.cluster.silence.add(ProduceRequest)
            world.cluster.move("t", 0, 1)
            await sender._cluster.refresh()
            await failure(late)
            seconds = runtime.clock.monotonic() - begun
            world.cluster.silence.clear()
            await failure(sender.flush())
            return seconds

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert 30 <= world.run_client(main) < 30.1


def test_max_block_ms_is_one_budget_for_metadata_and_memory() -> None:
    async def main(runtime: Runtime) -> list[float]:
        async with producer(runtime, max_block_ms=1000) as sender:
            await (await sender.send("t", b"0"))
            seconds = [await refused(runtime, sender.send("t", b"x", partition=3))]
            world.after(0.8, world.cluster.silence.clear)
            sender._accumulator.buffer.used_bytes += sender._accumulator.options.memory_bytes
            seconds.append(await refused(runtime, sender.send("other", b"x")))
            sender._accumulator.buffer.used_bytes -= sender._accumulator.options.memory_bytes
            return seconds

    async def refused(runtime: Runtime, send: Any) -> float:
        world.cluster.silence.add(MetadataRequest)
        begun = runtime.clock.monotonic()
        error = await failure(send)
        assert "max.block.ms" in str(error)
        return runtime.clock.monotonic() - begun

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.add_topic("other", [1])
        for seconds in world.run_client(main):
            assert 1.0 <= seconds < 1.1


# What is told


def test_each_who_asks_gets_an_error_of_its_own_with_the_same_cause() -> None:
    async def main(runtime: Runtime) -> list[KafkaError]:
        sender = producer(runtime, linger_ms=1000)
        await sender.start()
        sent = [await sender.send("t", b"v") for _ in range(50)]
        many = await sender.send_many("t", [b"v"] * 3)
        sent[0].batch.when_done(lambda: None)
        await sender.aclose(abort=True)
        sent[0].batch.error.__cause__ = OSError("why")  # type: ignore[union-attr]
        return [*[await failure(each) for each in sent], await failure(many), await failure(many)]

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        errors = world.run_client(main)
    assert len({str(each) for each in errors}) == 1
    assert {str(each.__cause__) for each in errors} == {"why"}
    assert max(len(traceback.extract_tb(each.__traceback__)) for each in errors) < 10


@pytest.mark.parametrize("waits_since", ["before", "after"])
@pytest.mark.parametrize("is_late", [False, True])
def test_who_gives_up_waiting_for_many_hides_no_failure_that_he_has_not_heard(
    waits_since: str, is_late: bool
) -> None:
    """1. Records of two partitions are sent, 2. those of the second one fail, 3. who waits for all
    gives up as he waits for the first, or in the very turn in which that is decided."""

    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            await (await sender.send_many("t", [b"0", b"1"], partition=[0, 1]))
            world.nodes["b1"].pause()
            world.cluster.refuse[ProduceRequest].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            many = await sender.send_many("t", [b"slow", b"1", b"2"], partition=[0, 1, 1])
            await asyncio.sleep(1.0 if waits_since == "after" else 0.0)
            waiting = asyncio.ensure_future(many)

            def cancel() -> None:
                waiting.cancel()

            await asyncio.sleep(1.0)
            if is_late:
                many.parts[0][0].when_done(cancel)
            else:
                waiting.cancel()
                await asyncio.wait([waiting])
            world.nodes["b1"].resume()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            return await failure(sender.flush())

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        assert world.run_client(main).context["failed_records"] == 2


def test_a_partitioner_is_asked_though_metadata_has_lost_the_topic_for_a_while() -> None:
    async def main(runtime: Runtime) -> int:
        async with producer(runtime, partitioner_class="round-robin") as sender:
            await (await sender.send("t", b"1"))
            topics = dict(world.cluster.topics)
            world.cluster.topics.clear()
            await sender._cluster.refresh()
            delivery = await sender.send("t", b"2")
            world.cluster.topics |= topics
            return (await delivery).offset

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 1


def test_a_topic_that_was_made_again_with_fewer_partitions_has_only_those() -> None:
    async def main(runtime: Runtime) -> tuple[int, KafkaError, float]:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"0", partition=3))
            world.cluster.add_topic("t", [1])
            await sender._cluster.refresh()
            partitions = await sender.partitions("t")
            begun = runtime.clock.monotonic()
            error = await failure(sender.send("t", b"x", partition=3))
            await failure(sender.send_many("t", [b"x"], partition=3))
            seconds = runtime.clock.monotonic() - begun
            await (await sender.send("t", b"there", key=b"k"))
            return len(partitions), error, seconds

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 1, 1, 1])
        partitions, error, seconds = world.run_client(main)
        assert world.cluster.topics["t"][0].values() == [b"there"]
    assert (partitions, error.code) == (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert seconds < 1


def test_a_serializer_that_loses_values_is_told_and_nothing_is_sent() -> None:
    class Loses:
        def __call__(self, value: bytes, place: Place) -> bytes:
            return value

        def many(self, values: Sequence[bytes], place: Place) -> list[bytes]:
            return list(values)[:-1]

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, value_serializer=Loses()) as sender:
            with pytest.raises(SerializationFailed, match="2 for 3 values"):
                await sender.send_many("t", [b"a", b"b", b"c"])

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == []
