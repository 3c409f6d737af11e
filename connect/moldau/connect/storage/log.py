"""Where a store's keys and values lie: the door that stores use, and the one in memory.

Invariants of every log: `on_record` is called for each record in the order of the log, also for
those that this process appended; when `append` returns, its records are kept as the log keeps them
and `on_record` has seen them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

OnRecord: TypeAlias = Callable[[bytes, bytes | None], None]
"""Hears of each record: its key, and its value or None for a deletion."""

Entry: TypeAlias = tuple[bytes, bytes | None]


class KeyedLog(ABC):
    """Keys and values; the last value of a key counts, None deletes it."""

    @property
    def position(self) -> int:
        """How far a log with offsets was read; 0 for others."""
        return 0

    @abstractmethod
    async def start(self, on_record: OnRecord) -> None:
        """Read what is there; `on_record` has seen all of it when this returns."""

    @abstractmethod
    async def append(self, entries: Sequence[Entry]) -> None:
        """Keep these, in this order."""

    @abstractmethod
    async def read_to_end(self) -> None:
        """Catch up with what others appended before this was called."""

    @abstractmethod
    async def aclose(self) -> None:
        """Let go. May be called again."""


class MemoryLog(KeyedLog):
    """Lasts as long as the process: a standalone worker's configs and statuses."""

    def __init__(self) -> None:
        self._on_record: OnRecord = _nobody

    async def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record

    async def append(self, entries: Sequence[Entry]) -> None:
        for key, value in entries:
            self._on_record(key, value)

    async def read_to_end(self) -> None:
        """There is no other worker."""

    async def aclose(self) -> None:
        """There is nothing to let go."""


def _nobody(key: bytes, value: bytes | None) -> None:
    raise AssertionError("the log was not started")
