"""What becomes of acquired records, gathered into runs of offsets as requests hold them. No IO."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from moldau.protocol.messages import share_acknowledge, share_fetch
from moldau.records import ConsumerRecord

_offset: Final = attrgetter("offset")

B = TypeVar("B", share_fetch.AcknowledgementBatch, share_acknowledge.AcknowledgementBatch)


class AcknowledgeType(IntEnum):
    """What becomes of a record, by Kafka's numbers."""

    GAP = 0
    """There is no record with this offset."""
    ACCEPT = 1
    """It is done."""
    RELEASE = 2
    """It is to be delivered again."""
    REJECT = 3
    """It is given up."""
    RENEW = 4
    """Its lock is prolonged (KIP-1222)."""


class Acknowledgement(NamedTuple):
    """What becomes of the records from `first` to `last`, both included."""

    first: int
    last: int
    type: AcknowledgeType
    delay_ms: int = -1
    """For RELEASE: no delivery before; -1 means as the group says."""
    reason: str | None = None
    """For REJECT: goes into the dead letter."""

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


def runs(given: Iterable[Acknowledgement]) -> list[Acknowledgement]:
    """Return the acknowledgements by offset, with neighbours of one kind joined."""
    found: list[Acknowledgement] = []
    for each in sorted(given):
        before = found[-1] if found else None
        if before is not None and before.last + 1 == each.first and before[2:] == each[2:]:
            found[-1] = before._replace(last=each.last)
        else:
            found.append(each)
    return found


def batches(kind: type[B], given: Iterable[Acknowledgement]) -> list[B]:
    """Return the acknowledgements as batches of a request; `kind` is that of its message."""
    return [
        kind(
            first_offset=each.first,
            last_offset=each.last,
            acknowledge_types=[each.type],
            delay_ms=each.delay_ms,
            reason=each.reason,
        )
        for each in runs(given)
    ]


class AcquiredOffsets:
    """The offsets that one answer has acquired, in order, and which of them have no record yet.

    The records of an answer are matched run by run, since most answers are one run without a gap.
    """

    def __init__(self, acquired: Iterable[tuple[int, int, int]]) -> None:
        """Take runs of first offset, last offset and delivery count, in order."""
        self._acquired = list(acquired)
        self._begun = 0
        """Runs before this one end below the next record."""
        self._left: list[tuple[int, int]] = []
        """Offsets without a record, of runs and parts of runs that records have passed."""

    def match(
        self, records: Sequence[ConsumerRecord[Any, Any]]
    ) -> Iterator[tuple[Sequence[ConsumerRecord[Any, Any]], int]]:
        """Yield those of the next records that are acquired, with their delivery count. Exhaust it
        before the next call."""
        at = 0
        while at < len(records) and self._begun < len(self._acquired):
            first, last, count = self._acquired[self._begun]
            at = bisect_left(records, first, at, key=_offset)
            end = bisect_right(records, last, at, key=_offset)
            own = records if end - at == len(records) else records[at:end]
            if own:
                self._pass(first, own)
                first = own[-1].offset + 1
                yield own, count
            at = end
            if first <= last and at == len(records):
                self._acquired[self._begun] = (first, last, count)
                return
            if first <= last:
                self._left.append((first, last))
            self._begun += 1

    def _pass(self, first: int, own: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Note the gaps between `first` and the last of these records."""
        if own[-1].offset - first + 1 == len(own):
            return
        for each in own:
            if each.offset > first:
                self._left.append((first, each.offset - 1))
            first = each.offset + 1

    def cut_off(self, offset: int) -> list[tuple[int, int]]:
        """Remove what is left from `offset` on, and return it as runs of first and last offset."""
        found = self.left()
        self._acquired = []
        self._left = [(first, min(last, offset - 1)) for first, last in found if first < offset]
        return [(max(first, offset), last) for first, last in found if last >= offset]

    def left(self) -> list[tuple[int, int]]:
        """Return what has no record, as runs of first and last offset."""
        behind = [(first, last) for first, last, _ in self._acquired[self._begun :]]
        return [*self._left, *behind]
