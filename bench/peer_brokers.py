"""The two brokers that are measured side by side: moldau's and Apache Kafka's, as processes.

    with MoldauBroker.started() as ours, KafkaPeer.started() as theirs:
        before = cpu_seconds(ours.pid)

Each is one node with the roles `broker,controller`, six partitions a topic, the same settings and a
data directory on the same disk. No part of a broker runs in the process that measures, so its cost
is what the system charges to its process id.
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

from moldau.runtime.node_processes import free_ports
from tests.peers.apache_kafka import ApacheKafka, fetch
from tests.peers.kafka_broker import SERVER_JVM, BrokerOptions, KafkaBroker

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
        """The port that clients connect to."""
        ...

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def start(self) -> None:
        """Start the process on its existing data directory and wait for the open port."""
        ...

    def spawn(self) -> None:
        """Start the process without waiting."""
        ...

    def stop(self) -> None:
        """Stop the broker cleanly."""
        ...


class MoldauBroker:
    """A `moldau broker start` process with its folder."""

    name = "moldau"

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.properties = {**SHARED_PROPERTIES, **(properties or {})}
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def started(cls, properties: Mapping[str, str] | None = None) -> Iterator[Self]:
        """Yield a broker that accepts connections, in a folder that is removed with it."""
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
        """Start the process without waiting."""
        sets = [part for item in self.properties.items() for part in ("--set", "=".join(item))]
        command = [
            *self.command(),
            *("broker", "start", "--data", str(self.folder / "data"), "--shards", "1", *sets),
        ]
        if "listeners" not in self.properties:
            command += ["--listen", f"{HOST}:{self.port}"]
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=_ROOT
            )

    def command(self) -> Sequence[str]:
        """Return the words of the command before those of `moldau`'s command line."""
        return [str(Path(sys.executable).with_name("moldau"))]

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)


class EmptyBroker(MoldauBroker):
    """A broker that stores nothing: see `bench.storing_nothing`."""

    name = "stores nothing"

    def command(self) -> Sequence[str]:
        """Return the command of that module."""
        return [sys.executable, "-m", "bench.storing_nothing"]


class ProfiledBroker(MoldauBroker):
    """A broker that profiles itself on request: see `bench.profiled`."""

    name = "profiled"

    @property
    def dump(self) -> Path:
        """The file that the profile is written to."""
        return self.folder / "profile.pstats"

    def command(self) -> Sequence[str]:
        """Return the command of that module."""
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
        """Yield a broker that answers, in a folder that is removed with it."""
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
    """Wait until a process listens on the port. Raise RuntimeError if the given one ends."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the broker ended with exit code {process.returncode}")
        time.sleep(_POLL_S)
    raise TimeoutError(f"nobody listens on port {port} after {_START_TIMEOUT_S} s")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time that the process has used so far, to the nanosecond.

    It is the system's CPU clock of the process. That includes threads that have ended, which the
    sum over `/proc/<pid>/task` loses, and has no ticks of 10 ms, in which `/proc/<pid>/stat`
    counts. (`/proc/<pid>/schedstat` is the main thread alone.)
    """
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_PROCESS)


def user_and_kernel_seconds(pid: int) -> tuple[float, float]:
    """Return the same in two parts, in ticks of 10 ms: for long runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _TICKS_PER_SECOND, int(fields[12]) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def both(stack: ExitStack) -> dict[str, BrokerProcess]:
    """Start both brokers and return them by name. They run until the stack is closed."""
    return {
        MoldauBroker.name: stack.enter_context(MoldauBroker.started()),
        KafkaPeer.name: stack.enter_context(KafkaPeer.started()),
    }
