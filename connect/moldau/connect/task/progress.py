"""How far a sink task is in each of its partitions. No IO.

Invariants, of the offsets of one partition: `committed <= done <= reached`, where the task has put
everything before `done` and read everything before `reached`; nothing at or after `done` is ever
offered for a commit. A partition that goes is forgotten as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.deferred import dataclass

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(slots=True)
class PartitionProgress:
    """The offsets of one partition; None before there is one."""

    began: int | None = None
    """Where this task began to read."""
    reached: int | None = None
    """Behind the last polled record, while it is not put."""
    done: int | None = None
    """Behind the last record that was put."""
    committed: int | None = None
    note: str = ""
    """The metadata that is committed with the offset."""
    expected: int = 0
    """The lowest offset that the next record can have, unless the log begins anew."""

    @property
    def start(self) -> int | None:
        """Where reading begins again."""
        return self.began if self.committed is None else self.committed

    @property
    def read(self) -> int | None:
        """Behind the last record that was read, put or not."""
        return self.done if self.reached is None else self.reached


class SinkProgress:
    """The progress of one task. It belongs to the task's thread."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionProgress] = {}

    def _at(self, where: TopicPartition) -> PartitionProgress:
        return self._partitions.setdefault(where, PartitionProgress())

    # Events

    def on_begin(self, where: TopicPartition, offset: int) -> int | None:
        """Records from this offset on were polled. Return the offset that was expected if it is
        higher: the partition has another log."""
        at = self._at(where)
        if at.began is None:
            at.began = offset
        return at.expected if offset < at.expected else None

    def on_reached(self, where: TopicPartition, next_offset: int) -> None:
        """All records before this offset were polled."""
        at = self._at(where)
        at.reached = at.expected = next_offset

    def on_put(self) -> None:
        """Everything that was polled is put."""
        for at in self._partitions.values():
            if at.reached is not None:
                at.done, at.reached = at.reached, None

    def on_part(self, where: TopicPartition, next_offset: int) -> None:
        """All records of one partition before this offset are put."""
        self._at(where).done = next_offset

    def on_seek(self, where: TopicPartition, offset: int) -> None:
        """The task goes on from this offset, forwards or back."""
        at = self._at(where)
        at.began = at.done = at.committed = at.expected = offset
        at.reached = None

    def on_committed(self, offsets: Offsets) -> None:
        """These offsets are stored in the group."""
        for where, offset in offsets.items():
            at = self._at(where)
            at.committed, at.note = offset.offset, offset.metadata

    def on_note(self, where: TopicPartition, note: str) -> None:
        """The group stores this metadata, from an earlier owner of the partition."""
        self._at(where).note = note

    def on_gone(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are no longer the task's."""
        for where in partitions:
            self._partitions.pop(where, None)

    # Questions

    def done(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of these partitions behind all that was put."""
        found = {where: self._partitions.get(where) for where in partitions}
        return {
            where: OffsetAndMetadata(at.done)
            for where, at in found.items()
            if at is not None and at.done is not None
        }

    def start(self, where: TopicPartition) -> int:
        """Return where reading begins again: at the committed offset, or where it began."""
        return self._at(where).start or 0

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where reading begins again, of the partitions of which something was read."""
        found = {where: self._partitions.get(where) for where in partitions}
        return {
            where: at.start
            for where, at in found.items()
            if at is not None and at.start is not None
        }

    def changed(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return those of these offsets, with their metadata, that are not committed."""
        return {
            where: offset
            for where, offset in offsets.items()
            if offset.offset != self._at(where).committed or offset.metadata != self._at(where).note
        }

    def uncommitted(self, partitions: Iterable[TopicPartition]) -> float:
        """Return how many offsets of the partitions were read and are not committed."""
        count = 0
        for where in partitions:
            at = self._partitions.get(where)
            if at is not None and at.read is not None and at.start is not None:
                count += max(0, at.read - at.start)
        return float(count)
