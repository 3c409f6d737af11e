"""The producer when records come in an unusual way: badly, too late, too many, or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from inspect import CORO_CLOSED, getcoroutinestate
from itertools import chain
from typing import Any

import pytest

from moldau.client import Producer, ProducerInterceptor, Sent
from moldau.client.producer.delivery import Deliveries, Delivery
from moldau.client.producer.sync.shared_producer import SharedProducer
from moldau.client.serdes.contract import Place
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.records import Record, open_batch
from moldau.runtime import Runtime
from tests.client.producer.scripted_producer import fill, free, producer, spin
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.runtime.cancelled import be_cancelled_before

OLD_MS = 1_700_000_000_000


def records(log: Log) -> Iterable[Record]:
    return (each for data in log.batches for each in open_batch(data).records())


# Time


@pytest.mark.parametrize("kind", [Producer, SharedProducer])
def test_a_record_with_its_own_time_does_not_set_the_clock_of_those_behind(kind: Any) -> None:
    async def main(runtime: Runtime) -> int:
        sender = kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=50)
        async with sender:
            at = runtime.clock.wall_ms()
            await sender.send("t", b"old", timestamp_ms=OLD_MS)
            await sender.send("t", b"now")
            await sender.flush()
            await sender.send_many("t", [b"old", b"now"], timestamps_ms=[OLD_MS, None])
            await sender.send("t", b"now")
        return at

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        at = world.run_client(main)
        for each in records(log):
            if each.value == b"old":
                assert each.timestamp == OLD_MS
            else:
                assert at <= each.timestamp <= at + 10_000


# What is no record


def test_a_value_that_is_no_bytes_leaves_those_before_it_on_their_way() -> None:
    async def main(runtime: Runtime) -> TypeError:
        async with producer(runtime, linger_ms=5) as sender:
            values: list[Any] = [b"1", b"2", 7, b"3"]
            with pytest.raises(TypeError, match=r"value\.serializer") as caught:
                await sender.send_many("t", values)
            await asyncio.sleep(1)
            assert sender._accumulator.unfinished() == []
            with pytest.raises(TypeError, match=r"value\.serializer"):
                await sender.send_many("t", [b"v"], keys=["text"])
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert log.values() == [b"1", b"2"]
        assert error.__notes__ == ["2 of these records are on their way, not [2, 3]"]


def test_a_key_that_is_no_bytes_is_told_so_by_the_way_of_threads_too() -> None:
    async def main(runtime: Runtime) -> None:
        async with SharedProducer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as sender:
            await sender.send("t", b"the topic is known")
            assert sender.append("t", b"value", "text", ()) is None

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


# Waiting for memory


def test_who_gives_up_just_when_there_is_room_is_cancelled_and_no_more() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"x"))
            used = fill(sender)
            task = asyncio.ensure_future(sender.send("t", b"given up"))
            await spin(3)
            assert sender._sender.waiting == 1
            task.cancel()
            free(sender, used)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sender._sender.waiting == 0

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x"]


@pytest.mark.parametrize("many", [False, True])
def test_max_block_ms_is_the_bound_however_often_others_are_faster(many: bool) -> None:
    async def main(runtime: Runtime) -> float:
        async with producer(runtime, max_block_ms=1000) as sender:
            await (await sender.send("t", b"x"))
            used = fill(sender)
            start = runtime.clock.monotonic()
            late = sender.send_many("t", [b"late"]) if many else sender.send("t", b"late")
            task = asyncio.ensure_future(late)
            while not task.done():
                await asyncio.sleep(0.4)
                free(sender, used)
                fill(sender)
            with pytest.raises(KafkaError, match=r"max\.block\.ms"):
                await task
            sender._accumulator.buffer.used_bytes = used
            return runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) < 1.5


def test_what_takes_too_long_is_an_error_also_after_a_task_group_has_failed() -> None:
    """And not the end of the task."""

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, max_block_ms=1000, linger_ms=60_000) as sender:
            await be_cancelled_before()
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await sender.partitions("no-such-topic")
            used = fill(sender)
            with pytest.raises(KafkaError, match=r"max\.block\.ms"):
                await sender.send("t", b"no room")
            free(sender, used)
            await sender.send("t", b"x")
            with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
                await sender.flush(0.0)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x"]


def test_room_is_given_in_the_order_in_which_it_was_waited_for() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"x", partition=0))
            used = fill(sender)
            tasks = [asyncio.ensure_future(sender.send("t", b"%d" % n)) for n in range(3)]
            await spin(3)
            tasks.append(asyncio.ensure_future(sender.send("t", b"3")))
            free(sender, used)
            fill(sender)  # another was faster
            await spin(3)
            free(sender, used)
            await (await sender.send("t", b"came last"))
            await asyncio.gather(*tasks)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x", b"0", b"1", b"2", b"3", b"came last"]


@pytest.mark.parametrize("many", [False, True])
def test_a_topic_that_somebody_waits_to_write_to_is_not_forgotten(many: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(
            runtime, linger_ms=0, metadata_max_idle_ms=5000, metadata_max_age_ms=2000
        ) as sender:
            await (await sender.send("t", b"x"))
            await asyncio.sleep(4.5)
            used = fill(sender)
            late = sender.send_many("t", [b"late"]) if many else sender.send("t", b"late")
            task: asyncio.Future[Any] = asyncio.ensure_future(late)
            await asyncio.sleep(8)
            free(sender, used)
            delivery = await task
            assert sender._topics.find("t") is not None
            await delivery

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x", b"late"]


# Turns of the loop


class Slow:
    """A clock of a machine on which two milliseconds have gone whenever it is looked at."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._looks = 0

    def monotonic(self) -> float:
        self._looks += 1
        return float(self._clock.monotonic() + self._looks / 500)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


