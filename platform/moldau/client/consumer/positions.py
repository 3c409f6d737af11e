"""All partitions of a consumer: which positions to look up, what to fetch, what to return. No IO.

`position` has the states of one partition. A topic that comes back under its old name is another
one, by its id (`topic_identity`): its partitions start at its beginning, or wait (GONE) until the
group assigns them again, and a notice is logged.

Invariants: a partition with `fetch_bytes` in its buffer is not fetched, and nothing is while all
buffers hold `memory_bytes`. Paused partitions keep their buffers. An offset that a nearby replica
does not have is requested from the leader before it counts as out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from moldau.client.base.columns import PartitionColumns
from moldau.client.base.part import Part
from moldau.client.consumer.assignment import Assignment
from moldau.client.consumer.backlog import Backlog
from moldau.client.consumer.position import Asked, Position, PositionState
from moldau.client.consumer.records import FetchedRecords, PartitionRecords
from moldau.client.settings.offset_reset import Reset
from moldau.errors import BadData, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.backoff import Backoff, may_work_later
from moldau.link.metadata import NO_EPOCH, NO_LEADER, Metadata, TopicPartition
from moldau.protocol.messages.fetch import PartitionData

if TYPE_CHECKING:
    from random import Random


_LONG_S: Final = 10.0
"""A partition that cannot be read for this long is logged."""
_MISSING_S: Final = 5.0
"""After this long the user gets the error of a missing topic or partition; retries continue."""
_BEHIND_S: Final = 30.0
"""So long to wait for metadata as new as the epoch of a position: that epoch may be invented."""
MISSED: Final = "missed"
"""The fact of a notice with the number of records that were deleted before they were read."""
_LOOKED_UP: Final = (PositionState.COMMITTED, PositionState.UNKNOWN, PositionState.VALIDATING)
_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many bytes to keep, and for how long to fetch from a nearby replica."""

    fetch_bytes: int
    memory_bytes: int
    replica_s: float = 300.0
    check_crcs: bool = True


P = TypeVar("P", bound=Part, covariant=True)
S = TypeVar("S", bound=Part)


class Take(Protocol[P]):
    """A way to open fetched data: as records or as columns."""

    def __call__(
        self, fetched: FetchedRecords, count_max: int, /, *, check_crc: bool
    ) -> P | None: ...


