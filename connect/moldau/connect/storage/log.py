"""The interface of the logs that hold a store's keys and values, and the log in memory.

Invariants of every log: `on_record` is called for each record in the order of the log, also for
those that this process appended; when `append` returns, its records are as durable as the log makes
them, and `on_record` was called for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

OnRecord: TypeAlias = Callable[[bytes, bytes | None], None]
"""Called with the key of each record, and its value or None for a deletion."""

Entry: TypeAlias = tuple[bytes, bytes | None]


class KeyedLog(ABC):
    """A log of keys and values. The last value of a key is valid; None deletes the key."""

    @property
    def position(self) -> int:
        """The offset up to which the log was read; 0 for a log without offsets."""
        return 0

    @abstractmethod
    async def start(self, on_record: OnRecord) -> None:
        """Read the log. On return `on_record` was called for every existing record."""

    @abstractmethod
    async def append(self, entries: Sequence[Entry]) -> None:
        """Append these entries, in this order."""

    @property
    def is_claimed(self) -> bool:
        """Whether `append_as_leader` is possible."""
        return True

    async def claim(self) -> None:
        """Fence the writes of earlier leaders."""
        return

    async def append_as_leader(self, entries: Sequence[Entry]) -> None:
        """Append these entries, unless another worker has claimed the log meanwhile."""
        await self.append(entries)

    async def read_to_end(self) -> None:
        """Read all records that other workers appended before this call, if there are others."""
        return

    async def aclose(self) -> None:
        """Release all resources. May be called again."""
        return


class MemoryLog(KeyedLog):
    """Holds a standalone worker's configs and statuses until the process ends."""

    _on_record: OnRecord

    async def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record

    async def append(self, entries: Sequence[Entry]) -> None:
        for key, value in entries:
            self._on_record(key, value)
