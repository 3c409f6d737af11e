"""The blocking producer, against a broker in this process."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.client import NewTopic
from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord
from moldau.client.producer.sync.shared_producer import LockedAccumulator
from moldau.client.sync import (
    Admin,
    ClientNotStarted,
    Delivery,
    Producer,
    Sent,
    SentRange,
    WrongThread,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.testing import SyncEmbeddedBroker
from tests.client.sync.interrupts import heeds_ctrl_c as heeds_ctrl_c
from tests.client.sync.topic_contents import create, in_threads, read

THREADS = 8
EACH = 3000


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[SyncEmbeddedBroker]:
    """One that a test may stop and start again."""
    with SyncEmbeddedBroker(directory=str(tmp_path)) as broker:
        yield broker


def test_every_public_method_of_the_accumulator_holds_the_lock() -> None:
    methods = {
        name
        for name, each in vars(Accumulator).items()
        if callable(each) and not name.startswith("_")
    }
    assert methods <= vars(LockedAccumulator).keys()
    assert {"acknowledged", "refused", "expire"} <= methods
    assert methods


def test_a_delivery_tells_where_the_record_is(bootstrap: str, moldau_topic: str) -> None:
    create(bootstrap, moldau_topic)
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [producer.send(moldau_topic, b"%d" % number) for number in range(3)]
        begun = int(time.time() * 1000) - 60_000
        sent = [each.result(60) for each in deliveries]
        assert [each[:3] for each in sent] == [(moldau_topic, 0, offset) for offset in range(3)]
        assert all(begun < each.timestamp < begun + 120_000 for each in sent)
        assert deliveries[0].is_done
        assert deliveries[0].exception() is None
        assert "done" in repr(deliveries[0])
        many = producer.send_many(moldau_topic, [b"a", b"b"])
        assert many.count == 2
        assert many.result(60) == [SentRange(moldau_topic, 0, 3, 2)]
        assert many.is_done
    assert deliveries[2].result() == sent[2]
    assert many.result() == [SentRange(moldau_topic, 0, 3, 2)]
    assert read(bootstrap, moldau_topic) == {0: [b"0", b"1", b"2", b"a", b"b"]}


def test_records_of_many_threads_arrive_once_and_each_threads_in_order(
    bootstrap: str, moldau_topic: str
) -> None:
    create(bootstrap, moldau_topic, partitions=3)
    with Producer(bootstrap_servers=bootstrap, batch_size=4096, buffer_memory=200_000) as producer:

        def work(thread: int) -> None:
            for number in range(EACH):
                value = b"%d:%d" % (thread, number)
                if thread % 4 == 0:
                    producer.send(moldau_topic, value)
                elif thread % 4 == 1:
                    producer.send(moldau_topic, value, key=b"%d" % (number % 10))
                elif thread % 4 == 2:
                    producer.send(moldau_topic, value, partition=number % 3)
                elif number % 100 == 0:
                    values = [b"%d:%d" % (thread, number + each) for each in range(100)]
                    producer.send_many(moldau_topic, values, partition=0)
                if number % 1000 == 999:
                    producer.flush()

        in_threads(THREADS, work)

    found = read(bootstrap, moldau_topic)
    everything = [value for values in found.values() for value in values]
    expected = [b"%d:%d" % (thread, each) for thread in range(THREADS) for each in range(EACH)]
    assert sorted(everything) == sorted(expected)
    for values in found.values():
        for thread in range(THREADS):
            its = [int(each.split(b":")[1]) for each in values if each.startswith(b"%d:" % thread)]
            assert its == sorted(its)


def test_what_was_accepted_before_a_close_is_delivered(bootstrap: str, moldau_topic: str) -> None:
    create(bootstrap, moldau_topic)
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=100)
    producer.start()
    accepted = [0] * 4
    go_on = threading.Event()

    def send(thread: int) -> None:
        with suppress(KafkaError):  # it is closed
            while True:
                producer.send(moldau_topic, b"%d" % accepted[thread])
                accepted[thread] += 1
                if accepted[thread] == 500:
                    go_on.set()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    go_on.wait()
    producer.close()
    for each in threads:
        each.join()

    assert len(read(bootstrap, moldau_topic)[0]) == sum(accepted) >= 500


def test_threads_hear_of_their_records_when_batches_are_split(
    bootstrap: str, moldau_topic: str
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(moldau_topic, configs={"max.message.bytes": "2000"}))
    told: list[tuple[bytes, int]] = []
    with Producer(bootstrap_servers=bootstrap) as producer:

        def send(number: int) -> None:
            values = [b"%d/%d " % (number, at) + bytes(40) for at in range(500)]
            deliveries = [producer.send(moldau_topic, each) for each in values]
            large = producer.send(moldau_topic, bytes(3000))
            many = producer.send_many(moldau_topic, values)
            for value, each in zip(values, deliveries, strict=True):
                told.append((value, each.result(30.0).offset))
            with pytest.raises(KafkaError, match=r"max\.message\.bytes"):
                large.result(30.0)
            at = 0
            for part in many.result(30.0):
                for offset in range(part.base_offset, part.base_offset + part.records):
                    told.append((values[at], offset))
                    at += 1
            assert at == 500

        in_threads(4, send)
        with suppress(KafkaError):  # for those who asked when it was decided already
            producer.flush()
        assert producer.metrics()["producer-metrics"]["batch-split-total"] > 0
    stored = read(bootstrap, moldau_topic)[0]
    assert len(told) == len(stored) == 4000
    assert all(stored[offset] == value for value, offset in told)


def test_no_batch_is_sealed_while_a_thread_appends_to_it(bootstrap: str, moldau_topic: str) -> None:
    create(bootstrap, moldau_topic)
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        producer.send(moldau_topic, b"first")
        accumulator = producer._client._accumulator
        (batch,) = accumulator.unfinished()
        queue = accumulator.queue(batch.where)
        place = batch.place
        sealed = threading.Event()
        seen: list[bool] = []

        def seal() -> None:
            accumulator.seal(queue)
            sealed.set()

        def slow_place(*record: object) -> object:
            assert producer._on_loop(seal)
            seen.append(sealed.wait(0.3))
            return place(*record)

        batch.place = slow_place
        second = producer.send(moldau_topic, b"second")
        assert sealed.wait(30)
        assert seen == [False]
        producer.flush()
        assert second.result(0).offset == 1


class Slow:
    """A serializer that takes its time."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def __call__(self, value: bytes, place: object) -> bytes:
        if value == b"slow":
            self.begun.set()
            assert self.goes_on.wait(60)
        return value


