"""`python -m tests.chaos.copying LIBRARY SERVERS SOURCE TARGET NAME`: copies one topic into another
in transactions, each record into the partition that it comes from, until it is killed.

Libraries: `ours` (KIP-848 groups) and `librdkafka` (classic groups).
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any, Final, NoReturn

from moldau.client import Consumer, FatalTransactionError, KafkaError, Producer, Transaction

TIMEOUT_MS: Final = 20_000
WAIT_S: Final = 30.0
PIECE: Final = 50
STUCK_S: Final = 40.0


async def copy_by_ours(servers: str, source: str, target: str, name: str) -> NoReturn:
    while True:
        try:
            await _copy_by_ours(servers, source, target, name)
        except (FatalTransactionError, KafkaError) as error:
            sys.stdout.write(f"begins again after: {error!r}\n")


async def _copy_by_ours(servers: str, source: str, target: str, name: str) -> NoReturn:
    producer = Producer(
        bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS
    )
    consumer = Consumer(
        bootstrap_servers=servers,
        group_id=target,
        group_protocol="consumer",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )

    async def copy(_: Transaction) -> None:
        for part in await consumer.poll(0.5, max_records=PIECE):
            await producer.send_many(target, list(part.values()), partition=part.partition)

    async with producer, consumer:
        await consumer.subscribe([source])
        while True:
            await producer.run_transaction(copy, consumer)


class Watch:
    """Begins the program again if it has not looked in for so long.

    librdkafka's `send_offsets_to_transaction` heeds no timeout and may wait for ever for a group
    coordinator that is gone (its issues 5456 and 5511). What a user's supervisor does then.
    """

    def __init__(self) -> None:
        self._looked_in = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def look_in(self) -> None:
        self._looked_in.set()

    def _run(self) -> None:
        while self._looked_in.wait(STUCK_S):
            self._looked_in.clear()
        os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.copying", *sys.argv[1:]])  # noqa: S606


def copy_by_librdkafka(servers: str, source: str, target: str, name: str) -> NoReturn:
    import confluent_kafka

    watch = Watch()
    while True:
        consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": target,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 1000,
            }
        )
        try:
            _copy_by_librdkafka(confluent_kafka, consumer, watch, (servers, source, target, name))
        except confluent_kafka.KafkaException as error:
            sys.stdout.write(f"begins again after: {error}\n")
        finally:
            consumer.close()


def _copy_by_librdkafka(
    library: Any, consumer: Any, watch: Watch, words: tuple[str, str, str, str]
) -> NoReturn:
    """Any error of a transaction ends this, and what is open is aborted by the next producer."""
    servers, source, target, name = words
    producer = library.Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": name,
            "transaction.timeout.ms": TIMEOUT_MS,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    consumer.subscribe([source])
    while True:
        watch.look_in()
        found = [each for each in consumer.consume(PIECE, 0.5) if each.error() is None]
        if not found:
            continue
        producer.begin_transaction()
        for each in found:
            producer.produce(target, each.value(), partition=each.partition())
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S)


def main(library: str, *words: str) -> None:
    if library == "ours":
        asyncio.run(copy_by_ours(*words))
    copy_by_librdkafka(*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
