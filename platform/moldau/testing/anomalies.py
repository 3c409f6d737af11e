"""Checks a history for broken promises of Kafka, and names the records that show them.

    anomalies = find_anomalies(events)
    assert not anomalies, anomalies

The kinds are those of Jepsen's test of Kafka, and two of replicas: a high watermark that decreased,
and replicas that differ. Histories of simulations and of real processes are checked alike.

Pure: a function of the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from enum import StrEnum
from typing import Final, NamedTuple

from moldau.deferred import dataclass
from moldau.testing.history import Copy, Ended, Event, Mark, Moved, Outcome, Read, ReadAll, Sent


class Kind(StrEnum):
    """The kind of a broken promise."""

    INCONSISTENT_OFFSETS = "an offset names two records"
    DUPLICATE = "a record stands at two offsets"
    LOST_WRITE = "an acknowledged record is missing before records that were read"
    UNSEEN = "an acknowledged record is missing at the end"
    NEVER_SENT = "a record was read that was never sent"
    ABORTED_READ = "a record was read that failed or was aborted"
    PRECOMMITTED_READ = "a transaction read its own record"
    TORN_TRANSACTION = "a transaction is visible in part"
    CIRCULAR_READS = "transactions read each other's records"
    POLL_SKIP = "a consumer skipped a record"
    NONMONOTONIC_POLL = "a consumer went back"
    NONMONOTONIC_SEND = "records of a producer are in another order than they were sent"
    WATERMARK_WENT_BACK = "a high watermark went back"
    REPLICAS_DIFFER = "replicas differ"


class Anomaly(NamedTuple):
    """One broken promise: its kind, its partition and the facts."""

    kind: Kind
    partition: str
    facts: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.partition} {self.facts}".rstrip()


@dataclass(slots=True)
class _Partition:
    """All events of one partition, grouped for the checks."""

    values: dict[int, dict[str, None]] = field(default_factory=dict)
    """By offset: the values that an acknowledgement or a consumer reported there."""
    offsets: dict[str, dict[int, None]] = field(default_factory=dict)
    """By value: the offsets at which it was reported."""
    sent: dict[str, Sent] = field(default_factory=dict)
    by_producer: dict[str, list[Sent]] = field(default_factory=dict)
    by_consumer: dict[str, list[Read | Moved]] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)
    last_read: int = -1
    marks: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    copies: dict[str, dict[int, str]] = field(default_factory=dict)

    def learn(self, offset: int, value: str) -> None:
        self.values.setdefault(offset, {})[value] = None
        self.offsets.setdefault(value, {})[offset] = None


class _Index:
    """The events of a history, grouped by partition and by transaction."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.partitions: dict[str, _Partition] = {}
        self.final_readers: dict[str, None] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.writes: dict[str, list[Sent]] = {}
        self.reads: dict[str, list[Read]] = {}
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        match event:
            case ReadAll():
                self.final_readers[event.consumer] = None
            case Ended():
                self.outcomes[event.transaction] = event.outcome
            case _:
                partition = self.partitions.setdefault(event.partition, _Partition())
                self._add_to(partition, event)

    def _add_to(self, at: _Partition, event: Sent | Read | Moved | Mark | Copy) -> None:
        match event:
            case Sent():
                at.sent[event.value] = event
                at.by_producer.setdefault(event.producer, []).append(event)
                if event.offset >= 0:
                    at.learn(event.offset, event.value)
                if event.transaction:
                    self.writes.setdefault(event.transaction, []).append(event)
            case Read():
                at.by_consumer.setdefault(event.consumer, []).append(event)
                at.learn(event.offset, event.value)
                at.read[event.value] = None
                at.last_read = max(at.last_read, event.offset)
                if event.transaction:
                    self.reads.setdefault(event.transaction, []).append(event)
            case Moved():
                at.by_consumer.setdefault(event.consumer, []).append(event)
            case Mark():
                known = at.marks.setdefault((event.broker, event.leader_epoch), [])
                known.append(event.high_watermark)
            case Copy():
                at.copies.setdefault(event.broker, {})[event.offset] = event.digest

    def outcome_of(self, sent: Sent) -> Outcome:
        """Return the outcome of a record, or of its transaction if it has one."""
        if sent.transaction:
            return self.outcomes.get(sent.transaction, Outcome.UNKNOWN)
        return sent.outcome


Found = Iterator[tuple[Kind, str]]


def find_anomalies(events: Iterable[Event]) -> list[Anomaly]:
    """Return all anomalies of the history; for each partition in the order of the checks."""
    index = _Index(events)
    found = [
        Anomaly(kind, name, facts)
        for name, partition in sorted(index.partitions.items())
        for check in _CHECKS
        for kind, facts in check(index, partition)
    ]
    found.extend(Anomaly(kind, "", facts) for kind, facts in _torn(index))
    found.extend(Anomaly(kind, "", facts) for kind, facts in _circular(index))
    return found


def _inconsistent(index: _Index, at: _Partition) -> Found:
    for offset, values in at.values.items():
        if len(values) > 1:
            yield Kind.INCONSISTENT_OFFSETS, f"offset={offset} values={[*values]}"


def _duplicate(index: _Index, at: _Partition) -> Found:
    for value, offsets in at.offsets.items():
        if len(offsets) > 1:
            yield Kind.DUPLICATE, f"value={value} offsets={[*offsets]}"


