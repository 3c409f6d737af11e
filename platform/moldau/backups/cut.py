"""Where a log ended at a time. No IO.

A log as of a time ends before its first batch that holds a record stamped at that time or later.
So all restored records are older than the time, and their offsets have no new gap. The stamps are
those of the records: with CreateTime the producers' clocks say them, else the brokers'.
Compaction and retention are not undone: what they had removed when a chunk was read is not in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.records import walk

if TYPE_CHECKING:
    from moldau.backups.manifest import Chunk, LogBackup
    from moldau.records import Buffer


def chunk_of_cut(log: LogBackup, time_ms: int) -> Chunk | None:
    """Return the first chunk with a record of this time or later; None if there is none."""
    return next((each for each in log.chunks if each.max_timestamp >= time_ms), None)


def cut_in(data: Buffer, time_ms: int) -> int:
    """Return the base offset of the first batch with such a record, in a chunk that has one."""
    for batch in walk(data):
        if batch.header.max_timestamp >= time_ms:
            return batch.header.base_offset
    raise AssertionError("the chunk has no such record")
