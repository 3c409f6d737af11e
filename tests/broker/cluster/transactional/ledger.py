"""What transactional writers did, and what a reader of committed records must see of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Protocol

from tests.broker.simulation.promises import demand

Place = tuple[str, int]
NONE = -1
"""The offset of a group that has none."""


class Identity(Protocol):
    """A producer id and its epoch."""

    @property
    def id(self) -> int: ...
    @property
    def epoch(self) -> int: ...


class Promise(StrEnum):
    """As a failure names it, and a planted bug by which it must be found."""

    NO_ABORTED_READ = "no record is read of a transaction that was not committed"
    NO_TORN_TRANSACTION = "a transaction is read as a whole or not at all"
    COMMITTED_KEPT = "a committed record is read"
    READ_ONCE = "a record is read once, in the order in which it was written"
    BELOW_STABLE = "nothing is read at or above the first open transaction"
    STABLE_ENDS = "no transaction stays open"
    ONE_DECISION = "a transaction ends in the same way in every partition"
    MARKER_FENCES = "no record follows a marker of a later epoch"
    REPLAYED = "the coordinator's state is what its log says"
    OFFSET_OF_COMMITTED = "a group's offset is that of the last committed transaction"
    NEWEST_OF_KEY = "compaction keeps the newest committed record of a key"
    WRITERS_GO_ON = "every writer gets going again"
    COPIED_ONCE = "a copy has each committed record once, in its order"
    BUMPED_ONCE = "the epoch of a producer id is bumped by one at a time"
    ZOMBIE_FENCED = "an instance that was replaced does not continue"
    EMPTY_ENDS = "a transaction without records ends as its client asks"
    NO_FATAL_ERROR = "a client that sends in order what it retries gets no fatal error"
    EPOCH_OF_CLIENT = "an epoch that a client gets is one that may be bumped"


class End(Enum):
    """What a writer knows of the end of its transaction."""

    OPEN = "open"
    ABORTED = "aborted"
    """The client never asked for a commit, or was told that it is aborted."""
    COMMITTED = "committed"
    UNKNOWN = "unknown"
    """A commit was asked for, and its outcome never learned."""


@dataclass(slots=True)
class Attempt:
    """One transaction of one writer."""

    transactional_id: str
    number: int
    end: End = End.OPEN
    records: dict[str, tuple[Place, bool]] = field(default_factory=dict)
    """By value: where it was sent, and whether the broker acknowledged it."""
    offset: int | None = None
    """The offset that was acknowledged as a part of it."""
    keys: dict[str, str] = field(default_factory=dict)
    """Of the compacted topic: the value by key."""


class Ledger:
    """All transactions of a run."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.counts: Counter[str] = Counter()
        self.committed: Counter[str] = Counter()
        """The transactions known to be committed, by transactional id."""
        self.of_value: dict[str, Attempt] = {}
        self._numbers: Counter[str] = Counter()
        self._given: dict[tuple[str, int], list[tuple[object, int]]] = {}
        """By transactional and producer id: the instances and the epochs that they began with."""

    def begin(self, transactional_id: str) -> Attempt:
        self._numbers[transactional_id] += 1
        attempt = Attempt(transactional_id, self._numbers[transactional_id])
        self.attempts[transactional_id, attempt.number] = attempt
        return attempt

    def given(
        self, transactional_id: str, instance: object, before: Identity | None, now: Identity
    ) -> None:
        """An instance was given a producer. `before` is the one with which it continued: no other
        instance can have begun in an epoch between these two."""
        given = self._given.setdefault((transactional_id, now.id), [])
        if before is not None and before.id == now.id:
            between = [
                epoch
                for other, epoch in given
                if other is not instance and before.epoch < epoch < now.epoch
            ]
            facts = {"id": transactional_id, "before": before, "now": now, "others": between}
            demand(not between, Promise.ZOMBIE_FENCED, **facts)
        given.append((instance, now.epoch))

    def sending(self, attempt: Attempt, value: str, place: Place) -> None:
        attempt.records[value] = place, False
        self.of_value[value] = attempt

    def acknowledged(self, attempt: Attempt, value: str) -> None:
        attempt.records[value] = attempt.records[value][0], True

    def ended(self, attempt: Attempt, end: End) -> None:
        attempt.end = end
        if end is End.COMMITTED:
            self.committed[attempt.transactional_id] += 1
        self.counts[end.value] += 1

    # What readers see.

    def check_read(self, value: str) -> None:
        """A reader of committed records was given this one."""
        attempt = self.of_value[value]
        demand(attempt.end is not End.ABORTED, Promise.NO_ABORTED_READ, value=value)

    def check(self, seen: Mapping[Place, list[str]]) -> None:
        """`seen` is all that is read at the end, by partition, of topics that keep everything."""
        places = {value: place for place, values in seen.items() for value in values}
        for place, values in seen.items():
            demand(len(set(values)) == len(values), Promise.READ_ONCE, partition=place)
            last: dict[str, tuple[int, int]] = {}
            for value in values:
                self.check_read(value)
                name, number, index = value.split("/")
                is_later = last.get(name, (0, -1)) < (int(number), int(index))
                demand(is_later, Promise.READ_ONCE, partition=place, value=value)
                last[name] = int(number), int(index)
        for attempt in self.attempts.values():
            if not any(place in seen for place, _ in attempt.records.values()):
                continue
            needed = {
                value
                for value, (place, is_acknowledged) in attempt.records.items()
                if is_acknowledged and place in seen
            }
            self._check_whole(attempt, needed, attempt.records.keys() & places.keys())

    def _check_whole(self, attempt: Attempt, needed: set[str], found: set[str]) -> None:
        lost = needed - found
        facts = {"transaction": (attempt.transactional_id, attempt.number), "end": attempt.end}
        if attempt.end is End.COMMITTED:
            demand(not lost, Promise.COMMITTED_KEPT, **facts, lost=sorted(lost))
        if found:
            demand(not lost, Promise.NO_TORN_TRANSACTION, **facts, lost=sorted(lost))

    def check_offsets(self, seen: Mapping[Place, list[str]], committed: Mapping[str, int]) -> None:
        """`committed` are the offsets of the groups, which are called like the writers."""
        kept = seen.keys()
        visible = {value for values in seen.values() for value in values}
        for transactional_id, offset in committed.items():
            numbers = [
                each.number
                for each in self.attempts.values()
                if each.transactional_id == transactional_id
                and each.offset is not None
                and (each.end is End.COMMITTED or visible & each.records.keys())
            ]
            newest = max(numbers, default=NONE)
            # Of a transaction whose end is unknown, and that has no record in a topic that keeps
            # all of them, nothing shows whether it was committed.
            possible = {
                each.number
                for each in self.attempts.values()
                if each.transactional_id == transactional_id
                and each.end is End.UNKNOWN
                and not any(place in kept for place, _ in each.records.values())
            }
            is_right = offset == newest or (offset > newest and offset in possible)
            demand(
                is_right,
                Promise.OFFSET_OF_COMMITTED,
                group=transactional_id,
                offset=offset,
                newest=newest,
            )

    def check_keys(self, newest: Mapping[str, str], seen: Mapping[Place, list[str]]) -> None:
        """`newest` is what a reader has of each key of the compacted topic at the end."""
        visible = {value for values in seen.values() for value in values}
        for value in newest.values():
            self.check_read(value)
        wanted: dict[str, int] = {}
        for each in self.attempts.values():
            if each.end is End.COMMITTED or (
                each.end is End.UNKNOWN and visible & each.records.keys()
            ):
                for key in each.keys:
                    wanted[key] = max(each.number, wanted.get(key, -1))
        for key, number in wanted.items():
            found = int(newest[key].split("/")[1]) if key in newest else -1
            demand(found >= number, Promise.NEWEST_OF_KEY, key=key, found=found, committed=number)
