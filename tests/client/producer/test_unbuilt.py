"""Batches that cannot be made into bytes, for want of memory say: each fails alone, whoever sent it
hears of that, and all others go on in order, without a gap in the sequence. So do the batches of a
request that cannot be made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from random import Random
from typing import Any, Literal

import pytest

from moldau.client import Delivery, Producer
from moldau.client.producer.batch import Batch
from moldau.client.producer.delivery import error_of
from moldau.client.producer.run import RowRun
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import open_batch
from moldau.runtime import Runtime
from tests import suites
from tests.client.producer.simulated_sender import T0, T1, Sender, sequence
from tests.client.producer.wide_batches import begin, numbers, run_against, wide
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld

SEEDS = 100
QUICK = 40
COMPRESS = "moldau.records.builder.compress"
STAMP = "moldau.client.producer.batch.stamp_producer"
OPEN = "moldau.client.producer.splitting.open_batch"
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
FOREVER = 1000


class Broken:
    """A call that fails so many times in a row, after so many that do not."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.good = self.bad = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.good:
            self.good -= 1
        elif self.bad:
            self.bad -= 1
            raise MemoryError("no room")
        return self._call(*arguments, **named)

    def fail(self, times: int, after: int = 0) -> None:
        self.good, self.bad = after, times


def broken(monkeypatch: pytest.MonkeyPatch, where: str) -> Broken:
    """In place of the function of that name."""
    module, name = where.rsplit(".", 1)
    made = Broken(getattr(__import__(module, fromlist=[name]), name))
    monkeypatch.setattr(where, made)
    return made


def assert_is_named(batch: Batch, records: int = 1) -> None:
    """It has failed with what one has to know."""
    error = batch.error
    assert error is not None
    assert error.context == {
        "topic": "t",
        "partition": 0,
        "records": records,
        "why": "MemoryError('no room')",
    }
    assert not error.retriable
    assert isinstance(error.__cause__, MemoryError)


def test_it_fails_alone_and_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    compress = broken(monkeypatch, COMPRESS)
    sender = Sender(codec="LZ4")
    batches = [sender.send() for _ in range(4)]
    other = sender.send(T1)
    compress.fail(2, after=1)
    drained = sender.drain()
    sent = [each for request in drained.requests for each in request.batches]
    assert sent == [batches[0], batches[3], other], "in the same turn"
    assert [sequence(batches[0]), sequence(batches[3])] == [(0, 0), (0, 1)]
    assert sender.newly_failed() == batches[1:3]
    for batch in batches[1:3]:
        assert_is_named(batch)
    for batch in sent:
        sender.acknowledge(batch)
    assert sender.accumulator.buffer.is_idle
    assert sender.accumulator.buffer.used_bytes == 0


def test_one_that_is_looked_at_for_its_size_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = wide(codec="LZ4")
    first = begin(sender, numbers(0, 40))
    sender.sent()
    sender.refuse(first, TOO_LARGE)
    while sent := sender.sent():
        for part in sent:
            sender.acknowledge(part)
    compress = broken(monkeypatch, COMPRESS)
    bad, good = begin(sender, numbers(0, 4)), begin(sender, numbers(4, 8))
    compress.fail(1)
    drained = sender.drain()
    assert [each.batches for each in drained.requests] == [[good]]
    assert sender.newly_failed() == [bad]
    assert_is_named(bad, 4)
    assert sequence(good) == (0, 40)


