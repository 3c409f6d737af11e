"""Our consumer beside aiokafka's, confluent-kafka's and kafka-python's, on the same topic.

Each reader is a separate process (`bench.reading`) that reads all partitions from the beginning as
fast as it can. Readers run one after the other, so that each shares the cores only with the broker.
First on moldau's broker, then on Apache Kafka. "pure" is our client without the compiled kernel.

`BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Final

from bench.broker_load import create_topic, rdkafka_produce
from bench.harness import Case, Goal, Table
from bench.peer_brokers import PARTITIONS, BrokerProcess, KafkaPeer, MoldauBroker, both
from bench.reading import WITHOUT_KERNEL
from bench.unread import BOUND_BYTES

SCALE: Final = float(os.environ.get("BENCH_SCALE", "1"))
SIZE_BYTES: Final = 100
TOPIC: Final = "read"
SINGLE_TOPIC: Final = "single"
RECORDS: Final = 6_000_000
SINGLE_RECORDS: Final = 300_000
# Batches as large as Java's producer makes them by default.
AS_JAVA: Final = {"linger.ms": 20, "batch.size": 16_384}
SINGLE: Final = {"linger.ms": 0, "batch.num.messages": 1}
_ROOT: Final = Path(__file__).parent.parent

OURS: Final = "moldau"
PURE: Final = "moldau, pure"
AIOKAFKA: Final = "aiokafka"
CONFLUENT: Final = "confluent-kafka"
TUNED: Final = "confluent-kafka, tuned"
KAFKA_PYTHON: Final = "kafka-python"
IN_BATCHES: Final = "batches of 16 KB"
ONE_A_BATCH: Final = "one record a batch"

# By reader: its program, and as many records as take it about a second.
Readers = Mapping[str, tuple[str, int]]
BATCHES: Final[Readers] = {
    AIOKAFKA: ("aiokafka_batches", 900_000),
    CONFLUENT: ("confluent_batches", 900_000),
    TUNED: ("confluent_tuned_batches", RECORDS // 2),
    OURS: ("our_batches", RECORDS),
    PURE: (f"{WITHOUT_KERNEL}our_batches", 900_000),
}
ONE_BY_ONE: Final[Readers] = {
    AIOKAFKA: ("aiokafka_async_for", 300_000),
    CONFLUENT: ("confluent_poll", 300_000),
    KAFKA_PYTHON: ("kafka_python_for", 200_000),
    OURS: ("our_async_for", 1_500_000),
    PURE: (f"{WITHOUT_KERNEL}our_async_for", 600_000),
}


def scaled(count: int) -> int:
    return max(1000, int(count * SCALE))


@cache
def brokers() -> dict[str, BrokerProcess]:
    """Return both brokers, each with the topic, made when the first case runs."""
    with ExitStack() as stack:
        found = both(stack)
        for broker in found.values():
            create_topic(broker, TOPIC, PARTITIONS)
            count = scaled(RECORDS) // PARTITIONS * PARTITIONS
            rdkafka_produce(broker, TOPIC, count, os.urandom(SIZE_BYTES), AS_JAVA)
        ours = found[MoldauBroker.name]
        create_topic(ours, SINGLE_TOPIC, PARTITIONS)
        rdkafka_produce(ours, SINGLE_TOPIC, SINGLE_RECORDS, os.urandom(SIZE_BYTES), SINGLE)
        atexit.register(stack.pop_all().close)
    return found


def program(module: str, *arguments: object) -> list[str]:
    """Run the module and return the words that it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.check_output(command, cwd=_ROOT, text=True).split()  # noqa: S603


def read(broker: str, reader: str, count: int) -> float:
    """Return the records a second that the reader gets from the broker."""
    (rate,) = program("bench.reading", reader, brokers()[broker].port, TOPIC, scaled(count))
    return float(rate)


def tables() -> Iterator[Table]:
    for broker in (MoldauBroker.name, KafkaPeer.name):
        yield _reading(
            f"batches, from {broker}",
            broker,
            BATCHES,
            [
                Goal(OURS, AIOKAFKA, ratio_at_least=4.0),
                Goal(OURS, CONFLUENT, ratio_at_least=1.0),
                Goal(PURE, AIOKAFKA, ratio_at_least=1.0),
            ],
        )
        yield _reading(
            f"one by one (`async for`), from {broker}",
            broker,
            ONE_BY_ONE,
            [
                Goal(OURS, AIOKAFKA, ratio_at_least=3.0),
                Goal(PURE, AIOKAFKA, ratio_at_least=1.0),
            ],
        )
    yield _memory()


def _reading(title: str, broker: str, readers: Readers, goals: list[Goal]) -> Table:
    cases = [
        Case(name, partial(read, broker, reader, count))
        for name, (reader, count) in readers.items()
    ]
    return Table(title, f"records of {SIZE_BYTES} B a second", cases, goals)


def _memory() -> Table:
    """Return the table of the memory of a consumer that is not read and fetches all it may."""

    def growth(topic: str) -> float:
        (size,) = program("bench.unread", brokers()[MoldauBroker.name].port, topic)
        return float(size) / BOUND_BYTES

    names = {IN_BATCHES: TOPIC, ONE_A_BATCH: SINGLE_TOPIC}
    return Table(
        "memory of a consumer that is not read",
        "of its `buffer.memory`",
        [Case(name, partial(growth, topic)) for name, topic in names.items()],
        # As much as it may, so that the bound is what holds it; what else a process does is in it.
        [Goal(name, at_least=0.9, at_most=1.02) for name in names],
        higher_is_better=False,
    )
