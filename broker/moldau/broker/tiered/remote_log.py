"""The remote work of one partition on one node: the core that copies, expires and cuts. Pure.

    remote_log = RemoteLog(origin, random, Backoff(500, 30_000))
    remote_log.on_record(event)      # each record of the partition, in the topic's order
    remote_log.on_leader(5)          # when all records are read that the topic has
    ready = remote_log.ready(log, low_watermark, now_ms)
    remote_log.on_put(segment_id, custom_metadata)

Invariants, in the order of durability:
1. An object is put only after COPY_STARTED was read back from the topic.
2. COPY_FINISHED is written only after the store has confirmed all objects.
3. A local segment goes only after COPY_FINISHED was read back.
4. An object is deleted only after DELETE_STARTED was read back; DELETE_FINISHED is written after
   the store has confirmed that all are gone.
5. An attempt without an answer, or with a failure, is given up: its segment goes by 4, and the next
   attempt has a new id. A put that is late finds an id that was never read under.

What confirms a write is that it is read back, and never the answer to the append: an append whose
answer was lost is repeated, and the second one changes nothing (`remote_partition`). A leader that
is deposed forgets what it has begun. Its successor finds the segment in COPY_STARTED, and deletes
it. What was written and read back without effect is decided anew.

`on_leader` comes after the topic was read to its end. A leader that did not know all copies would
take its log to begin too late, and copy again what is there. Nothing remote is served before that
either: a reader of committed records would miss aborted transactions that end in a later segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.broker.tiered.copying import CopyLag, LocalLog, SegmentOrigin, begin_copy, next_copy
from moldau.broker.tiered.expiry import (
    Leadership,
    Retention,
    deletions,
    first_offset,
    local_start,
    retained_start,
)
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import (
    PartitionDeletion,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    SegmentUpdate,
    update,
)
from moldau.deferred import dataclass
from moldau.ids import new_uuid
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random

_AT_ONCE: Final = CopyLag()
_WITHOUT_LIMIT: Final = Retention()


class CopyStage(Enum):
    """How far an attempt to copy a segment has come."""

    ANNOUNCED = "COPY_STARTED is being written"
    PUT = "its objects are being put"
    CONFIRMED = "COPY_FINISHED is being written"


@dataclass(frozen=True, slots=True)
class TierSettings:
    """What the settings of a topic say, with defaults resolved."""

    lag: CopyLag = _AT_ONCE
    retention: Retention = _WITHOUT_LIMIT
    local_retention: Retention = _WITHOUT_LIMIT
    is_copied: bool = True
    """False with `remote.log.copy.disable`."""
    is_remote: bool = True
    """False when remote storage was switched off, and `remote.log.delete.on.disable` says that what
    is there goes."""


_DEFAULTS: Final = TierSettings()


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do, in this order: raise the log's start, cut the local log, append the
    writes to the topic, put and delete objects. Then come back at `due_ms` if nothing happens."""

    log_start_offset: int | None = None
    local_start_offset: int | None = None
    """Local segments that end here or before go."""
    writes: tuple[RemoteEvent, ...] = ()
    put: RemoteSegment | None = None
    deletes: tuple[RemoteSegment, ...] = ()
    """Segments of which all objects go. One that is not there is gone."""
    due_ms: int | None = None


