"""What must hold of share groups in a cluster after every event; if not, a `BrokenPromise`.

The watch looks at the windows of all share partitions, folds what is committed of the topic of
their states, and compares each loaded shard of the share coordinator with its log. A window whose
state epoch the stored state has left behind may say what it likes: nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moldau.broker.coordinator.batches import StoredRecord, decode_piece
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.share.state import SharePartitionKey, ShareState
from moldau.broker.log.log import PartitionLog
from moldau.broker.server import Broker
from moldau.broker.share.partition import SharePartition
from moldau.broker.share.persister import OnStored
from moldau.broker.share.piece import FINAL, AcknowledgeType, RecordState
from moldau.broker.share.sessions import SessionKey
from moldau.errors.codes import KafkaError
from moldau.protocol.schemas.coordinator_log import SHARE_LOG
from moldau.protocol.schemas.share_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from moldau.records import decode_batch
from tests.broker.cluster.queues.ledger import Ledger, Place, Promise
from tests.broker.cluster.queues.wire import INTERNAL_PARTITIONS, STATES
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand

SLACK_S: Final = 0.002
"""Locks are measured in milliseconds."""
Facts = dict[str, Any]


class Cell(NamedTuple):
    """One record of a window."""

    state: RecordState
    member: str
    deliveries: int
    is_pending: bool
    is_resting: bool


class Hold(NamedTuple):
    """Since when a member has a record, and its session when it got it."""

    member: str
    deliveries: int
    since: float
    session: object


@dataclass(slots=True)
class View:
    """The window of one share partition as it was last seen."""

    marks: tuple[object, ...] = ()
    start: int = -1
    cells: dict[int, Cell] = field(default_factory=dict)
    holds: dict[int, Hold] = field(default_factory=dict)


@dataclass(slots=True)
class Shard:
    """What the log of one loaded shard says."""

    log: PartitionLog
    truncations: int
    end: int
    known: dict[SharePartitionKey, ShareState] = field(default_factory=dict)


class QueueWatch:
    """See the module."""

    def __init__(
        self, brokers: SimulatedBrokers, ledger: Ledger, *, lock_ms: int, limit: int, most: int
    ) -> None:
        """`limit` is that of deliveries, `most` that of records in a window."""
        self._brokers = brokers
        self._ledger = ledger
        self._lock_s = lock_ms / 1000
        self._limit = limit
        self._most = most
        self._views: dict[SharePartition, View] = {}
        self.stored: dict[SharePartitionKey, ShareState] = {}
        """The committed states."""
        self._ends: dict[Place, int] = {(STATES, n): 0 for n in range(INTERNAL_PARTITIONS)}
        self._shards: dict[tuple[int, int], Shard] = {}
        self.names: dict[bytes, str] = {}
        self.graves: str | None = None
        """The topic of dead letters."""
        self.buried: set[tuple[Place, int]] = set()
        self._grave_ends: dict[int, int] = {}
        self._stored_late: Facts = {}
        """What a leader has stored although another one had followed it."""

    def begin(self) -> None:
        """Look after every event from now on."""
        self._brokers.world.add_invariant(self.look)

    def epoch_of(self, place: Place) -> int:
        """The newest leader epoch that a stored state of the partition has."""
        return max(
            (each.leader_epoch for key, each in self.stored.items() if self._place(key) == place),
            default=-1,
        )

    def heard_by(self, key: Any, epoch: int, then: OnStored) -> OnStored:
        """Return the answer to a change that a leader with this epoch sends now. The change must
        be refused if another leader has read the state before."""
        stored = self.stored.get(SharePartitionKey(*key))
        newest = -1 if stored is None else stored.leader_epoch

        def heard(error: KafkaError | None) -> None:
            if error is None and epoch < newest:
                self._stored_late = {"key": key, "epoch": epoch, "newest": newest}
            then(error)

        return heard

    def start_of(self, place: Place) -> int:
        """Where the group stands."""
        found = [
            each.start_offset for key, each in self.stored.items() if self._place(key) == place
        ]
        return found[0] if found else -1

    def _place(self, key: Any) -> Place:
        return self.names.get(key.topic_id, ""), key.partition

    def look(self) -> None:
        """Look at everything that changed."""
        demand(not self._stored_late, Promise.OLD_LEADER_FENCED, **self._stored_late)
        running = self._brokers.running
        for broker in running.values():
            self._look_at_graves(broker)
        for number, broker in running.items():
            self._look_at_states(broker)
            self._look_at_shards(number, broker)
        live: dict[tuple[Any, int], SharePartition] = {}
        for broker in running.values():
            for key, share in broker.node.shares._known.items():
                if share.error is not None or share.window is None:
                    continue
                stored = self.stored.get(SharePartitionKey(*key))
                if stored is not None and share._state_epoch < stored.state_epoch:
                    continue  # the group begins again, and what this window says is over
                name = key, share.leader_epoch
                demand(name not in live, Promise.ONE_WINDOW, key=key, epoch=share.leader_epoch)
                live[name] = share
                self._look_at_window(broker, share)

    # Windows.

    def _look_at_window(self, broker: Broker, share: SharePartition) -> None:
        window = share.window
        assert window is not None
        marks = (
            window.start_offset,
            *(
                (
                    *(each.first, each.state, each.member_id, each.deliveries, each.pending),
                    each.is_resting,
                )
                for each in window.pieces
            ),
        )
        view = self._views.get(share)
        if view is None:
            view = self._views[share] = View()
        elif view.marks == marks:
            return
        place = self._place(share.key)
        facts: Facts = {"at": place, "epoch": share.leader_epoch, "start": window.start_offset}
        cells = self._cells(share, facts)
        if view.marks:
            self._check_changes(broker, share, view, cells, dict(facts))
        else:
            self._check_loaded(share, cells, facts)
            view.holds = {
                offset: self._given(broker, share, offset, None, cell, dict(facts, offset=offset))
                for offset, cell in cells.items()
                if cell.state is RecordState.ACQUIRED
            }
        self._check_done(place, share, cells, facts)
        view.marks, view.start, view.cells = marks, window.start_offset, cells

    def _cells(self, share: SharePartition, facts: Facts) -> dict[int, Cell]:
        window = share.window
        assert window is not None
        cells: dict[int, Cell] = {}
        at = window.start_offset
        for piece in window.pieces:
            demand(piece.first == at and piece.last >= at, Promise.NO_GAPS, **facts, piece=piece)
            at = piece.last + 1
            is_pending = piece.pending is not None
            cell = Cell(
                piece.state, piece.member_id, piece.deliveries, is_pending, piece.is_resting
            )
            for offset in range(piece.first, at):
                cells[offset] = cell
        demand(at == window.next_offset, Promise.NO_GAPS, **facts, next=window.next_offset)
        if window.pieces:
            demand(not window.pieces[0].is_final, Promise.NO_GAPS, **facts)
        demand(len(cells) <= self._most, Promise.IN_LIMITS, **facts, records=len(cells))
        return cells

    def _check_loaded(self, share: SharePartition, cells: dict[int, Cell], facts: Facts) -> None:
        """A window begins with all that was stored before its leader epoch was."""
        stored = self.stored.get(SharePartitionKey(*share.key))
        if stored is None or stored.leader_epoch != share.leader_epoch:
            return
        for run in stored.runs:
            for offset in range(max(run.first, facts["start"]), run.last + 1):
                cell = cells.get(offset)
                deliveries = 0 if cell is None else cell.deliveries
                is_kept = deliveries >= run.deliveries
                if run.state in FINAL:
                    is_kept = cell is None or cell.state in FINAL
                demand(is_kept, Promise.LOADED_WHOLE, **facts, offset=offset, run=run, cell=cell)

    def _check_done(
        self, place: Place, share: SharePartition, cells: dict[int, Cell], facts: Facts
    ) -> None:
        for offset, cell in cells.items():
            if cell.state in FINAL or offset < self._ledger.starts.get(place, 0):
                continue  # what was deleted comes again from a leader that has not heard of it
            done = self._ledger.of(place, offset).done_epoch
            is_back = done is not None and share.leader_epoch >= done
            demand(not is_back, Promise.NO_DONE_RECORD, **facts, offset=offset, cell=cell)

    def _check_changes(
        self,
        broker: Broker,
        share: SharePartition,
        view: View,
        cells: dict[int, Cell],
        facts: Facts,
    ) -> None:
        place = self._place(share.key)
        for offset in view.cells.keys() | cells.keys():
            before, after = view.cells.get(offset), cells.get(offset)
            if before == after:
                continue
            facts["offset"], facts["before"], facts["after"] = offset, before, after
            hold = view.holds.get(offset)
            is_same = (
                hold is not None
                and after is not None
                and after.state is RecordState.ACQUIRED
                and (after.member, after.deliveries) == (hold.member, hold.deliveries)
            )
            if hold is not None and not is_same:
                self._check_end_of(broker, share, offset, hold, after, facts)
                del view.holds[offset]
            if after is None or after.state in FINAL:
                if before is None or before.state not in FINAL:
                    self._check_done_by_right(share, place, offset, facts)
            elif after.state is RecordState.ACQUIRED and after.member and not is_same:
                view.holds[offset] = self._given(broker, share, offset, before, after, facts)

    def _given(
        self,
        broker: Broker,
        share: SharePartition,
        offset: int,
        before: Cell | None,
        after: Cell,
        facts: Facts,
    ) -> Hold:
        """A member has got a record."""
        partition = share.partition
        is_leader = partition.is_leader and partition.leader_epoch == share.leader_epoch
        demand(is_leader, Promise.LEADER_GIVES, **facts)
        demand(after.deliveries <= self._limit, Promise.COUNT_LIMIT, **facts)
        is_first = not self._views[share].marks
        counted = 0 if before is None else before.deliveries
        is_counted = is_first or after.deliveries == counted + 1
        demand(is_counted, Promise.COUNT_GROWS, **facts)
        place, now = self._place(share.key), self._brokers.world.now
        rests_until = self._ledger.resting.get((place, offset), 0.0)
        demand(rests_until <= now + SLACK_S, Promise.RESTS, **facts, until=rests_until, now=now)
        known = self._ledger.of(place, offset)
        known.deliveries = max(known.deliveries, after.deliveries)
        session = broker.node.shares.sessions._sessions.get(
            SessionKey(share.key.group_id, after.member)
        )
        return Hold(after.member, after.deliveries, now, session)

    def _check_end_of(
        self,
        broker: Broker,
        share: SharePartition,
        offset: int,
        hold: Hold,
        after: Cell | None,
        facts: Facts,
    ) -> None:
        """A member has a record no more."""
        place, now = self._place(share.key), self._brokers.world.now
        session = broker.node.shares.sessions._sessions.get(
            SessionKey(share.key.group_id, hold.member)
        )
        said = self._ledger.of(place, offset).said_by.get(hold.member, 0)
        before = facts["before"]
        was_said = before is not None and before.is_pending and said > 0
        is_right = (
            was_said  # perhaps late, of a delivery before
            or said >= hold.deliveries - 1
            or session is not hold.session
            or offset < share.partition.log_start_offset
            or now >= hold.since + self._lock_s - SLACK_S
        )
        demand(is_right, Promise.LOCK_KEPT, **facts, member=hold.member, since=hold.since, now=now)

    def _check_done_by_right(
        self, share: SharePartition, place: Place, offset: int, facts: Facts
    ) -> None:
        is_deleted = offset < share.partition.log_start_offset
        is_right = is_deleted or self._ledger.may_be_done(place, offset, self._limit)
        demand(is_right, Promise.NOTHING_LOST, **facts)

    # Dead letters.

    def _look_at_graves(self, broker: Broker) -> None:
        topic = None if self.graves is None else broker.node.image.topics.by_name(self.graves)
        for index in () if topic is None else topic.partitions:
            partition = broker.node.replicas._hosted.get((topic.name, index))  # type: ignore[union-attr]
            if partition is None or not partition.is_leader or partition.log.failure is not None:
                continue
            end = self._grave_ends.get(index, 0)
            if partition.high_watermark <= end:
                continue
            for batch in partition.log.batches(end):
                if batch.header.base_offset >= partition.high_watermark:
                    break
                self._grave_ends[index] = batch.header.next_offset
                for record in decode_batch(batch.data):
                    facts = dict(record.headers)
                    name = facts["__dlq.errors.topic"] or b""
                    place = name.decode(), int(facts["__dlq.errors.partition"] or b"")
                    self.buried.add((place, int(facts["__dlq.errors.offset"] or b"")))
                    self._ledger.counts["dead letters"] += 1

    def _check_buried(self, place: Place, offset: int, facts: Facts) -> None:
        is_accepted = AcknowledgeType.ACCEPT in self._ledger.of(place, offset).said
        is_deleted = offset < self._ledger.starts.get(place, 0)
        is_there = (place, offset) in self.buried
        is_right = self.graves is None or is_accepted or is_deleted or is_there
        demand(is_right, Promise.DEAD_LETTER, **facts, offset=offset)

    # What is stored.

    def _look_at_states(self, broker: Broker) -> None:
        hosted = broker.node.replicas._hosted
        for place, end in self._ends.items():
            partition = hosted.get(place)
            if partition is None or not partition.is_leader or partition.log.failure is not None:
                continue
            if partition.high_watermark > end:
                self._ends[place] = self._read_on(partition.log, end, partition.high_watermark)

    def _read_on(self, log: PartitionLog, offset: int, mark: int) -> int:
        for batch in log.batches(max(offset, log.log_start_offset)):
            if batch.header.base_offset >= mark:
                break
            for entry in decode_piece(SHARE_LOG, batch.data, offset).entries:
                assert isinstance(entry, StoredRecord)
                before = dict(self.stored)
                replay(self.stored, entry)
                self._check_stored(before, entry)
            offset = batch.header.next_offset
        return offset

    def _check_stored(
        self, before: dict[SharePartitionKey, ShareState], entry: StoredRecord
    ) -> None:
        key = key_of(entry)
        old, new = before.get(key), self.stored.get(key)
        if old is None or new is None:
            return
        if new.state_epoch > old.state_epoch:
            self._ledger.forget(self._place(key))  # it begins again
            return
        facts: Facts = {"key": key, "before": old, "after": new}
        demand(new.state_epoch >= old.state_epoch, Promise.EPOCH_GROWS, **facts)
        demand(new.leader_epoch >= old.leader_epoch, Promise.EPOCH_GROWS, **facts)
        if old.start_offset < 0:
            return
        demand(new.start_offset >= old.start_offset, Promise.START_GROWS, **facts)
        place = self._place(key)
        for passed in range(old.start_offset, new.start_offset):
            is_right = self._ledger.may_be_done(place, passed, self._limit)
            demand(is_right, Promise.NOTHING_LOST, **facts, offset=passed)
            self._check_buried(place, passed, facts)
        for run in new.runs:
            if run.state == RecordState.ARCHIVED and run not in old.runs:
                for offset in range(run.first, run.last + 1):
                    self._check_buried(place, offset, facts)

    # The coordinator.

    def _look_at_shards(self, number: int, broker: Broker) -> None:
        coordinator = broker.node.coordinators.of(KeyType.SHARE)
        for index, shard in coordinator.loaded():
            partition = broker.node.replicas._hosted.get((STATES, index))
            if partition is None or not partition.is_leader or partition.log.failure is not None:
                continue
            log, name = partition.log, (number, index)
            known = self._shards.get(name)
            if known is None or (known.log, known.truncations) != (log, log.truncation_count):
                known = self._shards[name] = Shard(log, log.truncation_count, log.log_start_offset)
            if known.end == log.log_end_offset:
                continue
            for entry in _entries(log, known.end):
                replay(known.known, entry)
            known.end = log.log_end_offset
            found = {key: shard.get(key) for key in shard}
            facts: Facts = {"broker": number, "shard": index, "found": found, "log": known.known}
            demand(found == known.known, Promise.REPLAYED, **facts)


def key_of(entry: StoredRecord) -> SharePartitionKey:
    """The share partition of a record."""
    assert isinstance(entry.key, ShareSnapshotKey | ShareUpdateKey)
    return SharePartitionKey(entry.key.group_id, entry.key.topic_id, entry.key.partition)


def replay(known: dict[SharePartitionKey, ShareState], entry: StoredRecord) -> None:
    """Apply a record of the log to what it said before."""
    key = key_of(entry)
    if isinstance(entry.value, ShareUpdateValue):
        if key in known:
            known[key] = known[key].updated(entry.value)
    elif isinstance(entry.value, ShareSnapshotValue):
        known[key] = ShareState.of_value(entry.value)
    elif isinstance(entry.key, ShareSnapshotKey):
        known.pop(key, None)


def _entries(log: PartitionLog, offset: int) -> Iterator[StoredRecord]:
    for batch in log.batches(offset):
        for entry in decode_piece(SHARE_LOG, batch.data, offset).entries:
            assert isinstance(entry, StoredRecord)
            yield entry
