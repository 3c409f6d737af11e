"""Appending batches to a log.

Invariants:
* An append is one write of the received bytes, stamped in place. A rejected append (KafkaError)
  changes nothing but the stamp in the caller's bytes.
* Every batch belongs to the epoch that `leader_epochs` gives for its offset, and lies whole in the
  segment that its offsets lead to.
* After an OSError from the disk nothing is appended again (`LogState.failure`). As in Kafka, this
  includes a roll that fails because too many files are open: half of it is done by then.

Nearly every batch of a client is valid and fits behind the last one. `append_usual` handles it with
one call of the kernel and one of the segment. For all others, `admit` checks the batch, and
`_append_at_edge` finds the place for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import NoReturn, TypeAlias

from moldau.broker.log.admission import (
    NO_APPEND_TIME,
    Admitted,
    admit,
    checked_batches,
    rules_of,
    stamped,
    too_large,
)
from moldau.broker.log.appended import AppendInfo
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import Origin, ProducerAppend
from moldau.broker.log.rolling import SegmentRoller
from moldau.broker.log.state import LogState
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import HEADER_BYTES, Batch, Buffer, OversizedRecords, read_header, stamp
from moldau.records.codecs import USUAL_BYTES_MAX
from moldau.records.diagnosis import KEYED
from moldau.records.header import CODEC_MASK, TRANSACTIONAL
from moldau.records.kernel import admit_usual

_producer_fields = Struct(">22xB28xhi").unpack_from
"""Unpacks the lower byte of the attributes, which holds all defined bits, the epoch and the
sequence."""
_producer_id = Struct(">43xq").unpack_from
_CODEC_AT = 22
_NEVER = -1
"""A size smaller than any batch."""
_LAST = (1 << 63) - 1

AppendedFields: TypeAlias = tuple[int, int, int, bool]
"""The fields of an `AppendInfo`, as a plain tuple, which is cheaper to make."""


class LogAppender:
    """The part of a log that appends."""

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_kernel_rules",
        "_rolling",
        "_rules",
        "_state",
        "_usual_bytes_max",
        "_usual_rules",
    )

    def __init__(self, state: LogState, rolling: SegmentRoller) -> None:
        self._state = state
        self._rolling = rolling
        self.learn(state.config)

    def learn(self, config: LogConfig) -> None:
        """Copy the settings that every append uses."""
        self._rules = rules_of(config)
        self._usual_rules = rules_of(config, USUAL_BYTES_MAX)
        self._kernel_rules = KEYED if self._rules.needs_keys else 0
        self._before_max_ms = config.timestamp_before_max_ms
        self._after_max_ms = min(config.timestamp_after_max_ms, _LAST >> 1)
        is_changed = config.is_append_time or config.compression is not None or config.is_restoring
        # The kernel opens no more than that of a batch, so no record in it is larger.
        is_changed |= config.max_decompressed_message_bytes < USUAL_BYTES_MAX
        self._usual_bytes_max = _NEVER if is_changed else config.max_message_bytes
        """The largest batch that is appended as received. Larger ones are checked first."""

    # A client's batch.

    def append_usual(
        self, records: Buffer, leader_epoch: int, now_ms: int
    ) -> AppendedFields | None:
        """Append like `append_batch`, if the kernel accepts the batch as it is. None means that
        nothing was done and the batch needs a full check, OversizedRecords that it needs one with
        `judge`."""
        state = self._state
        if len(records) > self._usual_bytes_max or state.failure is not None:
            return None
        base = state.log_end_offset
        usual = admit_usual(
            records,
            self._kernel_rules,
            now_ms - self._before_max_ms,
            now_ms + self._after_max_ms,
            base,
            leader_epoch,
        )
        if usual is None:
            return None
        last, max_timestamp, producer_id = usual
        if producer_id >= 0:
            attributes, epoch, sequence = _producer_fields(records)
            entry = state.producers.going_on(producer_id, epoch, sequence)
            if entry is None or attributes & TRANSACTIONAL:
                data = records if type(records) is memoryview else memoryview(records)
                admitted = data, last - base, max_timestamp, producer_id, NO_APPEND_TIME
                return self._append_admitted(admitted, leader_epoch, now_ms)
            self._write_one(records, last, max_timestamp, leader_epoch, now_ms)
            state.producers.went_on(entry, sequence, last - base, (last, max_timestamp))
        else:
            self._write_one(records, last, max_timestamp, leader_epoch, now_ms)
            state.producers.end_offset = last + 1
        return base, last, NO_APPEND_TIME, False

    def append_batch(self, records: Buffer, leader_epoch: int, now_ms: int) -> AppendedFields:
        """Assign offsets to the one batch of a client, and write it. Return the fields of an
        `AppendInfo`.

        Writable bytes are stamped in place. A KafkaError rejects the batch.
        """
        try:
            return self.append_small(records, leader_epoch, now_ms)
        except OversizedRecords:
            return self.append_admitted(self.judge(records, now_ms)(), leader_epoch, now_ms)

    def append_small(self, records: Buffer, leader_epoch: int, now_ms: int) -> AppendedFields:
        """Do the same, but raise OversizedRecords and do nothing if the batch decompresses to more
        than USUAL_BYTES_MAX. Its check takes long: `judge` does it in a thread."""
        fields = self.append_usual(records, leader_epoch, now_ms)
        if fields is not None:
            return fields
        state = self._state
        if state.failure is not None:
            state.refuse_failed()
        if state.config.is_restoring:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "the topic is being restored: produce when that is done"
            )
        is_compressed = len(records) >= HEADER_BYTES and records[_CODEC_AT] & CODEC_MASK
        rules = self._usual_rules if is_compressed else self._rules
        return self.append_admitted(
            admit(records, state.config, rules, now_ms), leader_epoch, now_ms
        )

    def judge(self, records: Buffer, now_ms: int) -> Callable[[], Admitted]:
        """Return the check of a large batch, which may run in a thread: it uses nothing of the log
        but its settings, and little memory."""
        return partial(admit, records, self._state.config, self._rules, now_ms, is_in_parts=True)

    def append_admitted(self, admitted: Admitted, leader_epoch: int, now_ms: int) -> AppendedFields:
        """Append a batch that has passed its check."""
        state = self._state
        if state.failure is not None:
            state.refuse_failed()
        stamp(admitted[0], state.log_end_offset, leader_epoch)
        return self._append_admitted(admitted, leader_epoch, now_ms)

    def _append_admitted(
        self, admitted: Admitted, leader_epoch: int, now_ms: int
    ) -> AppendedFields:
        """Write a stamped batch, unless it is a duplicate."""
        state = self._state
        data, delta, max_timestamp, producer_id, append_time_ms = admitted
        base = state.log_end_offset
        append = None
        if producer_id >= 0:
            append = state.producers.prepare(Origin.CLIENT)
            batch = Batch(read_header(data), data)
            known = append.add(batch, base_offset=base, timestamp=max_timestamp)
            if known is not None:
                return known.first_offset, known.last_offset, known.timestamp, True
        self._write_one(data, base + delta, max_timestamp, leader_epoch, now_ms)
        if append is None:
            state.producers.end_offset = state.log_end_offset
        else:
            state.producers.commit(append)
        return base, base + delta, append_time_ms, False

    def _write_one(
        self, data: Buffer, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> None:
        """Write a stamped batch."""
        state = self._state
        try:
            if leader_epoch != state.leader_epoch or not state.segments.active.append_usual(
                data, last_offset, max_timestamp
            ):
                self._append_at_edge(data, last_offset, max_timestamp, leader_epoch, now_ms)
        except OSError as error:
            state.fail(error)
        state.log_end_offset = last_offset + 1
        if state.oldest_unflushed_ms is None:
            state.oldest_unflushed_ms = now_ms

    def _append_at_edge(
        self, data: Buffer, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> None:
        """Append a batch that needs more than a write: a new epoch, a new segment, or an index
        entry."""
        state = self._state
        if len(data) > state.config.segment_bytes:
            self._refuse_for_segment(data)
        active = state.segments.active
        if not active.has_room_for(len(data), last_offset) or self._rolling.is_due(
            active, max_timestamp, now_ms
        ):
            self._rolling.roll(now_ms)
        if leader_epoch != state.leader_epoch:
            self._begin_epoch(leader_epoch, state.log_end_offset)
        state.segments.active.append(data, last_offset, max_timestamp)

    def _refuse_for_segment(self, data: Buffer) -> NoReturn:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            size_bytes=len(data),
            segment_bytes=self._state.config.segment_bytes,
        )

    # Other batches.

    def append_own(
        self, batches: Buffer, leader_epoch: int, now_ms: int, transaction_version: int = 0
    ) -> AppendedFields:
        """Assign offsets to what this node's coordinators write, and write all of it or nothing:
        one batch of records without a producer, or any number of batches with one.

        The sequences of producers are not checked, so no batch is taken for a duplicate.
        `transaction_version` is that of transaction markers. Return the fields of an `AppendInfo`.
        """
        if _producer_id(batches)[0] < 0:
            return self.append_batch(batches, leader_epoch, now_ms)
        config = self._state.config
        if len(batches) > config.max_message_bytes:
            raise too_large(len(batches), config)
        if len(batches) > config.segment_bytes:
            self._refuse_for_segment(batches)
        appended = self.append_as_leader(
            batches,
            leader_epoch,
            now_ms,
            origin=Origin.COORDINATOR,
            transaction_version=transaction_version,
        )
        return appended.first_offset, appended.last_offset, appended.append_time_ms, False

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Assign offsets to batches and write them: one from a client, or any number of this node's
        own.

        Writable bytes of a client are stamped in place. A KafkaError rejects all batches.
        """
        if origin is Origin.CLIENT:
            return AppendInfo(*self.append_batch(records, leader_epoch, now_ms))
        state = self._state
        if state.failure is not None:
            state.refuse_failed()
        append_time_ms = now_ms if state.config.is_append_time else None
        base = state.log_end_offset
        data, end = stamped(records, base, leader_epoch, append_time_ms)
        self._append_stamped(data, Origin.COORDINATOR, now_ms, transaction_version)
        return AppendInfo(base, end - 1, NO_APPEND_TIME if append_time_ms is None else now_ms)

    def append_as_follower(self, records: Buffer, now_ms: int) -> AppendInfo:
        """Write batches unchanged from the leader. An incomplete batch at the end is left out.

        Raise KafkaError if a checksum is wrong, or if the batches do not continue this log.
        """
        state = self._state
        if state.failure is not None:
            state.refuse_failed()
        return self._append_stamped(records, Origin.REPLICATION, now_ms, 0)

    def _append_stamped(
        self, records: Buffer, origin: Origin, now_ms: int, transaction_version: int
    ) -> AppendInfo:
        """Write batches that have their offsets, as many at once as fit into a segment."""
        state = self._state
        batches = checked_batches(records, state.log_end_offset)
        if not batches:
            raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch")
        append = self._prepared(batches, origin, transaction_version)
        view = memoryview(records)
        pending: list[Batch] = []
        size = first = 0
        try:
            for number, batch in enumerate(batches):
                header = batch.header
                if not self._rolling.fits(header, size, now_ms):
                    self._write(view, pending)
                    pending, size = [], 0
                    if state.segments.active.size_bytes:
                        if number > first:
                            # The snapshot of a roll is the state at the start of the new segment.
                            done = batches[first:number]
                            self._commit(self._prepared(done, origin, transaction_version))
                            first = number
                        self._rolling.roll(now_ms)
                pending.append(batch)
                size += header.size_bytes
                if header.partition_leader_epoch != state.leader_epoch:
                    self._begin_epoch(header.partition_leader_epoch, header.base_offset)
            self._write(view, pending)
            if first:
                append = self._prepared(batches[first:], origin, transaction_version)
            self._commit(append)
        except OSError as error:
            state.fail(error)
        if state.oldest_unflushed_ms is None:
            state.oldest_unflushed_ms = now_ms
        return AppendInfo(batches[0].header.base_offset, state.log_end_offset - 1)

    def _prepared(
        self, batches: Sequence[Batch], origin: Origin, transaction_version: int
    ) -> ProducerAppend:
        producers = self._state.producers
        append = producers.prepare(origin, transaction_version=transaction_version)
        for batch in batches:
            append.add(batch)
        return append

    def _commit(self, append: ProducerAppend) -> None:
        aborted = self._state.producers.commit(append)
        if aborted:
            self._note_aborted(aborted)

    def _write(self, view: memoryview, batches: Sequence[Batch]) -> None:
        state = self._state
        if batches:
            state.segments.active.append_all(view[batches[0].position : batches[-1].end], batches)
            state.log_end_offset = batches[-1].header.next_offset

    def _note_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Add aborted transactions to the index of the segment with their marker."""
        state = self._state
        for each in aborted:
            segment = state.segments[state.segments.index_of(each.last_offset)]
            segment.transaction_index.append(each)

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Begin an epoch. Until a flush has saved the epochs, recovery takes them from the
        batches."""
        state = self._state
        if leader_epoch >= 0 and state.leader_epochs.assign(leader_epoch, start_offset):
            state.durability.epochs_changed()
        state.leader_epoch = leader_epoch
