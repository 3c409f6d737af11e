"""kill -9 of a real broker under load, again and again, with the simulation's clients and oracle.

The death of a process leaves the page cache alone, so nothing that was acknowledged may be missing
afterwards, whatever a topic says about fsync; nothing twice that was sent by an idempotent writer;
everything in the order and at the offset that was told; every byte as it was sent.

Not repeatable as a simulation is: the seed draws settings, topics and times, the machine the rest.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from moldau.runtime import Runtime
from tests.broker.simulation.clients import Administrator, Client, Reader, Writer, audit
from tests.broker.simulation.promises import Kind, Ledger
from tests.broker.simulation.scenario import draw_layout, draw_settings
from tests.chaos.load import LibrdkafkaLoad, read_with_librdkafka

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
END_SECONDS: Final = 120.0
UP: Final = re.compile(r"^Ctrl-C", re.MULTILINE)


class BrokerEnded(AssertionError):
    """The process ended by itself."""


@dataclass(slots=True)
class Result:
    """What a run did, in numbers."""

    cycles: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    start_seconds: list[float] = field(default_factory=list)


class Victim:
    """The process, on one port and one directory from life to life."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        self.host = HOST
        with socket.create_server((HOST, 0)) as free:
            self.port: int = free.getsockname()[1]
        self.lives = 0
        self.log = ""
        self._home = home
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    async def start(self) -> float:
        """Seconds until it was up."""
        began = time.monotonic()
        self.lives += 1
        async with asyncio.timeout(START_SECONDS):
            await asyncio.get_running_loop().run_in_executor(None, self._start)
        return time.monotonic() - began

    def _start(self) -> None:
        words = [word for name in self._settings for word in ("--set", self._word(name))]
        where = ["--data", "data", "--listen", f"{HOST}:{self.port}"]
        with (self._home / "broker.log").open("a") as log:
            self._process = process = subprocess.Popen(  # noqa: S603 (our own command)
                [sys.executable, "-m", "moldau.cli", "broker", "start", *where, *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=clean_environment(self._home),
                cwd=self._home,
            )
        assert process.stdout is not None
        for line in process.stdout:
            if UP.match(line):
                return
        raise BrokerEnded(f"the broker did not start: {self.last_words()}")

    def _word(self, name: str) -> str:
        return f"{name}={self._settings[name]}"

    def last_words(self) -> str:
        return (self._home / "broker.log").read_text()[-4000:]

    def check_alive(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise BrokerEnded(f"code {self._process.returncode}: {self.last_words()}")

    def kill(self) -> None:
        """As the kernel does it: nothing is told, nothing is closed."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.communicate()


def clean_environment(home: Path) -> dict[str, str]:
    """One that says nothing of settings."""
    known = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOLDAU_", "KAFKA_"))
    }
    return {**known, "HOME": str(home), "XDG_DATA_HOME": ""}


class Chaos:
    """The world of the clients; satisfies `World`."""

    def __init__(self, victim: Victim, random: Random) -> None:
        self.host, self.port = victim.host, victim.port
        self.ledger = Ledger()
        self.is_ending = False
        self.pause_s = 0.02
        self.life = 0
        """Whatever was told by an earlier life binds the later ones."""
        self._victim = victim
        self._random = random
        self._ended = 0

    def starts(self) -> int:
        return self._victim.lives

    def on_ended(self) -> None:
        self._ended += 1

    def clients(self) -> list[Client]:
        """Two writers and a reader for each partition."""
        made: list[Client] = []
        for key, at in self.ledger.partitions.items():
            keys = 20 if at.kind.is_compacted else 0
            for how, depth in (("idempotent", self._random.choice((1, 5))), ("plain", 1)):
                made.append(Writer(self, key, f"{how}-{at}", keys=keys, depth=depth))
            made.append(Reader(self, key))
        return made


async def run_chaos(
    runtime: Runtime,
    home: Path,
    seed: int,
    cycles: int,
    tell: Callable[[str], object],
    *,
    with_librdkafka: bool = True,
) -> Result:
    """So many lives. BrokenPromise, BrokerEnded or TimeoutError when something is wrong."""
    random = Random(seed)
    settings = draw_settings(random)
    layout = draw_layout(random) | {"librdkafka": (Kind(), 1, {"segment.bytes": "1048576"})}
    victim = Victim(home, settings)
    chaos = Chaos(victim, random)
    result = Result()
    began = time.monotonic()
    load: LibrdkafkaLoad | None = None
    result.start_seconds.append(await victim.start())
    try:
        administrator = Administrator(chaos, layout)
        tasks = [runtime.spawn(administrator.run(runtime), name="administrator", reported=False)]
        async with asyncio.timeout(START_SECONDS):
            while not administrator.layout_is_there:
                await watch(tasks, 0.05)
        tasks += [
            runtime.spawn(each.run(runtime), name="client", reported=False)
            for each in chaos.clients()
        ]
        if with_librdkafka:
            topic_id = chaos.ledger.topics["librdkafka"].topic_id
            assert topic_id is not None
            bootstrap = f"{HOST}:{victim.port}"
            load = LibrdkafkaLoad(chaos.ledger, bootstrap, "librdkafka", topic_id)
            load.start()
        for cycle in range(cycles):
            await watch(tasks, random.choice((0.05, 0.5, 1.5)) * random.random())
            victim.check_alive()
            victim.kill()
            result.start_seconds.append(await victim.start())
            result.cycles += 1
            tell(_progress(result, chaos, cycles, cycle))
        loop = asyncio.get_running_loop()
        if load is not None:
            # First, or readers that are slower than it would never reach the end.
            await loop.run_in_executor(None, load.end)
        chaos.is_ending = True
        async with asyncio.timeout(END_SECONDS):
            while any(not task.done() for task in tasks):
                await watch(tasks, 0.1)
                victim.check_alive()
        if load is not None:
            count = await loop.run_in_executor(
                None, read_with_librdkafka, chaos.ledger, f"{HOST}:{victim.port}"
            )
            result.counts += load.counts + Counter({"read by librdkafka": count})
        await audit(chaos, runtime)
    finally:
        chaos.is_ending = True
        if load is not None and result.cycles < cycles:
            load._ending.set()
        victim.kill()
    result.counts += chaos.ledger.counts
    result.seconds = time.monotonic() - began
    return result


async def watch(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    """Let so much time pass, and raise what a client found."""
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        if task.done():
            task.result()


def _progress(result: Result, chaos: Chaos, cycles: int, cycle: int) -> str:
    counts = chaos.ledger.counts
    return (
        f"{cycle + 1:>3} of {cycles}: up again in {result.start_seconds[-1]:.2f} s,"
        f" {counts['acknowledged']} acknowledged, {counts['read']} read,"
        f" {counts['resends']} connections with batches sent again"
    )
