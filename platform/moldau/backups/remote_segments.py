"""Copies of remote segments inside the store: their bytes do not pass through this machine.

A tier whose bucket is that of the backup has old records there already. A segment that is wholly a
part of the log, is not encrypted and lies in the backup's range is copied by the store, as it is;
all else is read through the brokers. A segment's log is cut into chunks, each with a checksum that
binds it to the segment, so the backup keeps the segment's id and the sizes of the chunks.

Invariants:
- The log has all of a segment if it has the record before the segment's end in the same leader
  epoch: two logs that agree there agree on all before.
- The tier is that of these brokers, and whole: the segment's own manifest is read from there, which
  opens only under the segment's id, and the log's object has the size that it says. The copy has
  that size and the same end, with the last chunk's checksum, before it counts: a store may answer
  before it has copied. What its bytes are is checked chunk by chunk when they are read.
- A segment that cannot be copied, whatever the reason, is read. Nothing is lost by a try. If a copy
  is not finished in time, the others are not tried: each would wait as long.
- Its producers' ids are not known without a read. All are below the next one of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from moldau.backups.manifest import Chunk
from moldau.errors import MoldauError
from moldau.objects.object_store import ObjectStore, StoreLimits
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, StoreKind, parse_address
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.plugins import installed_plugins

if TYPE_CHECKING:
    from moldau.backups.backup_store import BackupStore
    from moldau.ids import Uuid
    from moldau.records import Buffer
    from moldau.runtime import Runtime

GROUP: Final = "moldau.remote_segments"
NAME: Final = "format"
COPY_LIMITS: Final = StoreLimits(attempt_s=300.0, deadline_s=600.0)
"""A copy is one request, and stores take their time for a GiB. So long it may also be unfinished
after its answer."""
_TAIL_BYTES: Final = 1 << 10

Holds = Callable[[int, int], Awaitable[bool]]
"""Returns whether a log has, in a leader epoch, the record before an offset."""


class CopiedId(NamedTuple):
    """What the chunks of a segment are bound to."""

    topic_id: bytes
    partition: int
    id: bytes


class StoredSegment(NamedTuple):
    """A remote segment that may be copied whole. `log_name` is that of its log in the tier."""

    id: CopiedId
    start_offset: int
    end_offset: int
    max_timestamp: int
    max_epoch: int
    log_name: str
    description: object
    """The format's own."""


class SegmentFormat(Protocol):
    """What the brokers' package knows: the type of the entry point."""

    def segments(self, values: Iterable[bytes]) -> list[StoredSegment]: ...

    async def stored_sizes(self, tier: ObjectStore, segment: StoredSegment) -> tuple[int, ...]: ...

    def opened(self, id: CopiedId, number: int, stored: Buffer) -> Buffer: ...


def installed_format() -> SegmentFormat:
    """Return the format of remote segments. Raise PluginError without the brokers' package."""
    return cast(SegmentFormat, installed_plugins().load(GROUP, NAME))


def shared_tier(runtime: Runtime, tier: str, backup: str) -> ObjectStore | None:
    """Return the tier at an address if it is in the bucket of a backup; None if it is not. It is
    reached as the backup's bucket is. A folder is no such bucket: a store copies nothing there."""
    where, here = parse_address(tier, "remote.storage"), parse_address(backup)
    if where.kind is StoreKind.FILE or (where.kind, where.bucket) != (here.kind, here.bucket):
        return None
    return ObjectStore(runtime, ObstoreBucket(runtime, StoreConfig(where)))


class RemoteCopies:
    """The segments of a cluster that a backup copies."""

    def __init__(
        self,
        format: SegmentFormat,
        tier: ObjectStore,
        store: BackupStore,
        segments: Iterable[StoredSegment],
        next_producer_id: int,
        why_not: list[str],
    ) -> None:
        """`why_not` gets a line for each segment that is read though it might have been copied."""
        self._format = format
        self._tier = tier
        self._store = store
        self._prefix = parse_address(tier.where).prefix
        self._max_producer_id = next_producer_id - 1
        self._segments: dict[tuple[bytes, int], list[StoredSegment]] = defaultdict(list)
        self._why_not = why_not
        self._does_finish = True
        for each in segments:
            self._segments[each.id.topic_id, each.id.partition].append(each)

    def of_log(
        self, topic_id: Uuid, partition: int, end_offset: int, holds: Holds
    ) -> CopiedSegments:
        """Return those of one log, up to an offset."""
        found = self._segments.get((topic_id, partition), ())
        return CopiedSegments(
            self, [each for each in found if each.end_offset <= end_offset], holds
        )

    async def copied(self, segment: StoredSegment) -> Chunk | None:
        """Copy a segment, unless the backup's bucket has it already. Return None if that is not
        possible."""
        if not self._does_finish:
            self._why_not.append("the store did not finish the copy of an earlier segment")
            return None
        try:
            sizes = await self._format.stored_sizes(self._tier, segment)
            chunk = Chunk(
                segment.start_offset,
                segment.end_offset,
                sum(sizes),
                0,
                segment.max_timestamp,
                segment.max_epoch,
                self._max_producer_id,
                segment.id.id.hex(),
                sizes,
            )
            if await self._tier.size_of(segment.log_name) != chunk.size_bytes:
                self._why_not.append(f"{self._tier.where}/{segment.log_name} has another size")
                return None
            at = max(0, chunk.size_bytes - _TAIL_BYTES)
            tail = await self._tier.get_range(segment.log_name, at, chunk.size_bytes - at)
            path = f"{self._prefix}/{segment.log_name}".lstrip("/")
            await self._store.copy_chunk(
                segment.id.topic_id, segment.id.partition, chunk, path, tail
            )
        except MoldauError as error:
            if isinstance(error, StoreError) and error.why is StoreReason.UNFINISHED:
                self._does_finish = False
            self._why_not.append(str(error))
            return None
        return chunk


class CopiedSegments:
    """The segments of one log that may take the place of reads."""

    def __init__(
        self, copies: RemoteCopies | None, segments: Sequence[StoredSegment], holds: Holds
    ) -> None:
        self._copies = copies
        self._left = list(segments)
        self._holds = holds

    def next_start(self, position: int, end_offset: int) -> int:
        """Return where the first segment behind the position begins; `end_offset` if none does."""
        starts = (each.start_offset for each in self._left if each.start_offset > position)
        return min((end_offset, *starts))

    async def chunk_at(self, position: int) -> Chunk | None:
        """Return the copy of the longest segment that begins at the position; None if there is none
        that the log has, and that can be copied."""
        while here := [each for each in self._left if each.start_offset == position]:
            segment = max(here, key=lambda each: each.end_offset)
            self._left.remove(segment)
            if self._copies is not None and await self._holds(
                segment.max_epoch, segment.end_offset
            ):
                chunk = await self._copies.copied(segment)
                if chunk is not None:
                    return chunk
        return None
