"""The Connect workers that are measured side by side: moldau's and Java's, as processes.

Both run distributed with their defaults, on one moldau broker, with the same converters. The memory
of a worker is that of its process and its tasks, with each shared page divided among them (PSS).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2

from bench.peer_brokers import HOST, cpu_seconds
from moldau.runtime.node_processes import free_ports
from tests.peers.apache_kafka import WITH_CONNECTORS, fetch

TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
# As connect-distributed.sh starts it.
JVM: Final = ("-Xms256M", "-Xmx2G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_START_S: Final = 90.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.005
_CALM_S: Final = 1.0
_CALM_CORES: Final = 0.5


class ConnectProcess:
    """A worker under measurement."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.process = process
        self._client = httpx2.Client(base_url=f"http://{HOST}:{port}", timeout=60, trust_env=False)

    def wait_until_up(self) -> None:
        """Wait until connectors can be created."""
        self.wait(lambda: self._answers("/health"), _START_S, "the worker is ready")

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector. Try again while the workers rebalance."""
        body = json.dumps({"name": name, "config": dict(config)})
        headers = {"Content-Type": "application/json"}

        def is_made() -> bool:
            found = self._client.post("/connectors", content=body, headers=headers)
            if found.status_code not in (httpx2.codes.CREATED, httpx2.codes.CONFLICT):
                raise RuntimeError(f"{self.name}: {found.status_code} {found.text}")
            return found.status_code == httpx2.codes.CREATED

        self.wait(is_made, _START_S, f"{name} is created")

    def is_running(self, name: str) -> bool:
        """Whether the connector and a task of it run. Raise RuntimeError if either failed."""
        found = self._client.get(f"/connectors/{name}/status")
        if found.status_code != httpx2.codes.OK:
            return False
        body = found.json()
        states = [body["connector"]["state"], *(task["state"] for task in body["tasks"])]
        if "FAILED" in states:
            raise RuntimeError(f"{self.name}: {found.text}")
        return len(states) > 1 and set(states) == {"RUNNING"}

    def delete(self, name: str) -> None:
        self._client.delete(f"/connectors/{name}")

    def pids(self) -> list[int]:
        """Return the ids of all its processes: tasks are forks of one of the worker's children."""
        found = [self.process.pid]
        for pid in found:
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found

    def cpu_seconds(self) -> float:
        found = 0.0
        for pid in self.pids():
            with suppress(OSError):
                found += cpu_seconds(pid)
        return found

    def cpu_of_each(self) -> dict[int, float]:
        """Return the CPU seconds of each of its processes so far."""
        found = {}
        for pid in self.pids():
            with suppress(OSError):
                found[pid] = cpu_seconds(pid)
        return found

    def cpu_since(self, before: Mapping[int, float]) -> float:
        """Return the CPU seconds since then of the processes that still run."""
        return sum(now - before.get(pid, 0.0) for pid, now in self.cpu_of_each().items())

    def memory_bytes(self) -> float:
        """Return the memory of all its processes, with each shared page divided among them."""
        return float(sum(map(_proportional, self.pids())))

    def wait(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait until `holds` returns True. Raise TimeoutError after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: not within {timeout_s} s: {what}")
            self.live_for(_POLL_S)

    def live_for(self, seconds: float) -> None:
        """Let the worker run for that time. Raise RuntimeError if it ends."""
        with suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"{self.name} ended with {self.process.wait(seconds)}")

    def calm_down(self) -> None:
        """Wait until the worker has finished its work, so that it uses little CPU."""

        def is_calm() -> bool:
            before, begun = self.cpu_seconds(), time.monotonic()
            self.live_for(_CALM_S)
            return self.cpu_seconds() - before < _CALM_CORES * (time.monotonic() - begun)

        self.wait(is_calm, _START_S, "it is calm")

    def stop(self) -> None:
        self._client.close()
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answers(self, path: str) -> bool:
        try:
            return self._client.get(path).status_code == httpx2.codes.OK
        except httpx2.TransportError:
            return False


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def settings(name: str, bootstrap: str, port: int) -> dict[str, str]:
    """Return a worker's settings; each worker has its own internal topics and group."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "listeners": f"http://{HOST}:{port}",
        "key.converter": TEXT,
        "value.converter": TEXT,
        **{
            f"{what}.storage.{setting}": value
            for what in ("config", "offset", "status")
            for setting, value in (("topic", f"{name}-{what}"), ("replication.factor", "1"))
        },
    }


@contextmanager
def moldau_worker(
    bootstrap: str, more: Mapping[str, str] | None = None
) -> Iterator[ConnectProcess]:
    """Start our worker with its own defaults."""
    port = free_ports(1)[0]
    program = str(Path(sys.executable).with_name("moldau"))
    command = [program, "connect", "start", "--log-level", "warn", "--listen", f"{HOST}:{port}"]
    name = "moldau" if more is None else "moldau-" + "-".join(more.values())
    files = {"connect.file.directories": "/"}
    given = {**settings(name, bootstrap, port), **files, **(more or {})}
    del given["listeners"]
    words = [word for item in given.items() for word in ("--set", "=".join(item))]
    with _started("moldau", port, [*command, *words]) as worker:
        yield worker


@contextmanager
def java_worker(bootstrap: str) -> Iterator[ConnectProcess]:
    """Start Java's worker as its own script does. Raise PeerMissing without Java."""
    kafka, port = fetch(WITH_CONNECTORS), free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="connect-bench-") as folder:
        properties = Path(folder) / "worker.properties"
        given = {**settings("java", bootstrap, port), "plugin.discovery": "only_scan"}
        properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = [kafka.java, *JVM, "-cp", kafka.class_path, main, str(properties)]
        with _started("Java", port, command) as worker:
            yield worker


@contextmanager
def _started(name: str, port: int, command: Sequence[str]) -> Iterator[ConnectProcess]:
    process = subprocess.Popen(  # noqa: S603 - our own command, or the Java that was found
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KAFKA_LOG4J_OPTS": ""},
    )
    worker = ConnectProcess(name, port, process)
    try:
        worker.wait_until_up()
        yield worker
    finally:
        worker.stop()
