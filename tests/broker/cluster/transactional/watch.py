"""What must hold of transactions in a cluster after every event; if not, a `BrokenPromise`.

The watch folds what is committed of each partition, as any leader has it, and what each loaded
shard of the coordinator has written. Its cost is in proportion to what is new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from moldau.broker.coordinator.batches import StoredRecord, decode_piece
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.transaction.state import NO_EPOCH, Transaction
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.marker import Marker
from moldau.broker.server import Broker
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.protocol.schemas.coordinator_log import TRANSACTION_LOG
from moldau.protocol.schemas.transaction_log import TransactionLogKey, TransactionLogValue
from moldau.protocol.schemas.versioned import decode_as_known
from moldau.records import ControlType, control_records
from tests.broker.cluster.transactional.instance import PARTITIONS, TOPIC
from tests.broker.cluster.transactional.ledger import Place, Promise
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand

NOTHING = -1
MARKERS_KEPT = 20


class Open(NamedTuple):
    """A transaction in one partition that has no marker yet."""

    epoch: int
    first_offset: int


class SeenMarker(NamedTuple):
    """The end of a transaction in one partition, in an epoch of its own."""

    place: Place
    marker: Marker


@dataclass(slots=True)
class Fold:
    """The committed part of one partition."""

    end: int = 0
    stable: int = 0
    """No reader of committed records gets further."""
    opened: dict[int, Open] = field(default_factory=dict)
    """By producer id."""
    epochs: dict[int, int] = field(default_factory=dict)
    """The highest epoch of any marker, by producer id."""


@dataclass(slots=True)
class Shard:
    """What the log of one loaded shard says."""

    log: PartitionLog
    truncations: int
    end: int
    known: dict[str, Transaction] = field(default_factory=dict)


class TransactionWatch:
    """See the module."""

    def __init__(self, brokers: SimulatedBrokers, topics: Sequence[str] = (TOPIC,)) -> None:
        self._brokers = brokers
        self._folds: dict[Place, Fold] = {
            (topic, index): Fold() for topic in topics for index in range(PARTITIONS)
        }
        self._shards: dict[tuple[int, int], Shard] = {}
        self._decisions: dict[tuple[int, int], bool] = {}
        """By producer id and the epoch of the marker."""
        self.markers: deque[SeenMarker] = deque(maxlen=MARKERS_KEPT)
        """The last ones."""

    def begin(self) -> None:
        """Look after every event from now on."""
        self._brokers.world.add_invariant(self.look)

    def look(self) -> None:
        """Look at everything that changed."""
        has_grown = False
        for number, node in self._brokers.touched.items():
            if node.broker is not None:
                has_grown |= self._look_at_partitions(node.broker)
                self._look_at_shards(number, node.broker)
        if has_grown:  # what others have is judged by what is committed
            for broker in self._brokers.running.values():
                self._look_at_partitions(broker)

    def check_read(self, place: Place, offset: int) -> None:
        """A reader of committed records was given this offset."""
        stable = self._folds[place].stable
        demand(offset < stable, Promise.BELOW_STABLE, partition=place, offset=offset, end=stable)

    # Partitions.

    def _look_at_partitions(self, broker: Broker) -> bool:
        """Return whether more is committed."""
        hosted, has_grown = broker.node.replicas._hosted, False
        for place, fold in self._folds.items():
            partition = hosted.get(place)
            if partition is None or not partition.is_leader or partition.log.failure is not None:
                continue
            mark = partition.high_watermark
            if mark > fold.end:
                has_grown = True
                self._read_on(place, fold, partition.log, mark)
                firsts = (each.first_offset for each in fold.opened.values())
                fold.stable = min(firsts, default=fold.end)
            if mark == fold.end and partition.last_stable_offset > fold.stable:
                stable = partition.last_stable_offset
                facts = {"partition": place, "stable": stable, "known": fold.stable}
                demand(False, Promise.BELOW_STABLE, **facts)
        return has_grown

    def _read_on(self, place: Place, fold: Fold, log: PartitionLog, mark: int) -> None:
        for batch in log.batches(fold.end):
            header = batch.header
            if header.base_offset >= mark:
                break
            fold.end = header.next_offset
            if not header.is_transactional:
                continue
            of, epoch = header.producer_id, header.producer_epoch
            facts = {"partition": place, "producer": of, "epoch": epoch}
            last = fold.epochs.get(of, NOTHING)
            demand(epoch >= last, Promise.MARKER_FENCES, **facts, marker=last)
            if not header.is_control:
                opened = fold.opened.setdefault(of, Open(epoch, header.base_offset))
                demand(opened.epoch == epoch, Promise.MARKER_FENCES, **facts, opened=opened)
                continue
            fold.epochs[of] = epoch
            opened_here = fold.opened.pop(of, None)
            control = control_records(batch)[0]
            is_commit = control.type == ControlType.COMMIT
            if opened_here is not None and epoch > opened_here.epoch:
                by = decode_as_known(EndTxnMarker, control.value or b"").coordinator_epoch
                self.markers.append(SeenMarker(place, Marker(of, epoch, is_commit, by, 2)))
                first = self._decisions.setdefault((of, epoch), is_commit)
                demand(first == is_commit, Promise.ONE_DECISION, **facts, is_commit=is_commit)

    # The coordinator.

    def _look_at_shards(self, number: int, broker: Broker) -> None:
        coordinator = broker.node.coordinators.of(KeyType.TRANSACTION)
        for index, shard in coordinator.loaded():
            partition = broker.node.replicas._hosted.get((coordinator.kind.topic, index))
            if partition is None or not partition.is_leader or partition.log.failure is not None:
                continue
            log, key = partition.log, (number, index)
            known = self._shards.get(key)
            is_new = known is None or (known.log, known.truncations) != (log, log.truncation_count)
            if known is None or is_new:
                start = log.log_start_offset
                known = self._shards[key] = Shard(log, log.truncation_count, start)
            if known.end == log.log_end_offset:
                continue
            expected = NOTHING if is_new else known.end
            for stored in _entries(log, known.end):
                before = known.known.get(_name(stored))
                after = self._replay(known.known, stored)
                # Where records were compacted away, the epochs between are not known.
                expected = stored.offset + 1 if stored.offset == expected else NOTHING
                if expected != NOTHING and before is not None and after is not None:
                    _check_bump(before, after)
            known.end = log.log_end_offset
            found = {each.transactional_id: replace(each, last_epoch=NO_EPOCH) for each in shard}
            demand(
                found == known.known,
                Promise.REPLAYED,
                broker=number,
                shard=index,
                found=found,
                log=known.known,
            )

    def _replay(self, known: dict[str, Transaction], stored: StoredRecord) -> Transaction | None:
        name, value = _name(stored), stored.value
        assert value is None or isinstance(value, TransactionLogValue)
        read = None if value is None else Transaction.of_value(name, value)
        if read is None:
            known.pop(name, None)
        else:
            known[name] = read
        return read


def _name(stored: StoredRecord) -> str:
    assert isinstance(stored.key, TransactionLogKey)
    return stored.key.transactional_id


def _check_bump(before: Transaction, after: Transaction) -> None:
    is_same = before.producer_id == after.producer_id
    demand(
        not is_same or after.producer_epoch <= before.producer_epoch + 1,
        Promise.BUMPED_ONCE,
        before=before,
        after=after,
    )


def _entries(log: PartitionLog, offset: int) -> Iterator[StoredRecord]:
    for batch in log.batches(offset):
        for entry in decode_piece(TRANSACTION_LOG, batch.data, offset).entries:
            if isinstance(entry, StoredRecord):
                yield entry
