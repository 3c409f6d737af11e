"""A thousand partitions made at once: how long the event loop of a broker stands, and how long it
takes, on a quiet disk and on a busy one.

    python -m bench.many_partitions [quiet] [busy]

A client asks an only node for its versions every few milliseconds. The longest time without an
answer is how long the loop stood. On the busy disk a process writes files of 32 MiB on the same
file system, and syncs and renames each, until the measurement is over.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peer_brokers import HOST
from moldau.client import Admin, NewTopic, TopicPartition
from moldau.errors import MoldauError
from moldau.runtime.node_processes import NodeProcess, free_ports
from tests.peers.kafka_broker import ask_metadata

_BUSY = """
import os, sys
piece = os.urandom(1 << 20)
count = 0
while os.getppid() == int(sys.argv[2]):
    count += 1
    path = f"{sys.argv[1]}-{count % 64}"
    with open(path, "wb", buffering=0) as file:
        for _ in range(32):
            file.write(piece)
        os.fsync(file.fileno())
    os.rename(path, path + ".old")
"""
_SHAPES = ((1, 1000), (20, 50))
_PAUSE_SECONDS = 0.002
_REMOVAL_SECONDS = 3.0
_DEADLINE_SECONDS = 120.0


class Standstill(NamedTuple):
    """The seconds of one measurement."""

    longest: float
    """The longest time without an answer."""
    answered: float
    """Until the request was answered."""
    all_led: float
    """Until each partition has a leader that answers."""

    def __str__(self) -> str:
        return (
            f"longest {self.longest * 1e3:7.0f} ms, answered {self.answered:6.2f} s,"
            f" all led {self.all_led:6.2f} s"
        )


@contextmanager
def busy_disk(folder: Path) -> Iterator[None]:
    """Let another process sync data to a file in `folder`."""
    path = folder / "busy"
    command = (sys.executable, "-c", _BUSY, str(path), str(os.getpid()))
    process = subprocess.Popen(command)  # noqa: S603
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """Run an only node, and yield its port."""
    port = free_ports(1)[0]
    words = ["broker", "start", "--listen", f"{HOST}:{port}", "--data", f"{folder}/data"]
    process = NodeProcess([*words, "--shards", "1"], f"{folder}/log")
    try:
        line = process.line(60)
        if line is None or " is up" not in line:
            raise RuntimeError((folder / "log").read_text())
        ask_metadata(port)
        yield port
    finally:
        process.terminate()
        process.wait(120)


class _Watch:
    """Asks for the brokers again and again, over one connection."""

    def __init__(self, port: int) -> None:
        self.longest = 0.0
        self._port = port
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _Watch:
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(0.2)
        self.longest = 0.0
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        # ApiVersions, version 0, without a client id.
        request = bytes.fromhex("0000000a001200000000000a" + "ffff")
        try:
            while True:
                begun = time.perf_counter()
                writer.write(request)
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
                self.longest = max(self.longest, time.perf_counter() - begun)
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            writer.close()


async def measure(port: int, topics: int, partitions: int, *, prefix: str = "t") -> Standstill:
    """Create the topics with one request, and wait until all their partitions have a leader that
    answers."""
    async with Admin(bootstrap_servers=f"{HOST}:{port}") as admin, _Watch(port) as watch:
        begun = time.perf_counter()
        names = [f"{prefix}-{number}" for number in range(topics)]
        await admin.create_topics([NewTopic(name, partitions=partitions) for name in names])
        answered = time.perf_counter() - begun
        await _all_led(admin, names, partitions, begun)
        return Standstill(watch.longest, answered, time.perf_counter() - begun)


async def measure_removal(port: int, topics: int, *, prefix: str = "t") -> Standstill:
    """Delete the topics with one request."""
    async with Admin(bootstrap_servers=f"{HOST}:{port}") as admin, _Watch(port) as watch:
        begun = time.perf_counter()
        await admin.delete_topics([f"{prefix}-{number}" for number in range(topics)])
        answered = time.perf_counter() - begun
        await asyncio.sleep(_REMOVAL_SECONDS)
        return Standstill(watch.longest, answered, 0.0)


async def _all_led(admin: Admin, names: list[str], partitions: int, begun: float) -> None:
    wanted = [TopicPartition(name, index) for name in names for index in range(partitions)]
    while time.perf_counter() - begun < _DEADLINE_SECONDS:
        try:
            await admin.list_offsets(dict.fromkeys(wanted, -1))
        except MoldauError:
            await asyncio.sleep(0.05)
            continue
        return
    raise TimeoutError("not all partitions are there")


async def _both(port: int, topics: int, partitions: int) -> tuple[Standstill, Standstill]:
    made = await measure(port, topics, partitions)
    return made, await measure_removal(port, topics)


def main() -> None:
    for disk in sys.argv[1:] or ("quiet", "busy"):
        for topics, partitions in _SHAPES:
            with tempfile.TemporaryDirectory(prefix="bench-many-partitions-") as text:
                folder = Path(text)
                with broker(folder) as port, ExitStack() as load:
                    if disk == "busy":
                        load.enter_context(busy_disk(folder))
                    made, removed = asyncio.run(_both(port, topics, partitions))
            shape = f"{disk:5} {topics:2} x {partitions:4}"
            print(f"{shape}  made     {made}\n{shape}  removed  {removed}", flush=True)


if __name__ == "__main__":
    main()
