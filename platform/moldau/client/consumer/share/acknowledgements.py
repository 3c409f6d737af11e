"""What becomes of acquired records, gathered into runs of offsets as requests hold them. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple, TypeVar

from moldau.protocol.messages import share_acknowledge, share_fetch

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
