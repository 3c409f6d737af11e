"""A foreign-key join on a broker: two partitions, two workers, one killed and started again."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random
from typing import Final

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.machines import machines
from tests.streams.real.running import App

pytestmark = pytest.mark.real

ORDERS: Final = 120
CUSTOMERS: Final = 10


class Tables:
    """What is in both tables, and what the join must give."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._random = Random(38)
        self._round = 0
        self.orders: dict[str, str] = {}
        self.customers: dict[str, str] = {}

    def change(self) -> None:
        """New orders and other customers; some rows go. Returns when all is acknowledged."""
        self._round += 1
        with Producer(bootstrap_servers=self._app.servers) as producer:
            for number in range(ORDERS):
                key = f"order-{number:03}"
                value = f"customer-{self._random.randrange(CUSTOMERS)} {self._round}"
                self._put(producer, "orders", self.orders, (key, value))
            for number in range(CUSTOMERS):
                key = f"customer-{number}"
                self._put(producer, "customers", self.customers, (key, f"name-{self._round}"))
            producer.flush()

    def _put(
        self, producer: Producer, topic: str, table: dict[str, str], row: tuple[str, str]
    ) -> None:
        key, value = row
        is_deleted = self._random.random() < 0.2
        data = None if is_deleted else value.encode()
        producer.send(f"{self._app.name}-{topic}", data, key=key.encode())
        if is_deleted:
            table.pop(key, None)
        else:
            table[key] = value

    def joined(self) -> dict[str, str]:
        return {
            key: f"{value} {self.customers[value.split()[0]]}"
            for key, value in self.orders.items()
            if value.split()[0] in self.customers
        }


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def test_the_results_are_right_though_a_worker_is_killed(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    name = f"fk-{tmp_path.name}"
    app = App(moldau_broker.bootstrap_servers, name, tmp_path, "by_customer")
    with Admin(bootstrap_servers=app.servers) as admin:
        for topic in ("orders", "customers", "out"):
            admin.create_topic(NewTopic(f"{name}-{topic}", 2, 1))
    tables = Tables(app)

    def is_joined(found: dict[str, str | None]) -> bool:
        return {key: value for key, value in found.items() if value} == tables.joined()

    workers = machines(app, 2)
    processes = [each.start() for each in workers]
    tables.change()
    app.read(is_joined, value=text)
    for victim in (0, 1):
        tables.change()
        processes[victim].kill()
        assert processes[victim].wait(60) == -signal.SIGKILL
        tables.change()
        processes[victim] = workers[victim].start()
        app.read(is_joined, value=text)
    for worker, process in zip(workers, processes, strict=True):
        worker.stop(process)
