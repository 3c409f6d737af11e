"""One node's simulated disk, and the lives that it goes through."""

from __future__ import annotations

from random import Random

from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation


class _Mortal(Incarnation):
    """A life that can end between any two operations."""

    __slots__ = ("operations_left",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.operations_left: int | None = None

    def check(self) -> None:
        if self.operations_left is not None:
            if not self.operations_left:
                self.poison()
            else:
                self.operations_left -= 1
        super().check()


class SimulatedNode:
    """A disk that outlives its node; `files` is what the node of this life sees of it."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self._start()
        self.files.make_dirs("/p")

    def power_loss(self) -> None:
        """What was not synced may be there, torn or missing."""
        self._incarnation.poison()
        self.disk.power_loss()
        self._start()

    def kill(self) -> None:
        """The process ends; what it wrote stays."""
        self._incarnation.poison()
        self.disk.kill()
        self._start()

    def die_after(self, operations: int | None) -> None:
        """Let this life end before the disk's operation of that number; None: never."""
        self._incarnation.operations_left = operations

    def _start(self) -> None:
        self._incarnation = _Mortal("a")
        self.files: Files = self.disk.files(self._incarnation)
