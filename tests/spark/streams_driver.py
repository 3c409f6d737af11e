"""Drivers of `moldau streams run --engine spark`, and what two engines make of the same records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from moldau.client import TopicPartition
from moldau.client.sync import Admin
from moldau.spark.java import find_java
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.conftest import QUICK_JAVA

ROOT = Path(__file__).parents[2]

_WAIT_S = 400.0

_CONF = (
    f"--conf spark.executor.memory=512m --conf 'spark.executor.extraJavaOptions={QUICK_JAVA}' "
    f"--driver-java-options '{QUICK_JAVA}' pyspark-shell"
)


class Driver:
    """`moldau streams run --engine spark` in a process of its own.

    It is started again when it ends, as a supervisor does: on a busy machine Spark gives up when
    one of its processes is not there within ten seconds."""

    starts_max = 5

    def __init__(self, words: list[str], environment: dict[str, str], log: Path) -> None:
        self._words = words
        self._environment = environment
        self._log = log
        self._starts = 0
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        assert self._starts <= self.starts_max, self._log.read_text(errors="replace")[-3000:]
        with self._log.open("ab") as out:
            return subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "moldau.cli", *self._words],
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def run_until(self, holds: Callable[[], bool]) -> None:
        """Return when it holds."""

        def is_done() -> bool:
            if not self.is_running:
                self.kill()
                self._process = self._started()
            return holds()

        wait_until(is_done, f"see {self._log}", _WAIT_S)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop it as an operator does."""
        self._process.terminate()
        assert self._process.wait(_WAIT_S) == 0, self._log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """Kill it, with Java."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def driver(
    servers: str, name: str, folder: Path, gate: apps.Gate, master: str = "local[2]"
) -> Iterator[Driver]:
    """A driver, killed at the end."""
    words = ["streams", "run", "tests.spark.streams_main:app", "--bootstrap", servers]
    words += ["--engine", "spark", "--master", master, "--checkpoint", str(folder / "checkpoint")]
    environment = {
        **os.environ,
        "APP": name,
        "GATE": str(gate.path),
        "JAVA_HOME": find_java().home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": _CONF,
    }
    started = Driver(words, environment, folder / "log")
    try:
        yield started
    finally:
        started.kill()


class Engines:
    """The same records for the embedded engine and for Spark, and what each makes of them."""

    def __init__(self, broker: SyncEmbeddedBroker, topic: str, folder: Path) -> None:
        self.servers = broker.bootstrap_servers
        self.names = f"{topic}-e", f"{topic}-s"
        self.on_spark = self.names[1]
        self._state = folder / "state"
        for name in self.names:
            apps.make_topics(self.servers, apps.both(name))

    def write(self, first: int, count: int, *, waits: str = "") -> None:
        """Lines, and first cities: a batch may end between later ones and their lines. `waits` is
        the key of a line that waits, among them."""
        for name in self.names:
            apps.write(self.servers, name, first, count // 2, has_cities=not first)
            if waits:
                apps.write_wait(self.servers, name, waits, first + count // 2)
            rest = count - count // 2
            apps.write(self.servers, name, first + count // 2, rest, has_cities=not first)

    def check(self, spark: Driver) -> None:
        """Wait until Spark is done, and hold its records against those of the embedded engine."""
        embedded = self.names[0]
        apps.embedded(self.servers, apps.both(embedded), self._state)
        wanted = self._outs(embedded)
        spark.run_until(lambda: _count(self._outs(self.on_spark)) >= _count(wanted))
        assert self._outs(self.on_spark) == wanted

    def _outs(self, name: str) -> dict[Any, list[Any]]:
        return apps.in_order(apps.outs_of(self.servers, apps.both(name)), name)

    def committed(self, partition: int) -> int | None:
        """The offset that a task of the first sub-topology has committed."""
        where = TopicPartition(f"{self.on_spark}-lines", partition)
        with Admin(bootstrap_servers=self.servers) as admin:
            found = admin.group_offsets(f"{self.on_spark}-spark", [where])
        return found[where].offset if where in found else None


def _count(outs: dict[Any, list[Any]]) -> int:
    return sum(map(len, outs.values()))
