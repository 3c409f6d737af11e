"""What a producer counts, under Kafka's names."""

from __future__ import annotations

import asyncio
from math import isnan
from typing import Any

import pytest

from moldau.client import Producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.metrics import render_prometheus
from moldau.metrics.windows import SampledRows, average, largest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld


class Hand:
    """A clock that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)

    def wall_ms(self) -> int:
        return 0


def test_a_rate_looks_back_over_its_windows_and_no_further() -> None:
    clock = Hand()
    sampled = SampledRows(clock, 10.0, 2, 2)
    assert sampled.rate() == 0
    assert isnan(average([sampled], 0))
    assert isnan(largest([sampled], 0))
    sampled.add(100.0, 30, 1)
    assert sampled.rate() == 3, "the window that is not there yet counts as an empty one"
    clock.now = 105.0
    sampled.add(105.0, 15, 9)
    assert sampled.rate() == 45 / 15
    assert (average([sampled], 1), largest([sampled], 1)) == (5, 9)
    clock.now = 112.0
    sampled.add(112.0, 6, 2)
    assert sampled.rate() == 51 / 12
    assert sampled.row_rate() == 3 / 12
    clock.now = 121.0
    assert sampled.rate() == pytest.approx(6 / (9 + 10))
    assert largest([sampled], 1) == 2
    clock.now = 140.0
    assert sampled.rate() == 0
    assert sampled.totals == [51, 12]


def run(main: Any, *, refused: int = 0) -> Any:
    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        world.cluster.refuse[ProduceRequest] += [ErrorCode.NOT_ENOUGH_REPLICAS] * refused
        world.cluster.delay_s = 0.02
        return world.run_client(main)


def test_everything_that_was_sent_is_counted() -> None:
    async def main(runtime: Runtime) -> Any:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, compression_type="gzip", linger_ms=50
        ) as sender:
            for _ in range(30):
                await sender.send("t", bytes(100), partition=0)
            await sender.flush()
            await sender.send("t", bytes(100), partition=1)
            await sender.flush()
            text = render_prometheus(sender.registry.snapshot())
            return sender.metrics(), text

    metrics, text = run(main)
    whole = metrics["producer-metrics"]
    assert whole["record-send-total"] == 31
    assert whole["record-send-rate"] > 0.9
    assert whole["record-error-total"] == whole["record-retry-total"] == 0
    assert whole["records-per-request-avg"] == 15.5
    assert 100 < whole["batch-size-max"] < 300, "of bytes after compression, as in Kafka"
    assert whole["batch-size-avg"] < whole["batch-size-max"]
    assert 0 < whole["compression-rate-avg"] < 1
    assert 100 < whole["record-size-avg"] < 200
    assert 20 <= whole["request-latency-avg"] < 40
    assert whole["buffer-total-bytes"] == whole["buffer-available-bytes"] == 33_554_432
    assert whole["requests-in-flight"] == 0
    assert whole["connection-count"] == 2
    assert whole["flush-time-ns-total"] > 40e6
    assert whole["metadata-wait-time-ns-total"] > 10e6
    topic = metrics["producer-topic-metrics.t"]
    assert topic["record-send-total"] == 31
    assert topic["byte-total"] == 2 * whole["batch-size-avg"] == 2 * whole["request-size-avg"]
    assert topic["byte-rate"] > 0
    assert metrics["producer-node-metrics.node-1"]["request-total"] == 1
    assert metrics["producer-node-metrics.node-2"]["request-latency-avg"] >= 20
    assert "kafka_producer_record_send 31" in text
    assert "# TYPE kafka_producer_record_send_rate gauge" in text


def test_memory_in_use_retries_and_errors_are_counted() -> None:
    async def main(runtime: Runtime) -> Any:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, buffer_memory=50_000, max_block_ms=100
        ) as sender:
            await (await sender.send("t", bytes(100), partition=0))
            retried = sender.metrics()
            await sender.send("t", bytes(100), partition=0)
            open_batch = sender.metrics()["producer-metrics"]
            await sender.flush()
            return retried, open_batch

    retried, open_batch = run(main, refused=2)
    assert retried["producer-metrics"]["record-retry-total"] == 2
    assert retried["producer-topic-metrics.t"]["record-retry-total"] == 2
    assert retried["producer-metrics"]["record-send-total"] == 1
    assert open_batch["buffer-available-bytes"] == 50_000 - 16_384


def test_failures_and_waits_for_memory_are_counted() -> None:
    async def main(runtime: Runtime) -> Any:
        sender = Producer(
            runtime=runtime,
            bootstrap_servers=BOOTSTRAP,
            buffer_memory=20_000,
            max_block_ms=1000,
            delivery_timeout_ms=8000,
            request_timeout_ms=5000,
        )
        await sender.start()
        for _ in range(2):
            with pytest.raises(KafkaError, match=r"max\.block\.ms"):
                await sender.send_many("t", [bytes(1000)] * 30, partition=0)
        waiting = asyncio.create_task(sender.send("t", bytes(15_000), partition=1))
        await asyncio.sleep(0.1)
        busy = sender.metrics()["producer-metrics"]
        with pytest.raises(KafkaError):
            await waiting
        await asyncio.sleep(20)
        metrics = sender.metrics()
        await sender.aclose(abort=True)
        return busy, metrics

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        world.cluster.silence.add(ProduceRequest)
        busy, metrics = world.run_client(main)
    assert busy["waiting-threads"] == 1
    assert busy["requests-in-flight"] >= 1
    whole = metrics["producer-metrics"]
    assert whole["buffer-exhausted-total"] == 3
    assert whole["bufferpool-wait-time-ns-total"] == pytest.approx(3e9, rel=0.01)
    assert whole["record-error-total"] == metrics["producer-topic-metrics.t"]["record-error-total"]
    assert whole["record-error-total"] > 10


def test_a_topic_of_which_nothing_was_ever_sent_has_its_errors() -> None:
    async def main(runtime: Runtime) -> Any:
        async with Producer(
            runtime=runtime,
            bootstrap_servers=BOOTSTRAP,
            delivery_timeout_ms=2000,
            request_timeout_ms=1000,
        ) as sender:
            await sender.send("leaderless", b"v", partition=0)
            with pytest.raises(KafkaError, match="not delivered"):
                await sender.flush()
            return sender.metrics()

    with ClientWorld() as world:
        world.cluster.add_topic("leaderless", [-1])
        metrics = world.run_client(main)
    topic = metrics["producer-topic-metrics.leaderless"]
    assert topic["record-error-total"] == 1
    assert topic["record-error-rate"] > 0
    assert topic["record-send-total"] == topic["byte-total"] == topic["byte-rate"] == 0
    assert isnan(topic["compression-rate"])
