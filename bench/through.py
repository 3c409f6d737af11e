"""Records on their way through one client, from its producer to its consumer, in one process:
`python -m bench.through CLIENT PORT TOPIC PER_SECOND COUNT [LINGER_MS]`.

Prints the seconds of each record, from the call that takes it until the consumer returns it. A
record contains the time at which it was sent, and waits for others as long as `linger.ms` says;
without LINGER_MS, as long as by the client's default. The first 2,000 records are left out:
librdkafka's consumer may take half a second to find its partition.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple

import uvloop

_stamp: Final = Struct(">d88x")
_WARM_UP: Final = 2_000
_PATIENCE_S: Final = 30.0


class Load(NamedTuple):
    """Where records go, how fast, how many, and the producer's settings."""

    servers: str
    topic: str
    per_second: int
    records: int
    linger: Mapping[str, int]

    @property
    def total(self) -> int:
        return self.records + _WARM_UP

    def due(self) -> Iterator[float]:
        """Return the times at which the records are to be sent."""
        start = time.perf_counter()
        return (start + number / self.per_second for number in range(self.total))


def stamped() -> bytes:
    return _stamp.pack(time.perf_counter())


def age(value: bytes | None) -> float:
    assert value is not None
    sent: float = _stamp.unpack(value)[0]
    return time.perf_counter() - sent


def at_each_due(load: Load, then: Callable[[], object]) -> None:
    for due in load.due():
        early = due - time.perf_counter()
        if early > 0:
            time.sleep(early)
        then()


async def paced(load: Load, send: Callable[[bytes], Awaitable[Any]]) -> None:
    """Send each record when a thread signals it, as an event from outside would. The loop's own
    timers end at whole milliseconds, so records would be sent in pairs."""
    says, hears = socket.socketpair()
    due = asyncio.Semaphore(0)

    def hear() -> None:
        for _ in hears.recv(1024):
            due.release()

    loop = asyncio.get_running_loop()
    saying = threading.Thread(target=at_each_due, args=(load, partial(says.send, b"!")))
    with says, hears:
        loop.add_reader(hears, hear)
        saying.start()
        for _ in range(load.total):
            await due.acquire()
            await send(stamped())
        saying.join()
        loop.remove_reader(hears)


async def ages(records: AsyncIterator[Any], count: int) -> list[float]:
    found: list[float] = []
    async for record in records:
        found.append(age(record.value))
        if len(found) == count:
            break
    return found


async def ours(load: Load) -> list[float]:
    from moldau.client import Consumer, Producer

    async with (
        Producer({"bootstrap.servers": load.servers, **load.linger}) as producer,
        Consumer(bootstrap_servers=load.servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(load.topic, 0)])
        reading = asyncio.create_task(ages(aiter(consumer), load.total))
        await paced(load, lambda value: producer.send(load.topic, value))
        return await asyncio.wait_for(reading, _PATIENCE_S)


async def aiokafka(load: Load) -> list[float]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(
        bootstrap_servers=load.servers,
        enable_idempotence=True,
        linger_ms=load.linger.get("linger.ms", 0),
    )
    consumer = AIOKafkaConsumer(bootstrap_servers=load.servers, auto_offset_reset="earliest")
    async with producer, consumer:
        consumer.assign([TopicPartition(load.topic, 0)])
        reading = asyncio.create_task(ages(aiter(consumer), load.total))
        await paced(load, lambda value: producer.send(load.topic, value))
        return await asyncio.wait_for(reading, _PATIENCE_S)


def confluent(load: Load) -> list[float]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer(
        {"bootstrap.servers": load.servers, "enable.idempotence": True, **load.linger}
    )
    consumer = Consumer(
        {"bootstrap.servers": load.servers, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(load.topic, 0, 0)])

    def send() -> None:
        producer.produce(load.topic, stamped())
        producer.poll(0)

    def produce() -> None:
        at_each_due(load, send)
        producer.flush(_PATIENCE_S)

    sending = threading.Thread(target=produce)
    sending.start()
    found: list[float] = []
    while len(found) < load.total:
        message = consumer.poll(_PATIENCE_S)
        if message is None or message.error() is not None:
            raise RuntimeError(f"record {len(found)} did not come: {message and message.error()}")
        found.append(age(message.value()))
    sending.join()
    consumer.close()
    return found


def main(arguments: list[str]) -> None:
    client, port, topic, per_second, count, *linger_ms = arguments
    linger = {"linger.ms": int(linger_ms[0])} if linger_ms else {}
    load = Load(f"127.0.0.1:{port}", topic, int(per_second), int(count), linger)
    if client == "confluent-kafka":
        found = confluent(load)
    else:
        name, _, loop = client.partition(", ")
        run = uvloop.run if loop == "uvloop" else asyncio.run
        found = run({"moldau": ours, "aiokafka": aiokafka}[name](load))
    print(*found[_WARM_UP:], sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
