"""A consumer's position in one partition, and its buffered records. No IO (see `consumer_core`).

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
(KIP-392), until that one fails or until `replica_until`. An offset that this replica does not have
is requested from the leader before it counts as out of range.

Records beyond the end of an epoch in the leader's log were truncated (an unclean election).
Buffered ones are dropped. If some were returned already, the position is reset; with
auto.offset.reset=none each poll raises an error until a seek.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeVar

from moldau.client.base.part import Part
from moldau.client.consumer.records import FetchedRecords
from moldau.client.consumer.topic_identity import Former, TopicIdentity
from moldau.client.settings.offset_reset import BEGINNING, Reset
from moldau.deferred import dataclass
from moldau.errors import BadData, MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError, may_work_later
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import NO_EPOCH, NO_LEADER, Metadata, Partition, TopicPartition
from moldau.protocol.messages.fetch import PartitionData

_LONG_S: Final = 10.0
"""A partition that cannot be read for this long is logged."""
_MISSING_S: Final = 5.0
"""After this long the user gets the error of a missing topic or partition; retries continue."""
_BEHIND_S: Final = 30.0
"""So long to wait for metadata as new as the epoch of a position: that epoch may be invented."""
MISSED: Final = "missed"
"""The fact of a notice with the number of records that were deleted before they were read."""
_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class PositionState(Enum):
    """The state of one partition; see the module's text."""

    COMMITTED = "committed"
    UNKNOWN = "unknown"
    READING = "reading"
    VALIDATING = "validating"
    FAILED = "failed"
    GONE = "gone"


_ASKED_UNTIL_ANSWERED: Final = (PositionState.COMMITTED, PositionState.VALIDATING)


class RequestedPosition(NamedTuple):
    """One partition of a pending fetch or look-up."""

    where: TopicPartition
    generation: int
    offset: int
    epoch: int
    look_up: Reset
    """Where to begin if there is no position: an end of the log, or a time."""


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """What holds for all positions of a consumer."""

    reset: Reset
    """Where to begin in a partition whose position is unknown or out of range."""
    fetch_bytes: int
    """A partition with so many bytes in its buffer is not fetched."""
    wait_s: Callable[[int], float]
    """How long to wait after that many failures in a row."""
    replica_s: float = 300.0
    """For how long to fetch from a nearby replica."""
    is_committed: bool = False
    check_crcs: bool = True


P = TypeVar("P", bound=Part)
P_co = TypeVar("P_co", bound=Part, covariant=True)


class Take(Protocol[P_co]):
    """A way to open fetched data: as records or as columns."""

    def __call__(
        self, fetched: FetchedRecords, count_max: int, /, *, check_crc: bool
    ) -> P_co | None: ...


