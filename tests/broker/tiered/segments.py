"""Segments, logs and histories for the tests of the room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from moldau.broker.log.leader_epochs import EpochEntry, LeaderEpochs
from moldau.broker.tiered.copying import LocalLog, LocalSegment
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import (
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    SegmentUpdate,
)

TOPIC: Final = "orders"
TOPIC_ID: Final = bytes(7) + b"\x07" + bytes(8)
NOW: Final = 1_000_000
Pairs = Sequence[tuple[int, int]]


def id_of(number: int) -> SegmentId:
    return SegmentId(TOPIC_ID, 0, number.to_bytes(16, "big"))


def number_of(segment: RemoteSegment | None) -> int | None:
    return None if segment is None else int.from_bytes(segment.id.id, "big")


def segment(
    number: int,
    offsets: range,
    epochs: Pairs = ((0, 0),),
    *,
    size_bytes: int = 100,
    max_timestamp_ms: int = NOW,
    has_transaction_index: bool = False,
) -> RemoteSegment:
    """A segment in COPY_STARTED; epochs begin no earlier than it."""
    return RemoteSegment(
        id_of(number),
        TOPIC,
        offsets.start,
        offsets.stop,
        max_timestamp_ms,
        size_bytes,
        tuple(EpochEntry(epoch, max(start, offsets.start)) for epoch, start in epochs),
        broker_id=1,
        event_ms=NOW,
        has_transaction_index=has_transaction_index,
    )


def changed(number: int, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(id_of(number), TOPIC, state, 1, NOW)


def finished(*segments: RemoteSegment) -> list[RemoteEvent]:
    """The records of copies that are done."""
    found: list[RemoteEvent] = []
    for each in segments:
        found += [each, SegmentUpdate(each.id, TOPIC, SegmentState.COPY_FINISHED, 1, NOW)]
    return found


def fold(events: Iterable[RemoteEvent]) -> RemotePartition:
    remote = RemotePartition()
    for event in events:
        remote.replay(event)
    return remote


def copied(*segments: RemoteSegment) -> RemotePartition:
    return fold(finished(*segments))


def local_log(
    *ends: int,
    epochs: Pairs = ((0, 0),),
    log_start: int = 0,
    size_bytes: int = 100,
    high_watermark: int | None = None,
    max_timestamp_ms: int = NOW,
) -> LocalLog:
    """A local log whose segments lie between these offsets; the last one is the active one."""
    pieces = [
        LocalSegment(start, end, max_timestamp_ms, size_bytes) for start, end in pairwise(ends)
    ]
    mark = ends[-1] if high_watermark is None else high_watermark
    return LocalLog(LeaderEpochs(epochs), pieces, log_start, mark, mark)
