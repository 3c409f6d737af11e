"""The start of a broker with many partitions after `kill -9`: CPU of the process, by phase.

Every partition has one record, and none was flushed: all logs are recovered. The broker is up when
it says so, and works when each partition has taken a record with acks=all. CPU counts, not time, so
that another process on the machine changes little. `BENCH_SCALE=2` makes it 20,000 partitions.

    python -m bench.crashed_start COUNT...

prints one row for each count, with the resident memory after each phase and when all was made. The
records come in one request for a topic there.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, cpu_seconds, resident_bytes
from bench.wire import (
    PRODUCE_VERSION,
    RESPONSE_HEADER_BYTES,
    connect,
    one_record,
    produce_request_of,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.runtime.node_processes import NodeProcess, free_ports

_PARTITIONS_A_TOPIC: Final = 1_000
_WITHIN_SECONDS: Final = 3600.0
_SESSION_MS: Final = 600_000
"""On a busy machine making a topic of 1,000 partitions may take longer than the default."""
PARTITIONS: Final = int(10_000 * float(os.environ.get("BENCH_SCALE", "1")))
_UP: Final = "until it is up"
_WORKS: Final = "until each partition has taken a record"


class Phase(NamedTuple):
    """What the process has used by the end of a phase, from its start on."""

    cpu_s: float
    resident_mib: float


def _used(process: NodeProcess) -> Phase:
    return Phase(cpu_seconds(process.pid), resident_bytes(process.pid) / 2**20)


class CrashedBroker:
    """A broker whose process is killed with `count` partitions, and started again."""

    def __init__(self, folder: str, count: int) -> None:
        self._folder = folder
        self._count = count
        self._port = free_ports(1)[0]

    def phases(self, *, by_topic: bool = False) -> list[Phase]:
        """Make the partitions, kill the process and start it. Return what the first process had
        used when each partition had a record, and the second one after each phase. `by_topic`: the
        records of a topic come in one request, and not from librdkafka, which sends one partition
        in each and needs a quarter of an hour for 50,000."""
        process = self._start()
        try:
            self._create()
            self._fill()
            made = _used(process)
        finally:
            process.kill()
            process.wait(_WITHIN_SECONDS)
        process = self._start()
        try:
            up = _used(process)
            (self._fill if by_topic else self._write)()
            return [made, up, _used(process)]
        finally:
            process.kill()
            process.wait(_WITHIN_SECONDS)

    def _start(self) -> NodeProcess:
        words = ["broker", "start", "--listen", f"{HOST}:{self._port}", "--shards", "1"]
        words += ["--data", f"{self._folder}/data"]
        words += ["--set", f"broker.session.timeout.ms={_SESSION_MS}"]
        process = NodeProcess(words, f"{self._folder}/log")
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

    def _fill(self) -> None:
        """Write a record to each partition, with one request for a topic."""
        records = one_record(b"x" * 100)
        with closing(connect(self._port)) as wire:
            for name, count in self._topics().items():
                wire.sendall(produce_request_of(name, range(count), records, -1))
                size = int.from_bytes(wire.recv(4, socket.MSG_WAITALL), "big")
                body = wire.recv(size, socket.MSG_WAITALL)[RESPONSE_HEADER_BYTES:]
                (topic,) = ProduceResponse.decode(body, PRODUCE_VERSION).responses
                if failed := [each for each in topic.partition_responses if each.error_code]:
                    raise RuntimeError(f"{len(failed)} partitions took no record: {failed[0]}")

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
                _, up, works = CrashedBroker(folder, PARTITIONS).phases()
                left.update({_UP: up.cpu_s, _WORKS: works.cpu_s})
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


def main(counts: Sequence[str]) -> None:
    print("| partitions | made: CPU s, MiB | up: CPU s, MiB | works: CPU s, MiB |\n|-:|-:|-:|-:|")
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="bench-crashed-") as folder:
            phases = CrashedBroker(folder, int(count)).phases(by_topic=True)
        cells = (f"{each.cpu_s:.2f}, {each.resident_mib:.0f}" for each in phases)
        print(f"| {int(count):,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
