"""Producers side by side: records of 100 bytes, acknowledged, over one connection a broker.

Each client is a separate process (`bench.writing`) that connects once and then sends a number of
records, round after round; the clock stops when the broker has acknowledged them all. Beside the
rate stands the CPU that the client's process used for a record, because on a machine of two cores a
client with threads of its own competes with the broker for the second one.

librdkafka fills batches of 1 MB, Kafka's own client batches of 16 KB. Ours begins with 16 KB and
enlarges batches that have to wait (`batch.waiting.size`). The tables show our client unchanged,
with batches that stay at 16 KB (`small batches`), and with librdkafka's size (`large batches`).

Both moldau's broker and Apache Kafka are measured. Their topics have six partitions and short
retention, so that no run fills the disk for the next.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Final

from bench.broker_load import create_topic
from bench.free_memory import touch_free_memory
from bench.harness import Case, Goal, Table
from bench.peer_brokers import BrokerProcess, KafkaPeer, MoldauBroker, cpu_seconds
from bench.reading import WITHOUT_KERNEL

RECORDS: Final = 1_200_000
MANY_RECORDS: Final = 1_800_000
SLOW_RECORDS: Final = 20_000
_KEEP_LITTLE: Final = {"log.retention.bytes": "200000000", "log.segment.bytes": "50000000"}
_FAST: Final = frozenset(
    ("our_send_many", "our_send_many_small", "our_send_many_large", "our_arrow", "our_arrow_large")
)
_SLOW: Final = ("aiokafka_send", "kafka_python_send", f"{WITHOUT_KERNEL}our_send")
_STOP_S: Final = 60

SEND: Final = {
    "send": "our_send",
    "send, small batches": "our_send_small",
    "send, large batches": "our_send_large",
    "send, pure Python": f"{WITHOUT_KERNEL}our_send",
    "blocking send": "our_sync_send",
    "confluent-kafka produce": "confluent_produce",
    "aiokafka send": "aiokafka_send",
    "kafka-python send": "kafka_python_send",
}
KEYED: Final = {
    "send with a key": "our_send_keyed",
    "confluent-kafka produce with a key": "confluent_keyed",
}
MANY: Final = {
    "send_many of lists": "our_send_many",
    "send_many of Arrow": "our_arrow",
    "send_many of lists, small batches": "our_send_many_small",
    "send_many of lists, large batches": "our_send_many_large",
    "send_many of Arrow, large batches": "our_arrow_large",
    "send_many, pure Python": f"{WITHOUT_KERNEL}our_send_many",
    "confluent-kafka produce": "confluent_produce",
}
WITH_A_GOAL: Final = (
    "send_many of lists",
    "send_many of Arrow",
    "send_many of lists, large batches",
    "send_many of Arrow, large batches",
)


class Client:
    """A process that sends a round of records on request."""

    def __init__(self, writer: str, broker: BrokerProcess) -> None:
        self.count = MANY_RECORDS if writer in _FAST else RECORDS
        if writer in _SLOW:
            self.count = SLOW_RECORDS
        topic = f"{broker.name}-{writer}".replace(":", "-")
        create_topic(broker, topic)
        command = [sys.executable, "-m", "bench.writing", writer]
        command += [str(broker.port), topic, str(self.count)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._line("ready")

    def _line(self, expected: str = "") -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line or not line.startswith(expected):
            raise RuntimeError(f"the client ended, or said {line!r}")
        return line

    def round(self) -> tuple[float, float]:
        """Return the records a second of one round, and the client's CPU seconds for a record."""
        touch_free_memory()
        assert self._process.stdin is not None
        before = cpu_seconds(self._process.pid)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        rate = float(self._line())
        return rate, (cpu_seconds(self._process.pid) - before) / self.count

    def stop(self) -> None:
        """Close the process's input, so that it ends, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_STOP_S)


@cache
def _stack() -> ExitStack:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack


@cache
def _broker(name: str) -> BrokerProcess:
    if name == KafkaPeer.name:
        return _stack().enter_context(KafkaPeer.started(_KEEP_LITTLE))
    return _stack().enter_context(MoldauBroker.started(_KEEP_LITTLE))


@cache
def _client(writer: str, broker: str) -> Client:
    client = Client(writer, _broker(broker))
    _stack().callback(client.stop)
    return client


def rate(writer: str, broker: str) -> float:
    """Return the records a second of one round."""
    return _client(writer, broker).round()[0]


def nanoseconds(writer: str, broker: str) -> float:
    """Return the CPU time for a record in one round, with all threads of the client's process."""
    return _client(writer, broker).round()[1] * 1e9


def _table(title: str, writers: dict[str, str], goals: Sequence[Goal], broker: str) -> Table:
    cases = [Case(name, partial(rate, writer, broker)) for name, writer in writers.items()]
    return Table(f"{title}, on {broker}", "records a second", cases, goals)


def tables() -> Sequence[Table]:
    """Return the tables for moldau's broker and Apache Kafka; last, the CPU of each client."""
    found = []
    send, confluent = "send", "confluent-kafka produce"
    for broker in (MoldauBroker.name, KafkaPeer.name):
        goals = [
            Goal(send, confluent, ratio_at_least=1.0),
            Goal("send, large batches", confluent, ratio_at_least=1.0),
            Goal(send, "aiokafka send", ratio_at_least=5.0),
            Goal(send, "kafka-python send", ratio_at_least=3.0),
            Goal("blocking send", "kafka-python send", ratio_at_least=3.0),
            Goal("send, pure Python", "aiokafka send", ratio_at_least=1.0),
        ]
        found.append(_table("one by one", SEND, goals, broker))
        found.append(_table("one by one with keys", KEYED, [], broker))
        many = [Goal(name, confluent, ratio_at_least=3.0) for name in WITH_A_GOAL]
        found.append(_table("many at once", MANY, many, broker))
    spenders = {**SEND, **KEYED, **MANY}
    cases = [Case(n, partial(nanoseconds, w, MoldauBroker.name)) for n, w in spenders.items()]
    goals = [
        Goal(send, confluent, ratio_at_most=1.0),
        Goal("send_many of lists", confluent, ratio_at_most=1 / 3),
        Goal("send_many of Arrow", confluent, ratio_at_most=1 / 3),
        Goal("send_many of lists, large batches", confluent, ratio_at_most=1 / 3),
        Goal("send_many of Arrow, large batches", confluent, ratio_at_most=1 / 3),
    ]
    title = "CPU of the client for a record"
    found.append(Table(title, "ns a record", cases, goals, higher_is_better=False))
    return found
