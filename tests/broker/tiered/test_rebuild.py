"""What a replica is told of remote records is what a log with all of them knows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from moldau.broker.log.leader_epochs import EpochEntry, LeaderEpochs, LogPoint
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.producer_snapshot import encode_snapshot
from moldau.broker.tiered.chunk_cache import CacheLimits, ChunkCache
from moldau.broker.tiered.key_ring import KeyRing
from moldau.broker.tiered.rebuild import SegmentHistory, epochs_section
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_reader import RemoteReader
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentState, update
from moldau.broker.tiered.segment_objects import ObjectKind, Section, object_name
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.errors import CorruptLog
from moldau.objects.object_store import ObjectStore
from moldau.objects.store_errors import StoreError
from moldau.runtime import Runtime
from tests.broker.log.machine import NOW
from tests.broker.tiered.stores import folder_store, on_runtime
from tests.broker.tiered.uploaded_log import (
    epochs_at,
    finish,
    open_log,
    point_at,
    producers_at,
    remote_segment,
    segment_files,
    upload_all,
    write,
)

RING: Final = KeyRing({"k": bytes(range(32))}, "k")


@dataclass
class Tier:
    """A log, its copy in a store, and the history that a replica reads there."""

    log: PartitionLog
    remote: RemotePartition
    reader: RemoteReader
    store: ObjectStore
    upload: SegmentUpload
    is_ready: bool = True

    @property
    def history(self) -> SegmentHistory:
        return SegmentHistory(self)

    def delete(self, segment: RemoteSegment) -> None:
        """The segment is served no more."""
        known = self.remote.get(segment.id)
        assert known is not None
        self.remote.replay(update(known, SegmentState.DELETE_STARTED, broker_id=1, now_ms=NOW))


def run(
    folder: Path,
    main: Callable[[Tier, list[RemoteSegment]], Coroutine[Any, Any, None]],
    *,
    ring: KeyRing | None = None,
    is_copied: bool = True,
) -> None:
    (folder / "store").mkdir()

    async def whole(runtime: Runtime) -> None:
        store = folder_store(runtime, folder / "store")
        cache = ChunkCache(runtime, f"{folder}/cache", CacheLimits(free_bytes_min=0))
        await cache.open()
        log = open_log(runtime.files, f"{folder}/orders-0")
        write(log, Random(4), 200)
        upload = SegmentUpload(runtime, store, ring, 700)
        reader = RemoteReader(runtime, store, cache, ring)
        tier = Tier(log, RemotePartition(), reader, store, upload)
        try:
            copied = await upload_all(log, upload, Random(5), tier.remote) if is_copied else []
            await main(tier, copied)
        finally:
            log.abandon()
            await cache.close()

    on_runtime(whole)


@pytest.mark.parametrize("ring", [None, RING], ids=["plain", "encrypted"])
def test_at_each_offset_it_is_the_state_of_the_whole_log(
    tmp_path: Path, ring: KeyRing | None
) -> None:
    async def main(tier: Tier, copied: list[RemoteSegment]) -> None:
        log = tier.log
        assert len(copied) > 3
        assert len(log.leader_epochs.entries) == 4
        bases = [each.header.base_offset for each in log.batches(0)]
        for offset in bases[1::7] + [each.end_offset for each in copied]:
            if offset > copied[-1].end_offset:
                break
            found = await tier.history.history_at(point_at(log, offset))
            assert found.offset == offset
            assert list(found.epochs) == epochs_at(log, offset)
            assert encode_snapshot(found.producers) == producers_at(log, offset)
            assert found.covers(0)

    run(tmp_path, main, ring=ring)


def test_the_segment_that_has_the_record_before_a_point_says_where_it_ends(
    tmp_path: Path,
) -> None:
    async def main(tier: Tier, copied: list[RemoteSegment]) -> None:
        first, last = copied[0], copied[-1]
        history = tier.history
        inside = point_at(tier.log, first.start_offset + 1)
        assert history.segment_end(inside) == point_at(tier.log, first.end_offset)
        end = point_at(tier.log, last.end_offset)
        assert history.segment_end(end) == end
        assert history.segment_end(LogPoint(end.epoch, end.offset + 1)) is None
        assert history.segment_end(LogPoint(end.epoch + 9, end.offset)) is None
        with pytest.raises(CorruptLog):
            await history.history_at(LogPoint(end.epoch, end.offset + 1))

    run(tmp_path, main)


def test_what_is_deleted_below_the_start_is_not_needed(tmp_path: Path) -> None:
    async def main(tier: Tier, copied: list[RemoteSegment]) -> None:
        tier.delete(copied[0])
        second = copied[1]
        inside = next(
            each.header.base_offset
            for each in tier.log.batches(second.start_offset + 4)
            if each.header.base_offset > second.start_offset
        )
        found = await tier.history.history_at(point_at(tier.log, inside))
        assert {each.producer_id for each in found.producers} == {
            each.header.producer_id for each in tier.log.batches(second.start_offset, inside)
        }
        whole = await tier.history.history_at(point_at(tier.log, second.end_offset))
        assert encode_snapshot(whole.producers) == producers_at(tier.log, second.end_offset)

    run(tmp_path, main)


def test_a_segment_without_its_producers_or_with_other_epochs_is_found(tmp_path: Path) -> None:
    async def main(tier: Tier, copied: list[RemoteSegment]) -> None:
        log = tier.log
        end = point_at(log, log.segments.end_of(0))
        files = segment_files(log, 0)
        without: dict[Section, str] = {
            kind: path
            for kind, path in files.sections.items()
            if kind is not Section.PRODUCER_SNAPSHOT
        }
        other = LeaderEpochs([(0, 0), (1, 3)])
        for number, damaged in enumerate(
            (
                SegmentFiles(files.log_path, without, files.leader_epochs),
                SegmentFiles(files.log_path, files.sections, b""),
                SegmentFiles(files.log_path, files.sections, epochs_section(other, end.offset)),
            )
        ):
            segment = remote_segment(log, 0, bytes(15) + bytes((number,)))
            tier.remote.replay(segment)
            finish(tier.remote, segment, await tier.upload.upload(segment, damaged))
            with pytest.raises(CorruptLog):
                await tier.history.history_at(end)
            tier.delete(segment)

    run(tmp_path, main, is_copied=False)


def test_an_object_that_is_gone_is_an_error_of_the_store(tmp_path: Path) -> None:
    async def main(tier: Tier, copied: list[RemoteSegment]) -> None:
        for segment in copied:
            await tier.store.delete(object_name(segment, ObjectKind.INDEXES))
        with pytest.raises(StoreError):
            await tier.history.history_at(point_at(tier.log, copied[0].end_offset))

    run(tmp_path, main)


def test_epochs_are_stored_from_the_start_of_the_log() -> None:
    chain = LeaderEpochs([EpochEntry(0, 10), EpochEntry(3, 40), EpochEntry(5, 90)])
    assert epochs_section(chain, 90) == b"0\n2\n0 10\n3 40\n"
