"""Decides which source offsets may be stored: those of durable records, in order. No IO.

Records of one source partition may go to many topics and be acknowledged in any order. The offset
of a record may be stored when the record, all before it of its source partition and all after it
with the same offset are safe (durable, or dropped on purpose): a restart from there loses nothing.
All records of a poll are submitted before the first one is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from moldau.connect.storage.keys import canonical

Offsets = list[tuple[dict[str, Any], dict[str, Any]]]


class SubmittedRecord:
    """A submitted record. `is_safe` is set from the client's thread: setting it is atomic."""

    __slots__ = ("is_safe", "offset")

    def __init__(self, offset: dict[str, Any] | None) -> None:
        self.offset = offset
        self.is_safe = False

    def acknowledge(self) -> None:
        """Mark the record as safe: the cluster has it, or it was dropped on purpose."""
        self.is_safe = True


class SubmittedRecords:
    """The records of one task that were submitted and whose offsets are not stored yet."""

    def __init__(self) -> None:
        self._queues: dict[bytes, tuple[dict[str, Any], deque[SubmittedRecord]]] = {}

    def submit(
        self, partition: dict[str, Any] | None, offset: dict[str, Any] | None
    ) -> SubmittedRecord:
        """Add a record before it is sent. A source record may have no offset."""
        entry = SubmittedRecord(offset)
        if partition is not None:
            key = canonical(partition)
            if key not in self._queues:
                self._queues[key] = (partition, deque())
            self._queues[key][1].append(entry)
        return entry

    def take_back(self, partition: dict[str, Any] | None) -> None:
        """Remove the record that was added last, because it was not sent."""
        if partition is not None:
            self._queues[canonical(partition)][1].pop()

    def committable(self) -> Offsets:
        """Return, once, the last offset of each partition up to which all records are safe."""
        found: Offsets = []
        for key, (partition, queue) in list(self._queues.items()):
            offset = None
            while queue and queue[0].is_safe:
                done = queue.popleft()
                is_shared = bool(queue) and queue[0].offset == done.offset
                if done.offset is not None and not is_shared:
                    offset = done.offset
            if offset is not None:
                found.append((partition, offset))
            if not queue:
                del self._queues[key]
        return found

    @property
    def count(self) -> int:
        """The number of records that are not safe, or that follow an unsafe one."""
        return sum(len(queue) for _, queue in self._queues.values())


def merged(old: Offsets, new: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> Offsets:
    """Return the old offsets that could not be stored, overwritten by newer ones."""
    found = {canonical(partition): (partition, offset) for partition, offset in old}
    found.update({canonical(partition): (partition, offset) for partition, offset in new})
    return list(found.values())