def test_a_send_that_comes_too_late_for_the_last_flush_is_refused(
    own_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(own_broker.bootstrap_servers, moldau_topic)
    slow = Slow()
    outcomes: list[object] = []
    producer = Producer(
        bootstrap_servers=own_broker.bootstrap_servers, value_serializer=slow, linger_ms=0
    )
    producer.start()
    producer.send(moldau_topic, b"first").result(30)
    own_broker.stop()
    waits = producer.send(moldau_topic, b"waits")

    def send() -> None:
        try:
            outcomes.append(producer.send(moldau_topic, b"slow"))
        except KafkaError as error:
            outcomes.append(error.reason)

    sends = threading.Thread(target=send)
    sends.start()
    assert slow.begun.wait(60)
    closes = threading.Thread(target=producer.close)
    closes.start()
    while not producer.is_over:
        assert closes.is_alive()
    slow.goes_on.set()
    sends.join()
    assert outcomes == ["the producer is closed"]
    assert not waits.is_done
    own_broker.start()
    closes.join()
    assert waits.result(0).offset == 1


def test_callbacks_are_called_and_may_send_but_not_wait(bootstrap: str, moldau_topic: str) -> None:
    create(bootstrap, moldau_topic)
    outcomes: list[object] = []
    told = threading.Semaphore(0)

    with Producer(bootstrap_servers=bootstrap) as producer:

        def on_delivery(sent: Sent | None, error: KafkaError | None) -> None:
            outcomes.append((sent, error))
            for wait in (producer.flush, producer.close):
                try:
                    wait()
                except WrongThread as caught:
                    outcomes.append(type(caught))
            producer.send(moldau_topic, b"answer", timestamp_ms=8).add_done_callback(done)

        def done(delivery: Delivery) -> None:
            outcomes.append(delivery.result())
            told.release()

        producer.send(moldau_topic, b"question", timestamp_ms=7, on_delivery=on_delivery)
        assert told.acquire(timeout=30)
        late = producer.send(moldau_topic, b"late", timestamp_ms=9)
        late.result(30)
        late.add_done_callback(done)
        assert told.acquire(timeout=30)

    assert outcomes == [
        (Sent(moldau_topic, 0, 0, 7), None),
        WrongThread,
        WrongThread,
        Sent(moldau_topic, 0, 1, 8),
        Sent(moldau_topic, 0, 2, 9),
    ]


def test_a_callback_may_send_only_to_a_topic_that_is_known(
    bootstrap: str, moldau_topic: str
) -> None:
    letters = f"{moldau_topic}-letters"
    create(bootstrap, moldau_topic)
    create(bootstrap, letters)
    outcomes: list[object] = []

    with Producer(bootstrap_servers=bootstrap) as producer:

        def on_delivery(sent: Sent | None, error: KafkaError | None) -> None:
            try:
                outcomes.append(producer.send(letters, b"dead"))
            except WrongThread as refused:
                outcomes.append(refused)

        producer.send(moldau_topic, b"x", on_delivery=on_delivery).result(30)
        producer.flush()
        producer.partitions(letters)
        producer.send(moldau_topic, b"y", on_delivery=on_delivery).result(30)

    assert [type(each) for each in outcomes] == [WrongThread, Delivery]
    assert read(bootstrap, letters) == {0: [b"dead"]}


def test_a_callback_may_wait_for_a_lock_that_a_sender_holds(
    bootstrap: str, moldau_topic: str
) -> None:
    create(bootstrap, moldau_topic)
    theirs = threading.Lock()
    begun = threading.Event()
    told: list[bool] = []

    def on_delivery(sent: Sent | None, error: KafkaError | None) -> None:
        begun.set()
        told.append(theirs.acquire(timeout=60))

    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        producer.send(moldau_topic, b"first").result(30)
        with theirs:
            producer.send(moldau_topic, b"second", on_delivery=on_delivery)
            assert begun.wait(30)
            third = producer.send(moldau_topic, b"third")
            assert not told
        assert third.result(30).offset == 2
    assert told == [True]


class Stamps(ProducerInterceptor):
    """Notes which thread prepares a record."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.threads.append(threading.get_ident())
        return record


def test_serializers_and_interceptors_run_in_the_thread_that_sends(
    bootstrap: str, moldau_topic: str
) -> None:
    create(bootstrap, moldau_topic)
    stamps = Stamps()
    with Producer(
        bootstrap_servers=bootstrap, interceptors=[stamps], value_serializer="string"
    ) as producer:
        assert producer.send(moldau_topic, "text", timestamp_ms=5).result(60).offset == 0
    assert stamps.threads == [threading.get_ident()]
    assert read(bootstrap, moldau_topic) == {0: [b"text"]}


def test_what_cannot_be_sent_is_refused_at_once(bootstrap: str, moldau_topic: str) -> None:
    create(bootstrap, moldau_topic)
    with Producer(bootstrap_servers=bootstrap, max_request_size=1000, max_block_ms=500) as producer:
        with pytest.raises(KafkaError) as too_large:
            producer.send(moldau_topic, bytes(2000))
        with pytest.raises(KafkaError) as no_partition:
            producer.send(moldau_topic, b"", partition=7)
        with pytest.raises(TypeError, match=r"value\.serializer"):
            producer.send(moldau_topic, "text")
        producer.send(moldau_topic, b"good").result(60)
        with pytest.raises(TypeError, match=r"value\.serializer"):
            producer.send(moldau_topic, "text")
        with pytest.raises(KafkaError) as no_topic:
            producer.send("not a name", b"")
        unknown: Any = {"partion": 2}
        with pytest.raises(TypeError, match="send has no argument 'partion': it has key"):
            producer.send(moldau_topic, b"", **unknown)
        for odd, told in (({"headers": {"a": b"b"}}, "headers must"), ({"partition": "0"}, "str")):
            with pytest.raises(TypeError, match=told):
                producer.send(moldau_topic, b"", **odd)
        names: list[Any] = [moldau_topic.encode(), None, [moldau_topic]]
        for name in names:
            with pytest.raises(TypeError, match="a topic's name is a str"):
                producer.send(name, b"")
            with pytest.raises(TypeError, match="a topic's name is a str"):
                producer.send_many(name, [b""])
    assert too_large.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert too_large.value.context["topic"] == moldau_topic
    assert no_partition.value.context["partition"] == 7
    assert no_topic.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert read(bootstrap, moldau_topic) == {0: [b"good"]}


def test_a_producer_that_is_not_open_says_so(bootstrap: str, moldau_topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)
    with pytest.raises(ClientNotStarted, match="producer is not started"):
        producer.send(moldau_topic, b"")
    producer.start()
    producer.start()
    producer.close()
    producer.close()
    with pytest.raises(KafkaError, match="the producer is closed"):
        producer.send(moldau_topic, b"")
    with pytest.raises(KafkaError, match="the producer is closed"):
        producer.send_many(moldau_topic, [b""])
    with pytest.raises(KafkaError, match="the producer is closed"):
        producer.flush()


def test_a_flush_and_a_close_take_no_longer_than_one_wants() -> None:
    with SyncEmbeddedBroker() as broker:
        create(broker.bootstrap_servers, "t")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=900_000)
        producer.start()
        producer.send("t", b"there").result(60)
    delivery = producer.send("t", b"too late")
    with pytest.raises(KafkaError, match="not all records") as caught:
        producer.flush(0.05)
    assert caught.value.context["records"] == 1
    with pytest.raises(KafkaError, match="the time that it had"):
        producer.close(0.05)
    failure = delivery.exception()
    assert failure is not None
    assert failure.context["timeout_s"] == 0.05


@pytest.mark.parametrize("timeout", ["1", -1, float("nan")])
def test_what_is_no_time_is_refused_before_anything_is_done(
    timeout: Any, bootstrap: str, moldau_topic: str
) -> None:
    create(bootstrap, moldau_topic)
    with Producer(bootstrap_servers=bootstrap, linger_ms=600_000, delivery_timeout_ms=900_000) as (
        producer
    ):
        first = producer.send(moldau_topic, b"first")
        for wait in (producer.close, producer.flush, first.result, first.exception):
            with pytest.raises((TypeError, ValueError), match="timeout_s is "):
                wait(timeout)
        with pytest.raises(TypeError, match="abort is True or False"):
            producer.close(abort=timeout)
        producer.send(moldau_topic, b"second")
    assert read(bootstrap, moldau_topic) == {0: [b"first", b"second"]}


def test_results_can_be_waited_for_no_longer_than_one_wants(
    bootstrap: str, moldau_topic: str
) -> None:
    create(bootstrap, moldau_topic)
    with Producer(bootstrap_servers=bootstrap, linger_ms=600_000, delivery_timeout_ms=900_000) as (
        producer
    ):
        delivery = producer.send(moldau_topic, b"waits")
        many = producer.send_many(moldau_topic, [b"too"])
        with pytest.raises(TimeoutError, match=moldau_topic):
            delivery.result(0.01)
        with pytest.raises(TimeoutError):
            many.result(0.01)
        assert not delivery.is_done
        assert "waits" in repr(delivery)
        producer.flush()
        assert delivery.result().offset == 0


def send_for_ever(producer: Producer, topic: str, accepted: list[Delivery]) -> None:
    while True:
        accepted.append(producer.send(topic, bytes(400)))


def test_with_memory_full_a_send_waits_for_max_block_ms_and_no_longer(
    own_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(own_broker.bootstrap_servers, moldau_topic)
    with Producer(
        bootstrap_servers=own_broker.bootstrap_servers,
        batch_size=1000,
        buffer_memory=5000,
        max_block_ms=200,
    ) as producer:
        producer.send(moldau_topic, b"first").result(60)
        own_broker.stop()
        accepted: list[Delivery] = []
        with pytest.raises(KafkaError) as caught:
            send_for_ever(producer, moldau_topic, accepted)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert caught.value.context["buffer_memory"] == 5000
        assert len(accepted) >= 8
        own_broker.start()
        producer.flush()
        assert [each.result(0).offset for each in accepted] == list(range(1, len(accepted) + 1))


def test_nothing_is_lost_or_twice_while_the_broker_restarts(
    own_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(own_broker.bootstrap_servers, moldau_topic)
    progress = threading.Semaphore(0)
    is_over = threading.Event()
    sent = [0] * 4

    def work(thread: int) -> None:
        while not is_over.is_set():
            for _ in range(500):
                producer.send(moldau_topic, b"%d:%d" % (thread, sent[thread]))
                sent[thread] += 1
            progress.release()

    with Producer(
        bootstrap_servers=own_broker.bootstrap_servers, linger_ms=1, batch_size=2000
    ) as producer:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for _ in range(2):
            for _ in range(10):
                assert progress.acquire(timeout=60)
            own_broker.stop()
            own_broker.start()
        is_over.set()
        for each in threads:
            each.join()

    found = read(own_broker.bootstrap_servers, moldau_topic)[0]
    for thread in range(4):
        its = [value for value in found if value.startswith(b"%d:" % thread)]
        assert its == [b"%d:%d" % (thread, number) for number in range(sent[thread])]


def test_a_failure_that_nobody_asked_for_is_raised_by_flush(
    own_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(own_broker.bootstrap_servers, moldau_topic)
    with Producer(
        bootstrap_servers=own_broker.bootstrap_servers,
        delivery_timeout_ms=400,
        request_timeout_ms=300,
        linger_ms=0,
    ) as producer:
        producer.send(moldau_topic, b"first").result(60)
        own_broker.stop()
        asked = producer.send(moldau_topic, b"asked")
        with pytest.raises(KafkaError, match=r"delivery\.timeout\.ms"):
            asked.result(30)
        producer.flush()
        values = [bytes(9000)] * 3  # a batch each
        with pytest.raises(KafkaError, match=r"delivery\.timeout\.ms"):
            producer.send_many(moldau_topic, values).result(30)
        producer.flush()
        with pytest.raises(TimeoutError):
            producer.send(moldau_topic, b"nobody asks long enough").result(0.01)
        with pytest.raises(KafkaError) as caught:
            producer.flush()
        assert caught.value.context["topic"] == moldau_topic
        assert caught.value.context["failed_records"] == 1
        producer.flush()


@pytest.mark.parametrize("ask", ["result", "exception", "callback", "many"])
def test_who_asks_when_a_batch_has_failed_has_heard_of_his_record(
    bootstrap: str, moldau_topic: str, ask: str
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(moldau_topic, 1, configs={"max.message.bytes": "200"}))
    with Producer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        whole = [_asking(producer, moldau_topic, ask) for _ in range(3)]
        for each in whole:
            each()
        producer.flush()
        whole = [_asking(producer, moldau_topic, ask) for _ in range(3)]
        for _ in range(2):
            whole[0]()
        with pytest.raises(KafkaError) as caught:
            producer.flush()
        assert caught.value.context["failed_records"] == 2


def _asking(producer: Producer, topic: str, ask: str) -> Callable[[], None]:
    """Sends what is too large, and gives what asks for its end."""
    if ask == "many":
        many = producer.send_many(topic, [bytes(400)])
        return lambda: _raises(many.result)
    sent = producer.send(topic, bytes(400))
    if ask == "result":
        return lambda: _raises(sent.result)

    def look() -> None:
        if ask == "callback":
            ended = threading.Event()
            sent.add_done_callback(lambda _: ended.set())
            assert ended.wait(30)
        assert sent.exception(30) is not None

    return look


def _raises(result: Callable[[float], object]) -> None:
    with pytest.raises(KafkaError):
        result(30)


def interrupted(wait: Callable[[], object]) -> None:
    """Has Ctrl-C come while, or just before, this waits."""
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
    wait()


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_in_a_flush_leaves_the_producer_usable(
    own_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(own_broker.bootstrap_servers, moldau_topic)
    with Producer(bootstrap_servers=own_broker.bootstrap_servers) as producer:
        producer.send(moldau_topic, b"0").result(60)
        own_broker.stop()
        producer.send(moldau_topic, b"1")
        delivery = producer.send(moldau_topic, b"2")
        for wait in (producer.flush, delivery.result):
            with pytest.raises(KeyboardInterrupt):
                interrupted(wait)
        own_broker.start()
        assert delivery.result(60).offset == 2
    assert read(own_broker.bootstrap_servers, moldau_topic) == {0: [b"0", b"1", b"2"]}


@pytest.mark.parametrize("how", [ValueError("in the block"), SystemExit("in the block")])
def test_what_was_accepted_before_an_error_in_the_with_block_is_delivered(
    bootstrap: str, moldau_topic: str, how: BaseException
) -> None:
    create(bootstrap, moldau_topic)

    def fail() -> None:
        with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
            producer.send(moldau_topic, b"v")
            raise how

    with pytest.raises(type(how), match="in the block"):
        fail()
    assert read(bootstrap, moldau_topic) == {0: [b"v"]}


def test_what_a_generator_sent_is_delivered_when_nobody_wants_the_rest(
    bootstrap: str, moldau_topic: str
) -> None:
    """As one that Spark runs over a partition, of which it takes some."""
    create(bootstrap, moldau_topic)

    def writing() -> Iterator[int]:
        with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
            for number in range(3):
                producer.send(moldau_topic, b"%d" % number)
                yield number

    assert list(itertools.islice(writing(), 2)) == [0, 1]
    gc.collect()
    assert read(bootstrap, moldau_topic) == {0: [b"0", b"1"]}


def test_ctrl_c_in_the_with_block_gives_up_what_is_not_sent_and_says_so(
    bootstrap: str, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(bootstrap, moldau_topic)
    deliveries = []

    def interrupt() -> None:
        with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
            deliveries.append(producer.send(moldau_topic, b"never sent"))
            raise KeyboardInterrupt

    with caplog.at_level(logging.WARNING, "moldau.client"), pytest.raises(KeyboardInterrupt):
        interrupt()
    with pytest.raises(KafkaError, match="the producer was closed"):
        deliveries[0].result()
    assert "closed before all was delivered: 1 records" in caplog.text
    assert read(bootstrap, moldau_topic) == {}
