"""Topics that other clients have written, on two workers and on the stages of Spark.

Orders are written in any way; customers, cities and clicks as their sources say.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from moldau.records import partition_for_key
from moldau.testing import SyncEmbeddedBroker
from tests.peers.eventually import eventually
from tests.streams.real.running import ROOT, App

pytestmark = pytest.mark.real

APPS: Final = "tests.streams.real.apps"
PARTITIONS: Final = 2
INPUTS: Final = ("orders", "customers", "cities", "clicks")
OUTPUTS: Final = ("left", "inner", "met", "clicked")
_AT: Final = re.compile(r"queries at (http://\S+)")
ORDERS: Final = {f"order-{at}": f"customer-{at % 12}" for at in range(20)}
CUSTOMERS: Final = {f"customer-{at}": f"name-{at}" for at in range(10)}
CITIES: Final = {f"customer-{at}": f"city-{at}" for at in range(8)}
CLICKS: Final = dict.fromkeys(CUSTOMERS, "click")
Partition = Callable[[int, bytes], int]
PLACES: Final[Mapping[str, Partition]] = {
    "murmur2": lambda _, key: partition_for_key(key, PARTITIONS),
    "crc32": lambda _, key: zlib.crc32(key) % PARTITIONS,
    "in turn": lambda at, _: at % PARTITIONS,
}


def write(servers: str, topic: str, rows: Mapping[str, str], writer: str) -> None:
    """Write rows, those of `crc32` by confluent-kafka where it is installed."""
    if writer == "crc32" and _by_librdkafka(servers, topic, rows):
        return
    with Producer(bootstrap_servers=servers) as producer:
        for at, (key, value) in enumerate(rows.items()):
            partition = PLACES[writer](at, key.encode())
            producer.send(topic, value.encode(), key=key.encode(), partition=partition)
        producer.flush()


def _by_librdkafka(servers: str, topic: str, rows: Mapping[str, str]) -> bool:
    try:
        confluent: Any = importlib.import_module("confluent_kafka")
    except ImportError:
        return False
    producer = confluent.Producer({"bootstrap.servers": servers})
    for key, value in rows.items():
        producer.produce(topic, value.encode(), key=key.encode())
    assert producer.flush(30) == 0
    return True


def write_all(servers: str, name: str, writer: str) -> None:
    """Orders as `writer` does, and what meets by key as the sources say; one order has no key."""
    declared = "crc32" if writer == "crc32" else "murmur2"
    write(servers, f"{name}-customers", CUSTOMERS, declared)
    write(servers, f"{name}-cities", CITIES, declared)
    write(servers, f"{name}-orders", ORDERS, writer)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(f"{name}-orders", b"customer-1", partition=1)
        producer.flush()


def make_topics(servers: str, name: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        for topic in (*INPUTS, *OUTPUTS):
            admin.create_topic(NewTopic(f"{name}-{topic}", PARTITIONS, 1))


def expected() -> dict[str, dict[str, str]]:
    return {
        "left": {key: f"{row} {CUSTOMERS.get(row)}" for key, row in ORDERS.items()},
        "inner": {k: f"{row} {CUSTOMERS[row]}" for k, row in ORDERS.items() if row in CUSTOMERS},
        "met": {key: f"{CUSTOMERS[key]} {city}" for key, city in CITIES.items()},
        "clicked": {key: f"click {name}" for key, name in CUSTOMERS.items()},
    }


def get(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize("writer", PLACES)
def test_two_workers_join_and_find_every_row(
    writer: str, moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    name = f"others-{tmp_path.name}"
    servers = moldau_broker.bootstrap_servers
    make_topics(servers, name)
    prefix = ("env", f"WRITER={writer}")
    workers = [App(servers, name, tmp_path, "written_by_others", prefix=prefix) for _ in range(2)]
    workers[1].state = tmp_path / "other"
    processes = [each.start("--listen", "127.0.0.1:0") for each in workers]
    app = workers[0]
    eventually(lambda: len(_AT.findall(app.log.read_text())) == 2, within_s=60)
    urls = _AT.findall(app.log.read_text())
    write_all(servers, name, writer)

    def read(topic: str) -> None:
        rows = expected()[topic]
        app.read(lambda found: found == rows, value=bytes.decode, topic=topic)

    for topic in ("left", "inner", "met"):
        read(topic)
    write(servers, f"{name}-clicks", CLICKS, "crc32" if writer == "crc32" else "murmur2")
    read("clicked")

    def owners() -> set[str | None]:
        return {
            each["owner"]
            for store in get(f"{urls[0]}/stores")[1]["stores"]
            for each in store["partitions"]
        }

    def found(url: str) -> tuple[int, Any]:
        """The answer once no partition moves."""
        answers: list[tuple[int, Any]] = []

        def is_settled() -> bool:
            answers.append(get(url))
            return answers[-1][0] != 503

        eventually(is_settled, within_s=60)
        return answers[-1]

    eventually(lambda: len(owners() - {None}) == 2, within_s=60)
    for url in urls:
        for store, rows in ((f"{name}-orders", ORDERS), (f"{name}-customers", CUSTOMERS)):
            for key, value in rows.items():
                status, body = found(f"{url}/stores/{store}/keys/{key}")
                assert (status, body.get("value")) == (200, value), (url, store, key)
            assert found(f"{url}/stores/{store}/keys/nothing")[0] == 404
    log = app.log.read_text()
    assert (f"misplaced={name}-orders: " in log) == (writer != "murmur2")
    assert log.count("misplaced=") <= 2, "one a worker and topic"
    for worker, process in zip(workers, processes, strict=True):
        worker.stop(process)


@pytest.fixture
def apps_read_anew() -> Iterator[None]:
    """Their module takes its names from the environment; what other tests have read of it stays."""
    known = sys.modules.pop(APPS, None)
    yield
    sys.modules.pop(APPS, None)
    if known is not None:
        sys.modules[APPS] = known


@pytest.mark.usefixtures("apps_read_anew")
@pytest.mark.parametrize("writer", PLACES)
def test_the_stages_of_spark_join_every_row(
    writer: str,
    moldau_broker: SyncEmbeddedBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from moldau.streams.commands.given_app import load_app
    from tests.streams.spark.batches import Batches

    name = f"others-{tmp_path.name}"
    servers = moldau_broker.bootstrap_servers
    make_topics(servers, name)
    monkeypatch.setenv("APP", name)
    monkeypatch.setenv("WRITER", writer)
    plan = load_app(f"{APPS}:written_by_others", str(ROOT)).plan()
    batches = Batches(plan, servers, tmp_path, Random(writer))
    try:
        write_all(servers, name, writer)
        batches.settle()
        write(servers, f"{name}-clicks", CLICKS, "crc32" if writer == "crc32" else "murmur2")
        batches.settle()
    finally:
        batches.close()

    app = App(servers, name, tmp_path)
    app.log.write_text("")
    for topic, rows in expected().items():
        assert app.read(rows.__eq__, value=bytes.decode, topic=topic) == rows
    assert (f"misplaced={name}-orders: " in caplog.text) == (writer != "murmur2")
