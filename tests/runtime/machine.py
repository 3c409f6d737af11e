"""One machine with a simulated disk, for tests that take its life in every way there is."""

from __future__ import annotations

from random import Random

from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation


class Node:
    """A node with a disk, and the lives that it went through."""

    def __init__(self, seed: int = 1, sector_bytes: int = 16) -> None:
        self.disk = SimulatedDisk(Random(seed), sector_bytes=sector_bytes)
        self.start()

    def start(self) -> None:
        self.incarnation = Incarnation("a")
        self.files: Files = self.disk.files(self.incarnation)

    def kill(self) -> None:
        self.incarnation.poison()
        self.disk.kill()
        self.start()

    def power_loss(self, survival: float | None = None) -> None:
        self.incarnation.poison()
        self.disk.power_loss(survival)
        self.start()

    def write(self, path: str, data: bytes, *, sync: bool = False) -> None:
        with self.files.open(path, "write") as file:
            file.append(data)
            if sync:
                file.sync()

    def durable(self, path: str, data: bytes) -> None:
        self.write(path, data, sync=True)
        self.files.sync_dir("/")

    def read(self, path: str) -> bytes | None:
        return self.disk.contents(path) if self.files.exists(path) else None
