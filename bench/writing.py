"""One client that writes to a topic, as a separate process: `python -m bench.writing WRITER PORT
TOPIC COUNT`.

For each line on its standard input it sends COUNT records of 100 bytes, waits until the broker has
acknowledged them all, and prints the records a second. Connecting, finding the topic and a first
thousand records come before, so that only sending counts. Every client has its default settings,
except for `acks=all`. A writer whose name ends in `_large` has librdkafka's `batch.size`, one in
`_small` that of Kafka's other clients, a sixtieth of it.

Each client is a separate process, because clients must not share an event loop, a garbage collector
or a kernel: the pure variant is the same client where the compiled kernel cannot be imported.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Final

from bench.reading import COMPILED, WITHOUT_KERNEL

VALUE: Final = bytes(100)
KEYS: Final = [b"key-%06d" % number for number in range(10_000)]
WARM_UP: Final = 1_000
_POLL_EACH: Final = 1_000
_LIBRDKAFKA_BATCH_BYTES: Final = 1_000_000
_KAFKA_BATCH_BYTES: Final = 16_384
_PATIENCE_S: Final = 60.0


class Rounds:
    """The rounds, one for each line of input. It prints how fast each one was."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        yield WARM_UP
        print("ready", flush=True)
        for _ in sys.stdin:
            self._start = time.perf_counter()
            yield self.count
            print(self.count / (time.perf_counter() - self._start), flush=True)


async def _our_producer(port: int, **options: Any) -> Any:
    from moldau.client import Producer

    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}", **options)
    await producer.start()
    return producer


async def our_send(port: int, topic: str, rounds: Rounds, **options: Any) -> None:
    producer = await _our_producer(port, **options)
    for count in rounds:
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
    await producer.aclose()


async def our_send_keyed(port: int, topic: str, rounds: Rounds) -> None:
    producer = await _our_producer(port)
    keys = KEYS
    for count in rounds:
        for number in range(count):
            await producer.send(topic, VALUE, key=keys[number % 10_000])
        await producer.flush()
    await producer.aclose()


async def our_send_many(port: int, topic: str, rounds: Rounds, **options: Any) -> None:
    producer = await _our_producer(port, **options)
    values = [VALUE] * 10_000
    for count in rounds:
        for start in range(0, count, 10_000):
            await producer.send_many(topic, values[: count - start])
        await producer.flush()
    await producer.aclose()


async def our_arrow(port: int, topic: str, rounds: Rounds, **options: Any) -> None:
    pyarrow = import_module("pyarrow")
    producer = await _our_producer(port, **options)
    values = pyarrow.array([VALUE] * 10_000, pyarrow.binary())
    for count in rounds:
        for start in range(0, count, 10_000):
            await producer.send_many(topic, values[: count - start])
        await producer.flush()
    await producer.aclose()


async def aiokafka_send(port: int, topic: str, rounds: Rounds) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", acks="all")
    await producer.start()
    for count in rounds:
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
    await producer.stop()


def kafka_python_send(port: int, topic: str, rounds: Rounds) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", acks="all")
    for count in rounds:
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
    producer.close()


def _confluent_producer(port: int) -> Any:
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})


def confluent_produce(port: int, topic: str, rounds: Rounds) -> None:
    producer = _confluent_producer(port)
    produce, poll = producer.produce, producer.poll
    for count in rounds:
        for number in range(count):
            while True:
                try:
                    produce(topic, VALUE)
                    break
                except BufferError:
                    poll(0.001)
            if not number % _POLL_EACH:
                poll(0)
        if producer.flush(_PATIENCE_S):
            raise RuntimeError("some records were not acknowledged")


def confluent_keyed(port: int, topic: str, rounds: Rounds) -> None:
    producer = _confluent_producer(port)
    produce, poll = producer.produce, producer.poll
    keys = KEYS
    for count in rounds:
        for number in range(count):
            while True:
                try:
                    produce(topic, VALUE, keys[number % 10_000])
                    break
                except BufferError:
                    poll(0.001)
            if not number % _POLL_EACH:
                poll(0)
        if producer.flush(_PATIENCE_S):
            raise RuntimeError("some records were not acknowledged")


def our_sync_send(port: int, topic: str, rounds: Rounds) -> None:
    from moldau.client.sync import Producer

    with Producer(bootstrap_servers=f"127.0.0.1:{port}") as producer:
        for count in rounds:
            for _ in range(count):
                producer.send(topic, VALUE)
            producer.flush()


def _large(writer: Callable[..., Coroutine[Any, Any, None]]) -> Writer:
    """Return the writer with batches as large as librdkafka's."""
    return partial(writer, batch_size=_LIBRDKAFKA_BATCH_BYTES)


def _small(writer: Callable[..., Coroutine[Any, Any, None]]) -> Writer:
    """Return the writer with no batch larger than Kafka's default, whatever waits."""
    return partial(writer, batch_size=_KAFKA_BATCH_BYTES)


Writer = Callable[[int, str, Rounds], Coroutine[Any, Any, None] | None]
WRITERS: Final[Mapping[str, Writer]] = {
    "our_send": our_send,
    "our_send_keyed": our_send_keyed,
    "our_send_many": our_send_many,
    "our_arrow": our_arrow,
    "our_sync_send": our_sync_send,
    "our_send_small": _small(our_send),
    "our_send_large": _large(our_send),
    "our_send_many_small": _small(our_send_many),
    "our_send_many_large": _large(our_send_many),
    "our_arrow_large": _large(our_arrow),
    "aiokafka_send": aiokafka_send,
    "kafka_python_send": kafka_python_send,
    "confluent_produce": confluent_produce,
    "confluent_keyed": confluent_keyed,
}


def main(arguments: list[str]) -> None:
    writer, port, topic, count = arguments
    if writer.startswith(WITHOUT_KERNEL):
        sys.modules[COMPILED] = None  # type: ignore[assignment] # what a missing module looks like
    work = WRITERS[writer.removeprefix(WITHOUT_KERNEL)](int(port), topic, Rounds(int(count)))
    if work is not None:
        with suppress(ImportError):
            import uvloop

            uvloop.run(work)
            return
        asyncio.run(work)


if __name__ == "__main__":
    main(sys.argv[1:])
