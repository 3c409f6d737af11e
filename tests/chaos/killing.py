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
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from moldau.runtime import Runtime
from tests.broker.simulation.clients import Administrator, Client, Reader, Writer, audit
from tests.broker.simulation.promises import Kind, Ledger, demand
from tests.broker.simulation.scenario import draw_layout, draw_settings
from tests.chaos.load import LibrdkafkaLoad, read_with_librdkafka

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
END_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
Layout = dict[str, tuple[Kind, int, dict[str, str]]]
ADDED_TOPICS: Final[Layout] = {
    "librdkafka": (Kind(), 1, {"segment.bytes": "1048576"}),
    "wide": (Kind(), 3, {"segment.bytes": "1048576"}),
}
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
        where = ["--data", "data", "--listen", f"{HOST}:{self.port}", "--shards", "1"]
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
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As an operator does it: everything is closed in order."""
        code = self._end(signal.SIGTERM)
        demand(code == 0, "a broker that is told to stop closes in order", code=code)

    def _end(self, how: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(how)
        try:
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()
        return process.returncode


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

    def clients(self, topics: Collection[str]) -> list[Client]:
        """Two writers and a reader for each partition of those topics, which are not deleted."""
        made: list[Client] = []
        for key, at in self.ledger.partitions.items():
            if at.topic not in topics:
                continue  # the administrator's own, who may have begun to make and delete them
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
    """So many lives. BrokenPromise or BrokerEnded when something is wrong."""
    random = Random(seed)
    victim = Victim(home, draw_settings(random))
    layout = draw_layout(random) | ADDED_TOPICS
    story = Story(runtime, victim, Chaos(victim, random), with_librdkafka=with_librdkafka)
    began = time.monotonic()
    try:
        await story.begin(layout)
        for cycle in range(cycles):
            await story.watch(random.choice((0.05, 0.5, 1.5)) * random.random())
            await story.kill()
            tell(story.progress(cycles, cycle))
        await story.end()
    finally:
        story.abandon()
    story.result.seconds = time.monotonic() - began
    return story.result


class Story:
    """One run: the process, those who use it, and what is known of them."""

    def __init__(
        self, runtime: Runtime, victim: Victim, chaos: Chaos, *, with_librdkafka: bool
    ) -> None:
        self.result = Result()
        self._runtime = runtime
        self._victim = victim
        self._chaos = chaos
        self._with_librdkafka = with_librdkafka
        self._clients: list[Client] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._load: LibrdkafkaLoad | None = None

    async def begin(self, layout: Layout) -> None:
        """The first life, its topics, and the load."""
        chaos = self._chaos
        self.result.start_seconds.append(await self._victim.start())
        administrator = Administrator(chaos, layout)
        self._run(administrator)
        async with asyncio.timeout(START_SECONDS):
            while not administrator.layout_is_there:
                await self.watch(0.05)
        for client in chaos.clients(layout.keys()):
            self._run(client)
        if self._with_librdkafka:
            topic_id = chaos.ledger.topics["librdkafka"].topic_id
            assert topic_id is not None
            self._load = LibrdkafkaLoad(chaos.ledger, self._bootstrap, "librdkafka", topic_id)
            self._load.start()

    def _run(self, client: Client) -> None:
        run = client.run(self._runtime)
        self._clients.append(client)
        self._tasks.append(self._runtime.spawn(run, name="client", reported=False))

    @property
    def _bootstrap(self) -> str:
        return f"{HOST}:{self._victim.port}"

    async def watch(self, seconds: float) -> None:
        """Let so much time pass, and raise what a client found."""
        tasks = self._tasks
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
        self._victim.check_alive()

    async def kill(self) -> None:
        """The end of a life, and the next one."""
        self._victim.kill()
        self.result.start_seconds.append(await self._victim.start())
        self.result.cycles += 1

    async def end(self) -> None:
        """Everybody gets one more thing done, everything is read, by two kinds of clients; then
        once more after a stop in order."""
        blocking = asyncio.get_running_loop().run_in_executor
        if self._load is not None:
            # First, or readers that are slower than it would never reach the end.
            await blocking(None, self._load.end)
        self._chaos.is_ending = True
        await self._clients_ended()
        if self._load is not None:
            ledger = self._chaos.ledger
            count = await blocking(None, read_with_librdkafka, ledger, self._bootstrap)
            self.result.counts += self._load.counts + Counter({"read by librdkafka": count})
        await audit(self._chaos, self._runtime)
        self._victim.stop()
        await self._victim.start()
        await audit(self._chaos, self._runtime)
        self._victim.stop()
        self.result.counts += self._chaos.ledger.counts

    async def _clients_ended(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        while not all(task.done() for task in self._tasks):
            await self.watch(0.1)
            both = zip(self._clients, self._tasks, strict=True)
            stuck = {str(client): client.trouble for client, task in both if not task.done()}
            demand(time.monotonic() < deadline, "each client gets one more thing done", stuck=stuck)

    def abandon(self) -> None:
        """Leave nothing running, whatever happened."""
        self._chaos.is_ending = True
        if self._load is not None:
            self._load.abandon()
        self._victim.kill()

    def progress(self, cycles: int, cycle: int) -> str:
        counts = self._chaos.ledger.counts
        return (
            f"{cycle + 1:>3} of {cycles}: up again in {self.result.start_seconds[-1]:.2f} s,"
            f" {counts['acknowledged']} acknowledged, {counts['read']} read,"
            f" {counts['resends']} connections with batches sent again"
        )