@pytest.mark.parametrize(("is_slow", "batches"), [(False, 16), (True, 8)])
@pytest.mark.parametrize("options", [{}, {"timestamp_ms": OLD_MS}, {"partition": 0}])
def test_who_sends_without_a_pause_lets_the_loop_have_its_turn(
    options: Any, is_slow: bool, batches: int
) -> None:
    """After so many batches: eight that took long to fill are enough."""

    async def main(runtime: Runtime) -> int:
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with producer(runtime) as sender:
            if is_slow:
                sender._sender._clock = Slow(runtime.clock)
            await (await sender.send("t", b"x"))
            ticking = asyncio.ensure_future(tick())
            for _ in range(4000):
                await sender.send("t", bytes(1000), **options)
            ticking.cancel()
        return turns

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) >= 4000 // 16 // batches - 1


def test_serializing_many_lets_the_loop_have_its_turn() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, value_serializer=lambda data, _: data.encode()) as sender:
            await (await sender.send("t", "x"))
            task = asyncio.ensure_future(sender.send_many("t", ["v"] * 1000))
            await spin(5)
            assert not task.done()
            await task

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


# Who hears of a failure


@pytest.mark.parametrize("many", [False, True])
def test_who_gave_up_waiting_has_not_heard_of_the_failure(many: bool) -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(
            runtime, linger_ms=0, delivery_timeout_ms=5000, request_timeout_ms=1000
        ) as sender:
            await (await sender.send("t", b"ok"))
            refuse.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
            sent: Delivery | Deliveries = (
                await sender.send_many("t", [b"lost"]) if many else await sender.send("t", b"lost")
            )

            async def wait() -> None:
                await sent

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(wait(), 0.5)
            await asyncio.sleep(20)
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        refuse = world.cluster.refuse[ProduceRequest]
        error = world.run_client(main)
        assert error.context["failed_records"] == 1


def test_what_comes_while_a_producer_closes_is_refused_and_nothing_accepted_is_lost() -> None:
    async def main(runtime: Runtime) -> int:
        sender = producer(runtime, linger_ms=10_000)
        await sender.start()
        await sender.send("t", b"first")
        closing = asyncio.ensure_future(sender.aclose())
        accepted, refused = 1, 0
        while not closing.done():
            try:
                await sender.send("t", b"later", partition=0)
                accepted += 1
            except KafkaError as error:
                refused += "the producer is closed" in str(error)
            await asyncio.sleep(0.0005)
        assert refused
        await closing
        return accepted

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.cluster.delay_s = 0.05
        assert world.run_client(main) == len(log.values())


def test_threads_that_stop_a_producer_stop_send_many_too() -> None:
    async def main(runtime: Runtime) -> None:
        async with SharedProducer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as sender:
            await sender.send("t", b"x")
            sender.stop_taking()
            with pytest.raises(KafkaError, match="the producer is closed"):
                await sender.send_many("t", [b"a", b"b"])

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x"]


def test_a_flush_hears_of_what_an_abort_beside_it_has_failed() -> None:
    async def main(runtime: Runtime) -> None:
        sender = producer(runtime, linger_ms=10_000)
        await sender.start()
        await (await sender.send("t", b"x"))
        refuse.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
        await sender.send("t", b"lost")
        flushing = asyncio.ensure_future(sender.flush())
        await asyncio.sleep(1)
        await sender.aclose(abort=True)
        with pytest.raises(KafkaError, match="the producer was closed"):
            await flushing

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        refuse = world.cluster.refuse[ProduceRequest]
        world.run_client(main)


