"""The log in memory: records by offset.

Invariants: epochs never fall from one record to the next; an offset and an epoch together name one
record and everything before it (log matching), which is why `matches` is all that two logs need to
compare.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.replicated_log.messages import NO_EPOCH, Record


class Log:
    """Records from offset 0 to `end`, which is not in it."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = list(records)

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record."""
        return self.epoch_before(self.end)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record that ends at `offset`."""
        return self.records[offset - 1].epoch if offset else NO_EPOCH

    def matches(self, offset: int, epoch: int) -> bool:
        """Whether this log holds what a log with that epoch holds below `offset`."""
        return offset <= self.end and self.epoch_before(offset) == epoch

    def start_of_epoch_before(self, offset: int) -> int:
        """Where the run of records of one epoch begins that ends at `offset`."""
        epoch = self.epoch_before(offset)
        while offset and self.records[offset - 1].epoch == epoch:
            offset -= 1
        return offset

    def append(self, record: Record) -> int:
        """Add a record; returns its offset."""
        assert record.epoch >= self.last_epoch, "epochs never fall"
        self.records.append(record)
        return self.end - 1

    def truncate(self, offset: int) -> None:
        """Forget everything from `offset` on."""
        del self.records[offset:]
