"""Drivers, executors, workers and brokers are killed in turn, each in the middle of a batch, and an
app is moved over machines: what it writes is what one process makes of one record after another.

MOLDAU_STREAMS_KILLS says how many kills there are; the whole run has 15 and takes minutes.
"""

from __future__ import annotations

import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import pytest

from moldau.client.sync import Producer
from moldau.records import partition_for_key
from moldau.streams.testing.driver import Driver as Reference
from tests.conformance.broker import MoldauBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.clusters import EXECUTOR, WORKER, Cluster, above, standalone_cluster
from tests.spark.streams_driver import Driver, driver

pytestmark = [pytest.mark.real, pytest.mark.deep]
KINDS: Final = ("driver", "executor", "worker", "broker")
KILLS: Final = int(os.environ.get("MOLDAU_STREAMS_KILLS", "15"))
LINES: Final = 40
_KEYS: Final = [f"k{number}" for number in range(7)]

Place = tuple[str, bytes | None]
Found = dict[Place, list[tuple[bytes | None, int]]]


def _new() -> Found:
    return defaultdict(list)


@dataclass
class Records:
    """Rounds of cities and lines, for the app and for a reference that runs them one by one."""

    servers: str
    name: str
    wanted: Found = field(default_factory=_new)
    """By topic and key: the values with their times, in order."""
    _at: int = 0

    def __post_init__(self) -> None:
        self._app = apps.both(self.name)
        self._reference = Reference(self._app.plan(), partitions=apps.PARTITIONS)
        apps.make_topics(self.servers, self._app)

    def write(self, waits: str = "", *, has_cities: bool = True) -> None:
        """One more round. With `waits`, a line of this key in its midst waits at the gate. Cities
        need all lines before them to be done: which of the two is first, a batch decides."""
        if has_cities:
            self._send("cities", self._cities())
        self._send("lines", self._lines(waits))
        self._at += LINES
        for topic in ("joined", "out", "words"):
            for key, value, at_ms, _ in self._reference.read_bytes(f"{self.name}-{topic}"):
                self.wanted[topic, key].append((value, at_ms))

    def _cities(self) -> Iterator[tuple[str, bytes | None, int]]:
        """Before the lines of the round in time, too; now and then one is deleted."""
        for number, key in enumerate(_KEYS):
            is_gone = (self._at // LINES + number) % 5 == 4
            city = None if is_gone else f"city {self._at}".encode()
            yield key, city, apps.NEW_MS + 700 * self._at - 9001

    def _lines(self, waits: str) -> Iterator[tuple[str, bytes | None, int]]:
        for at in range(self._at, self._at + LINES):
            key = _KEYS[at % len(_KEYS)]
            is_late = at % 11 == 0
            at_ms = apps.NEW_MS + 700 * at - (9000 if is_late else 0)
            yield key, f"{key}-w{at % 3} {key}-w{at % 5}".encode(), at_ms
            if waits and at == self._at + LINES // 2:
                yield waits, b"wait", at_ms

    def _send(self, topic: str, rows: Iterable[tuple[str, bytes | None, int]]) -> None:
        name = f"{self.name}-{topic}"
        with Producer(bootstrap_servers=self.servers) as producer:
            for text, value, at_ms in rows:
                key = text.encode()
                partition = partition_for_key(key, apps.PARTITIONS)
                producer.send(name, value, key=key, partition=partition, timestamp_ms=at_ms)
                self._reference.pipe_bytes(name, value, key=key, timestamp=at_ms)
            producer.flush()

    @property
    def total(self) -> int:
        """How many outputs there should be."""
        return sum(map(len, self.wanted.values()))

    def check(self, spark: Driver, count: int | None = None) -> None:
        """Wait until there are `count` outputs, or all, and compare each."""
        enough, found = self.total if count is None else count, _new()
        with apps.Reader(self.servers, self._app) as reader:

            def is_there() -> bool:
                self._read(reader, found)
                return sum(map(len, found.values())) >= enough

            spark.run_until(is_there)
        assert found == {place: self.wanted[place][: len(rows)] for place, rows in found.items()}

    def check_all(self) -> None:
        """Compare what is there for good."""
        assert self._found() == self.wanted

    def count(self) -> int:
        """How many outputs there are."""
        return sum(map(len, self._found().values()))

    def _found(self) -> Found:
        found = _new()
        with apps.Reader(self.servers, self._app) as reader:
            self._read(reader, found)
        return found

    def _read(self, reader: apps.Reader, found: Found) -> None:
        for each in reader.new():
            topic = each.topic.removeprefix(f"{self.name}-")
            found[topic, each.key].append((each.value, each.timestamp))


@dataclass
class Victims:
    """What is killed, and how often each was."""

    broker: MoldauBroker
    cluster: Cluster
    spark: Driver
    kills: Counter[str] = field(default_factory=Counter)

    def kill_midway(self, kind: str, gate: apps.Gate, *, is_open: bool) -> None:
        """kill -9 of one, while a record waits at the gate, or as the gate was opened."""
        self.spark.run_until(lambda: bool(gate.is_reached and gate.waiting()))
        waiting = gate.waiting()[0]
        assert self.spark.is_running
        if is_open:
            gate.open()
        self._kill(kind, waiting)
        self.kills[kind] += 1
        if not is_open:
            gate.open()

    def _kill(self, kind: str, waiting: int) -> None:
        """Kill one that works for the process that waits."""
        match kind:
            case "driver":
                self.spark.kill()  # the next check starts one
            case "executor":
                executor = above(waiting, EXECUTOR)
                os.kill(executor, signal.SIGKILL)
                wait_until(lambda: not Path(f"/proc/{executor}").exists(), "it has ended")
            case "worker":
                self.cluster.kill_worker(above(waiting, WORKER))
            case "broker":
                self.broker.kill()
                self.broker.start()
            case _:
                raise AssertionError(kind)


@contextmanager
def series(folder: Path) -> Iterator[tuple[Records, MoldauBroker, Cluster]]:
    """A broker in a process of its own, a cluster of two workers, and records."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    with MoldauBroker(folder / "broker") as broker, standalone_cluster(folder) as cluster:
        yield Records(broker.bootstrap_servers, "series"), broker, cluster


def kill_in_turn(folder: Path, kinds: Iterable[str]) -> Counter[str]:
    """Kill one after the other, each in the middle of a batch. After each, the outputs must be
    those of the reference."""
    path = folder / "gate"
    with series(folder) as (records, broker, cluster):
        gate = apps.Gate(path)
        with driver(records.servers, records.name, folder, gate, cluster.master) as spark:
            spark.starts_max = 4 * KILLS
            victims = Victims(broker, cluster, spark)
            for number, kind in enumerate(kinds):
                gate = apps.Gate(path) if number else gate
                records.write(waits=_KEYS[number % len(_KEYS)])
                victims.kill_midway(kind, gate, is_open=number // len(KINDS) % 2 == 1)
                records.check(spark)
            records.write()
            records.check(spark)
        records.check_all()
    return victims.kills


def test_kills_of_all_kinds_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    kinds = list(islice(cycle(KINDS), KILLS))

    assert kill_in_turn(tmp_path, kinds) == Counter(kinds)


def test_an_app_goes_on_from_one_core_to_a_cluster_and_back(tmp_path: Path) -> None:
    gate = apps.Gate(tmp_path / "gate")
    gate.open()
    with series(tmp_path) as (records, _, cluster):
        records.write()
        for master in ("local[1]", cluster.master, "local[1]", cluster.master):
            before = records.count()
            with driver(records.servers, records.name, tmp_path, gate, master) as spark:
                records.write(has_cities=False)
                records.check(spark, before + 1)
                records.write(has_cities=False)
                spark.stop()
        with driver(records.servers, records.name, tmp_path, gate, "local[2]") as spark:
            records.check(spark)
        records.check_all()