def _lost(index: _Index, at: _Partition) -> Found:
    for value, sent in at.sent.items():
        is_kept = value in at.read or index.outcome_of(sent) is not Outcome.ACKNOWLEDGED
        if not is_kept and 0 <= sent.offset <= at.last_read:
            yield Kind.LOST_WRITE, f"value={value} offset={sent.offset} read_to={at.last_read}"


def _unseen(index: _Index, at: _Partition) -> Found:
    for consumer in index.final_readers:
        events = at.by_consumer.get(consumer, [])
        seen = {each.value for each in events if isinstance(each, Read)}
        for value, sent in at.sent.items():
            if value not in seen and index.outcome_of(sent) is Outcome.ACKNOWLEDGED:
                yield Kind.UNSEEN, f"value={value} offset={sent.offset} consumer={consumer}"


def _wrongly_read(index: _Index, at: _Partition) -> Found:
    for value in at.read:
        sent = at.sent.get(value)
        if sent is None:
            yield Kind.NEVER_SENT, f"value={value} offsets={[*at.offsets[value]]}"
        elif index.outcome_of(sent) is Outcome.FAILED:
            yield Kind.ABORTED_READ, f"value={value} transaction={sent.transaction or None}"
    for consumer, events in at.by_consumer.items():
        for read in events:
            if isinstance(read, Read) and read.transaction:
                sent = at.sent.get(read.value)
                if sent is not None and sent.transaction == read.transaction:
                    yield Kind.PRECOMMITTED_READ, f"value={read.value} consumer={consumer}"


def _polls(index: _Index, at: _Partition) -> Found:
    """Check polls against the order of all records that were read or acknowledged, not aborted."""
    order = sorted(
        offset
        for offset, values in at.values.items()
        if any(_is_kept(index, at, value) for value in values)
    )
    rank = {offset: number for number, offset in enumerate(order)}
    for consumer, events in at.by_consumer.items():
        before: Read | None = None
        for event in events:
            if isinstance(event, Moved):
                before = None
                continue
            if before is not None:
                facts = f"consumer={consumer} from={before.offset} to={event.offset}"
                if event.offset <= before.offset:
                    yield Kind.NONMONOTONIC_POLL, facts
                elif rank.get(event.offset, 0) > rank.get(before.offset, event.offset) + 1:
                    yield Kind.POLL_SKIP, facts
            before = event


def _is_kept(index: _Index, at: _Partition, value: str) -> bool:
    sent = at.sent.get(value)
    return sent is None or value in at.read or index.outcome_of(sent) is Outcome.ACKNOWLEDGED


def _sends(index: _Index, at: _Partition) -> Found:
    for producer, events in at.by_producer.items():
        last = -1
        for sent in events:
            if sent.offset < 0:
                continue
            if sent.offset <= last:
                facts = f"producer={producer} value={sent.value} offset={sent.offset}"
                yield Kind.NONMONOTONIC_SEND, f"{facts} after={last}"
            last = max(last, sent.offset)


def _marks(index: _Index, at: _Partition) -> Found:
    for (broker, epoch), marks in at.marks.items():
        last = -1
        for mark in marks:
            if mark < last:
                facts = f"broker={broker} leader_epoch={epoch} from={last} to={mark}"
                yield Kind.WATERMARK_WENT_BACK, facts
            last = mark


def _replicas(index: _Index, at: _Partition) -> Found:
    """Compare the copies from the first offset that all of them can have."""
    start = max((min(copy, default=0) for copy in at.copies.values()), default=0)
    names = [*at.copies]
    for name in names[1:]:
        first, other = at.copies[names[0]], at.copies[name]
        for offset in sorted({*first, *other}):
            if offset >= start and first.get(offset) != other.get(offset):
                yield Kind.REPLICAS_DIFFER, f"brokers={names[0]},{name} offset={offset}"
                break


_CHECKS: Final[tuple[Callable[[_Index, _Partition], Found], ...]] = (
    _inconsistent,
    _duplicate,
    _lost,
    _unseen,
    _wrongly_read,
    _polls,
    _sends,
    _marks,
    _replicas,
)


def _torn(index: _Index) -> Found:
    """Find transactions of which only a part is visible at the end."""
    if not index.final_readers:
        return
    for transaction, writes in index.writes.items():
        seen = [each for each in writes if each.value in index.partitions[each.partition].read]
        if 0 < len(seen) < len(writes):
            yield Kind.TORN_TRANSACTION, f"transaction={transaction} {len(seen)} of {len(writes)}"


def _circular(index: _Index) -> Found:
    """Find transactions that read from each other in a circle."""
    sources: dict[str, set[str]] = {}
    for transaction, reads in index.reads.items():
        for read in reads:
            sent = index.partitions[read.partition].sent.get(read.value)
            if sent is not None and sent.transaction not in ("", transaction):
                sources.setdefault(transaction, set()).add(sent.transaction)
    while True:
        read_from = {each for known in sources.values() for each in known}
        left = {
            transaction: known & sources.keys()
            for transaction, known in sources.items()
            if transaction in read_from and known & sources.keys()
        }
        if left == sources:
            break
        sources = left
    if sources:
        yield Kind.CIRCULAR_READS, f"transactions={sorted(sources)}"
