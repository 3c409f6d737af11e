"""Nodes that feel what happens to them, and say so: for tests of whatever torments nodes.

Each node talks to the others, watches its clocks and keeps files, and never gives up. What it
notices goes into `Felt.symptoms`, which outlives it, as does what a node must find on its disk.
In a world without faults there are no symptoms.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable

from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation

NODES = ("alpha", "beta", "gamma")
PORT = 9092
PATTERN = bytes((at // 64 * 7 + at) & 255 for at in range(20_000))
"""What a file holds at each position, so that what is right can be told from position alone."""
CHUNK = 700


class Felt:
    """What all nodes noticed, and what each has written without a sync."""

    def __init__(self, world: Simulation) -> None:
        self.symptoms: Counter[str] = Counter()
        self.unsynced: Counter[str] = Counter()
        self._world = world
        for name in NODES:
            world.add_node(name, lambda runtime: Probe(runtime, self).run())
        self._forget_caches()

    def _forget_caches(self) -> None:
        """Short memory: what the platter really holds is soon seen."""
        for name in NODES:
            self._world.nodes[name].disk.drop_caches()
        self._world.after(3, self._forget_caches)


class Probe:
    """One life of one node."""

    def __init__(self, runtime: Runtime, felt: Felt) -> None:
        self.runtime = runtime
        self.felt = felt
        self.offsets: dict[str, float] = {}

    def note(self, symptom: str) -> None:
        self.felt.symptoms[symptom] += 1

    async def run(self) -> None:
        runtime = self.runtime
        runtime.spawn(self.watch_clocks(), name="clocks")
        for peer in NODES:
            if peer != runtime.node:
                runtime.spawn(self.talk(peer), name=f"talk-{peer}")
        await runtime.network.serve_streams(self.serve, "", PORT)
        await self.attempt(self.look_at_disk)
        while True:
            begun = runtime.clock.monotonic()
            await self.attempt(self.keep_files)
            if runtime.clock.monotonic() - begun > 5:
                self.note("slow sync")
            await asyncio.sleep(0.2)

    # Clocks

    async def watch_clocks(self) -> None:
        clock = self.runtime.clock
        while True:
            wall_ms, before = clock.wall_ms(), clock.monotonic()
            for _ in range(20):
                await asyncio.sleep(0)
            busy = clock.monotonic() - before
            if 0.00035 < busy < 1:
                self.note("slow")
            await asyncio.sleep(0.1)
            passed = clock.monotonic() - before
            if passed > 1.1:
                self.note("gap")
            if abs(clock.wall_ms() - wall_ms - passed * 1000) > 50:
                self.note("wall jump")

    # Peers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readline():
                writer.write(b"%.3f\n" % self.runtime.clock.monotonic())
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def talk(self, peer: str) -> None:
        clock = self.runtime.clock
        while True:
            begun = clock.monotonic()
            try:
                async with asyncio.timeout(8):
                    reader, writer = await self.runtime.network.open_streams(peer, PORT)
            except socket.gaierror:
                self.note("unknown name")
            except OSError as error:
                self.note(f"connect: {type(error).__name__}")
            else:
                if clock.monotonic() - begun > 2:
                    self.note("slow connect")
                await self.ask(peer, reader, writer)
            await asyncio.sleep(0.1)

    async def ask(
        self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        clock = self.runtime.clock
        try:
            for _ in range(20):
                asked = clock.monotonic()
                writer.write(b"what time is it?\n")
                async with asyncio.timeout(3):
                    answer = await reader.readline()
                if not answer:
                    self.note("end")
                    return
                if clock.monotonic() - asked < 0.1:
                    self.compare(peer, float(answer) - asked)
                await asyncio.sleep(0.1)
        except TimeoutError:
            self.note("silence")
        except OSError as error:
            self.note(type(error).__name__)
        finally:
            writer.transport.abort()

    def compare(self, peer: str, offset: float) -> None:
        """How far the other's clock is from ours never changes, unless one of them drifts."""
        if abs(offset - self.offsets.setdefault(peer, offset)) > 0.3:
            self.note("drift")
            self.offsets[peer] = offset

    # Disk

    async def attempt(self, work: Callable[[], object]) -> None:
        try:
            await self.runtime.run_blocking(work)
        except OSError as error:
            self.note(errno.errorcode[error.errno or 0])

    def look_at_disk(self) -> None:
        """What the last life left."""
        files, name = self.runtime.files, self.runtime.node
        if name not in self.felt.unsynced:
            files.make_dirs("/kept")
            files.sync_dir("/")
        elif not files.exists("/kept"):
            self.note("empty disk")
        elif not files.exists("/careless"):
            self.note("lost what was not synced")
        else:
            with files.open("/careless") as file:
                is_whole = file.read_at(0, file.size) == PATTERN[: self.felt.unsynced[name]]
            self.note("found all" if is_whole else "lost what was not synced")
        for path in ("/log", "/careless"):
            with files.open(path, "write") as file:
                file.truncate(0)
        self.felt.unsynced[name] = 0

    def keep_files(self) -> None:
        """Adds to a file with a sync, and to one without."""
        files, felt, name = self.runtime.files, self.felt, self.runtime.node
        with files.open("/log", "write") as file:
            size = file.size
            if file.read_at(0, size) != PATTERN[:size]:
                self.note("wrong bytes")
                size = len(PATTERN)
            if size + CHUNK > len(PATTERN):
                file.truncate(0)
            file.append(PATTERN[file.size : file.size + CHUNK])
            file.sync()
        with files.open("/careless", "write") as file:
            if file.size + 1 > len(PATTERN):
                file.truncate(0)
            end = file.size + 1
            file.append(PATTERN[end - 1 : end])
            felt.unsynced[name] = end
