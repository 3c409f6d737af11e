"""Connect: the JDBC connectors beside the driver, the file connectors beside Java's worker, and the
cost of a worker that has nothing to do.

BENCH_LINES and BENCH_CONNECTORS make a quick run smaller.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Final

from bench import jdbc
from bench.connect_workers import ConnectProcess, java_worker, moldau_worker
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, MoldauBroker
from moldau.client import KafkaError, TopicPartition
from moldau.client.base.offsets import LATEST
from moldau.client.sync import Admin, Producer
from tests.peers.apache_kafka import PeerMissing

LINES: Final = int(os.environ.get("BENCH_LINES", "300000"))
IDLE: Final = int(os.environ.get("BENCH_CONNECTORS", "200"))
LINE: Final = (
    "a line of a log file, as long as most of them are: about one hundred bytes with its end"
)
_WAIT_S: Final = 300.0
_IDLE_S: Final = 20.0
_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
NOTES: Final = (
    f"{LINES} lines of about 90 bytes, StringConverter, one partition and task; distributed "
    "workers with their defaults on one moldau broker; from the creation of the connector to the "
    "last line.",
)


class Scene:
    """A broker, a full topic, a full file, and workers beside each other."""

    def __init__(self, stack: ExitStack) -> None:
        broker = stack.enter_context(MoldauBroker.started({"num.partitions": "1"}))
        self.bootstrap = f"{HOST}:{broker.port}"
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="connect-")))
        self.admin = stack.enter_context(Admin({"bootstrap.servers": self.bootstrap}))
        self._numbers = count()
        self.file = self.folder / "lines.txt"
        self.file.write_text("".join(f"{LINE} {number}\n" for number in range(LINES)))
        with Producer({"bootstrap.servers": self.bootstrap}) as producer:
            lines = self.file.read_bytes().splitlines()
            for start in range(0, LINES, 10_000):
                producer.send_many("full", lines[start : start + 10_000])
        self.workers = {"moldau": stack.enter_context(moldau_worker(self.bootstrap))}
        with suppress(PeerMissing):
            java = stack.enter_context(java_worker(self.bootstrap))
            self.workers = {"Java": java, **self.workers}
        self.memory = dict.fromkeys(self.workers, 0.0)

    def name(self) -> str:
        return f"bench-{next(self._numbers)}"

    def source(self, worker: ConnectProcess) -> float:
        """Return the lines a second from a file into a topic."""
        name = self.name()
        config = {"connector.class": _SOURCE, "file": str(self.file), "topic": name}
        return self._timed(worker, name, config, lambda: self._end(name) >= LINES)

    def sink(self, worker: ConnectProcess) -> float:
        """Return the lines a second from a topic into a file."""
        name = self.name()
        out, wanted = self.folder / name, self.file.stat().st_size
        config = {"connector.class": _SINK, "file": str(out), "topics": "full",
                  "consumer.override.auto.offset.reset": "earliest"}  # fmt: skip
        value = self._timed(
            worker, name, config, lambda: out.exists() and out.stat().st_size >= wanted
        )
        out.unlink()
        return value

    def _timed(
        self,
        worker: ConnectProcess,
        name: str,
        config: Mapping[str, str],
        is_done: Callable[[], bool],
    ) -> float:
        begun = time.perf_counter()
        worker.create(name, config)
        worker.wait(is_done, _WAIT_S, f"{config['connector.class']} is done")
        taken = time.perf_counter() - begun
        used = worker.memory_bytes() / 2**20
        self.memory[worker.name] = max(self.memory[worker.name], used)
        worker.delete(name)
        return LINES / taken

    def _end(self, topic: str) -> int:
        """Return the number of records in a topic; 0 if it does not exist yet."""
        partition = TopicPartition(topic, 0)
        try:
            found = self.admin.list_offsets({partition: LATEST})[partition]
        except KafkaError:
            return 0
        return found.offset

    def created(self, worker: ConnectProcess) -> float:
        """Return the seconds until a new connector and its task run."""
        name = self.name()
        begun = time.perf_counter()
        worker.create(name, {"connector.class": _SOURCE, "file": str(self.file), "topic": name})
        worker.wait(lambda: worker.is_running(name), _WAIT_S, "the connector runs")
        taken = time.perf_counter() - begun
        worker.delete(name)
        return taken


class Idle:
    """A worker with many idle connectors, measured once a round."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self.memory = 0.0
        self.share = 0.0
        folder.joinpath("empty").touch()

    def started(self) -> float:
        """Return the seconds until all of them run. Measure memory and CPU then."""
        with moldau_worker(self._bootstrap, {"task.isolation": "shared"}) as worker:
            names = [f"idle-{number}" for number in range(IDLE)]
            begun = time.monotonic()
            for number, name in enumerate(names):
                worker.create(name, self._source() if number % 2 else self._sink(name))
            worker.wait(lambda: all(map(worker.is_running, names)), _WAIT_S, "all of them run")
            taken = time.monotonic() - begun
            worker.calm_down()
            before, begun = worker.cpu_seconds(), time.monotonic()
            worker.live_for(_IDLE_S)
            self.share = (worker.cpu_seconds() - before) / (time.monotonic() - begun)
            self.memory = worker.memory_bytes() / 2**20
            for name in names:  # the next round has the same internal topics
                worker.delete(name)
        return taken

    def _source(self) -> dict[str, str]:
        return {"connector.class": _SOURCE, "file": str(self._folder / "empty"), "topic": "idle"}

    def _sink(self, name: str) -> dict[str, str]:
        return {"connector.class": _SINK, "file": str(self._folder / name), "topics": "idle"}


def tables() -> Iterator[Table]:
    yield from jdbc.tables()
    stack = ExitStack()
    atexit.register(stack.close)
    scene = Scene(stack)
    has_peer = "Java" in scene.workers

    def cases(measure: Callable[[ConnectProcess], float]) -> list[Case]:
        return [
            Case(name, lambda worker=worker: measure(worker))  # type: ignore[misc]
            for name, worker in scene.workers.items()
        ]

    faster = [Goal("moldau", versus="Java", ratio_at_least=1.0)] if has_peer else []
    yield Table("File source", "lines/s", cases(scene.source), faster, notes=NOTES)
    yield Table("File sink", "lines/s", cases(scene.sink), faster, notes=NOTES)
    yield Table(
        "Memory while they did",
        "MB",
        cases(lambda worker: scene.memory[worker.name]),
        [Goal("moldau", versus="Java", ratio_at_most=0.3)] if has_peer else [],
        higher_is_better=False,
        notes=("The most of the rounds above: worker and tasks, shared pages in parts (PSS).",),
    )
    yield Table(
        "Create to running",
        "seconds",
        cases(scene.created),
        [Goal("moldau", at_most=0.4)],
        higher_is_better=False,
    )
    idle = Idle(scene.bootstrap, scene.folder)
    notes = (
        "Half file sources at the end of a file, half file sinks of an empty topic, one task each;",
        f"memory and CPU over {_IDLE_S:.0f} s after all of them run.",
    )
    for what, unit, measure, most in (
        ("start", "seconds", idle.started, 20.0),
        ("memory", "MB", lambda: idle.memory, 400.0),
        ("CPU", "cores", lambda: idle.share, 0.5),
    ):
        yield Table(
            f"{IDLE} idle connectors: {what}",
            unit,
            [Case("moldau", measure)],
            [Goal("moldau", at_most=most)],
            higher_is_better=False,
            notes=notes,
        )
