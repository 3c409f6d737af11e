"""A log whose sealed segments are in a store, as a leader copies them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from moldau.broker.log import names
from moldau.broker.log.leader_epochs import LeaderEpochs, LogPoint
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_snapshot import encode_snapshot
from moldau.broker.log.producer_state import ProducerState
from moldau.broker.log.recovery import Opening, replay
from moldau.broker.tiered.copying import LocalSegment, SegmentOrigin, begin_copy
from moldau.broker.tiered.rebuild import epochs_section
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentState, update
from moldau.broker.tiered.segment_objects import Section
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.records import Producer
from moldau.runtime.files import Files
from tests.broker.log.machine import NOW, batch

CONFIG: Final = LogConfig(
    segment_bytes=2000,
    segment_index_bytes=400,
    index_interval_bytes=150,
    retention_ms=-1,
    is_tiered=True,
)
ORIGIN: Final = SegmentOrigin("orders", b"t" * 16, 0, 1)
_FOREVER: Final = 1 << 62


def open_log(files: Files, directory: str) -> PartitionLog:
    return PartitionLog.open(files, directory, CONFIG, Opening(NOW))


def write(log: PartitionLog, random: Random, count: int, epochs: int = 4) -> None:
    """Append batches of several producers, in several leader epochs; all is replicated."""
    sequences: dict[int, int] = {}
    first = log.leader_epochs.latest_epoch or 0
    for number in range(count):
        producer_id, rows = random.randrange(6), random.randint(1, 4)
        sequence = sequences.get(producer_id, 0)
        sequences[producer_id] = sequence + rows
        producer = Producer(producer_id, first, sequence)
        log.append_as_leader(batch(rows, producer=producer), first + number * epochs // count, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()


def remote_segment(log: PartitionLog, number: int, id: bytes) -> RemoteSegment:
    """A sealed segment of the log as it is announced."""
    found = log.segments[number]
    local = LocalSegment(
        found.base_offset, log.segments.end_of(number), NOW, found.size_bytes, False
    )
    return begin_copy(ORIGIN, local, log.leader_epochs, id, NOW)


def segment_files(log: PartitionLog, number: int) -> SegmentFiles:
    found, end = log.segments[number], log.segments.end_of(number)
    sections = {
        Section.OFFSET_INDEX: found.path(names.INDEX),
        Section.TIME_INDEX: found.path(names.TIME_INDEX),
        Section.PRODUCER_SNAPSHOT: log.snapshots.path(end),
    }
    return SegmentFiles(found.log_path, sections, epochs_section(log.leader_epochs, end))


async def upload_all(
    log: PartitionLog, upload: SegmentUpload, random: Random, remote: RemotePartition
) -> list[RemoteSegment]:
    """Copy all sealed segments, and record that."""
    done = []
    for number in range(len(log.segments) - 1):
        segment = remote_segment(log, number, random.randbytes(16))
        remote.replay(segment)
        custom = await upload.upload(segment, segment_files(log, number))
        finish(remote, segment, custom)
        done.append(replace(segment, state=SegmentState.COPY_FINISHED, custom_metadata=custom))
    return done


def finish(remote: RemotePartition, segment: RemoteSegment, custom: bytes) -> None:
    event = update(
        segment, SegmentState.COPY_FINISHED, broker_id=1, now_ms=NOW, custom_metadata=custom
    )
    remote.replay(event)


def point_at(log: PartitionLog, offset: int) -> LogPoint:
    epoch = log.leader_epochs.epoch_for_offset(offset - 1)
    assert epoch is not None
    return LogPoint(epoch, offset)


def producers_at(log: PartitionLog, offset: int) -> bytes:
    """The snapshot of the producers that the log's own batches give."""
    state = ProducerState(_FOREVER)
    state.reset(0)
    replay(state, log.batches(0, offset))
    return encode_snapshot(state.entries.values())


def epochs_at(log: PartitionLog, offset: int) -> list[tuple[int, int]]:
    known = LeaderEpochs(log.leader_epochs.entries)
    known.truncate_from_end(offset)
    return list(known.entries)
