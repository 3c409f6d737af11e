"""What the blocking producer waits for: its linger, and memory that others fill."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.client import NewTopic
from moldau.client.producer.record import ProducerRecord
from moldau.client.producer.sync.shared_producer import SharedProducer
from moldau.client.sync import Admin, Producer
from moldau.records import open_batch
from moldau.runtime import Runtime
from moldau.testing import SyncEmbeddedBroker
from tests.client.producer.scripted_producer import fill, free
from tests.client.sync.topic_contents import in_threads, read
from tests.client.world import BOOTSTRAP, ClientWorld

THREADS = 20
EACH = 100


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


def test_a_batch_waits_for_its_linger_and_no_longer(bootstrap: str, moldau_topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=300) as producer:
        producer.partitions(moldau_topic)
        begun = time.monotonic()
        sent = [producer.send(moldau_topic, b"%d" % number) for number in range(10)]
        assert sent[0].result(60).offset == 0
        assert time.monotonic() - begun >= 0.298
        assert [each.result(60).offset for each in sent] == list(range(10))
        assert producer.metrics()["producer-metrics"]["records-per-request-avg"] == 10


def test_nothing_is_looked_at_before_the_linger_is_over() -> None:
    async def main(runtime: Runtime) -> None:
        sender = SharedProducer(runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=100)
        async with sender:
            await (await sender.send("t", b"first"))
            at: list[float] = []
            drain = sender._accumulator.drain

            def noted(*arguments: object) -> object:
                at.append(runtime.clock.monotonic())
                return drain(*arguments)  # type: ignore[arg-type]

            sender._accumulator.drain = noted  # type: ignore[method-assign, assignment]
            begun = runtime.clock.monotonic()
            sent = [await sender.send("t", b"%d" % number) for number in range(3)]
            for each in sent:
                await each
            assert at[0] - begun >= 0.098

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert [open_batch(each).header.record_count for each in log.batches] == [1, 3]


def test_threads_that_wait_for_memory_all_get_some(bootstrap: str, moldau_topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(moldau_topic, partitions=3))
    with Producer(bootstrap_servers=bootstrap, buffer_memory=20_000, batch_size=2000) as producer:

        def send(thread: int) -> None:
            for number in range(EACH):
                key = b"%d" % thread
                producer.send(moldau_topic, b"%d %d" % (thread, number) + bytes(400), key=key)

        in_threads(THREADS, send)
        producer.flush()
        assert producer.metrics()["producer-metrics"]["waiting-threads"] == 0
    found: dict[int, list[int]] = {}
    for values in read(bootstrap, moldau_topic).values():
        for value in values:
            thread, number = value.rstrip(b"\0").split()
            found.setdefault(int(thread), []).append(int(number))
    assert found == {thread: list(range(EACH)) for thread in range(THREADS)}


def test_a_thread_says_how_much_room_its_record_needs() -> None:
    """Else each that waits would be taken for a batch, and batches go out that could hold more."""
    sizes: list[int] = []

    async def main(runtime: Runtime) -> None:
        async with SharedProducer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as sender:
            await (await sender.send("t", b"first"))
            used = fill(sender)

            def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
                coroutine.send(None)
                needs = sender._sender._room._needs.values()
                sizes.extend(each.size_bytes for each in needs)
                free(sender, used)
                with pytest.raises(StopIteration) as ended:
                    coroutine.send(None)
                return ended.value.value

            for size in (100, 20_000):
                fill(sender)
                await sender.send_here(ProducerRecord("t", bytes(size)), {}, wait)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.end == 3
    assert sizes == [112, 20_012]
