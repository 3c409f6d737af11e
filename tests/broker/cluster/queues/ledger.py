"""What the members of a share group were given, what they said, and what was confirmed to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from moldau.broker.share.piece import AcknowledgeType

Place = tuple[str, int]
GIVEN_UP = frozenset((AcknowledgeType.GAP, AcknowledgeType.REJECT))


class Promise(StrEnum):
    """As a failure names it, and a planted bug by which it must be found."""

    ONE_WINDOW = "a leader epoch of a partition has one window"
    NO_GAPS = "a window has no gaps, and begins with a record that is not done"
    LEADER_GIVES = "only the leader of the partition gives records"
    LOCK_KEPT = "a record is held until the lock ends, or until its holder says so or goes"
    IN_LIMITS = "a window has no more records than its limit"
    COUNT_LIMIT = "a record is not delivered more often than the limit"
    COUNT_GROWS = "each delivery counts one more than the one before"
    LOADED_WHOLE = "a window begins with all that was stored before"
    NO_DONE_RECORD = "a record that was confirmed to be done does not come back"
    NOTHING_LOST = "a record is done by a word of its holder, or after its last delivery"
    START_GROWS = "the stored start of a group does not fall"
    EPOCH_GROWS = "the stored epochs do not fall"
    OLD_LEADER_FENCED = "a leader that another one has followed stores nothing"
    REPLAYED = "the coordinator's state is what its log says"
    QUEUE_DRAINS = "the queue is empty at the end"
    RESTS = "a record that rests is not given"
    DEAD_LETTER = "a record that was given up is in the dead letter topic"


@dataclass(slots=True)
class Known:
    """What is known of one record."""

    said: set[int] = field(default_factory=set)
    """The kinds of acknowledgements that were sent, by any member."""
    said_by: dict[str, int] = field(default_factory=dict)
    """By member: the highest delivery of which it has said something."""
    deliveries: int = 0
    """The highest delivery count in any window."""
    done_epoch: int | None = None
    """The leader epoch in which it was confirmed to be done."""


class Ledger:
    """All records of a run."""

    def __init__(self) -> None:
        self.records: dict[Place, dict[int, Known]] = {}
        self.starts: dict[Place, int] = {}
        """Up to where records were deleted at the most."""
        self.counts: Counter[str] = Counter()
        self.resting: dict[tuple[Place, int], float] = {}
        """Until when a record may not be given, by the members' clock."""

    def of(self, place: Place, offset: int) -> Known:
        """What is known of a record."""
        known = self.records.setdefault(place, {})
        if offset not in known:
            known[offset] = Known()
        return known[offset]

    def saying(self, place: Place, offset: int, member: str, delivery: int, kind: int) -> None:
        """A member is about to send an acknowledgement."""
        known = self.of(place, offset)
        known.said.add(kind)
        known.said_by[member] = max(delivery, known.said_by.get(member, 0))

    def confirmed(self, place: Place, offset: int, kind: int, epoch: int) -> None:
        """An acknowledgement was answered without an error, at the latest in this leader epoch."""
        self.counts[AcknowledgeType(kind).name.lower()] += 1
        known = self.of(place, offset)
        if kind not in known.said:
            return  # it was said before the group began again
        if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
            known.done_epoch = epoch if known.done_epoch is None else known.done_epoch

    def rests(self, place: Place, offset: int, until: float) -> None:
        """A release was confirmed after which the record rests at least until then."""
        self.resting[place, offset] = until

    def forget(self, place: Place) -> None:
        """The group begins again there."""
        self.records[place] = {}
        for name in [each for each in self.resting if each[0] == place]:
            del self.resting[name]

    def may_be_done(self, place: Place, offset: int, limit: int) -> bool:
        """Whether the record may be done by now."""
        known = self.of(place, offset)
        is_said = AcknowledgeType.ACCEPT in known.said or bool(GIVEN_UP & known.said)
        is_deleted = offset < self.starts.get(place, 0)
        return is_said or is_deleted or known.deliveries >= limit