@dataclass(slots=True)
class _Retries:
    """When something may be tried again after failures in a row."""

    backoff: Backoff
    random: Random
    failures: int = 0
    due_ms: int = 0

    def on_failure(self, now_ms: int) -> None:
        self.failures += 1
        self.due_ms = now_ms + round(self.backoff.wait_s(self.failures, self.random) * 1000)

    def on_success(self) -> None:
        self.failures = self.due_ms = 0


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A copy that is under way."""

    segment: RemoteSegment
    stage: CopyStage
    is_in_flight: bool = False
    """Whether the store was asked to put its objects."""


class RemoteLog:
    """The remote work of one partition on one node; see the module."""

    def __init__(self, origin: SegmentOrigin, random: Random, retry: Backoff) -> None:
        self.remote: Final = RemotePartition()
        self._origin = origin
        self._random = random
        self._settings = _DEFAULTS
        self._leader_epoch: int | None = None
        self._has_found_start = False
        self._copy_now_end = 0
        """Below it the lag of copies does not count."""
        self._attempt: _Attempt | None = None
        self._writes: dict[SegmentId, RemoteSegment | SegmentUpdate] = {}
        """What is to be read back, and until then appended."""
        self._appending: set[SegmentId] = set()
        """Those of them that the topic was asked to append."""
        self._deleting: set[SegmentId] = set()
        """Those whose objects the store was asked to delete, or has deleted."""
        self._copy_retries = _Retries(retry, random)
        self._write_retries = _Retries(retry, random)
        self._delete_retries = _Retries(retry, random)

    # What happens.

    def on_settings(self, settings: TierSettings) -> None:
        """The settings of the topic changed."""
        self._settings = settings

    def on_leader(self, leader_epoch: int) -> None:
        """This node leads the partition in that epoch, and has read the topic to its end."""
        self.on_follower()
        self._leader_epoch = leader_epoch

    def on_follower(self) -> None:
        """This node does not lead the partition. Answers to what it began change nothing."""
        self._leader_epoch = None
        self._has_found_start = False
        self._copy_now_end = 0
        self._attempt = None
        self._writes.clear()
        self._appending.clear()
        self._deleting.clear()

    def on_copy_now(self, end_offset: int) -> None:
        """What is below this offset is to be copied at once, as soon as it may be."""
        self._copy_now_end = end_offset

    def on_record(self, event: RemoteEvent) -> None:
        """A record of the topic was read."""
        self.remote.replay(event)
        if isinstance(event, PartitionDeletion):
            return
        known = self.remote.get(event.id)
        written = self._writes.get(event.id)
        if written is not None and (
            written == event or known is None or known.state >= written.state
        ):
            del self._writes[event.id]
            self._appending.discard(event.id)
            self._write_retries.on_success()
        if known is None:
            self._deleting.discard(event.id)
        attempt = self._attempt
        if attempt is not None and attempt.segment.id == event.id:
            self._attempt = self._after(attempt, known)

    def _after(self, attempt: _Attempt, known: RemoteSegment | None) -> _Attempt | None:
        """Another broker may have deleted the segment meanwhile."""
        if known is None or known.state is SegmentState.DELETE_STARTED:
            return None
        if known.state is SegmentState.COPY_FINISHED:
            self._copy_retries.on_success()
            return None
        is_first = attempt.stage is CopyStage.ANNOUNCED
        return _Attempt(known, CopyStage.PUT) if is_first else attempt

    def on_write_failed(self, event: RemoteEvent, now_ms: int) -> None:
        """The topic did not append the event, or the answer was lost: append it again."""
        if isinstance(event, PartitionDeletion) or self._writes.get(event.id) != event:
            return
        self._appending.discard(event.id)
        self._write_retries.on_failure(now_ms)

    def on_put(self, segment_id: SegmentId, custom_metadata: bytes, now_ms: int) -> None:
        """The store has all objects of the segment. The metadata says that the copy is finished
        (`remote_partition`), so it is never left out."""
        attempt = self._attempt
        if attempt is None or attempt.segment.id != segment_id or not attempt.is_in_flight:
            return
        self._attempt = _Attempt(attempt.segment, CopyStage.CONFIRMED)
        self._write(attempt.segment, SegmentState.COPY_FINISHED, now_ms, custom_metadata)

    def on_put_failed(self, segment_id: SegmentId, now_ms: int) -> None:
        """The store has not all objects, or that is unknown: give the attempt up."""
        if self._attempt is not None and self._attempt.segment.id == segment_id:
            self._attempt = None
            self._copy_retries.on_failure(now_ms)

    def on_deleted(self, segment_id: SegmentId, now_ms: int) -> None:
        """The store has no object of the segment any more."""
        segment = self.remote.get(segment_id)
        if segment_id in self._deleting and segment is not None:
            self._delete_retries.on_success()
            self._write(segment, SegmentState.DELETE_FINISHED, now_ms)

    def on_delete_failed(self, segment_id: SegmentId, now_ms: int) -> None:
        """The store may still have objects of the segment."""
        if segment_id in self._deleting:
            self._deleting.discard(segment_id)
            self._delete_retries.on_failure(now_ms)

    # What there is to do.

    def ready(self, log: LocalLog, low_watermark: int, now_ms: int) -> Ready:
        """Return what there is to do. `low_watermark` is the lowest log start among the in-sync
        replicas, this one included; a follower passes its own."""
        settings = self._settings
        local_retention = settings.local_retention if settings.is_copied else settings.retention
        cut = local_start(self.remote, log, local_retention, now_ms)
        ready = Ready(local_start_offset=cut if cut > log.segments[0].start_offset else None)
        if self._leader_epoch is None:
            return ready
        start = self._log_start(log, now_ms)
        if self._attempt is None:
            self._begin_copy(log, now_ms)
        deletes = tuple(self._deletes(log, low_watermark, now_ms))
        return replace(
            ready,
            log_start_offset=start if start > log.log_start_offset else None,
            writes=tuple(self._unwritten(now_ms)),
            put=self._next_put(cut),
            deletes=deletes,
            due_ms=self._due_ms(now_ms),
        )

    def _log_start(self, log: LocalLog, now_ms: int) -> int:
        start = retained_start(self.remote, log, self._settings.retention, now_ms)
        if not self._has_found_start:
            self._has_found_start = True
            start = max(start, first_offset(self.remote, log))
        return start if self._settings.is_remote else max(start, log.local_start_offset)

    def _begin_copy(self, log: LocalLog, now_ms: int) -> None:
        settings = self._settings
        if not (settings.is_copied and settings.is_remote) or now_ms < self._copy_retries.due_ms:
            return
        local = next_copy(self.remote, log, _AT_ONCE, now_ms)
        if local is not None and local.end_offset > self._copy_now_end:
            local = next_copy(self.remote, log, settings.lag, now_ms)
        if local is None:
            return
        new_id = new_uuid(self._random)
        segment = begin_copy(self._origin, local, log.chain, new_id, now_ms)
        self._attempt = _Attempt(segment, CopyStage.ANNOUNCED)
        self._writes[segment.id] = segment

    def _next_put(self, cut: int) -> RemoteSegment | None:
        """The copy is given up of a segment that fell below the log's start, and is cut now."""
        attempt = self._attempt
        if attempt is None or attempt.stage is not CopyStage.PUT or attempt.is_in_flight:
            return None
        if attempt.segment.start_offset < cut:
            self._attempt = None
            return None
        self._attempt = replace(attempt, is_in_flight=True)
        return attempt.segment

    def _deletes(self, log: LocalLog, low_watermark: int, now_ms: int) -> Iterator[RemoteSegment]:
        """All of a partition that is no longer remote goes when every replica knows it."""
        assert self._leader_epoch is not None
        copying = () if self._attempt is None else (self._attempt.segment.id,)
        leadership = Leadership(self._leader_epoch, low_watermark, copying)
        is_remote = self._settings.is_remote or low_watermark < log.local_start_offset
        for segment, _ in deletions(self.remote, log, leadership, is_remote=is_remote):
            if segment.state is not SegmentState.DELETE_STARTED:
                if segment.id not in self._writes:
                    self._write(segment, SegmentState.DELETE_STARTED, now_ms)
            elif segment.id not in self._deleting and now_ms >= self._delete_retries.due_ms:
                self._deleting.add(segment.id)
                yield segment

    def _write(
        self, segment: RemoteSegment, state: SegmentState, now_ms: int, custom: bytes | None = None
    ) -> None:
        self._writes[segment.id] = update(
            segment,
            state,
            broker_id=self._origin.broker_id,
            now_ms=now_ms,
            custom_metadata=custom,
        )
        self._appending.discard(segment.id)

    def _unwritten(self, now_ms: int) -> Iterator[RemoteEvent]:
        if now_ms < self._write_retries.due_ms:
            return
        for segment_id, event in self._writes.items():
            if segment_id not in self._appending:
                self._appending.add(segment_id)
                yield event

    def _due_ms(self, now_ms: int) -> int | None:
        retries = (self._copy_retries, self._write_retries, self._delete_retries)
        return min((each.due_ms for each in retries if each.due_ms > now_ms), default=None)
