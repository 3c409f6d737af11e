"""The producers of a partition: the last sequence of each, and its open transaction.

Invariants:
* The state is a fold over the partition's batches: `prepare`, `add`, `commit` for each append. A
  leader, a follower and recovery do the same. `end_offset` is the end of the fold so far.
* `prepare` and `add` change nothing. Their results take effect in `commit`, which is called when
  the bytes are in the file. So an append that fails leaves no trace here.
* An entry is never changed, only replaced. Another thread can write a snapshot, or clean the log,
  from a copy of the table of entries.
* Open transactions are ordered by their first offsets. Completed ones whose marker is not
  replicated yet are ordered by their markers. The smallest first offset of both is where
  read_committed consumers stop.

Only a client's batches have their sequences checked. A coordinator writes without sequences.
Batches from a leader or from the broker's own log were checked when they were appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.errors import BadData, CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.protocol.schemas.versioned import decode_as_known
from moldau.records import Batch, BatchHeader, ControlRecord, ControlType, control_records
from moldau.records.header import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL

BATCHES_KEPT: Final = 5
"""How many of a producer's last batches are remembered to detect duplicates: as many as it may have
in flight."""
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_EPOCH_MAX: Final = 0x7FFF
_STRICT_MARKERS_SINCE: Final = 2  # KIP-890: a marker carries a higher epoch than its transaction


class Origin(Enum):
    """Where a batch comes from. This decides which checks apply."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"  # from a leader, or from the broker's own log in recovery


class BatchMetadata(NamedTuple):
    """The facts about a batch that are kept to answer a duplicate of it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """One producer: its epoch, its last batches in that epoch, its open transaction."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    transaction_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the remembered batch with the same sequences as this one. The caller has checked
        the epoch."""
        delta = header.last_offset_delta
        last = (header.base_sequence + delta) & _SEQUENCE_MASK
        for known in self.batches:
            if known.last_sequence == last and known.offset_delta == delta:
                return known
        return None

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the producer has been idle for too long. A producer with an open transaction
        never expires, because its marker is still to come."""
        idle_ms = now_ms - self.last_timestamp
        return self.transaction_first_offset is None and idle_ms >= expiration_ms


# Make the tuples directly from all fields: for each batch this is cheaper than calling the classes.
_new_metadata: Final = partial(tuple.__new__, BatchMetadata)
_new_entry: Final = partial(tuple.__new__, ProducerStateEntry)


class StartedTransaction(NamedTuple):
    """A producer's first transactional batch after its last marker."""

    producer_id: int
    first_offset: int


