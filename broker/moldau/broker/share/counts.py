"""What the share partitions of a node have done since its start, in records."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.share.piece import AcknowledgeType, AcquiredRange
from moldau.broker.share.window import Acknowledgement


class ShareCounts:
    """See the module."""

    __slots__ = ("acknowledged", "delivered")

    def __init__(self) -> None:
        self.delivered = 0
        self.acknowledged = [0] * len(AcknowledgeType)
        """By what members said."""

    def on_acquired(self, acquired: Iterable[AcquiredRange]) -> None:
        """A member was given these records."""
        for each in acquired:
            self.delivered += each.last - each.first + 1

    def on_acknowledged(self, batches: Iterable[Acknowledgement]) -> None:
        """A member said this, whether it held the records or not."""
        counts = self.acknowledged
        for each in batches:
            if len(each.types) == 1:
                counts[each.types[0]] += each.last - each.first + 1
            else:
                for kind in each.types:
                    counts[kind] += 1
