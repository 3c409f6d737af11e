"""What becomes of a failed record, and the table of a batch's states."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.client import Deliveries, Delivery, Producer
from moldau.client.producer.batch import TRANSITIONS, BatchState
from moldau.client.producer.buffer import BATCHES_MAX
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.records import ColumnBuffers, Spans
from moldau.runtime import Runtime
from tests.client.producer.simulated_sender import Sender
from tests.client.world import BOOTSTRAP, ClientWorld


def test_a_failed_record_is_counted_unless_it_was_awaited() -> None:
    sender = Sender()
    called: list[str] = []
    awaited, ignored = sender.send(), sender.send()
    awaited.when_done(lambda: called.append("done"))
    assert sender.sent() == [awaited, ignored]
    sender.refuse(awaited, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    sender.refuse(ignored, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert called == ["done"]
    assert sender.accumulator.buffer.failures.count == 2
    awaited.mark_awaited(0)
    awaited.mark_awaited(0)
    assert sender.accumulator.buffer.failures.count == 1
    assert sender.failed() == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1)
    assert sender.failed() is None


def test_of_many_failed_batches_the_oldest_are_only_counted() -> None:
    sender = Sender(memory_bytes=1_000_000)
    for _ in range(BATCHES_MAX + 10):
        sender.send()
    sender.accumulator.fail_all(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    assert len(sender.accumulator.buffer.failures._batches) == BATCHES_MAX
    assert sender.accumulator.buffer.failures.count == BATCHES_MAX + 10
    assert sender.failed() == (ErrorCode.NETWORK_EXCEPTION, BATCHES_MAX + 10)


def test_every_state_of_a_batch_is_reached_and_the_decided_ones_are_final() -> None:
    reached = {BatchState.OPEN}
    while more := {new for old in reached for new in TRANSITIONS[old]} - reached:
        reached |= more
    assert reached == set(BatchState) == TRANSITIONS.keys()
    final = {state for state in BatchState if not TRANSITIONS[state]}
    assert final == {state for state in BatchState if state >= BatchState.LATE}


def test_a_step_that_is_not_in_the_table_is_a_bug() -> None:
    batch = Sender().send()
    with pytest.raises(AssertionError, match="READY -> STORED"):
        batch.finish(0)


# The whole producer


Send = Callable[[Producer], Coroutine[Any, Any, Delivery | Deliveries]]


def send(producer: Producer) -> Coroutine[Any, Any, Delivery | Deliveries]:
    return producer.send("t", b"v", partition=0)


def send_many(producer: Producer) -> Coroutine[Any, Any, Delivery | Deliveries]:
    return producer.send_many("t", [b"v"], partition=0)


def send_batch(producer: Producer) -> Coroutine[Any, Any, Delivery | Deliveries]:
    stamps, ends = (1).to_bytes(8, "little"), (1).to_bytes(4, "little")
    nothing = Spans(None, bytes(8), 4, b"\0", 0, 1)
    value = Spans(b"v", bytes(4) + ends, 4, None, 0, 1)
    return producer.send_batch(("t", 0), ColumnBuffers(1, b"", stamps, nothing, value, None))


@pytest.mark.parametrize("way", [send, send_many, send_batch])
@pytest.mark.parametrize("linger_ms", [0, 100])
@pytest.mark.parametrize("end", ["flush", "block"])
def test_the_end_raises_what_was_not_awaited_with_a_count(
    way: Send, linger_ms: int, end: str
) -> None:
    """Three records fail: one is awaited, the wait for one is cancelled, one is ignored."""

    async def block(runtime: Runtime) -> None:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=linger_ms
        ) as producer:
            awaited, cancelled, _ = [await way(producer) for _ in range(3)]
            waiting = asyncio.ensure_future(cancelled)
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(KafkaError):
                await awaited
            if end == "flush":
                await producer.flush()

    async def main(runtime: Runtime) -> KafkaError:
        with pytest.raises(KafkaError) as raised:
            await block(runtime)
        return raised.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest] += [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3
        error = world.run_client(main)
    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert error.context["failed_records"] == 2


@pytest.mark.parametrize("way", [send, send_many, send_batch])
def test_the_end_raises_nothing_when_every_failure_was_awaited(way: Send) -> None:
    async def main(runtime: Runtime) -> int:
        failed = 0
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as producer:
            for each in [await way(producer) for _ in range(3)]:
                with pytest.raises(KafkaError):
                    await each
                failed += 1
            await producer.flush()
        return failed

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest] += [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3
        assert world.run_client(main) == 3