class CompletedTransaction(NamedTuple):
    """A completed transaction. Its marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerAppend:
    """The changes that one append would make. `prepare` creates it, `commit` applies it."""

    __slots__ = (
        "_known",
        "_origin",
        "_transaction_version",
        "end_offset",
        "entries",
        "transactions",
    )

    def __init__(
        self,
        known: Mapping[int, ProducerStateEntry],
        origin: Origin,
        transaction_version: int,
        end_offset: int,
    ) -> None:
        self.entries: dict[int, ProducerStateEntry] = {}
        self.transactions: list[StartedTransaction | CompletedTransaction] = []
        self.end_offset = end_offset
        self._known = known
        self._origin = origin
        self._transaction_version = transaction_version

    def add(
        self, batch: Batch, *, base_offset: int | None = None, timestamp: int | None = None
    ) -> BatchMetadata | None:
        """Check the next batch of the append, as if all before it were committed.

        `base_offset` and `timestamp` (the largest) are the values that the leader will stamp into
        the batch, for a header that does not hold them yet. If a client's batch is a duplicate,
        return the kept facts about the original: the batch must not be appended. A KafkaError
        rejects the batch and the whole append.
        """
        header = batch.header
        offset = header.base_offset if base_offset is None else base_offset
        producer_id = header.producer_id
        if producer_id != NO_PRODUCER_ID:
            entry = self.entries.get(producer_id) or self._known.get(producer_id)
            if entry is None:
                entry = ProducerStateEntry(producer_id)
            if header.attributes & CONTROL:
                entry = self._with_marker(entry, batch, offset, timestamp)
            else:
                duplicate = self._judge(entry, header, offset)
                if duplicate is not None:
                    return duplicate
                entry = self._with_data(entry, header, offset, timestamp)
            self.entries[producer_id] = entry
        self.end_offset = offset + header.last_offset_delta + 1
        return None

    def _judge(
        self, entry: ProducerStateEntry, header: BatchHeader, offset: int
    ) -> BatchMetadata | None:
        """Reject an invalid batch of records, or return the batch that it repeats."""
        if self._origin is Origin.CLIENT:
            if header.producer_epoch == entry.epoch and entry.batches:
                next_sequence = (entry.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
                if header.base_sequence == next_sequence:
                    return None  # the usual case: the batch continues the producer's sequence
                duplicate = entry.duplicate_of(header)
                if duplicate is not None:
                    return duplicate
            self._check_epoch(entry, header, offset, transaction_version=0)
            _check_sequence(entry, header, offset)
        elif self._origin is Origin.COORDINATOR:
            self._check_epoch(entry, header, offset, transaction_version=0)
        return None

    def _with_data(
        self, entry: ProducerStateEntry, header: BatchHeader, offset: int, timestamp: int | None
    ) -> ProducerStateEntry:
        newest = header.max_timestamp if timestamp is None else timestamp
        delta = header.last_offset_delta
        metadata = _new_metadata((header.last_sequence, offset + delta, delta, newest))
        known = entry.batches if entry.epoch == header.producer_epoch else ()
        first_offset = entry.transaction_first_offset
        if header.attributes & TRANSACTIONAL:
            if first_offset is None:
                first_offset = offset
                self.transactions.append(StartedTransaction(header.producer_id, offset))
        elif first_offset is not None:
            self._refuse_outside_transaction(header, offset)
        return _new_entry(
            (
                header.producer_id,
                header.producer_epoch,
                entry.coordinator_epoch,
                newest,
                first_offset,
                (*known[1 - BATCHES_KEPT :], metadata),
            )
        )

    def _with_marker(
        self, entry: ProducerStateEntry, batch: Batch, offset: int, timestamp: int | None
    ) -> ProducerStateEntry:
        header = batch.header
        if not header.record_count:
            return _with_emptied_marker(entry, header)
        marker, coordinator_epoch = _end_of_transaction(batch)
        self._check_epoch(entry, header, offset, transaction_version=self._transaction_version)
        if self._origin is not Origin.REPLICATION and entry.coordinator_epoch > coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                producer_id=header.producer_id,
                offset=offset,
                coordinator_epoch=coordinator_epoch,
                known_coordinator_epoch=entry.coordinator_epoch,
            )
        if entry.transaction_first_offset is not None:
            self.transactions.append(
                CompletedTransaction(
                    header.producer_id,
                    entry.transaction_first_offset,
                    offset,
                    marker.type == ControlType.ABORT,
                )
            )
        return entry._replace(
            epoch=header.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            last_timestamp=marker.timestamp if timestamp is None else timestamp,
            transaction_first_offset=None,
            batches=entry.batches if entry.epoch == header.producer_epoch else (),
        )

    def _check_epoch(
        self, entry: ProducerStateEntry, header: BatchHeader, offset: int, transaction_version: int
    ) -> None:
        if self._origin is Origin.REPLICATION or header.producer_epoch > entry.epoch:
            return
        if header.producer_epoch == entry.epoch:
            if transaction_version < _STRICT_MARKERS_SINCE:
                return
            # The same marker again, after a lost response or a new coordinator: the transaction is
            # over, so the marker does no harm. An epoch at its maximum cannot be raised any more.
            if entry.transaction_first_offset is None or header.producer_epoch == _EPOCH_MAX:
                return
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            producer_id=header.producer_id,
            offset=offset,
            epoch=header.producer_epoch,
            known_epoch=entry.epoch,
            transaction_version=transaction_version,
        )

    def _refuse_outside_transaction(self, header: BatchHeader, offset: int) -> None:
        if self._origin is not Origin.REPLICATION:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                "a batch without transaction while the producer has one open",
                producer_id=header.producer_id,
                offset=offset,
            )


class ProducerState:
    """All producers of one partition, up to `end_offset`."""

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.end_offset = 0
        self.first_unstable_offset: int | None = None
        """The first offset of a transaction that is open, or that ended above the high
        watermark."""
        self._entries: dict[int, ProducerStateEntry] = {}
        self._ongoing: dict[int, int] = {}  # first offset -> producer id
        self._unreplicated: deque[CompletedTransaction] = deque()

    @property
    def entries(self) -> Mapping[int, ProducerStateEntry]:
        """A view of the producers by id. Copy it with `dict` to get a snapshot that never
        changes."""
        return MappingProxyType(self._entries)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction, replicated or not."""
        return next(iter(self._ongoing), None)

    def going_on(
        self, producer_id: int, epoch: int, base_sequence: int
    ) -> ProducerStateEntry | None:
        """Return the producer if a client's batch of records simply continues its sequence, as
        nearly every batch does. Then there is nothing to check, and `went_on` records the batch. On
        None, use `prepare`."""
        entry = self._entries.get(producer_id)
        if entry is None or entry[1] != epoch or entry[4] is not None or not entry[5]:
            return None
        return entry if base_sequence == (entry[5][-1][0] + 1) & _SEQUENCE_MASK else None

    def went_on(
        self, entry: ProducerStateEntry, base_sequence: int, delta: int, place: tuple[int, int]
    ) -> None:
        """Record a batch that is in the log. `place` is its last offset and its greatest
        timestamp."""
        last_offset, timestamp = place
        last_sequence = (base_sequence + delta) & _SEQUENCE_MASK
        metadata = _new_metadata((last_sequence, last_offset, delta, timestamp))
        producer_id, epoch, coordinator_epoch, _, _, batches = entry
        known = (*batches[1 - BATCHES_KEPT :], metadata)
        self._entries[producer_id] = _new_entry(
            (producer_id, epoch, coordinator_epoch, timestamp, None, known)
        )
        self.end_offset = last_offset + 1

    def prepare(self, origin: Origin, *, transaction_version: int = 0) -> ProducerAppend:
        """Begin to check an append. `transaction_version` is of a coordinator's marker."""
        return ProducerAppend(self._entries, origin, transaction_version, self.end_offset)

    def commit(self, append: ProducerAppend) -> list[AbortedTransaction]:
        """Apply an append that is in the log. Return the aborted transactions, for the index of the
        segment with their marker."""
        self._entries.update(append.entries)
        self.end_offset = append.end_offset
        if not append.transactions:
            return []
        aborted = []
        for event in append.transactions:
            if isinstance(event, StartedTransaction):
                self._ongoing[event.first_offset] = event.producer_id
                continue
            self._ongoing.pop(event.first_offset, None)
            self._unreplicated.append(event)
            if event.is_aborted:
                stable = next(iter(self._ongoing), event.last_offset + 1)
                aborted.append(AbortedTransaction(*event[:3], last_stable_offset=stable))
        self._find_first_unstable()
        return aborted

    def advance_to(self, end_offset: int) -> None:
        """Note that the log grew by batches without a producer."""
        assert end_offset >= self.end_offset
        self.end_offset = end_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Note that everything below `high_watermark` is replicated: transactions with a marker
        there are no longer unstable."""
        done = self._unreplicated
        if done and done[0].last_offset < high_watermark:
            while done and done[0].last_offset < high_watermark:
                done.popleft()
            self._find_first_unstable()

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Note a higher log start. Producers stay known: only a restart forgets them."""
        self.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def expire(self, now_ms: int) -> int:
        """Forget the producers that have been idle for too long. Return their number."""
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.is_expired(now_ms, self.expiration_ms)
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def reset(self, end_offset: int) -> None:
        """Forget all producers, and continue at `end_offset`."""
        self.load((), end_offset, 0)

    def load(self, entries: Iterable[ProducerStateEntry], end_offset: int, now_ms: int) -> None:
        """Load the entries of a snapshot at `end_offset`, without those that have expired. If it
        lies above the high watermark, `keep_unreplicated` is to follow."""
        self._entries = {
            entry.producer_id: entry
            for entry in entries
            if not entry.is_expired(now_ms, self.expiration_ms)
        }
        self.end_offset = end_offset
        self._unreplicated.clear()
        self._ongoing = dict(
            sorted(
                (entry.transaction_first_offset, entry.producer_id)
                for entry in self._entries.values()
                if entry.transaction_first_offset is not None
            )
        )
        self._find_first_unstable()

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """After `load`: remember the last batches of each producer again, out of those of the log
        below `end_offset`, in order. A snapshot has only the last one, and a producer that did not
        hear the answers repeats the ones before it too."""
        found: dict[int, deque[BatchMetadata]] = {}
        for header in headers:
            entry = self._entries.get(header.producer_id)
            if entry is None or header.is_control or header.producer_epoch != entry.epoch:
                continue
            if entry.batches and header.last_offset < entry.batches[0].last_offset:
                known = found.setdefault(
                    header.producer_id, deque(maxlen=BATCHES_KEPT - len(entry.batches))
                )
                delta = header.last_offset_delta
                known.append(
                    BatchMetadata(
                        header.last_sequence, header.last_offset, delta, header.max_timestamp
                    )
                )
        for producer_id, batches in found.items():
            entry = self._entries[producer_id]
            self._entries[producer_id] = entry._replace(batches=(*batches, *entry.batches))

    @property
    def unreplicated(self) -> tuple[CompletedTransaction, ...]:
        """The transactions with a marker that may be above the high watermark, by their markers."""
        return tuple(self._unreplicated)

    def keep_unreplicated(self, known: Iterable[CompletedTransaction]) -> None:
        """After `load`: transactions with markers below `end_offset`, of which some are not
        replicated. A snapshot has only those without a marker."""
        assert not self._unreplicated
        self._unreplicated.extend(each for each in known if each.last_offset < self.end_offset)
        self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        firsts = [completed.first_offset for completed in self._unreplicated]
        if self._ongoing:
            firsts.append(next(iter(self._ongoing)))
        self.first_unstable_offset = min(firsts, default=None)


