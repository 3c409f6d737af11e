"""The start of a broker with many partitions after `kill -9`: CPU of the process, by phase.

Every partition has one record, and none was flushed: all logs are recovered. The broker is up when
it says so, and works when each partition has taken a record with acks=all. CPU counts, not time, so
that another process on the machine changes little. `BENCH_SCALE=2` makes it 20,000 partitions.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, cpu_seconds
from moldau.runtime.node_processes import NodeProcess, free_ports

_PARTITIONS_A_TOPIC: Final = 1_000
_WITHIN_SECONDS: Final = 600.0
PARTITIONS: Final = int(10_000 * float(os.environ.get("BENCH_SCALE", "1")))
_UP: Final = "until it is up"
_WORKS: Final = "until each partition has taken a record"


class CrashedBroker:
    """A broker whose process is killed with `count` partitions, and started again."""

    def __init__(self, folder: str, count: int) -> None:
        self._folder = folder
        self._count = count
        self._port = free_ports(1)[0]

    def phases(self) -> list[float]:
        """Make the partitions, kill the process and start it. Return its CPU seconds after each
        phase, from its start on."""
        process = self._start()
        try:
            self._create()
            self._write()
        finally:
            process.kill()
            process.wait(_WITHIN_SECONDS)
        process = self._start()
        try:
            up = cpu_seconds(process.pid)
            self._write()
            return [up, cpu_seconds(process.pid)]
        finally:
            process.kill()
            process.wait(_WITHIN_SECONDS)

    def _start(self) -> NodeProcess:
        words = ["broker", "start", "--listen", f"{HOST}:{self._port}", "--shards", "1"]
        process = NodeProcess([*words, "--data", f"{self._folder}/data"], f"{self._folder}/log")
        line = process.line(_WITHIN_SECONDS)
        if line is None or " is up" not in line:
            process.kill()
            raise RuntimeError(Path(f"{self._folder}/log").read_text())
        return process

    def _topics(self) -> dict[str, int]:
        starts = range(0, self._count, _PARTITIONS_A_TOPIC)
        return {f"t{at}": min(_PARTITIONS_A_TOPIC, self._count - at) for at in starts}

    def _create(self) -> None:
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{self._port}"})
        for name, count in self._topics().items():
            made = admin.create_topics([NewTopic(name, count, 1)], operation_timeout=60)
            made[name].result(_WITHIN_SECONDS)

    def _write(self) -> None:
        """Write a record to each partition, and wait until all are acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": f"{HOST}:{self._port}",
                "acks": "all",
                "linger.ms": 50,
                "batch.num.messages": 10_000,
                "queue.buffering.max.messages": 0,
                "message.timeout.ms": int(_WITHIN_SECONDS * 1000),
            }
        )
        failures: list[object] = []

        def on_delivery(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        for name, count in self._topics().items():
            for partition in range(count):
                producer.produce(name, b"x" * 100, partition=partition, on_delivery=on_delivery)
        if producer.flush(_WITHIN_SECONDS) or failures:
            raise RuntimeError(f"not every partition took a record: {failures[:1]}")


def table() -> Table:
    """Return the table: each round is one broker, whose phases are read in turn."""
    left: dict[str, float] = {}

    def run(phase: str) -> float:
        if phase not in left:
            with tempfile.TemporaryDirectory(prefix="bench-crashed-") as folder:
                left.update(
                    zip((_UP, _WORKS), CrashedBroker(folder, PARTITIONS).phases(), strict=True)
                )
        return left.pop(phase)

    cases = [Case(phase, partial(run, phase)) for phase in (_UP, _WORKS)]
    return Table(
        f"Start after kill -9, {PARTITIONS:,} partitions",
        "CPU seconds",
        cases,
        [Goal(_UP, at_most=4.0)] if PARTITIONS == 10_000 else [],
        higher_is_better=False,
        notes=["Each partition has a record that was not flushed: every log is recovered."],
    )
