"""Decides which source offsets may be stored: those of durable records, in order. No IO.

Records of one source partition may go to many topics and be acknowledged in any order. The offset
of a record may be stored when the record, all before it of its source partition and all after it
with the same offset are safe (durable, or dropped on purpose): a restart from there loses nothing.
All records of a poll are submitted before the first one is sent.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from moldau.connect.api import SourcePart, SourceRecord
from moldau.connect.storage.keys import canonical
from moldau.deferred import dataclass

Offset = tuple[dict[str, Any], dict[str, Any]]
"""A source partition and the offset in it."""
Offsets = list[Offset]


Subject = SourceRecord | SourcePart | None
"""What the connector is told of when it is durable; of a converted batch it is not told."""


@dataclass(slots=True, eq=False)
class SubmittedRecord:
    """A submitted record, or a batch of `count` that is safe as a whole."""

    partition: dict[str, Any] | None
    """A source record may have no partition and no offset."""
    offset: dict[str, Any] | None
    subject: Subject = None
    count: int = 1
    is_safe: bool = False
    """It is set from the client's thread, which is atomic."""

    def acknowledge(self) -> None:
        """Mark the record as safe: the cluster has it, or it was dropped on purpose."""
        self.is_safe = True


class SubmittedRecords:
    """The records of one task that were submitted and whose offsets are not stored yet."""

    def __init__(self) -> None:
        self._queues: dict[bytes, deque[SubmittedRecord]] = {}
        self._unstored: dict[bytes, Offset] = {}

    def add(self, entry: SubmittedRecord) -> None:
        """Add a record before it is sent."""
        if entry.partition is not None:
            self._queues.setdefault(canonical(entry.partition), deque()).append(entry)

    def committable(self) -> Offsets:
        """Return the last offset of each partition up to which all records are safe, until they
        are stored."""
        for key, queue in list(self._queues.items()):
            while queue and queue[0].is_safe:
                done = queue.popleft()
                is_shared = bool(queue) and queue[0].offset == done.offset
                if done.partition is not None and done.offset is not None and not is_shared:
                    self._unstored[key] = (done.partition, done.offset)
            if not queue:
                del self._queues[key]
        return list(self._unstored.values())

    def on_stored(self) -> None:
        """What `committable` has returned last is stored."""
        self._unstored = {}
