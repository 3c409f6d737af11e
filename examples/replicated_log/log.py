"""The log in memory: records by offset.

Invariants: epochs never fall from one record to the next; an offset and an epoch together identify
one record and everything before it (log matching), so `matches` is all that is needed to compare
two logs.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.replicated_log.messages import NO_EPOCH, Record


class Log:
    """Records from offset 0 to `end`, exclusive."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = list(records)
        self.end = len(self.records)
        """The offset that the next record gets."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or `NO_EPOCH`."""
        return self.epoch_before(self.end)

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the record just before `offset`, or `NO_EPOCH` at 0."""
        return self.records[offset - 1].epoch if offset else NO_EPOCH

    def matches(self, offset: int, epoch: int) -> bool:
        """Whether this log equals another below `offset`, whose epoch just before it is `epoch`."""
        if offset > self.end:
            return False
        return epoch == (self.records[offset - 1].epoch if offset else NO_EPOCH)

    def start_of_epoch_before(self, offset: int) -> int:
        """Return where the run of records with the same epoch begins that ends at `offset`."""
        epoch = self.epoch_before(offset)
        while offset and self.records[offset - 1].epoch == epoch:
            offset -= 1
        return offset

    def append(self, record: Record) -> int:
        """Add a record and return its offset."""
        offset, records = self.end, self.records
        assert not offset or record.epoch >= records[-1].epoch, "epochs never fall"
        records.append(record)
        self.end = offset + 1
        return offset

    def truncate(self, offset: int) -> None:
        """Remove all records from `offset` on."""
        del self.records[offset:]
        self.end = offset
