"""Decide which records of a batch compaction keeps.

Invariants: of the records up to `latest_offset` only the newest of each key stays. If that is a
tombstone, it stays until its delete horizon has passed (KIP-534). Records behind `latest_offset`
are not touched. Aborted records are removed. A batch stays, even an empty one, if it holds its
producer's last sequence or epoch, or the last offset that can be cleaned: a restart must find both
again.

The delete horizon is set when the cleaner first sees a tombstone, or the marker of a transaction
with no batches left. From then on readers have `delete_retention_ms` to see it. While a replica of
the partition is out of sync, neither is removed: 1. the replica has the records that they end, and
goes away. 2. Others remove these records, and later the tombstone or marker. 3. The replica comes
back behind both, keeps its records, and leads: what was deleted or aborted is there again. (Kafka
removes them all the same.)
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.log.compaction_offsets import OffsetMap
from moldau.broker.log.compaction_transactions import CleanedTransactions
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.deferred import dataclass
from moldau.records import Batch, BatchHeader, Buffer, Entry, open_batch, read_header, retain
from moldau.records.batch import seal
from moldau.records.codecs import RECORD_BYTES_MAX
from moldau.records.header import (
    LAYOUT,
    LOG_APPEND_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)


@dataclass(frozen=True, slots=True)
class Round:
    """The parameters of one round.

    `latest_offset`   the last offset whose key is in the map.
    `end_offset`      the first offset that may not be cleaned.
    `record_bytes_max`   how large a record of a compressed batch may be.
    `is_everywhere`   whether every replica of the partition has what is cleaned.
    """

    latest_offset: int
    end_offset: int
    producers: Mapping[int, ProducerStateEntry]
    delete_retention_ms: int
    now_ms: int
    is_everywhere: bool = True
    record_bytes_max: int = RECORD_BYTES_MAX

    def is_over(self, horizon_ms: int | None) -> bool:
        """Whether what has this delete horizon may be removed."""
        return self.is_everywhere and horizon_ms is not None and horizon_ms <= self.now_ms


class BatchFilter:
    """Filters the batches of a log. The batches must be passed in order."""

    def __init__(self, round: Round, offsets: OffsetMap, transactions: CleanedTransactions) -> None:
        self._round = round
        self._offsets = offsets
        self._transactions = transactions

    def filter(self, batch: Batch, *, is_end: bool = False) -> Buffer | None:
        """Return the batch to write, or None to drop it. An unchanged batch is returned with its
        original bytes.

        `is_end` marks the last batch of a new segment. If no record of it stays, an empty batch
        without a producer takes its offsets. So the new segment ends where the old ones did, and a
        start after a crash can tell which segments it replaces.
        """
        kept = self._filter(batch)
        return _placeholder(batch) if kept is None and is_end else kept

    def _filter(self, batch: Batch) -> Buffer | None:
        header = batch.header
        keep_empty = self._is_needed_empty(header)
        if header.is_control:
            return self._filter_control(batch, keep_empty)
        if self._transactions.on_batch(header):
            return self._without_records(batch, keep_empty)
        return self._filter_records(batch, keep_empty)

    def _filter_control(self, batch: Batch, keep_empty: bool) -> Buffer | None:
        if not self._transactions.on_marker(batch):
            return batch.data
        if self._round.is_over(batch.header.delete_horizon_ms):
            return self._without_records(batch, keep_empty)
        return retain(batch, _always, delete_horizon_ms=self._horizon(), keep_empty=keep_empty)

    def _filter_records(self, batch: Batch, keep_empty: bool) -> Buffer | None:
        header = batch.header
        latest = self._round.latest_offset
        find = self._offsets.get
        set_before = header.delete_horizon_ms
        drops_tombstones = self._round.is_over(set_before)
        keeps_tombstone = False

        def is_kept(entry: Entry) -> bool:
            nonlocal keeps_tombstone
            if entry.offset <= latest:
                if entry.key is None or entry.offset < find(entry.key):
                    return False
                if entry.value_bytes < 0 and drops_tombstones:
                    return False
            keeps_tombstone = keeps_tombstone or entry.value_bytes < 0
            return True

        most = self._round.record_bytes_max
        kept = retain(batch, is_kept, keep_empty=keep_empty, record_bytes_max=most)
        if kept is None or not keeps_tombstone or set_before is not None:
            return kept
        return retain(open_batch(kept), _always, delete_horizon_ms=self._horizon())

    def _without_records(self, batch: Batch, keep_empty: bool) -> Buffer | None:
        return retain(batch, _never, keep_empty=True) if keep_empty else None

    def _horizon(self) -> int:
        return self._round.now_ms + self._round.delete_retention_ms

    def _is_needed_empty(self, header: BatchHeader) -> bool:
        """Whether the batch must stay even without records. A restart must find a producer's last
        sequence, its epoch if a marker was its last batch, and the end of the cleaned part."""
        if header.next_offset == self._round.end_offset:
            return True
        if not header.has_producer_id:
            return False
        producer = self._round.producers.get(header.producer_id)
        if producer is None:
            return False
        if producer.batches:
            return header.last_offset == producer.last_data_offset
        return header.is_control and header.producer_epoch == producer.epoch


def _placeholder(batch: Batch) -> Buffer:
    """Return an empty batch with the offsets of this one and without its producer."""
    emptied = retain(batch, _never, keep_empty=True)
    assert emptied is not None
    data = bytearray(emptied)
    header = read_header(data)
    header = header._replace(
        attributes=header.attributes & LOG_APPEND_TIME,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
    )
    LAYOUT.pack_into(data, 0, *header)
    seal(data, 0, len(data))
    return data


def _always(_: Entry) -> bool:
    return True


def _never(_: Entry) -> bool:
    return False
