"""`python -m tests.chaos.producing LIBRARY SERVERS TOPIC PARTITIONS RATE PATH`: an idempotent
producer as an application has it, in a process of its own.

It sends numbered records to all partitions until its standard input ends, then waits for the rest
and ends. What it knows of each record is a line of `PATH-PARTITION.jsonl`, in the order of sending
(`moldau.testing.history`).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, TypeAlias

from moldau.testing.history import Outcome, Sent, line_of

WAITING_MAX: Final = 2000
FLUSH_S: Final = 180.0
PAUSE_S: Final = 0.01

Place: TypeAlias = list[Any]
"""Partition, value, offset, whether it is settled."""


class Diary:
    """The lines of one producer: a record is written once all before it are settled."""

    def __init__(self, name: str, topic: str, partitions: int, path: str) -> None:
        self._name, self._topic = name, topic
        self._files: list[TextIOWrapper] = [
            Path(f"{path}-{index}.jsonl").open("a", buffering=1)  # noqa: SIM115 (closed by `close`)
            for index in range(partitions)
        ]
        self._waiting: list[deque[Place]] = [deque() for _ in range(partitions)]
        self._lock = threading.Lock()
        self.number = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting))

    def sending(self) -> Place:
        index = self.number % len(self._files)
        place: Place = [index, f"{self._name}/{self.number}", -1, False]
        self.number += 1
        with self._lock:
            self._waiting[index].append(place)
        return place

    def settled(self, place: Place, offset: int) -> None:
        """-1: nobody knows whether it is there."""
        with self._lock:
            place[2:] = offset, True
            self._write(place[0])

    def _write(self, index: int) -> None:
        waiting = self._waiting[index]
        while waiting and waiting[0][3]:
            _, value, offset, _ = waiting.popleft()
            outcome = Outcome.ACKNOWLEDGED if offset >= 0 else Outcome.UNKNOWN
            partition = f"{self._topic}-{index}"
            sent = Sent(self._name, partition, value, offset, outcome)
            self._files[index].write(line_of(sent) + "\n")

    def close(self) -> None:
        for index, waiting in enumerate(self._waiting):
            for place in waiting:
                place[3] = True
            self._write(index)
            self._files[index].close()


class Sender(ABC):
    """A producer of some library, used from the main thread."""

    def __init__(self, servers: str, topic: str, diary: Diary) -> None:
        self.servers, self.topic, self.diary = servers, topic, diary

    @abstractmethod
    def send(self, place: Place) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Ours(Sender):
    def __init__(self, servers: str, topic: str, diary: Diary) -> None:
        from moldau.client.sync import Producer

        super().__init__(servers, topic, diary)
        self._producer = Producer(bootstrap_servers=servers, acks="all", linger_ms=5)
        self._producer.start()

    def send(self, place: Place) -> None:
        def on_delivery(sent: Any, error: object) -> None:
            self.diary.settled(place, -1 if error is not None else sent.offset)

        value = place[1].encode()
        self._producer.send(self.topic, value, partition=place[0], on_delivery=on_delivery)

    def close(self) -> None:
        self._producer.close()


class Librdkafka(Sender):
    def __init__(self, servers: str, topic: str, diary: Diary) -> None:
        super().__init__(servers, topic, diary)
        self._begin()

    def _begin(self) -> None:
        from confluent_kafka import Producer

        self._is_lost = False
        self._producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "reconnect.backoff.max.ms": 500,
                "error_cb": lambda error: None,
            }
        )

    def send(self, place: Place) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            if error is not None and error.fatal():
                self._is_lost = True
            self.diary.settled(place, -1 if error is not None else message.offset())

        if self._is_lost:  # a fatal error ends a producer; an application makes another
            self._producer.flush(FLUSH_S)
            self._begin()
        value = place[1].encode()
        self._producer.produce(self.topic, value, partition=place[0], on_delivery=on_delivery)
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(FLUSH_S)


class Aiokafka(Sender):
    def __init__(self, servers: str, topic: str, diary: Diary) -> None:
        super().__init__(servers, topic, diary)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._queue: deque[Place] = deque()
        self._is_ending = False
        self._done = asyncio.run_coroutine_threadsafe(self._run(), self._loop)

    async def _run(self) -> None:
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        while not self._is_ending or self._queue:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.servers, enable_idempotence=True, linger_ms=5
            )
            try:
                await producer.start()
                await self._send_all(producer)
            except KafkaError:
                await self._rest()
            finally:
                await producer.stop()

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_S):
                await asyncio.Event().wait()

    async def _send_all(self, producer: Any) -> None:
        """Until a record fails: an application makes another producer then."""
        from aiokafka.errors import KafkaError

        failed = asyncio.Event()

        def on_done(place: Place, future: Any) -> None:
            is_lost = future.cancelled() or future.exception() is not None
            if is_lost:
                failed.set()
            self.diary.settled(place, -1 if is_lost else future.result().offset)

        while not failed.is_set() and not (self._is_ending and not self._queue):
            if not self._queue:
                await self._rest()
                continue
            place = self._queue.popleft()
            try:
                value = place[1].encode()
                future = await producer.send(self.topic, value, partition=place[0])
            except KafkaError:
                self.diary.settled(place, -1)
                raise
            future.add_done_callback(lambda future, place=place: on_done(place, future))

    def send(self, place: Place) -> None:
        self._queue.append(place)

    def close(self) -> None:
        self._is_ending = True
        self._done.result(FLUSH_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


LIBRARIES: Final[dict[str, type[Sender]]] = {
    "ours": Ours,
    "librdkafka": Librdkafka,
    "aiokafka": Aiokafka,
}


def main(words: list[str]) -> int:
    library, servers, topic, partitions, rate, path = words
    diary = Diary(library, topic, int(partitions), path)
    sender = LIBRARIES[library](servers, topic, diary)
    ending = threading.Event()
    threading.Thread(target=_await_end, args=(ending,), daemon=True).start()
    began = time.monotonic()
    skipped = 0
    while not ending.is_set():
        due = int((time.monotonic() - began) * float(rate)) - skipped
        if diary.waiting >= WAITING_MAX:
            skipped += max(0, due - diary.number)
        elif diary.number < due:
            sender.send(diary.sending())
            continue
        if library == "librdkafka":
            sender._producer.poll(PAUSE_S)  # type: ignore[attr-defined]
        else:
            ending.wait(PAUSE_S)
    sender.close()
    diary.close()
    return 0


def _await_end(ending: threading.Event) -> None:
    sys.stdin.read()
    ending.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