class Listener(ProducerInterceptor):
    def __init__(self) -> None:
        self.errors: list[str] = []
        self.sent = 0

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        if error is None:
            self.sent += 1
        else:
            self.errors.append(str(error))


class Partitioner:
    def partition(self, *_: Any) -> int:
        raise TypeError("the user's own")


def test_an_interceptor_hears_once_of_each_record_whatever_became_of_it() -> None:
    listener = Listener()

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, interceptors=[listener], max_request_size=2000) as sender:
            with pytest.raises(KafkaError) as caught:
                await sender.send_many("t", [b"a", b"b", bytes(5000), b"c"])
            assert (caught.value.context["accepted"], caught.value.context["records"]) == (2, 4)
            with pytest.raises(TypeError, match=r"value\.serializer") as refused:
                await sender.send_many("t", [b"d", "text"])
            assert refused.value.__notes__ == ["1 of these records are on their way, not [1]"]
            await sender.flush()
            fill(sender)
            task = asyncio.ensure_future(sender.send("t", b"given up"))
            await spin(3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            sender._accumulator.buffer.used_bytes = 0

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert listener.sent == 3
    assert [each.split("(")[0] for each in listener.errors] == [
        "MESSAGE_TOO_LARGE: a record is larger than max.request.size ",
        "the record was not sent ",
        "the record was not sent ",
    ]
    assert "CancelledError" in listener.errors[-1]


def test_what_a_partitioner_raises_is_its_own_and_interceptors_hear_of_it() -> None:
    listener = Listener()

    async def main(runtime: Runtime) -> None:
        async with producer(
            runtime, interceptors=[listener], partitioner_class=Partitioner()
        ) as sender:
            with pytest.raises(TypeError, match=r"^the user's own$"):
                await sender.send("t", b"v")

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert len(listener.errors) == 1


@pytest.mark.parametrize("refused", ["key", "value"])
def test_what_is_serialized_by_and_by_is_left_when_the_other_fails(refused: str) -> None:
    left = []

    async def made_later(data: Any) -> bytes:
        return bytes(data)

    def serialize(data: Any, place: Place) -> Any:
        left.append(made_later(data))
        return left[-1]

    async def refuse_later(data: Any, place: Place) -> bytes:
        raise ValueError("refused")

    def refuse(data: Any, place: Place) -> bytes:
        raise ValueError("refused")

    async def main(runtime: Runtime) -> None:
        serializers: dict[str, Any] = {"key": serialize, "value": refuse}
        if refused == "key":
            serializers = {"key": refuse_later, "value": serialize}
        async with producer(
            runtime, key_serializer=serializers["key"], value_serializer=serializers["value"]
        ) as sender:
            with pytest.raises(MoldauError, match="refused"):
                await sender.send("t", b"v", key=b"k")

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert [getcoroutinestate(each) for each in left] == [CORO_CLOSED]


# Memory and order


def test_a_batch_that_failed_before_it_was_sent_keeps_nothing() -> None:
    async def main(runtime: Runtime) -> None:
        sender = producer(runtime, linger_ms=60_000)
        await sender.start()
        delivery = await sender.send("t", bytes(10_000))
        await sender.aclose(abort=True)
        assert delivery.batch.builder is None
        with pytest.raises(KafkaError, match="the producer was closed"):
            await delivery

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


@pytest.mark.parametrize("count", [20, 3000])
@pytest.mark.parametrize("given", ["partition", "key"])
def test_records_with_and_without_a_place_of_their_own_keep_their_order(
    given: str, count: int
) -> None:
    """Where those without one go, those of the others that go there too stay behind and before
    them as they came."""
    values = [b"%d" % number for number in range(count)]

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, batch_size=1000) as sender:
            more: dict[str, Any] = {"keys": [None if n % 2 else b"k%d" % n for n in range(count)]}
            if given == "partition":
                more = {"partition": [None if n % 2 else n % 6 // 2 for n in range(count)]}
            await sender.send_many("t", values, **more)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2, 1])
        world.run_client(main)
        stored = [[int(value or b"") for value in log.values()] for log in logs]
        assert stored == [sorted(each) for each in stored]
        assert sorted(chain(*stored)) == list(range(count))
        free = [sum(number % 2 for number in each) for each in stored]
        assert count < 1000 or sum(each > 0 for each in free) > 1, "they do not all go to one"


def test_records_with_and_without_a_partition_keep_their_order_in_each() -> None:
    values = [b"%d" % number for number in range(20)]

    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            partitions = [None if number % 2 == 0 else 0 for number in range(20)]
            await sender.send_many("t", values, keys=values, partition=partitions)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == values
