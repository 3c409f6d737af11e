"""A disk whose machine can die, or that can refuse, at any one call that is made to it.

Calls are told apart by the work that they belong to, because the bugs worth finding live between
two calls of one piece of work: a strike is aimed at the so-manieth call of one `Place`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum
from random import Random

from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.disk_faults import Operation
from moldau.runtime.simulated.incarnation import NodeKilled

METADATA_LOG = "/__cluster_metadata-0"
COMPACTING = (".cleaned", ".swap", ".deleted")
ROLLING = (".index", ".timeindex", ".txnindex", ".snapshot")


class Place(Enum):
    """What a call to the disk is a part of."""

    APPEND = "append"
    ROLL = "roll"
    COMPACTION = "compaction"
    SNAPSHOT = "snapshot"
    CHECKPOINT = "checkpoint"
    METADATA = "metadata"
    NAMES = "names"


def place_of(path: str) -> Place:
    """By the name of the file."""
    name = path.rpartition("/")[2]
    if name.endswith(COMPACTING):
        return Place.COMPACTION
    if ".checkpoint" in name:
        return Place.SNAPSHOT
    if "checkpoint" in name or "cleanshutdown" in name:
        return Place.CHECKPOINT
    if METADATA_LOG in path:
        return Place.METADATA
    if name.endswith(ROLLING):
        return Place.ROLL
    return Place.APPEND if name.endswith(".log") else Place.NAMES


class StruckDisk(SimulatedDisk):
    """Changes and syncs are counted down to the one that is struck; reads are left alone, but in
    the midst of a start."""

    def __init__(
        self, random: Random, *, now_ms: Callable[[], int], kill: Callable[[], object]
    ) -> None:
        """`kill` ends the life of the node at once, and says nothing."""
        super().__init__(random, now_ms=now_ms)
        self.is_starting = False
        self.kinds = 0
        self._kill = kill
        self._place: Place | None = None
        self._left = 0
        self._error = 0

    def aim(self, place: Place | None, calls: int, error: int = 0) -> None:
        """Strike the call of that number; None is any place. `error`: let it fail, kill nobody."""
        self._place, self._left, self._error = place, calls, error

    def spare(self) -> None:
        """Strike nothing."""
        self._left = 0

    @property
    def is_aimed(self) -> bool:
        return self._left > 0

    def begin(self, operation: Operation, path: str, size: int = 0) -> None:
        if self._left and (operation != "read" or self.is_starting):
            self._count_down(operation, path)
        super().begin(operation, path, size)

    def _count_down(self, operation: Operation, path: str) -> None:
        if self._place not in (None, place_of(path)):
            return
        self._left -= 1
        if self._left:
            return
        self.count(f"struck {place_of(path).value}")
        if not self._error:
            self._kill()
            raise NodeKilled(path)
        if self._error == errno.ENOSPC and operation != "write":
            self._error = errno.EIO
        self.fail_next(operation, self._error, path)
