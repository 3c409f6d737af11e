"""Which source offsets may be stored: those of records that are safe, in order. No IO.

A source's records of one source partition may go to many topics and be acknowledged in any order.
The offset of a record may be stored when it and all before it of its source partition are safe:
what is restarted from there loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from moldau.connect.storage.keys import canonical

Offsets = list[tuple[dict[str, Any], dict[str, Any]]]


class Submitted:
    """One record on its way. `is_safe` is set from the client's thread: setting it is atomic."""

    __slots__ = ("is_safe", "offset")

    def __init__(self, offset: dict[str, Any] | None) -> None:
        self.offset = offset
        self.is_safe = False

    def acknowledge(self) -> None:
        """The cluster has it, or it was dropped on purpose."""
        self.is_safe = True


class SubmittedRecords:
    """The records of one task that were sent and whose offsets are not stored yet."""

    def __init__(self) -> None:
        self._queues: dict[bytes, tuple[dict[str, Any], deque[Submitted]]] = {}

    def submit(self, partition: dict[str, Any] | None, offset: dict[str, Any] | None) -> Submitted:
        """Enter a record before it is sent. A source may give records without an offset."""
        entry = Submitted(offset)
        if partition is not None:
            key = canonical(partition)
            if key not in self._queues:
                self._queues[key] = (partition, deque())
            self._queues[key][1].append(entry)
        return entry

    def take_back(self, partition: dict[str, Any] | None) -> None:
        """The record that was entered last was not sent after all."""
        if partition is not None:
            self._queues[canonical(partition)][1].pop()

    def committable(self) -> Offsets:
        """The last offset of each partition up to which all is safe; each is given once."""
        found: Offsets = []
        for key, (partition, queue) in list(self._queues.items()):
            offset = None
            while queue and queue[0].is_safe:
                done = queue.popleft()
                offset = done.offset if done.offset is not None else offset
            if offset is not None:
                found.append((partition, offset))
            if not queue:
                del self._queues[key]
        return found

    @property
    def count(self) -> int:
        """Records that are not safe, or behind one that is not."""
        return sum(len(queue) for _, queue in self._queues.values())


def merged(old: Offsets, new: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> Offsets:
    """Offsets that could not be stored before, and those that came since: these win."""
    found = {canonical(partition): (partition, offset) for partition, offset in old}
    found.update({canonical(partition): (partition, offset) for partition, offset in new})
    return list(found.values())
