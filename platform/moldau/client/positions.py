"""All partitions of a consumer: which positions to find, what to fetch, what to give out. No IO.

What one of them can be in is `position`'s.

A topic that comes back under its old name is another one, by its id: an offset of the old one says
nothing of it. So its partitions begin anew, or wait (GONE) until they are assigned anew. None of it
was there when its reader began, so it is read from its beginning, whatever auto.offset.reset says
of a reader that is new (but for none); and the reader is told.

Invariants: a partition with `fetch_bytes` or more in its buffer is not fetched, and nothing is
while all buffers together hold `memory_bytes`, so that a consumer which is not read has a bounded
memory. Paused partitions keep what they have, and others are fetched on. What a replica near by
does not have yet or any more is asked of the leader before it counts as out of range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from moldau.client.backoff import Backoff, may_work_later
from moldau.client.fetched import Fetched, PartitionRecords
from moldau.client.metadata import NO_EPOCH, NO_LEADER, Metadata, TopicPartition
from moldau.client.position import Asked, Former, Position, State
from moldau.client.reset import Reset
from moldau.errors import BadData, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.messages.fetch import PartitionData

if TYPE_CHECKING:
    from random import Random


_LONG_S: Final = 10.0
"""After this long a partition that cannot be read is told of."""
_MISSING_S: Final = 5.0
"""After this long a user hears of a topic or partition that there is not; it is looked for on."""
_LOOKED_UP: Final = (State.COMMITTED, State.UNKNOWN, State.VALIDATING)
_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept, and how long a replica near by is believed in."""

    fetch_bytes: int
    memory_bytes: int
    replica_s: float = 300.0
    check_crcs: bool = True