def _check_sequence(entry: ProducerStateEntry, header: BatchHeader, offset: int) -> None:
    """Check that a new epoch begins at sequence 0 and the same epoch continues its sequence. Accept
    any sequence from an unknown producer: its earlier batches may have been deleted."""
    if entry.epoch == NO_EPOCH:
        return
    first = header.base_sequence
    if header.producer_epoch != entry.epoch:
        expected = 0
    else:
        expected = (entry.last_sequence + 1) & _SEQUENCE_MASK
    if first != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            known_epoch=entry.epoch,
            offset=offset,
            sequence=first,
            expected=expected,
        )


def _with_emptied_marker(entry: ProducerStateEntry, header: BatchHeader) -> ProducerStateEntry:
    """Apply a marker's batch of which only the header is left: its epoch still fences."""
    if header.producer_epoch <= entry.epoch:
        return entry
    return entry._replace(
        epoch=header.producer_epoch, last_timestamp=header.max_timestamp, batches=()
    )


def _end_of_transaction(batch: Batch) -> tuple[ControlRecord, int]:
    """Return the marker of a producer's control batch, and the epoch of the coordinator that wrote
    it."""
    offset = batch.header.base_offset
    records = control_records(batch)
    marker = records[0]
    if len(records) != 1 or marker.type not in (ControlType.ABORT, ControlType.COMMIT):
        raise CorruptRecord(
            "not the end of a transaction", offset=offset, types=[each.type for each in records]
        )
    try:
        value = decode_as_known(EndTxnMarker, marker.value or b"")
    except BadData as error:
        raise CorruptRecord(
            f"end of a transaction: {error.reason}", offset=offset, **error.context
        ) from error
    return marker, value.coordinator_epoch
