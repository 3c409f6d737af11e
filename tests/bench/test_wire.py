"""The loads over plain sockets: that they do what they say, and end when an answer is an error."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.peer_brokers import EmptyBroker, MoldauBroker, cpu_seconds
from bench.wire import (
    FetchWire,
    Wire,
    error_position,
    one_record,
    paced_end_to_end,
    paced_produces,
    round_trips,
    round_trips_at_once,
)
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.fetch import FetchResponse
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.bench.wired_topic import made
from tests.broker.server.wire import wired

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def broker() -> Iterator[MoldauBroker]:
    with MoldauBroker.started() as broker:
        yield broker


def end_of(broker: MoldauBroker, topic: str, partition: int) -> int:
    """The high watermark, from a fetch that finds nothing."""
    with closing(FetchWire(broker.port, topic, partition)) as wire:
        wire.ask()
        answer = FetchResponse.decode(bytes(wire.take()[9:]), 12)
    return answer.responses[0].partitions[0].high_watermark


def test_cpu_time_has_ended_threads_and_is_finer_than_a_tick() -> None:
    def work() -> None:
        end = time.thread_time() + 0.0237
        while time.thread_time() < end:
            pass

    before, expected = cpu_seconds(os.getpid()), time.process_time()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    spent, expected = cpu_seconds(os.getpid()) - before, time.process_time() - expected

    assert 0.0237 <= spent == pytest.approx(expected, abs=0.003)


def test_every_round_trip_is_a_record_in_the_log(broker: MoldauBroker) -> None:
    topic = made(broker, "round-trips", 6)

    assert round_trips_at_once(broker, topic, connections=7, count=300) > 0

    found = sum(end_of(broker, topic, partition) for partition in range(6))
    # One each to begin with, one to learn the answer's size, and at the end one on each wire.
    assert 6 + 1 + 300 <= found <= 6 + 1 + 300 + 7 + 7


def test_a_refused_request_ends_the_measurement(broker: MoldauBroker) -> None:
    topic = made(broker, "refused", 1)
    records = one_record(b"value")
    with (
        closing(Wire(broker.port, topic, 0, records)) as good,
        closing(Wire(broker.port, topic, 5, records)) as bad,
        pytest.raises(RuntimeError, match="refused"),
    ):
        round_trips([good, bad], error_position(topic), 100)


def test_a_wire_tells_the_error_code(broker: MoldauBroker) -> None:
    topic = made(broker, "codes", 1)
    with closing(Wire(broker.port, topic, 3, one_record(b"value"))) as wire:
        assert wire.round_trip() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_paced_produces_take_their_time_and_lose_none(broker: MoldauBroker) -> None:
    topic = made(broker, "paced", 6)
    start = time.perf_counter()

    found = paced_produces(broker, topic, per_second=1_000, count=300)

    assert time.perf_counter() - start >= 0.49, "200 to warm up and 300 that count"
    assert len(found) == 300
    assert found == sorted(found)
    assert sum(end_of(broker, topic, partition) for partition in range(6)) == 6 + 1 + 500


def test_end_to_end_has_every_record(broker: MoldauBroker) -> None:
    topic = "through"

    async def scenario(runtime: Runtime) -> None:
        async with wired(runtime, "127.0.0.1", broker.port) as wire:
            await wire.create(topic, 1)

    run(scenario)

    found = paced_end_to_end(broker, topic, per_second=500, count=100)

    assert len(found) == 100
    assert found == sorted(found)
    assert end_of(broker, topic, 0) == 1 + 200


def test_a_broker_that_stores_nothing_acknowledges_and_forgets() -> None:
    with EmptyBroker.started() as broker:
        topic = made(broker, "nothing", 1)
        assert round_trips_at_once(broker, topic, connections=1, count=10) > 0
        assert end_of(broker, topic, 0) == 0
