"""The headers of the batches in a slice of a log. No record is read, except where a group wants its
records at the times that they name (`timed`).

Only whole batches count: the last one of a slice may be cut short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log.slice import LogSlice
from moldau.broker.share.window import ReadBatch
from moldau.records import HEADER_BYTES, Record, decode_batch, read_header

if TYPE_CHECKING:
    from moldau.broker.share.piece import AcquiredRange


DELIVER_AT: Final = "deliver-at"
_LATEST_MS: Final = 2**53


class LocatedBatch(NamedTuple):
    """A batch and its place in the slice."""

    batch: ReadBatch
    position: int
    size_bytes: int


def read_batches(read: LogSlice, aborted: Mapping[int, Sequence[int]]) -> list[LocatedBatch]:
    """Return the whole batches of a slice. `aborted` has the first offsets of the aborted
    transactions of each producer, ascending; empty for groups that see everything.

    A transaction ends at the next marker of its producer.
    """
    found: list[LocatedBatch] = []
    open_: dict[int, list[int]] = {producer: list(firsts) for producer, firsts in aborted.items()}
    position = 0
    while position + HEADER_BYTES <= len(read):
        header = read_header(read.read_at(position, HEADER_BYTES))
        size = header.size_bytes
        if position + size > len(read):
            break
        firsts = open_.get(header.producer_id)
        is_aborted = False
        if firsts and header.is_transactional and header.last_offset >= firsts[0]:
            if header.is_control:
                firsts.pop(0)
            else:
                is_aborted = True
        batch = ReadBatch(header.base_offset, header.last_offset, is_aborted)
        found.append(LocatedBatch(batch, position, size))
        position += size
    return found


def sliced(
    read: LogSlice, found: Sequence[LocatedBatch], acquired: Sequence[AcquiredRange]
) -> LogSlice:
    """Return the part of a slice that has the acquired records."""
    first, last = acquired[0].first, acquired[-1].last
    needed = [each for each in found if each.batch.last >= first and each.batch.first <= last]
    start = needed[0].position
    end = needed[-1].position + needed[-1].size_bytes
    return LogSlice(read.source, read.position + start, end - start)


def timed(read: LogSlice, found: Sequence[LocatedBatch], ahead_ms: int) -> list[ReadBatch]:
    """Return the batches, cut where the time changes before which records are not delivered. The
    records are read for it. `ahead_ms` is what the wall clock says more than the window's."""
    runs: list[ReadBatch] = []
    for each in found:
        batch = each.batch
        data = read.read_at(each.position, each.size_bytes)
        if batch.is_aborted or read_header(data).is_control:
            runs.append(batch)
            continue
        at = batch.first
        for record in decode_batch(data):
            wall_ms = deliver_at(record)
            due_ms = max(wall_ms - ahead_ms, 0) if wall_ms else 0
            last = runs[-1] if at > batch.first else None
            if last is not None and last.due_ms == due_ms:
                runs[-1] = last._replace(last=record.offset)
            else:
                runs.append(ReadBatch(at, record.offset, due_ms=due_ms))
            at = record.offset + 1
        if at <= batch.last:
            runs.append(ReadBatch(at, batch.last))
    return runs


def deliver_at(record: Record) -> int:
    """Return the wall clock time before which a record is not to be delivered; 0 if it has none, or
    one that is not understood."""
    for name, value in record.headers:
        if name == DELIVER_AT and value is not None:
            text = bytes(value).decode(errors="replace")
            if text.isascii() and text.isdigit():
                return min(int(text[:18]), _LATEST_MS)
            try:
                at = datetime.fromisoformat(text)
                return int(at.timestamp() * 1000) if at.tzinfo is not None else 0
            except (ValueError, OverflowError):
                return 0
    return 0
