"""The headers of the batches in a slice of a log. No record is read.

Only whole batches count: the last one of a slice may be cut short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.slice import LogSlice
from moldau.broker.share.window import ReadBatch
from moldau.records import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from moldau.broker.share.piece import AcquiredRange


class LocatedBatch(NamedTuple):
    """A batch and its place in the slice."""

    batch: ReadBatch
    position: int
    size_bytes: int


class Enough(NamedTuple):
    """As many new offsets as one request takes: a slice may have thousands of batches."""

    next_offset: int
    """The first new offset. Those before it are in the window."""
    records: int


def read_batches(
    read: LogSlice, aborted: Mapping[int, Sequence[int]], enough: Enough | None = None
) -> list[LocatedBatch]:
    """Return the whole batches of a slice, or as many as are `enough`. `aborted` has the first
    offsets of the aborted transactions of each producer, ascending; empty for groups that see
    everything.

    A transaction ends at the next marker of its producer.
    """
    found: list[LocatedBatch] = []
    open_: dict[int, list[int]] = {producer: list(firsts) for producer, firsts in aborted.items()}
    position = new = 0
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
        if enough is not None and not is_aborted:
            new += max(0, batch.last + 1 - max(batch.first, enough.next_offset))
            if new >= enough.records:
                break
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
