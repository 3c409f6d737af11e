"""Workers killed every few seconds, hard: each line counts once, and the tables are exact.

MOLDAU_STREAMS_KILLS says how many kills there are; the whole run has 20.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.streams.real.machines import machines
from tests.streams.real.running import App

pytestmark = pytest.mark.real

KILLS: Final = int(os.environ.get("MOLDAU_STREAMS_KILLS", "20"))
KILL_EVERY_S: Final = (1.0, 4.0)
WORKERS: Final = 3
KEYS: Final = 50
CUSTOMERS: Final = 10
PARTITIONS: Final = 4
SETTLED_S: Final = 120


class Reference:
    """Writes the inputs, and computes in order what must come out of them."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._random = random.Random(40)
        self._number = 0
        # Times of today: topics and changelogs of windows keep no old records.
        self._begin_ms = int(time.time() * 1000) - 1_800_000
        self.lines = 0
        self.counts: Counter[str] = Counter()
        self.orders: dict[str, str] = {}
        self.customers: dict[str, str] = {}

    def write(self, seconds: float) -> None:
        """Write for so long; return when all is acknowledged."""
        pause, end = threading.Event(), time.monotonic() + seconds
        with Producer(bootstrap_servers=self._app.servers) as producer:
            while not pause.wait(0.02) and time.monotonic() < end:
                self._write_lines(producer)
                self._write_rows(producer)
                producer.flush()

    def _write_lines(self, producer: Producer) -> None:
        for _ in range(20):
            self._number += 1
            key, time_ms = f"key-{self._number % KEYS}", self._begin_ms + 37 * self._number
            line = f"{key} {self._number}".encode()
            producer.send(f"{self._app.name}-lines", line, timestamp_ms=time_ms)
            self.counts[f"{key} {time_ms - time_ms % 10_000}"] += 1
            self.lines += 1

    def _write_rows(self, producer: Producer) -> None:
        for _ in range(5):
            self._number += 1
            order = f"order-{self._random.randrange(100)}"
            value = f"customer-{self._random.randrange(CUSTOMERS)} {self._number}"
            self._put(producer, "orders", self.orders, (order, value))
        customer = f"customer-{self._random.randrange(CUSTOMERS)}"
        self._put(producer, "customers", self.customers, (customer, f"name-{self._number}"))

    def _put(
        self, producer: Producer, topic: str, table: dict[str, str], row: tuple[str, str]
    ) -> None:
        key, value = row
        is_deleted = self._random.random() < 0.2
        data = None if is_deleted else value.encode()
        producer.send(f"{self._app.name}-{topic}", data, key=key.encode())
        table.pop(key, None)
        if not is_deleted:
            table[key] = value

    def joined(self) -> dict[str, str]:
        return {
            key: f"{order} {self.customers[customer]}"
            for key, order in self.orders.items()
            if (customer := order.split()[0]) in self.customers
        }


class Outputs:
    """What a reader of committed records has seen."""

    def __init__(self) -> None:
        self.copied: Counter[str] = Counter()
        self.counts: dict[str, int] = {}
        self.joined: dict[str, str] = {}

    def take(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        if topic.endswith("-copied"):
            assert value is not None
            self.copied[value.decode()] += 1
            return
        assert key is not None
        if topic.endswith("-out"):
            assert value is not None
            self.counts[key.decode()] = int(value)
        elif value is None:
            self.joined.pop(key.decode(), None)
        else:
            self.joined[key.decode()] = value.decode()

    def differs(self, wanted: Reference) -> dict[str, object]:
        """What is not as the reference says."""
        return {
            name: difference
            for name, difference in (
                ("lines that came twice", [each for each, n in self.copied.items() if n > 1][:5]),
                ("missing lines", wanted.lines - len(self.copied)),
                ("counts", sorted(wanted.counts.items() ^ self.counts.items())[:6]),
                ("joined", sorted(wanted.joined().items() ^ self.joined.items())[:6]),
            )
            if difference
        }


def read_until_equal(app: App, wanted: Reference) -> None:
    """Read all outputs until they are what they must be; fail with the difference if not."""
    seen, end = Outputs(), time.monotonic() + SETTLED_S
    with Consumer(
        bootstrap_servers=app.servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.assign(
            [
                where
                for topic in ("copied", "out", "joined")
                for where in consumer.partitions(f"{app.name}-{topic}")
            ]
        )
        while seen.differs(wanted) and time.monotonic() < end:
            for part in consumer.poll(0.25):
                for record in part.records:
                    seen.take(part.topic, record.key, record.value)
    assert seen.differs(wanted) == {}, app.log.read_text()[-5000:]


@pytest.mark.deep
def test_everything_counts_once_though_workers_are_killed(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"exact-{tmp_path.name}", tmp_path, "exact", PARTITIONS)
    app.settings = ("producer.transaction.timeout.ms=5000",)
    app.make()
    with Admin(bootstrap_servers=app.servers) as admin:
        for topic in ("copied", "orders", "customers", "joined"):
            admin.create_topic(NewTopic(f"{app.name}-{topic}", PARTITIONS, 1))
    workers = machines(app, WORKERS)
    processes = [each.start() for each in workers]
    wanted, chance = Reference(app), random.Random(40)
    for _ in range(KILLS):
        wanted.write(chance.uniform(*KILL_EVERY_S))
        victim = chance.randrange(WORKERS)
        processes[victim].kill()
        assert processes[victim].wait(60) == -signal.SIGKILL
        processes[victim] = workers[victim].start()
    wanted.write(0.5)

    read_until_equal(app, wanted)
    for worker, process in zip(workers, processes, strict=True):
        worker.stop(process)
    assert ".damaged" not in app.log.read_text()
    read_until_equal(app, wanted)
