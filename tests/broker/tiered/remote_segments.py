"""Sealed segments on this machine's disk, and how they get into a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final

from moldau.broker.log import names
from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.segment import Segment
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId, SegmentState
from moldau.broker.tiered.segment_objects import Section
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.records import Codec, encode_batch
from moldau.runtime.files import Files

NOW: Final = 1_700_000_000_000
EPOCHS: Final = b"0\n1\n3 0\n"
CONFIG: Final = LogConfig(segment_index_bytes=1 << 20)
_KINDS: Final = {
    Section.OFFSET_INDEX: names.INDEX,
    Section.TIME_INDEX: names.TIME_INDEX,
    Section.TRANSACTION_INDEX: names.TRANSACTION_INDEX,
}


@dataclass(frozen=True)
class MadeBatch:
    """A batch of a segment, as it was written."""

    data: bytes
    base_offset: int
    next_offset: int
    max_timestamp: int


@dataclass(frozen=True)
class MadeSegment:
    """A sealed segment, its batches, and how it is described before it is copied."""

    segment: RemoteSegment
    files: SegmentFiles
    batches: Sequence[MadeBatch]

    @property
    def log(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)

    def expected(self, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
        """What a read from `offset` must return, by a walk over all batches."""
        found = b""
        for batch in self.batches:
            if batch.next_offset <= offset:
                continue
            if upper_offset is not None and batch.next_offset > upper_offset:
                break
            if found and len(found) + len(batch.data) > max_bytes:
                break
            found += batch.data
            if len(found) >= max_bytes:
                break
        return found


async def copied(made: MadeSegment, upload: SegmentUpload) -> RemoteSegment:
    """Put a segment into the store; return it as it is after COPY_FINISHED."""
    metadata = await upload.upload(made.segment, made.files)
    return replace(made.segment, state=SegmentState.COPY_FINISHED, custom_metadata=metadata)


@dataclass(frozen=True)
class Shape:
    """What a segment is made of. With `gaps` some offsets have no record, as in a compacted log."""

    batch_count: int = 100
    value_bytes: int = 400
    base_offset: int = 0
    codec: Codec = Codec.NONE
    is_noise: bool = False
    gaps: bool = False
    aborted: Sequence[AbortedTransaction] = ()

    def batches(self, random: Random) -> Iterator[MadeBatch]:
        offset, time = self.base_offset, NOW
        for _ in range(self.batch_count):
            if self.gaps and random.random() < 0.3:
                offset += random.randrange(1, 50)
            count = random.randrange(1, 8)
            time += random.randrange(0, 3)
            rows = [(time + number, b"key", self._value(random), ()) for number in range(count)]
            data = bytes(encode_batch(rows, offset, codec=self.codec, leader_epoch=3))
            yield MadeBatch(data, offset, offset + count, time + count - 1)
            offset += count

    def _value(self, random: Random) -> bytes:
        if self.is_noise:
            return random.randbytes(self.value_bytes)
        return (b"%012d " % random.randrange(1000)) * (self.value_bytes // 13 + 1)


def make_segment(
    files: Files, directory: str, random: Random, shape: Shape | None = None
) -> MadeSegment:
    """Write a segment."""
    shape = shape or Shape()
    files.make_dirs(directory)
    local = Segment.create(files, directory, shape.base_offset, CONFIG)
    made = list(shape.batches(random))
    for batch in made:
        local.append(batch.data, batch.next_offset - 1, batch.max_timestamp)
    if shape.aborted:
        local.transaction_index.append(*shape.aborted)
    local.seal()
    sections = {
        section: local.path(kind)
        for section, kind in _KINDS.items()
        if files.exists(local.path(kind))
    }
    described = RemoteSegment(
        SegmentId(b"t" * 16, 5, random.randbytes(16)),
        "orders",
        shape.base_offset,
        made[-1].next_offset,
        local.max_timestamp,
        local.size_bytes,
        (EpochEntry(3, shape.base_offset),),
        broker_id=1,
        event_ms=NOW,
        has_transaction_index=bool(shape.aborted),
    )
    paths = SegmentFiles(local.log_path, sections, EPOCHS)
    assert all(before.next_offset <= after.base_offset for before, after in pairwise(made))
    local.forget()
    return MadeSegment(described, paths, made)