class Positions:
    """All partitions of a consumer."""

    def __init__(self, bounds: Bounds, reset: Reset, backoff: Backoff, random: Random) -> None:
        """`reset` is for positions that are unknown or out of range."""
        self.reset = reset
        self._bounds = bounds
        self._backoff = backoff
        self._random = random
        self._all: dict[TopicPartition, Position] = {}
        self._left: dict[TopicPartition, Former] = {}
        """Where those were that were taken away: their user may get them back."""
        self._generations = count()
        self._first_state = State.UNKNOWN
        self.notices: list[MoldauError] = []
        """What the shell shall log, and forget then."""
        self.emptied: dict[str, int] = {}
        """Bytes of what was fetched and given out whole, by topic, until somebody counts them."""

    def __iter__(self) -> Iterator[Position]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def assign(self, wanted: Iterable[TopicPartition], *, from_committed: bool = False) -> None:
        """These and no others; those that stay keep their positions and what is buffered. New ones
        begin at the committed offset, where there is a group that may have one."""
        self._first_state = State.COMMITTED if from_committed else State.UNKNOWN
        before = self._all
        self._all = {where: before.get(where) or self._made(where) for where in wanted}
        for where in before.keys() - self._all.keys():
            former = before[where].as_former()
            if former is not None:
                self._left[where] = former

    def _made(self, where: TopicPartition) -> Position:
        """One that is new, or is taken up again, maybe in another topic of its name."""
        position = Position(where, self.reset, self._first_state, self._generations)
        position.former = self._left.pop(where, None)
        return position

    def begin(self) -> None:
        """The user has chosen anew what to read: nothing is taken up again."""
        self._left.clear()

    def check_topics(self, metadata: Metadata, *, waits: bool) -> set[TopicPartition]:
        """The partitions whose topics are other ones than before. With `waits` they are read again
        when they are assigned anew, else at once."""
        changed = set()
        for each in self:
            topic = metadata.topics.get(each.where.topic)
            if topic is None or topic.topic_id == each.topic_id:
                continue
            if each.topic_id != ZERO_UUID and topic.topic_id != ZERO_UUID:
                each.begin_anew(self.reset, State.GONE if waits else self._first_state)
                changed.add(each.where)
            elif topic.topic_id != ZERO_UUID:
                each.take_up(topic.topic_id)
            each.topic_id = topic.topic_id
        return changed

    def topic_ids(
        self, partitions: Iterable[TopicPartition], metadata: Metadata
    ) -> dict[TopicPartition, Uuid]:
        """Of which topics these are, when it is about what was read of them: each is of the one
        that its own position is in. One that has none, since it was assigned while the topic was
        away, is of that of its siblings, and not of whatever has the name by then. ZERO_UUID where
        nobody knows."""
        known = {name: topic.topic_id for name, topic in metadata.topics.items()}
        known |= {each.where.topic: each.topic_id for each in self if each.topic_id != ZERO_UUID}
        found = {}
        for where in partitions:
            position = self._all.get(where)
            own = ZERO_UUID if position is None else position.topic_id
            found[where] = known.get(where.topic, ZERO_UUID) if own == ZERO_UUID else own
        return found

    def given_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """Of which topics their user knows offsets: where one was made again since, of the old one
        until he is given something of the new one."""
        found = ((where, self._all.get(where)) for where in partitions)
        return {
            where: each.given_id
            for where, each in found
            if each is not None and each.given_id != ZERO_UUID
        }

    def get(self, where: TopicPartition) -> Position | None:
        """The partition's position, if it is assigned."""
        return self._all.get(where)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """What keeps partitions from being read at present."""
        return {each.where: each.trouble for each in self if each.trouble is not None}

    def note_lasting_troubles(self, now: float) -> None:
        """What lasts for long is told, once."""
        for each in self:
            if each.trouble_since is None or now - each.trouble_since < _LONG_S:
                continue
            assert each.trouble is not None
            self._note(
                f"nothing could be read for {_LONG_S:g} s, and it is tried on: "
                f"{each.trouble.reason}",
                each.where,
                **{**each.trouble.context, "offset": each.position},
            )
            each.trouble_since = None

    def _note(self, reason: str, where: TopicPartition, **facts: object) -> None:
        told = {**facts, "topic": where.topic, "partition": where.partition}
        self.notices.append(MoldauError(reason, **told))

    def is_paused(self, where: TopicPartition) -> bool:
        """Whether nothing of it is given for the time being."""
        found = self.get(where)
        return found is not None and found.is_paused

    def require(self, where: TopicPartition) -> Position:
        """As `get`; KafkaError when it is not assigned."""
        position = self._all.get(where)
        if position is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "the partition is not assigned to this consumer",
                topic=where.topic,
                partition=where.partition,
            )
        return position

    def current(self, asked: Asked) -> Position | None:
        """The partition that was asked for, unless it has gone on elsewhere since."""
        position = self._all.get(asked.where)
        if position is None or position.generation != asked.generation:
            return None
        return position

    # Looking positions up

    def waiting(self, state: State, now: float) -> list[Position]:
        """Those in that state that may be tried now."""
        return [each for each in self if each.state is state and now >= each.not_before]

    def to_look_up(self, now: float, now_ms: int) -> dict[TopicPartition, int]:
        """The partitions whose position has to be found, each with the timestamp to ask for."""
        wanted = {}
        for each in self.waiting(State.UNKNOWN, now):
            timestamp = each.look_up.timestamp(now_ms)
            if timestamp is not None:
                wanted[each.where] = timestamp
                continue
            each.fail(
                KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    "the partition has no position, and auto.offset.reset is none: seek first",
                    topic=each.where.topic,
                    partition=each.where.partition,
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
        """Whom to ask about these. Those that nobody leads are put off and under -1; `blind_for` is
        why nothing newer is known, if so."""
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
                self.put_off(position, now)  # the first metadata of it are on their way
            position.waits_for_leader = position.state is not State.FAILED
        return {leader: [by_where[each] for each in chosen] for leader, chosen in found.items()}

    def not_found(self, position: Position, error: KafkaError, now: float) -> None:
        """Nobody could tell where it begins, or whether it is still in the log. It is tried again,
        unless that cannot help; of what there is not, its user hears after a while (one that is to
        be held against its log is never let off that)."""
        facts = {"topic": position.where.topic, "partition": position.where.partition}
        error = KafkaError(error.code, error.reason, **{**error.context, **facts})
        is_passing = may_work_later(error) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR
        if error.code in _MISSING and position.state is not State.VALIDATING:
            if position.missing_since is None:
                position.missing_since = now
            is_passing = now - position.missing_since < _MISSING_S
        if is_passing:
            position.in_trouble(error, now)
            self.put_off(position, now)
        else:
            position.missing_since = None
            if position.state in (State.COMMITTED, State.VALIDATING):
                self.put_off(position, now)  # asked again when it is told: not by every poll
            position.fail(error)

    def could_not_look_up(self, asked: Asked, error: KafkaError, now: float) -> None:
        """As `not_found`, unless it has gone on elsewhere since."""
        position = self.current(asked)
        if position is not None:
            self.not_found(position, error, now)

    def found_committed(self, asked: Asked, offset: int | None, epoch: int) -> None:
        """What the group has committed; None if nothing."""
        position = self.current(asked)
        if position is None or position.state is not State.COMMITTED:
            return
        if offset is not None:
            self._begin_at(position, offset, epoch)
            return
        position.well()
        was = position.was
        position.forget(position.look_up)
        position.was = was

    def leaders_changed(self, metadata: Metadata) -> None:
        """Positions of which an epoch is known are held against a new leader's log first; those
        that waited for a leader wait no more when they have one."""
        for each in self:
            known = metadata.partition(each.where)
            if each.waits_for_leader and known is not None and known.leader in metadata.brokers:
                each.waits_for_leader = False
                each.not_before = 0.0
            if known is None or each.state not in (State.READING, State.VALIDATING):
                continue
            if known.leader_epoch <= each.leader_epoch:
                continue
            each.leader_epoch = known.leader_epoch
            if each.fetch_epoch != NO_EPOCH:
                each.state = State.VALIDATING
                each.make_void()

    def validated(self, asked: Asked, end_offset: int, epoch: int) -> None:
        """Where the log of the position's epoch ends at the leader; -1 if it has no such epoch.

        What is beyond has been truncated (an unclean election): what is buffered of it is dropped;
        what was given out already cannot be taken back, so the user hears of it, by each poll until
        he seeks, or the position is reset.
        """
        position = self.current(asked)
        if position is None or position.state is not State.VALIDATING:
            return
        position.failures = 0
        position.well()
        position.state = State.READING
        if end_offset >= position.fetch_offset:
            return
        leader_epoch = position.leader_epoch
        if position.position <= end_offset:
            position.seek(position.position, min(position.epoch, epoch))
        elif self.reset.is_none:
            position.seek(position.position, position.epoch)
            if position.epoch == NO_EPOCH:
                return  # nothing was read of it: whether it is in the log a fetch finds out
            # Asked again by each poll until the user seeks, as that has an answer now.
            position.state = State.VALIDATING
            position.fail(
                KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    "the log was truncated: records that were read are gone from it, and "
                    "auto.offset.reset is none: seek to go on",
                    topic=asked.where.topic,
                    partition=asked.where.partition,
                    offset=position.position,
                    log_ends=end_offset,
                    setting="auto.offset.reset",
                )
            )
        elif end_offset < 0:
            position.reset(self.reset, "the log was truncated below all that was read of it")
        else:
            self._note_truncated(position, end_offset)
            position.seek(end_offset, epoch)
        position.leader_epoch = leader_epoch

    # Fetching

    def to_fetch(self, now: float, metadata: Metadata) -> dict[int, list[Position]]:
        """The partitions that want more, by broker; under -1 those that have none."""
        found: dict[int, list[Position]] = {}
        if self.is_full:
            return found
        for each in self:
            if (
                each.state is State.READING
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
        """What was fetched and not given out yet."""
        return sum(each.buffered_bytes for each in self)

    @property
    def room_bytes(self) -> int:
        """How much more may lie here."""
        return self._bounds.memory_bytes - self.buffered_bytes

    @property
    def is_full(self) -> bool:
        """Whether there is enough to give out, and no room for more."""
        is_there = any(each.buffered and not each.is_paused for each in self)
        return is_there and self.room_bytes <= 0

    def full_at(self, metadata: Metadata, now: float) -> set[int]:
        """The brokers of partitions that want more as soon as something is taken of them."""
        return {
            each.source(metadata, now)
            for each in self
            if each.buffered_bytes >= self._bounds.fetch_bytes and not each.is_paused
        }

    def awaited_at(self, metadata: Metadata) -> set[int]:
        """The brokers of partitions that will want something as soon as they are looked up: room is
        to be left for them."""
        awaited = [each.where for each in self if each.state in _LOOKED_UP and not each.is_paused]
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
        """Where a position that was unknown begins. One that was out of range before is told of,
        now that both offsets are known."""
        position = self.current(asked)
        if position is None or position.state is not State.UNKNOWN:
            return
        self._begin_at(position, offset, epoch)

    def _begin_at(self, position: Position, offset: int, epoch: int) -> None:
        was = position.was
        position.well()
        position.seek(offset, epoch)
        if was is not None:
            self._note(
                was[1],
                position.where,
                old_offset=was[0],
                new_offset=offset,
                setting="auto.offset.reset",
            )

    def _wait_for_leader(self, position: Position, now: float) -> None:
        self.put_off(position, now)
        position.waits_for_leader = True

    def put_off(self, position: Position, now: float) -> None:
        """It failed now; later, then."""
        position.waits_for_leader = False
        position.failures += 1
        position.not_before = now + self._backoff.wait_s(position.failures, self._random)

    def next_wake(self, now: float) -> float | None:
        """When a partition that was put off may be tried again."""
        waits = [each.not_before for each in self if each.not_before > now]
        return min(waits, default=None)

    def arrived(self, asked: Asked, data: PartitionData, *, is_committed: bool, now: float) -> None:
        """A fetch brought something of a partition."""
        position = self.current(asked)
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
            fetched = Fetched(asked.where, asked.offset, data.records, aborted, end)
        except BadData as error:
            position.fail(error)
            return
        if fetched.end_offset > asked.offset:
            position.fetch_offset = fetched.end_offset
            position.fetch_epoch = fetched.end_epoch
            position.buffered.append(fetched)
            position.buffered_bytes += fetched.size_bytes

    def refused(self, asked: Asked, error: KafkaError, now: float) -> None:
        """A fetch failed for a partition."""
        position = self.current(asked)
        if position is None:
            return
        was_near, position.replica = position.replica, NO_LEADER
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and was_near != NO_LEADER:
            return
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and not self.reset.is_none:
            # What is buffered is given out first: the position of the user is still in the log.
            if position.buffered:
                self.put_off(position, now)
            else:
                position.reset(self.reset, "the offset is not in the log any more, or not yet")
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
        """Up to so many records, of the partitions in turn. Raises the error of a partition that
        has one when there is nothing else to give."""
        found: list[PartitionRecords] = []
        served = []
        for where, each in self._all.items():
            if count_max <= 0:
                break
            if each.is_paused or not each.buffered or each.is_in_doubt:
                continue
            count_max -= self._take_from(each, count_max, found)
            served.append(where)
        for where in served:  # the next take begins with another partition
            self._all[where] = self._all.pop(where)
        if not found:
            self._raise_error()
        return found

    def _take_from(self, position: Position, count_max: int, found: list[PartitionRecords]) -> int:
        count = 0
        while position.buffered and count < count_max:
            fetched = position.buffered[0]
            try:
                part = fetched.take(count_max - count, check_crc=self._bounds.check_crcs)
            except BadData as error:
                position.position = fetched.position
                position.fail(error)
                break
            position.position = max(position.position, fetched.position)
            if fetched.leader_epoch != NO_EPOCH:
                position.epoch = fetched.leader_epoch
            if part is None:
                position.buffered.popleft()
                position.buffered_bytes -= fetched.size_bytes
                topic = position.where.topic
                self.emptied[topic] = self.emptied.get(topic, 0) + fetched.size_bytes
            else:
                position.given_id = position.topic_id
                found.append(part)
                count += len(part.records)
        return count

    def _raise_error(self) -> None:
        for each in self:
            if each.state is State.FAILED:
                error = each.take_error()
                if error is not None:
                    raise error
