"""The two brokers that are measured side by side: moldau's and Apache Kafka's, as processes.

    with MoldauBroker.started() as ours, KafkaPeer.started() as theirs:
        before = cpu_seconds(ours.pid)

Both are one node with the roles `broker,controller`, six partitions a topic, the same settings and
a data directory on the same disk. Nothing of a broker runs in the process that measures, so what it
costs is what the system charges to its process id.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, Self

from tests.peers.apache_kafka import ApacheKafka, fetch
from tests.peers.kafka_broker import SERVER_JVM, BrokerOptions, KafkaBroker, free_ports

_ROOT: Final = Path(__file__).parent.parent
HOST: Final = "127.0.0.1"
PARTITIONS: Final = 6
HEAP: Final = "1g"
# Deleted topics must not fill the disk, or its write-back slows down whoever comes next.
SHARED_PROPERTIES: Final[Mapping[str, str]] = {
    "num.partitions": str(PARTITIONS),
    "log.segment.delete.delay.ms": "1000",
}

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
# The number of a process's clock: its id, complemented, and the kind of clock (Linux).
_CPU_CLOCK_OF_PROCESS: Final = 2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.002


class BrokerProcess(Protocol):
    """A broker under measurement."""

    name: str

    @property
    def port(self) -> int:
        """Where clients connect."""
        ...

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    def start(self) -> None:
        """From exec to the open port; on the data directory that is there."""
        ...

    def spawn(self) -> None:
        """Only starts the process."""
        ...

    def stop(self) -> None:
        """Cleanly."""
        ...


class MoldauBroker:
    """`moldau broker start` on a folder."""

    name = "moldau"

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.properties = {**SHARED_PROPERTIES, **(properties or {})}
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def started(cls, properties: Mapping[str, str] | None = None) -> Iterator[Self]:
        """One that takes connections, on a folder of its own that goes with it."""
        with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
            broker = cls(Path(folder), properties)
            try:
                broker.start()
                yield broker
            finally:
                broker.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self.spawn()
        try:
            wait_for_port(self.port, self._process)
        except RuntimeError as error:
            raise RuntimeError((self.folder / "broker.log").read_text()) from error

    def spawn(self) -> None:
        """Only starts the process."""
        sets = [part for item in self.properties.items() for part in ("--set", "=".join(item))]
        command = [
            *self.command(),
            *("broker", "start", "--data", str(self.folder / "data")),
            *("--listen", f"{HOST}:{self.port}", *sets),
        ]
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=_ROOT
            )

    def command(self) -> Sequence[str]:
        """What is started, up to the command line of `moldau`."""
        return [str(Path(sys.executable).with_name("moldau"))]

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)


class EmptyBroker(MoldauBroker):
    """One that stores nothing: see `bench.storing_nothing`."""

    name = "stores nothing"

    def command(self) -> Sequence[str]:
        """The module's own."""
        return [sys.executable, "-m", "bench.storing_nothing"]


class ProfiledBroker(MoldauBroker):
    """One that can be asked to profile itself: see `bench.profiled`."""

    name = "profiled"

    @property
    def dump(self) -> Path:
        """Where it writes its profile."""
        return self.folder / "profile.pstats"

    def command(self) -> Sequence[str]:
        """The module's own."""
        return [sys.executable, "-m", "bench.profiled", str(self.dump)]


class KafkaPeer:
    """Apache Kafka with the settings of its own start script."""

    name = "Kafka"

    def __init__(
        self, kafka: ApacheKafka, folder: Path, properties: Mapping[str, str] | None = None
    ) -> None:
        options = BrokerOptions(HEAP, SERVER_JVM, {**SHARED_PROPERTIES, **(properties or {})})
        self.broker = KafkaBroker(kafka, folder, options)

    @classmethod
    @contextmanager
    def started(cls, properties: Mapping[str, str] | None = None) -> Iterator[KafkaPeer]:
        """One that answers, on a folder of its own that goes with it."""
        with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
            peer = cls(fetch(), Path(folder), properties)
            try:
                peer.start()
                yield peer
            finally:
                peer.stop()

    @property
    def port(self) -> int:
        return self.broker.port

    @property
    def pid(self) -> int:
        return self.broker.pid

    def start(self) -> None:
        self.broker.start()

    def spawn(self) -> None:
        self.broker.spawn()

    def stop(self) -> None:
        self.broker.stop()


def wait_for_port(port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Returns when somebody listens there."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the broker ended with exit code {process.returncode}")
        time.sleep(_POLL_S)
    raise TimeoutError(f"nobody listens on port {port} after {_START_TIMEOUT_S} s")


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used so far, to the nanosecond.

    By the system's CPU clock of the process: it has the threads that have ended, which the sum over
    `/proc/<pid>/task` loses, and no ticks of 10 ms, in which `/proc/<pid>/stat` counts.
    (`/proc/<pid>/schedstat` is the main thread alone.)
    """
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_PROCESS)


def user_and_kernel_seconds(pid: int) -> tuple[float, float]:
    """The same in two parts, in ticks of 10 ms: for long runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _TICKS_PER_SECOND, int(fields[12]) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """The process's memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def both(stack: ExitStack) -> dict[str, BrokerProcess]:
    """By their names, until the stack is closed."""
    return {
        MoldauBroker.name: stack.enter_context(MoldauBroker.started()),
        KafkaPeer.name: stack.enter_context(KafkaPeer.started()),
    }