@dataclass(slots=True, eq=False, repr=False)
class Position:
    """The position of a consumer in one partition."""

    where: TopicPartition
    policy: ReadPolicy
    state: PositionState
    _next_generation: Callable[[], int]
    notices: list[MoldauError]
    """What the shell must log: shared by all positions."""
    identity: TopicIdentity = field(default_factory=TopicIdentity)
    look_up: Reset = field(init=False)
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
        self.generation = self._next_generation()
        self.failed_in = self.state
        self.look_up = self.policy.reset

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

    def _reset(self, why: str) -> None:
        """Drop the position. When a new one is found, log `why` with both offsets."""
        was = self.position
        self.identity.former = self.identity.former or self.identity.taken_away(was, self.epoch)
        self.forget(self.policy.reset)
        self.was = (was, f"{why}: reading goes on where auto.offset.reset says")

    def name_topic(self, topic_id: Uuid, offset: int, state: PositionState) -> bool:
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
        reset = self.policy.reset
        begins_at = reset if is_same or reset.is_none else BEGINNING
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
        self.trouble = without_frames(error)

    def well(self) -> None:
        """Note that its broker has answered."""
        self.trouble = self.trouble_since = self.missing_since = None

    def make_void(self) -> None:
        """Make the responses to earlier requests void."""
        self.generation = self._next_generation()

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
        self.error = without_frames(error)

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

    # Looking it up

    def put_off(self, now: float) -> None:
        """Retry later, after a failure."""
        self.waits_for_leader = False
        self.failures += 1
        self.not_before = now + self.policy.wait_s(self.failures)

    def on_leader(self, known: Partition, *, is_alive: bool) -> None:
        """Apply what metadata say of the partition. With a known epoch, the position is validated
        against a new leader's log; if it waited for a leader, it is tried again once there is
        one."""
        if self.waits_for_leader and is_alive:
            self.waits_for_leader = False
            self.not_before = 0.0
        if known.leader_epoch <= self.leader_epoch:
            return
        if self.state is PositionState.READING or self.state is PositionState.VALIDATING:
            self.leader_epoch = known.leader_epoch
            if self.fetch_epoch != NO_EPOCH:
                self.state = PositionState.VALIDATING
                self.make_void()

    def on_not_led(self, error: KafkaError | None, now: float) -> None:
        """Put off a look-up without a leader. `error` says why; None while the first metadata of
        the topic were not received yet."""
        if error is None:
            self.put_off(now)
        else:
            self.on_look_up_failed(error, now)
        self.waits_for_leader = self.state is not PositionState.FAILED

    def on_look_up_failed(self, error: KafkaError, now: float) -> None:
        """Retry a failed look-up, or fail if a retry cannot help. A missing topic becomes an error
        after `_MISSING_S`; a validation is retried without limit."""
        error = KafkaError(error.code, error.reason, **{**error.context, **self.where._asdict()})
        is_passing = may_work_later(error) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR
        if error.code in _MISSING and self.state is not PositionState.VALIDATING:
            if self.missing_since is None:
                self.missing_since = now
            is_passing = now - self.missing_since < _MISSING_S
        if is_passing:
            self.in_trouble(error, now)
            self.put_off(now)
        else:
            self.missing_since = None
            if self.state in _ASKED_UNTIL_ANSWERED:
                self.put_off(now)  # retried with backoff, not by every poll
            self.fail(error)

    def on_committed(self, offset: int | None, epoch: int) -> None:
        """Apply the committed offset; None if there is none."""
        if self.state is PositionState.COMMITTED:
            if offset is not None:
                self._begin_at(offset, epoch)
            else:
                self.well()
                self.forget(self.look_up)

    def on_found(self, offset: int, epoch: int) -> None:
        """Apply the looked-up offset of an unknown position."""
        if self.state is PositionState.UNKNOWN:
            self._begin_at(offset, epoch)

    def _begin_at(self, offset: int, epoch: int) -> None:
        """Begin at a found offset. Log it if an earlier position was lost."""
        is_same_topic = self.was is not None
        was = self.was or self.identity.take_former()
        self.well()
        self.seek(offset, epoch)
        if was is not None:
            facts: dict[str, object] = {"old_offset": was[0], "new_offset": offset}
            if is_same_topic and offset > was[0]:
                facts[MISSED] = offset - was[0]
            self._note(was[1], **facts)

    def _note(self, reason: str, **facts: object) -> None:
        facts = {**facts, **self.where._asdict(), "setting": "auto.offset.reset"}
        self.notices.append(MoldauError(reason, **facts))

    def waits_for_newer(self, metadata: Metadata, now: float) -> bool:
        """Whether to wait for newer metadata before validating. Those known are older than a
        committed or sought position: their leader may not know its epoch, so its log would seem
        truncated (KIP-320)."""
        known = metadata.partition(self.where)
        if known is None or not NO_EPOCH < known.leader_epoch < self.fetch_epoch:
            return False
        if self.behind_since is None:
            self.behind_since = now
        if now - self.behind_since >= _BEHIND_S:
            return False
        reason = "metadata are older than the epoch of the position"
        facts = {**self.where._asdict(), "epoch": self.fetch_epoch}
        self.in_trouble(KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, reason, **facts), now)
        self.put_off(now)
        return True

    def on_validated(self, end_offset: int, epoch: int) -> None:
        """Compare with the position's epoch and its end in the leader's log; -1 if the leader has
        no such epoch."""
        if self.state is not PositionState.VALIDATING:
            return
        self.failures = 0
        self.well()
        self.state = PositionState.READING
        if end_offset >= self.fetch_offset:
            return
        leader_epoch = self.leader_epoch
        if self.position <= end_offset:
            self.seek(self.position, min(self.epoch, epoch))
        elif self.policy.reset.is_none:
            self.seek(self.position, self.epoch)
            if self.epoch == NO_EPOCH:
                return  # nothing was read from it: a fetch shows whether the offset is in the log
            # Each poll validates again until the user seeks: the question has an answer now.
            self.state = PositionState.VALIDATING
            reason = (
                "the log was truncated: records that were read are gone from it, and "
                "auto.offset.reset is none: seek to go on"
            )
            facts = {**self.where._asdict(), "offset": self.position, "log_ends": end_offset}
            setting = "auto.offset.reset"
            code = ErrorCode.OFFSET_OUT_OF_RANGE
            self.fail(KafkaError(code, reason, **facts, setting=setting))
        elif end_offset < 0:
            self._reset("the log was truncated below all that was read of it")
        else:
            self._note(
                "the log was truncated (an unclean election): records that were given out are gone "
                "from it, and it is read on from where it still is the same",
                old_offset=self.position,
                new_offset=end_offset,
            )
            self.seek(end_offset, epoch)
        self.leader_epoch = leader_epoch

    # Fetching

    def source(self, metadata: Metadata, now: float) -> int:
        """Return the broker to fetch from; -1 if there is none."""
        partition = metadata.partition(self.where)
        if self.replica != NO_LEADER:
            is_there = partition is not None and self.replica not in partition.offline
            if now < self.replica_until and is_there and self.replica in metadata.brokers:
                return self.replica
            self.replica = NO_LEADER
        if partition is None or partition.leader not in metadata.brokers:
            return NO_LEADER
        return partition.leader

    def requested(self) -> RequestedPosition:
        """Return what to compare when the response comes."""
        return RequestedPosition(
            self.where, self.generation, self.fetch_offset, self.fetch_epoch, self.look_up
        )

    def on_data(self, data: PartitionData, now: float) -> None:
        """Apply a successful fetch."""
        self.failures = 0
        self.not_before = 0.0
        self.well()
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        if data.preferred_read_replica != NO_LEADER:
            self.replica = data.preferred_read_replica
            self.replica_until = now + self.policy.replica_s
        is_committed = self.policy.is_committed
        end = self.readable_end = data.last_stable_offset if is_committed else data.high_watermark
        if not data.records:
            return
        aborted = (data.aborted_transactions or []) if is_committed else None
        offset = self.fetch_offset
        try:
            fetched = FetchedRecords(self.where, offset, data.records, aborted, end)
        except BadData as error:
            self.fail(error)
            return
        if fetched.end_offset > offset:
            self.fetch_offset = fetched.end_offset
            self.fetch_epoch = fetched.end_epoch
            self.buffered.append(fetched)
            self.buffered_bytes += fetched.size_bytes

    def on_refused(self, error: KafkaError, now: float) -> None:
        """Handle a failed fetch."""
        was_near, self.replica = self.replica, NO_LEADER
        is_out_of_range = error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if is_out_of_range and was_near != NO_LEADER:
            return
        if is_out_of_range and not self.policy.reset.is_none:
            # Buffered records are returned first: the user's position is still in the log.
            if self.buffered:
                self.put_off(now)
            else:
                self._reset("the offset is not in the log any more, or not yet")
        elif error.retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.in_trouble(error, now)
            self.put_off(now)
        else:
            facts = {**error.context, **self.where._asdict(), "offset": self.fetch_offset}
            facts |= {"setting": "auto.offset.reset"} if is_out_of_range else {}
            self.fail(KafkaError(error.code, error.reason, **facts))

    # Records out

    def take(self, take: Take[P], count_max: int) -> P | None:
        """Take records from the first buffered fetch, and remove it when it is empty. If it is
        damaged, fail and return None."""
        fetched = self.buffered[0]
        try:
            part = take(fetched, count_max, check_crc=self.policy.check_crcs)
        except BadData as error:
            self.position = fetched.position
            self.fail(error)
            return None
        self.position = max(self.position, fetched.position)
        if fetched.leader_epoch != NO_EPOCH:
            self.epoch = fetched.leader_epoch
        if part is None:
            self.buffered.popleft()
            self.buffered_bytes -= fetched.size_bytes
        elif self.identity.former is not None:
            self.identity.on_taken(part.first_offset)
        return part


def lasting_troubles(positions: Iterable[Position], now: float) -> Iterator[MoldauError]:
    """Return what to log: a lasting trouble once, and once for all partitions of a topic that have
    it."""
    alike: dict[tuple[str, str], list[Position]] = {}
    for each in positions:
        if each.trouble_since is not None and now - each.trouble_since >= _LONG_S:
            alike.setdefault((each.where.topic, str(each.trouble)), []).append(each)
            each.trouble_since = None
    for (topic, _), some in alike.items():
        first = some[0]
        assert first.trouble is not None
        facts: dict[str, object] = dict(first.trouble.context)
        if len(some) > 1:
            facts |= {"topic": topic, "partitions": sorted(each.where.partition for each in some)}
        else:
            facts |= {"offset": first.position, **first.where._asdict()}
        reason = f"nothing could be read for {_LONG_S:g} s, and it is tried on: "
        yield MoldauError(f"{reason}{first.trouble.reason}", **facts)
