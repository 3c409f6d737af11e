"""A consumer's position in one partition, and its buffered records. No IO.

    COMMITTED  -> the group's committed offset must be requested; if there is none: UNKNOWN
    UNKNOWN    -> there is no offset to start at: look up an end of the log, or a time
    READING    -> the position is known, and fetches go on from `fetch_offset`
    VALIDATING -> the leader has changed: does it have all that was read (KIP-320)? Then READING
    FAILED     -> an error that a retry does not heal; raised by the next poll, then READING, or
                  back to COMMITTED or VALIDATING if it came from there
    GONE       -> the topic of that name is not the one that the group has assigned to this consumer
                  (KIP-848): it was deleted and created again, or a broker's metadata are old. If
                  the right one comes back, as before; else the group assigns the partition again

Invariants: `position` is the offset of the next record that the user gets, `fetch_offset` that of
the next one to be fetched, and the records between are buffered. A seek or a new assignment makes
responses to earlier fetches and look-ups void (`generation`, never used twice).

A partition is fetched from its leader, or from the nearby replica that the leader has named
(KIP-392), until that one fails or until `replica_until`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from moldau.client.consumer.records import FetchedRecords
from moldau.client.consumer.topic_identity import Former, TopicIdentity
from moldau.client.settings.offset_reset import BEGINNING, Reset
from moldau.errors import BadData
from moldau.errors.codes import KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import NO_EPOCH, NO_LEADER, Metadata, TopicPartition


class PositionState(Enum):
    """The state of one partition; see the module's text."""

    COMMITTED = "committed"
    UNKNOWN = "unknown"
    READING = "reading"
    VALIDATING = "validating"
    FAILED = "failed"
    GONE = "gone"


_ASKED_UNTIL_ANSWERED: Final = (PositionState.COMMITTED, PositionState.VALIDATING)


class Asked(NamedTuple):
    """One partition of a pending fetch or look-up."""

    where: TopicPartition
    generation: int
    offset: int


