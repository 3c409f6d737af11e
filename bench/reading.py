"""One client that reads a topic: `python -m bench.reading READER PORT TOPIC COUNT`.

Prints the records a second that it received. The clock starts with the first record, so that
connecting and finding the topic do not count. The sizes of the values are summed up, so that every
client has to have its records in memory. All partitions are assigned, from the beginning.

Each client is a separate process, because clients must not share an event loop, a garbage collector
or a kernel: the pure variant is the same client where the compiled kernel cannot be imported.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

PARTITIONS: Final = 6
AT_ONCE: Final = 500
_MANY_AT_ONCE: Final = 10_000
_PATIENCE_S: Final = 30.0
COMPILED: Final = "moldau.records._speed"


class Count:
    """Counts the received records and their bytes."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.records = 0
        self.size_bytes = 0
        self._first = 0
        self._start = 0.0

    def add(self, records: int, size_bytes: int) -> bool:
        """Count more records. Return whether all have come."""
        if not self.records:
            self._start = time.perf_counter()
            self._first = records
        self.records += records
        self.size_bytes += size_bytes
        return self.records >= self.wanted

    @property
    def per_second(self) -> float:
        elapsed = time.perf_counter() - self._start
        if self.records < self.wanted or not self.size_bytes:
            raise RuntimeError(f"only {self.records} of {self.wanted} records came")
        return (self.records - self._first) / elapsed


async def _our_consumer(port: int, topic: str) -> Any:
    from moldau.client import Consumer

    consumer = Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([(topic, index) for index in range(PARTITIONS)])
    return consumer


async def our_batches(port: int, topic: str, count: Count) -> None:
    consumer = await _our_consumer(port, topic)
    is_whole = False
    while not is_whole:
        for part in await consumer.poll(timeout_s=_PATIENCE_S):
            size = sum([len(record.value) for record in part.records])
            is_whole = count.add(len(part.records), size)
    await consumer.aclose()


async def our_columns(port: int, topic: str, count: Count) -> None:
    consumer = await _our_consumer(port, topic)
    is_whole = False
    while not is_whole:
        for part in await consumer.poll_batches(_PATIENCE_S):
            is_whole = count.add(len(part), len(part.values.data))
    await consumer.aclose()


async def our_lists(port: int, topic: str, count: Count) -> None:
    consumer = await _our_consumer(port, topic)
    is_whole = False
    while not is_whole:
        for part in await consumer.poll_batches(_PATIENCE_S):
            values = part.values.tolist()
            found = len(part.keys.tolist()), part.offsets.tolist(), part.timestamps.tolist()
            is_whole = count.add(found[0], sum(map(len, values)))
    await consumer.aclose()


async def our_arrow(port: int, topic: str, count: Count) -> None:
    consumer = await _our_consumer(port, topic)
    is_whole = False
    while not is_whole:
        for part in await consumer.poll_batches(_PATIENCE_S):
            batch = part.to_arrow()
            is_whole = count.add(batch.num_rows, batch.column("value").nbytes)
    await consumer.aclose()


async def our_async_for(port: int, topic: str, count: Count) -> None:
    consumer = await _our_consumer(port, topic)
    async for record in consumer:
        if count.add(1, len(record.value)):
            break
    await consumer.aclose()


async def _aiokafka_consumer(port: int, topic: str) -> Any:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{port}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
    return consumer


async def aiokafka_batches(port: int, topic: str, count: Count) -> None:
    consumer = await _aiokafka_consumer(port, topic)
    is_whole = False
    while not is_whole:
        found = await consumer.getmany(timeout_ms=1000, max_records=AT_ONCE)
        for records in found.values():
            size = sum([len(record.value) for record in records])
            is_whole = count.add(len(records), size)
    await consumer.stop()


async def aiokafka_async_for(port: int, topic: str, count: Count) -> None:
    consumer = await _aiokafka_consumer(port, topic)
    async for record in consumer:
        if count.add(1, len(record.value)):
            break
    await consumer.stop()


def _confluent_consumer(port: int, topic: str, **settings: object) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "bench",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    return consumer


def confluent_batches(
    port: int, topic: str, count: Count, at_once: int = AT_ONCE, **settings: object
) -> None:
    consumer = _confluent_consumer(port, topic, **settings)
    is_whole = False
    while not is_whole:
        messages = consumer.consume(at_once, _PATIENCE_S)
        size = sum([len(message.value()) for message in messages])
        is_whole = count.add(len(messages), size)
    consumer.close()


def confluent_tuned_batches(port: int, topic: str, count: Count) -> None:
    """Read with the fastest settings for this: it fetches again at once and buffers more."""
    settings = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 1}
    confluent_batches(port, topic, count, _MANY_AT_ONCE, **settings)


def confluent_poll(port: int, topic: str, count: Count) -> None:
    consumer = _confluent_consumer(port, topic)
    while not count.add(1, len(consumer.poll(_PATIENCE_S).value())):
        pass
    consumer.close()


def kafka_python_for(port: int, topic: str, count: Count) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{port}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
    for record in consumer:
        if count.add(1, len(record.value)):
            break
    consumer.close()


Reader = Callable[[int, str, Count], Coroutine[Any, Any, None] | None]
READERS: Final[Mapping[str, Reader]] = {
    "our_batches": our_batches,
    "our_arrow": our_arrow,
    "our_async_for": our_async_for,
    "our_columns": our_columns,
    "our_lists": our_lists,
    "aiokafka_batches": aiokafka_batches,
    "aiokafka_async_for": aiokafka_async_for,
    "confluent_batches": confluent_batches,
    "confluent_tuned_batches": confluent_tuned_batches,
    "confluent_poll": confluent_poll,
    "kafka_python_for": kafka_python_for,
}
WITHOUT_KERNEL: Final = "pure:"


def main(arguments: list[str]) -> None:
    reader, port, topic, wanted = arguments
    if reader.startswith(WITHOUT_KERNEL):
        sys.modules[COMPILED] = None  # type: ignore[assignment] # what a missing module looks like
    count = Count(int(wanted))
    work = READERS[reader.removeprefix(WITHOUT_KERNEL)](int(port), topic, count)
    if work is not None:
        asyncio.run(work)
    print(count.per_second)


if __name__ == "__main__":
    main(sys.argv[1:])
