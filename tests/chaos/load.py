"""Load from librdkafka beside the scripted clients: an idempotent producer, and a last reading."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any, Final

from moldau.ids import Uuid
from tests.broker.simulation.promises import Ledger, Partition, Sent, demand

WRITER: Final = "idempotent-librdkafka"
LINGER_MS: Final = 5
WAITING_MAX: Final = 500
FLUSH_SECONDS: Final = 60.0
POLL_SECONDS: Final = 1.0
WATERMARK_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 30.0


class LibrdkafkaLoad:
    """A producer in a thread of its own, as an application would have it."""

    def __init__(self, ledger: Ledger, bootstrap: str, topic: str, topic_id: Uuid) -> None:
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._ledger = ledger
        self._bootstrap = bootstrap
        self._topic = topic
        self._at = ledger.partitions[topic_id, 0]
        self._ending = threading.Event()
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name="librdkafka")

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Sends what waits, and raises what went wrong."""
        self._ending.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Nobody waits for anything any more: the thread ends, whether the broker lives or not."""
        self._is_abandoned = True
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._produce()
        except BaseException as error:
            self.failure = error

    def _produce(self) -> None:
        number = 0
        while not self._ending.is_set():
            producer = self._producer()
            while not self._ending.is_set() and not self.counts["lost track"]:
                number = self._send(producer, number)
            self._flush(producer)
            self.counts["fatal errors"] += self.counts.pop("lost track", 0)

    def _flush(self, producer: Any) -> None:
        deadline = time.monotonic() + FLUSH_SECONDS
        while left := producer.flush(POLL_SECONDS):
            if self._is_abandoned:
                producer.purge()
                return
            demand(time.monotonic() < deadline, "librdkafka sends all", left=left)

    def _producer(self) -> Any:
        from confluent_kafka import Producer

        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": LINGER_MS,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "error_cb": lambda error: None,
                "log_level": 0,
            }
        )

    def _send(self, producer: Any, number: int) -> int:
        if len(producer) >= WAITING_MAX:
            producer.poll(0.05)
            return number
        name = f"{WRITER}/{number}"
        sent = self._ledger.sending(Sent(name, None, name.encode() * (1 + number % 20)))
        producer.produce(
            self._topic,
            sent.value,
            partition=0,
            headers=[("name", name.encode())],
            on_delivery=lambda error, message: self._delivered(error, message, sent),
        )
        producer.poll(0.001)
        return number + 1

    def _delivered(self, error: Any, message: Any, sent: Sent) -> None:
        if error is not None:
            self.counts["not delivered"] += 1
            self.counts["lost track"] += error.fatal()
            return
        self.counts["delivered"] += 1
        self._ledger.on_acknowledged(self._at, message.offset(), [sent])


def read_with_librdkafka(ledger: Ledger, bootstrap: str) -> int:
    """Every partition from its beginning, through another's client; how many records."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    unread = {(each.topic, each.index): each for each in ledger.partitions.values()}
    count = 0
    try:
        consumer.assign([_from_its_start(consumer, at) for at in unread.values()])
        while unread:
            message: Any = consumer.poll(SILENCE_SECONDS)
            demand(message is not None, "librdkafka reads all", unread=[*unread.values()])
            at = unread[message.topic(), message.partition()]
            if message.error():
                is_end = message.error().code() == KafkaError._PARTITION_EOF
                demand(is_end, "librdkafka reads all", at=at, error=str(message.error()))
                consumer.incremental_unassign([TopicPartition(at.topic, at.index)])
                del unread[at.topic, at.index]
                continue
            name = dict(message.headers() or [])["name"].decode()
            found = Sent(name, message.key(), message.value())
            ledger.on_read(at, message.offset(), found)
            count += 1
    finally:
        consumer.close()
    return count


def _from_its_start(consumer: Any, at: Partition) -> Any:
    """Where the broker says that it begins: records may have been deleted by a request whose
    answer never came."""
    from confluent_kafka import TopicPartition

    where = TopicPartition(at.topic, at.index)
    start, _ = consumer.get_watermark_offsets(where, timeout=WATERMARK_SECONDS)
    demand(start >= at.start, "a log start that was told is kept", at=at, start=start)
    return TopicPartition(at.topic, at.index, start)