@dataclass(slots=True, eq=False, repr=False)
class Position:
    """The position of a consumer in one partition."""

    where: TopicPartition
    look_up: Reset
    state: PositionState
    _generations: Iterator[int]
    identity: TopicIdentity = field(default_factory=TopicIdentity)
    generation: int = field(init=False)
    failed_in: PositionState = field(init=False)
    """While it is FAILED: the state before."""
    position: int = -1
    fetch_offset: int = -1
    began_at: int = -1
    """The offset at which reading began; -1 before that."""
    began_at_epoch: int = NO_EPOCH
    epoch: int = NO_EPOCH
    fetch_epoch: int = NO_EPOCH
    leader_epoch: int = NO_EPOCH
    is_paused: bool = False
    buffered: deque[FetchedRecords] = field(default_factory=deque)
    buffered_bytes: int = 0
    high_watermark: int = -1
    readable_end: int = -1
    """The end of what may be read: with read_committed the last stable offset."""
    log_start_offset: int = -1
    was: tuple[int, str] | None = None
    """While a lost position is looked up: the old offset, and the text for the log."""
    trouble: KafkaError | None = None
    """The error that keeps the partition from being read at present."""
    trouble_since: float | None = None
    """Since when `trouble` lasts; None if it was logged already."""
    missing_since: float | None = None
    """Since when it is known that the topic or partition does not exist."""
    behind_since: float | None = None
    """Since when metadata are known to be older than the records read up to here."""
    waits_for_leader: bool = False
    """Whether it was put off only until the partition has a leader."""
    error: KafkaError | BadData | None = None
    failures: int = 0
    not_before: float = 0.0
    replica: int = NO_LEADER
    replica_until: float = 0.0

    def __post_init__(self) -> None:
        self.generation = next(self._generations)
        self.failed_in = self.state

    @property
    def topic_id(self) -> Uuid:
        """The id of its topic; ZERO_UUID while unknown."""
        return self.identity.topic_id

    def sought(self, offset: int, epoch: int) -> None:
        """Apply a seek of the user."""
        if self.identity.seek(offset, epoch):
            self.seek(offset, epoch)

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at this offset; `epoch` is that of the record before it, if known."""
        self._drop()
        self.state = PositionState.READING
        self.position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.leader_epoch = NO_EPOCH
        if self.began_at < 0:
            self.began_at, self.began_at_epoch = offset, epoch

    def forget(self, look_up: Reset) -> None:
        """Drop the position; a new one is looked up as `look_up` says."""
        self._drop()
        self.state = PositionState.UNKNOWN
        self.position = self.fetch_offset = self.began_at = -1
        self.epoch = self.fetch_epoch = NO_EPOCH
        self.look_up = look_up

    def reset(self, look_up: Reset, why: str) -> None:
        """Drop the position. When a new one is found, log `why` with both offsets."""
        was = self.position
        self.identity.former = self.identity.former or self.identity.taken_away(was, self.epoch)
        self.forget(look_up)
        self.was = (was, f"{why}: reading goes on where auto.offset.reset says")

    def name_topic(self, topic_id: Uuid, offset: int, look_up: Reset, state: PositionState) -> bool:
        """Apply the topic id from metadata; the user is at `offset`. Return True if it replaces
        another id: buffered records are void.

        Nothing of the new topic was read, as all its records are newer: an offset of the old one
        would skip records that were never read. So reading starts at its beginning, unless
        auto.offset.reset is none or the group has committed an offset.
        """
        is_known_first = self.topic_id == ZERO_UUID
        back_at = self.identity.on_topic(topic_id, offset if self.position >= 0 else -1, self.epoch)
        former = self.identity.former
        is_same = former is None or former.topic_id == topic_id
        begins_at = look_up if is_same or look_up.is_none else BEGINNING
        if is_known_first and not self.identity.is_anothers:
            if self.position < 0:
                self.look_up = begins_at
            return False
        if back_at is not None:
            self.seek(back_at.offset, back_at.epoch)
        else:
            self.forget(begins_at)
            self.state = PositionState.GONE if self.identity.is_anothers else state
            self.leader_epoch = NO_EPOCH
        self.well()
        self.replica = NO_LEADER
        self.high_watermark = self.readable_end = self.log_start_offset = -1
        return True

    def as_former(self) -> Former | None:
        """Return what to remember until it is assigned again; None if nothing was read."""
        return self.identity.taken_away(self.position, self.epoch)

    def in_trouble(self, error: KafkaError, now: float) -> None:
        """Note the error that keeps it from being read; retries continue."""
        if self.trouble is None:
            self.trouble_since = now
        self.trouble = error

    def well(self) -> None:
        """Note that its broker has answered."""
        self.trouble = self.trouble_since = self.missing_since = None

    def make_void(self) -> None:
        """Make the responses to earlier requests void."""
        self.generation = next(self._generations)

    def _drop(self) -> None:
        self.make_void()
        self.buffered.clear()
        self.buffered_bytes = 0
        self.error = None
        self.failures = 0
        self.not_before = 0.0
        self.was = self.behind_since = None

    @property
    def is_in_doubt(self) -> bool:
        """Whether the buffered records may be gone from the log, as no validation has succeeded."""
        state = self.failed_in if self.state is PositionState.FAILED else self.state
        return state is PositionState.VALIDATING

    def fail(self, error: KafkaError | BadData) -> None:
        """Keep the error for the next poll."""
        if self.state is not PositionState.FAILED:
            self.failed_in = self.state
        self.state = PositionState.FAILED
        self.error = error

    def take_error(self) -> KafkaError | BadData | None:
        """Return the error, once; then reading continues, or a position must be found. After
        COMMITTED or VALIDATING the same question is asked again: raising an error does not answer
        it, and another offset would replace the right one."""
        error, self.error = self.error, None
        if self.failed_in in _ASKED_UNTIL_ANSWERED:
            self.state = self.failed_in
        else:
            self.state = PositionState.READING if self.position >= 0 else PositionState.UNKNOWN
        return error

    def waits_for_newer(self, metadata: Metadata, now: float, longest_s: float) -> bool:
        """Whether the records read up to here have a later epoch than the leader in metadata, and
        this has lasted less than `longest_s`."""
        known = metadata.partition(self.where)
        if known is None or not NO_EPOCH < known.leader_epoch < self.fetch_epoch:
            return False
        if self.behind_since is None:
            self.behind_since = now
        return now - self.behind_since < longest_s

    def source(self, metadata: Metadata, now: float) -> int:
        """Return the broker to fetch from; -1 if there is none."""
        leader = metadata.leader_of(self.where)
        if self.replica != NO_LEADER:
            partition = metadata.partition(self.where)
            is_there = partition is not None and self.replica not in partition.offline
            if now < self.replica_until and is_there and self.replica in metadata.brokers:
                return self.replica
            self.replica = NO_LEADER
        return leader if leader in metadata.brokers else NO_LEADER

    def asked(self) -> Asked:
        """Return what to compare when the response comes."""
        return Asked(self.where, self.generation, self.fetch_offset)