@pytest.mark.parametrize("where", [OPEN, "moldau.client.producer.splitting.BatchBuilder"])
def test_one_that_cannot_be_split_before_it_is_sent_fails_alone(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = wide(in_flight_max=1)
    first, bad, good = (begin(sender, numbers(at, at + 20)) for at in (0, 20, 40))
    sender.sent()
    sender.refuse(first, TOO_LARGE)
    while not first.is_done:
        (part,) = sender.sent()
        sender.acknowledge(part)
    broken(monkeypatch, where).fail(1)
    drained = sender.drain()
    assert sender.newly_failed() == [bad]
    assert_is_named(bad, 20)
    (part,) = (each for request in drained.requests for each in request.batches)
    assert part.whole is good
    assert sequence(part) == (0, 20)


def test_one_that_cannot_be_split_after_it_was_refused_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender = wide()
    log = Log(leader=1, max_message_bytes=200)
    bad = begin(sender, numbers(0, 8))
    sender.sent()
    behind = begin(sender, numbers(8, 10))
    broken(monkeypatch, OPEN).fail(1)
    sender.refuse(bad, TOO_LARGE)
    assert sender.newly_failed() == [bad]
    assert_is_named(bad, 8)
    run_against(sender, log)
    assert sender.newly_failed() == []
    assert log.values() == numbers(8, 10)
    assert sequence_of_first(log) == (1, 0), "what was refused had a place in the sequence"
    assert behind.error is None
    assert sender.accumulator.buffer.used_bytes == 0


def sequence_of_first(log: Log) -> tuple[int, int]:
    header = open_batch(log.batches[0]).header
    return header.producer_epoch, header.base_sequence


def test_a_part_that_cannot_be_built_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compress = broken(monkeypatch, COMPRESS)
    sender = wide(codec="LZ4")
    log = Log(leader=1, max_message_bytes=300)
    whole = begin(sender, numbers(0, 40))
    sender.sent()
    later = begin(sender, numbers(40, 42))
    sender.refuse(whole, TOO_LARGE)
    assert whole.parts is not None
    compress.fail(1)
    run_against(sender, log)
    assert sender.newly_failed() == [whole]
    lost = whole.parts[0].count
    assert_is_named(whole.parts[0], lost)
    assert [error_of(whole, index) is None for index in range(40)] == [
        index >= lost for index in range(40)
    ]
    assert whole.unawaited == lost
    assert log.values() == numbers(lost, 42)
    assert later.error is None
    assert sender.accumulator.buffer.used_bytes == 0


def test_one_that_cannot_be_built_again_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a new epoch, in which the others go on."""
    sender = Sender()
    refused, bad, good = (sender.send() for _ in range(3))
    sender.sent()
    sender.refuse(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for batch in (bad, good):
        sender.refuse(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    broken(monkeypatch, STAMP).fail(1)
    drained = sender.drain(10.0)
    assert sender.newly_failed() == [refused, bad]
    assert_is_named(bad)
    assert [each.batches for each in drained.requests] == [[good]]
    assert sequence(good) == (2, 0)


@pytest.mark.parametrize("seed", suites.seeds(range(SEEDS), quick=QUICK))
def test_whatever_else_happens_the_others_are_stored_once_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    calls = [broken(monkeypatch, each) for each in (COMPRESS, STAMP, OPEN)]
    sender = wide(codec="LZ4", in_flight_max=random.choice([1, 3, 5]))
    log = Log(leader=1, max_message_bytes=random.choice([150, 300, 2000]))
    records: dict[bytes, tuple[Batch, int]] = {}
    while len(records) < 150:
        queue = sender.accumulator.queue(T0)
        values = numbers(len(records), len(records) + random.randrange(1, 30))
        rows = [(0, None, value, ()) for value in values]
        extended = sender.accumulator.extend(queue, sender.now, RowRun(rows), 0)
        assert extended is not None
        batch, _, count = extended
        records |= {value: (batch, at) for at, value in enumerate(values[:count])}
        sender.accumulator.seal(queue)
        for call in calls:
            call.fail(random.choice([0, 0, 1]), random.randrange(3))
        run_against(sender, log)
    stored = [each or b"" for each in log.values()]
    assert stored == sorted(set(stored))
    for value, (batch, index) in records.items():
        assert batch.is_done
        assert (error_of(batch, index) is None) == (value in stored)
    failed = sender.failed()
    assert (failed[1] if failed else 0) == len(records) - len(stored)
    assert sender.accumulator.buffer.used_bytes == 0


# The whole producer


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(
        runtime=runtime, bootstrap_servers=BOOTSTRAP, compression_type="zstd", **options
    )


def test_who_awaits_the_record_hears_of_it_and_nobody_else_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compress = broken(monkeypatch, COMPRESS)

    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"0"))
            compress.fail(1)
            lost = await sender.send("t", b"1")
            with pytest.raises(KafkaError) as caught:
                await lost
            assert (await (await sender.send("t", b"2"))).offset == 1
            await sender.flush()
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert log.values() == [b"0", b"2"]
    assert (error.context["topic"], error.context["partition"]) == ("t", 0)
    assert isinstance(error.__cause__, MemoryError)
    assert not caplog.records, "there is no gap to tell of"


@pytest.mark.parametrize("ends", ["flush", "aclose"])
def test_a_failure_that_nobody_awaits_is_raised_at_the_end(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compress = broken(monkeypatch, COMPRESS)

    async def main(runtime: Runtime) -> tuple[KafkaError, Delivery, dict[str, float]]:
        sender = producer(runtime)
        await sender.start()
        compress.fail(FOREVER)
        deliveries = [await sender.send("t", b"%d" % number) for number in range(3)]
        with pytest.raises(KafkaError) as caught:
            await getattr(sender, ends)()
        await sender.aclose()
        return caught.value, deliveries[0], sender.metrics()["producer-topic-metrics.t"]

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        error, delivery, metrics = world.run_client(main)
    assert "MemoryError" in str(error)
    assert error.context["failed_records"] == 3
    assert delivery.is_done
    assert metrics["record-error-total"] == 3


def test_the_timer_is_set_whatever_goes_wrong_in_a_turn() -> None:
    """Nothing else would wake the producer: one record, and nobody who flushes."""
    told: list[object] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with producer(runtime, linger_ms=50) as sender:
            await (await sender.send("t", b"0"))
            delivery = await sender.send("t", b"1")
            with pytest.MonkeyPatch.context() as patched:
                drain = Broken(sender._accumulator.drain)
                patched.setattr(sender._accumulator, "drain", drain)
                drain.fail(1)
                await asyncio.sleep(0.051)
            async with asyncio.timeout(1):
                await delivery

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"0", b"1"]
    assert [type(each) for each in told] == [MemoryError]


IN_A_REQUEST = (
    "moldau.client.producer.sender.produce_request",
    "moldau.link.connection.Connection._encode",
    "moldau.client.producer.metrics.ProducerMetrics.drained",
)


@contextmanager
def patched(where: str) -> Iterator[Broken]:
    """As `broken`, until the end of the block."""
    owner, name = where.rsplit(".", 1)
    with pytest.MonkeyPatch.context() as patch:
        made = Broken(getattr(resolve_name(owner), name))
        patch.setattr(where, lambda *arguments, **named: made(*arguments, **named))
        yield made


def heard() -> list[BaseException]:
    """What is told to the loop from now on."""
    told: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(context["exception"])
    )
    return told


@pytest.mark.parametrize("acks", ["all", "0"])
@pytest.mark.parametrize("name", IN_A_REQUEST)
def test_a_request_that_cannot_be_made_fails_its_batches_and_no_others(
    name: str, acks: Literal["all", "0"]
) -> None:
    """Those of other brokers, which come behind it in the same turn, and those behind them."""

    async def main(runtime: Runtime) -> None:
        told = heard()
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, acks=acks, batch_size=1, linger_ms=0
        ) as sender:
            for index in range(4):
                await (await sender.send("t", b"0", partition=index))
            with patched(name) as make:
                make.fail(1)
                sent = [
                    await sender.send("t", b"%d" % number, partition=index)
                    for number in (1, 2)
                    for index in range(4)
                ]
                outcomes = await asyncio.gather(*sent, return_exceptions=True)
            lost = [each for each in outcomes if isinstance(each, BaseException)]
            for index, error in enumerate(lost):
                assert isinstance(error, KafkaError)
                assert not error.retriable
                assert error.context["topic"] == "t"
                assert error.context["partition"] == index
                assert error.context["why"] == "MemoryError('no room')"
                assert isinstance(error.__cause__, MemoryError)
            assert len(lost) == 2, "the batches of one request"
            assert sender._accumulator.buffer.is_idle
            await sender.flush()  # all that has failed was heard of, though it had failed before
        assert [type(each) for each in told] == [MemoryError]

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 1, 2, 2])
        world.run_client(main)
        world.run_for(1)
        assert [log.values() for log in logs[:2]] == [[b"0", b"2"]] * 2
        assert [log.values() for log in logs[2:]] == [[b"0", b"1", b"2"]] * 2


def test_what_is_under_way_when_a_bug_shows_is_decided_by_its_answer() -> None:
    async def main(runtime: Runtime) -> int:
        told = heard()
        async with producer(runtime) as sender:
            await (await sender.send("t", b"0"))
            with patched("moldau.link.connection.Connection._watch") as watch:
                connection = sender._cluster.ready_connection(1)
                assert connection is not None
                connection._looks_at = FOREVER**4
                watch.fail(1)
                sent = await (await sender.send("t", b"1"))
        assert [type(each) for each in told] == [MemoryError]
        return sent.offset

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 1
        assert log.values() == [b"0", b"1"]
