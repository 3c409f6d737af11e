"""What a backup must know of remote segments: which may be copied whole, and how they are opened.

The platform takes backups and does not import the broker: it finds `FORMAT` through the entry point
group `moldau.remote_segments`. See `moldau.backups.remote_segments` for what it does with it.

Only a finished segment is offered that can be served from its first offset on, and is not
encrypted: a backup needs no keys of the tier.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.backups.remote_segments import CopiedId, StoredSegment
from moldau.broker.tiered.metadata_records import decode
from moldau.broker.tiered.metadata_topic import key_of
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId, SegmentState
from moldau.broker.tiered.segment_objects import (
    CHUNK_BYTES,
    INDEXES_BYTES_MAX,
    ChunkCodec,
    ObjectKind,
    SegmentAccess,
    decode_indexes,
    object_name,
)
from moldau.errors import CorruptLog

if TYPE_CHECKING:
    from moldau.broker.tiered.metadata_topic import PartitionKey
    from moldau.objects.object_store import ObjectStore
    from moldau.records import Buffer


class RemoteSegmentFormat:
    """Satisfies `moldau.backups.remote_segments.SegmentFormat`."""

    def segments(self, values: Iterable[bytes]) -> list[StoredSegment]:
        """Return the segments that may be copied, by the values of the records of the topic of
        remote segments. Raise MalformedMessage for one that cannot be read."""
        found: dict[PartitionKey, RemotePartition] = {}
        for value in values:
            event = decode(value)
            found.setdefault(key_of(event), RemotePartition()).replay(event)
        return [
            _stored(segment)
            for remote in found.values()
            for segment in remote.segments()
            if _may_be_copied(segment)
        ]

    async def stored_sizes(self, tier: ObjectStore, segment: StoredSegment) -> tuple[int, ...]:
        """Return the sizes of the chunks of a segment's log, from the other object that it has.
        Raise StoreError or CorruptLog."""
        described = segment.description
        assert isinstance(described, RemoteSegment)
        access = SegmentAccess.decode(described)
        name = object_name(described, ObjectKind.INDEXES)
        data = await tier.get_range(name, 0, access.indexes_bytes)
        codec = ChunkCodec(described.id)
        plain = codec.decode(ObjectKind.INDEXES, 0, data, INDEXES_BYTES_MAX)
        return tuple(decode_indexes(plain, described).manifest.stored_sizes)

    def opened(self, id: CopiedId, number: int, stored: Buffer) -> Buffer:
        """Return the part of the log that a stored chunk has. Raise CorruptLog if it is not this
        chunk of this segment."""
        return ChunkCodec(SegmentId(*id)).decode(ObjectKind.LOG, number, stored, CHUNK_BYTES)


def _may_be_copied(segment: RemoteSegment) -> bool:
    if segment.state is not SegmentState.COPY_FINISHED:
        return False
    first = next(segment.spans, None)
    if first is None or first.start_offset != segment.start_offset:
        return False
    try:
        return SegmentAccess.decode(segment).key_name is None
    except CorruptLog:
        return False


def _stored(segment: RemoteSegment) -> StoredSegment:
    *_, last = segment.spans
    return StoredSegment(
        CopiedId(*segment.id),
        segment.start_offset,
        segment.end_offset,
        segment.max_timestamp_ms,
        last.epoch,
        object_name(segment, ObjectKind.LOG),
        segment,
    )


FORMAT: Final = RemoteSegmentFormat()
"""What the entry point names."""