class Positions:
    """Decides for all partitions of a consumer what to look up, to fetch and to return."""

    def __init__(
        self, bounds: Bounds, reset: Reset, backoff: Backoff, random: Random, out: Backlog
    ) -> None:
        """Use `reset` for positions that are unknown or out of range. Taken records go to `out`."""
        self.out = out
        self.assignment = Assignment(reset, out)
        self._reset = reset
        self._bounds = bounds
        self._backoff = backoff
        self._random = random
        self._has_met_failed = False
        self.notices: list[MoldauError] = []
        """What the shell must log, and then remove."""
        self.missed = 0
        """How many records were deleted before they were read, since the consumer started."""
        self.emptied: dict[str, int] = {}
        """Bytes of fetches whose records were all returned, by topic, until they are counted."""
        self.chosen: Collection[TopicPartition] | None = None
        """The only partitions whose records may be returned at present; None for all."""

    def awaits_topics(self, now: float) -> bool:
        """Whether to request metadata, because a topic's name now belongs to another topic than the
        one that the group has assigned."""
        waiting = self.waiting(PositionState.GONE, now)
        for each in waiting:
            reason = "the topic of that name is not the one that the group has given"
            facts = each.where._asdict()
            each.in_trouble(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, reason, **facts), now)
            self.put_off(each, now)
        return bool(waiting)

    def awaits_epochs(self, metadata: Metadata, now: float) -> bool:
        """Whether to request metadata, because they are older than a committed or sought position.
        Their leader may not know that epoch: its log would seem truncated (KIP-320)."""
        is_awaited = False
        for each in self.waiting(PositionState.VALIDATING, now):
            if not each.waits_for_newer(metadata, now, _BEHIND_S):
                continue
            is_awaited = True
            reason = "metadata are older than the epoch of the position"
            facts = each.where._asdict()
            code = ErrorCode.UNKNOWN_LEADER_EPOCH
            each.in_trouble(KafkaError(code, reason, **facts, epoch=each.fetch_epoch), now)
            self.put_off(each, now)
        return is_awaited

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """Return the errors that keep partitions from being read at present."""
        return {each.where: each.trouble for each in self.assignment if each.trouble is not None}

    def note_lasting_troubles(self, now: float) -> None:
        """Log a lasting trouble once, and once for all partitions of a topic that have it."""
        alike: dict[tuple[str, str], list[Position]] = {}
        for each in self.assignment:
            if each.trouble_since is None or now - each.trouble_since < _LONG_S:
                continue
            alike.setdefault((each.where.topic, str(each.trouble)), []).append(each)
            each.trouble_since = None
        for (topic, _), some in alike.items():
            first = some[0]
            assert first.trouble is not None
            reason = f"nothing could be read for {_LONG_S:g} s, and it is tried on: "
            facts: dict[str, object] = {**first.trouble.context, "offset": first.position}
            if len(some) > 1:
                facts = {**first.trouble.context, "topic": topic}
                facts["partitions"] = sorted(each.where.partition for each in some)
            else:
                facts |= first.where._asdict()
            self.notices.append(MoldauError(f"{reason}{first.trouble.reason}", **facts))

    def _note(self, reason: str, where: TopicPartition, **facts: object) -> None:
        told = {**facts, "topic": where.topic, "partition": where.partition}
        self.notices.append(MoldauError(reason, **told))

    # Looking positions up

    def waiting(self, state: PositionState, now: float) -> list[Position]:
        """Return the positions in this state that may be tried now."""
        return [each for each in self.assignment if each.state is state and now >= each.not_before]

    def to_look_up(self, now: float, now_ms: int) -> dict[TopicPartition, int]:
        """Return the partitions to look up, each with the timestamp to request."""
        wanted = {}
        for each in self.waiting(PositionState.UNKNOWN, now):
            timestamp = each.look_up.timestamp(now_ms)
            if timestamp is not None:
                wanted[each.where] = timestamp
                continue
            each.fail(
                KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    "the partition has no position, and auto.offset.reset is none: seek first",
                    **each.where._asdict(),
                    setting="auto.offset.reset",
                )
            )
        return wanted

    def by_leader(
        self,
        wanted: Iterable[Position],
        metadata: Metadata,
        now: float,
        blind_for: KafkaError | None,
    ) -> dict[int, list[Position]]:
        """Group these positions by leader. Those without a leader are put off, and listed under -1.
        `blind_for` is why no newer metadata come, if so."""
        by_where = {each.where: each for each in wanted}
        found = metadata.by_leader(by_where)
        for where in found.get(NO_LEADER, ()):
            position = by_where[where]
            is_unheard_of = where.topic not in metadata.topics.keys() | metadata.refused.keys()
            if not is_unheard_of:
                self.not_found(position, metadata.why_not_led(where), now)
            elif blind_for is not None:
                self.not_found(position, blind_for, now)
            else:
                self.put_off(position, now)  # its first metadata were not received yet
            position.waits_for_leader = position.state is not PositionState.FAILED
        return {leader: [by_where[each] for each in chosen] for leader, chosen in found.items()}

    def not_found(self, position: Position, error: KafkaError, now: float) -> None:
        """Handle a failed look-up: retry it, or fail the position if a retry cannot help. A missing
        topic becomes an error after `_MISSING_S`; a validation is retried without limit."""
        facts = position.where._asdict()
        error = KafkaError(error.code, error.reason, **{**error.context, **facts})
        is_passing = may_work_later(error) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR
        if error.code in _MISSING and position.state is not PositionState.VALIDATING:
            if position.missing_since is None:
                position.missing_since = now
            is_passing = now - position.missing_since < _MISSING_S
        if is_passing:
            position.in_trouble(error, now)
            self.put_off(position, now)
        else:
            position.missing_since = None
            if position.state in (PositionState.COMMITTED, PositionState.VALIDATING):
                self.put_off(position, now)  # retried with backoff, not by every poll
            position.fail(error)

    def could_not_look_up(self, asked: Asked, error: KafkaError, now: float) -> None:
        """Call `not_found` unless the position has moved since."""
        position = self.assignment.current(asked)
        if position is not None:
            self.not_found(position, error, now)

    def found_committed(self, asked: Asked, offset: int | None, epoch: int) -> None:
        """Apply the committed offset; None if there is none."""
        position = self.assignment.current(asked)
        if position is None or position.state is not PositionState.COMMITTED:
            return
        if offset is not None:
            self._begin_at(position, offset, epoch)
            return
        position.well()
        position.forget(position.look_up)

    def leaders_changed(self, metadata: Metadata) -> None:
        """Apply new metadata. Positions with a known epoch are validated against a new leader's
        log; those that waited for a leader are tried again once there is one."""
        for each in self.assignment:
            known = metadata.partition(each.where)
            if each.waits_for_leader and known is not None and known.leader in metadata.brokers:
                each.waits_for_leader = False
                each.not_before = 0.0
            if known is None or each.state not in (PositionState.READING, PositionState.VALIDATING):
                continue
            if known.leader_epoch <= each.leader_epoch:
                continue
            each.leader_epoch = known.leader_epoch
            if each.fetch_epoch != NO_EPOCH:
                each.state = PositionState.VALIDATING
                each.make_void()

    def validated(self, asked: Asked, end_offset: int, epoch: int) -> None:
        """Compare a position with its epoch's end in the leader's log; -1 if it has no such epoch.

        Records beyond that end were truncated (an unclean election). Buffered ones are dropped. If
        some were returned already, the position is reset; with auto.offset.reset=none each poll
        raises an error until a seek.
        """
        position = self.assignment.current(asked)
        if position is None or position.state is not PositionState.VALIDATING:
            return
        position.failures = 0
        position.well()
        position.state = PositionState.READING
        if end_offset >= position.fetch_offset:
            return
        self.assignment.settle(position)
        leader_epoch = position.leader_epoch
        if position.position <= end_offset:
            position.seek(position.position, min(position.epoch, epoch))
        elif self._reset.is_none:
            position.seek(position.position, position.epoch)
            if position.epoch == NO_EPOCH:
                return  # nothing was read from it: a fetch shows whether the offset is in the log
            # Each poll validates again until the user seeks: the question has an answer now.
            position.state = PositionState.VALIDATING
            position.fail(
                KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    "the log was truncated: records that were read are gone from it, and "
                    "auto.offset.reset is none: seek to go on",
                    **asked.where._asdict(),
                    offset=position.position,
                    log_ends=end_offset,
                    setting="auto.offset.reset",
                )
            )
        elif end_offset < 0:
            position.reset(self._reset, "the log was truncated below all that was read of it")
        else:
            self._note_truncated(position, end_offset)
            position.seek(end_offset, epoch)
        position.leader_epoch = leader_epoch

    # Fetching

    def to_fetch(self, now: float, metadata: Metadata) -> dict[int, list[Position]]:
        """Return the partitions to fetch, by broker; under -1 those without a broker."""
        found: dict[int, list[Position]] = {}
        if self.is_full:
            return found
        for each in self.assignment:
            if (
                each.state is PositionState.READING
                and not each.is_paused
                and each.buffered_bytes < self._bounds.fetch_bytes
                and now >= each.not_before
            ):
                found.setdefault(each.source(metadata, now), []).append(each)
        for each in found.get(NO_LEADER, ()):
            each.in_trouble(metadata.why_not_led(each.where), now)
            self._wait_for_leader(each, now)
        return found

    @property
    def buffered_bytes(self) -> int:
        """The bytes that were fetched and not yet returned whole."""
        return sum(each.buffered_bytes for each in self.assignment)

    @property
    def room_bytes(self) -> int:
        """How many more bytes may be buffered."""
        return self._bounds.memory_bytes - self.buffered_bytes

    @property
    def is_full(self) -> bool:
        """Whether there is something to return, and no room for more."""
        is_there = any(each.buffered and self._may_give(each) for each in self.assignment)
        return is_there and self.room_bytes <= 0

    def _may_give(self, position: Position) -> bool:
        return not position.is_paused and self.is_chosen(position.where)

    def is_chosen(self, where: TopicPartition) -> bool:
        """Whether the running poll may return records of this partition."""
        return self.chosen is None or where in self.chosen

    def full_at(self, metadata: Metadata, now: float) -> set[int]:
        """Return the brokers of partitions with full buffers: the next take makes room there."""
        return {
            each.source(metadata, now)
            for each in self.assignment
            if each.buffered_bytes >= self._bounds.fetch_bytes and not each.is_paused
        }

    def awaited_at(self, metadata: Metadata) -> set[int]:
        """Return the brokers of partitions to fetch after their look-up: leave room for them."""
        awaited = [
            each.where
            for each in self.assignment
            if each.state in _LOOKED_UP and not each.is_paused
        ]
        return metadata.by_leader(awaited).keys() - {NO_LEADER}

    def _note_truncated(self, position: Position, end: int) -> None:
        self._note(
            "the log was truncated (an unclean election): records that were given out are gone "
            "from it, and it is read on from where it still is the same",
            position.where,
            old_offset=position.position,
            new_offset=end,
            setting="auto.offset.reset",
        )

    def found(self, asked: Asked, offset: int, epoch: int) -> None:
        """Apply the looked-up offset of an unknown position. Log it if an earlier one was lost."""
        position = self.assignment.current(asked)
        if position is None or position.state is not PositionState.UNKNOWN:
            return
        self._begin_at(position, offset, epoch)

    def _begin_at(self, position: Position, offset: int, epoch: int) -> None:
        is_same_topic = position.was is not None
        was = position.was or position.identity.tell()
        position.well()
        position.seek(offset, epoch)
        if was is not None:
            facts: dict[str, object] = {"old_offset": was[0], "new_offset": offset}
            if is_same_topic and offset > was[0]:
                facts[MISSED] = offset - was[0]
                self.missed += offset - was[0]
            self._note(was[1], position.where, **facts, setting="auto.offset.reset")

    def _wait_for_leader(self, position: Position, now: float) -> None:
        self.put_off(position, now)
        position.waits_for_leader = True

    def put_off(self, position: Position, now: float) -> None:
        """Retry the position later, after a failure."""
        position.waits_for_leader = False
        position.failures += 1
        position.not_before = now + self._backoff.wait_s(position.failures, self._random)

    def next_wake(self, now: float) -> float | None:
        """Return when the first partition that was put off may be tried again."""
        waits = [each.not_before for each in self.assignment if each.not_before > now]
        return min(waits, default=None)

    def arrived(self, asked: Asked, data: PartitionData, *, is_committed: bool, now: float) -> None:
        """Apply a successful fetch of one partition."""
        position = self.assignment.current(asked)
        if position is None:
            return
        position.failures = 0
        position.not_before = 0.0
        position.well()
        position.high_watermark = data.high_watermark
        position.log_start_offset = data.log_start_offset
        if data.preferred_read_replica != NO_LEADER:
            position.replica = data.preferred_read_replica
            position.replica_until = now + self._bounds.replica_s
        end = data.last_stable_offset if is_committed else data.high_watermark
        position.readable_end = end
        if not data.records:
            return
        aborted = (data.aborted_transactions or []) if is_committed else None
        try:
            fetched = FetchedRecords(asked.where, asked.offset, data.records, aborted, end)
        except BadData as error:
            position.fail(error)
            return
        if fetched.end_offset > asked.offset:
            position.fetch_offset = fetched.end_offset
            position.fetch_epoch = fetched.end_epoch
            position.buffered.append(fetched)
            position.buffered_bytes += fetched.size_bytes

    def refused(self, asked: Asked, error: KafkaError, now: float) -> None:
        """Handle a failed fetch of one partition."""
        position = self.assignment.current(asked)
        if position is None:
            return
        was_near, position.replica = position.replica, NO_LEADER
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and was_near != NO_LEADER:
            return
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and not self._reset.is_none:
            # Buffered records are returned first: the user's position is still in the log.
            if position.buffered:
                self.put_off(position, now)
            else:
                self.assignment.settle(position)
                position.reset(self._reset, "the offset is not in the log any more, or not yet")
        elif error.retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            position.in_trouble(error, now)
            self.put_off(position, now)
        else:
            context = {
                "topic": asked.where.topic,
                "partition": asked.where.partition,
                "offset": asked.offset,
            }
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                context["setting"] = "auto.offset.reset"
            position.fail(KafkaError(error.code, error.reason, **{**error.context, **context}))

    # Records out

    def take(self, count_max: int) -> list[PartitionRecords]:
        """Return up to `count_max` records, from the (`chosen`) partitions in turn. Raise the error
        of a failed partition if there is nothing else, or if the take before passed over it: a
        partition that always has more must not hide the error."""
        return self._take(count_max, FetchedRecords.take, lambda part: len(part.records))

    def take_columns(self, count_max: int) -> list[PartitionColumns]:
        """Return the same as columns, of whole batches: the last one may exceed `count_max`."""
        return self._take(count_max, FetchedRecords.take_columns, len)

    def _take(self, count_max: int, take: Take[S], size: Callable[[S], int]) -> list[S]:
        if self._has_met_failed:
            self._raise_error()
        found: list[S] = []
        served = []
        for each in self.assignment:
            if count_max <= 0:
                break
            if each.state is PositionState.FAILED and self.is_chosen(each.where):
                self._has_met_failed = True
            if not each.buffered or each.is_in_doubt or not self._may_give(each):
                continue
            served.append(each.where)
            while each.buffered and count_max > 0:
                part = self._opened(each, take, count_max)
                if part is not None:
                    found.append(part)
                    count_max -= size(part)
                elif each.state is PositionState.FAILED:
                    break
        for where in served:  # the next take begins with another partition
            self.assignment.to_the_back(where)
        if not found:
            self._raise_error()
        return found

    def _opened(self, position: Position, take: Take[S], count_max: int) -> S | None:
        """Take records from the first buffered fetch, and remove it when it is empty."""
        fetched = position.buffered[0]
        part = None
        try:
            part = take(fetched, count_max, check_crc=self._bounds.check_crcs)
        except BadData as error:
            position.position = fetched.position
            position.fail(error)
            self._has_met_failed = True
            return None
        position.position = max(position.position, fetched.position)
        if fetched.leader_epoch != NO_EPOCH:
            position.epoch = fetched.leader_epoch
        if part is None:
            position.buffered.popleft()
            position.buffered_bytes -= fetched.size_bytes
            topic = position.where.topic
            self.emptied[topic] = self.emptied.get(topic, 0) + fetched.size_bytes
        elif position.identity.former is not None:
            position.identity.on_taken(part.first_offset)
        return part

    def _raise_error(self) -> None:
        self._has_met_failed = False
        for each in self.assignment:
            where = each.where
            if each.state is PositionState.FAILED and self.is_chosen(where):
                error = each.take_error()
                if error is not None:
                    self.assignment.to_the_back(where)  # the next error is another partition's
                    raise error
