"""The remote segments of a partition, in memory, and a reader of them that fails as it likes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from moldau.broker.log.rounds import rest
from moldau.broker.tiered.rebuild import SegmentHistory
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_reader import FetchedBatches
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId, SegmentState, update
from moldau.broker.tiered.segment_objects import Section
from moldau.objects.store_errors import StoreReason, store_error
from moldau.records import Batch, walk


@dataclass(frozen=True)
class Stored:
    """The content of a segment."""

    log: bytes
    epochs: bytes
    producers: bytes

    def batch_at(self, offset: int) -> Batch | None:
        return next((each for each in walk(self.log) if each.header.base_offset == offset), None)


class RemoteStore:
    """The topic of remote segments and the store, in one hand, without delay."""

    def __init__(self, random: Random) -> None:
        self.remote = RemotePartition()
        self.objects: dict[SegmentId, Stored] = {}
        self.badness = 0.0
        self._random = random

    def copy(self, segment: RemoteSegment, content: Stored) -> None:
        self.objects[segment.id] = content
        self.remote.replay(segment)
        self._enter(segment, SegmentState.COPY_FINISHED)

    def delete(self, segment: RemoteSegment) -> None:
        self._enter(segment, SegmentState.DELETE_STARTED)
        self._enter(segment, SegmentState.DELETE_FINISHED)
        del self.objects[segment.id]

    def _enter(self, segment: RemoteSegment, state: SegmentState) -> None:
        known = self.remote.get(segment.id)
        assert known is not None
        self.remote.replay(update(known, state, broker_id=1, now_ms=0, custom_metadata=b"x"))

    # As `RemoteReader`.

    async def section(self, segment: RemoteSegment, kind: Section) -> bytes | None:
        content = await self._get(segment)
        return content.epochs if kind is Section.LEADER_EPOCHS else content.producers

    async def read(
        self, segment: RemoteSegment, offset: int, max_bytes: int, upper_offset: int | None = None
    ) -> FetchedBatches:
        content = await self._get(segment)
        upper = segment.end_offset if upper_offset is None else upper_offset
        found = [
            each
            for each in walk(content.log)
            if each.header.next_offset > offset and each.header.next_offset <= upper
        ][:2]
        if not found:
            return FetchedBatches(b"", offset)
        return FetchedBatches(
            b"".join(bytes(each.data) for each in found), found[-1].header.next_offset
        )

    async def _get(self, segment: RemoteSegment) -> Stored:
        await rest(self._random.choice((0.001, 0.01, 0.05)))
        if self._random.random() < self.badness:
            raise store_error(StoreReason.THROTTLED, "get", str(segment.id))
        content = self.objects.get(segment.id)
        if content is None:
            raise store_error(StoreReason.NOT_FOUND, "get", str(segment.id))
        return content


@dataclass
class NodePart:
    """The remote part of the partition on one node."""

    store: RemoteStore
    is_ready: bool = False

    @property
    def remote(self) -> RemotePartition:
        return self.store.remote

    @property
    def reader(self) -> RemoteStore:
        return self.store

    @property
    def history(self) -> SegmentHistory:
        return SegmentHistory(self)
