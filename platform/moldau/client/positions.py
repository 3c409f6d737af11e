"""Where a consumer stands in each of its partitions, what it has of them, and what to fetch. No IO.

    UNKNOWN  -> nobody said where to begin: it has to be looked up
    READING  -> the position is known, and fetches go on from `fetch_offset`
    FAILED   -> an error that trying again does not heal; raised by the next poll, then READING

Invariants: `position` is the offset of the next record that the user gets, `fetch_offset` that of
the next one to be fetched, and between them lies what is buffered; a seek makes answers to earlier
fetches void (`generation`); a partition with `fetch_bytes` or more in its buffer is not fetched, so
that a consumer which is not read has a bounded memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from moldau.client.backoff import Backoff
from moldau.client.fetched import Fetched, PartitionRecords
from moldau.client.metadata import NO_LEADER, Metadata, TopicPartition
from moldau.client.offsets import EARLIEST, LATEST
from moldau.errors import BadData
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import PartitionData

if TYPE_CHECKING:
    from random import Random


class State(Enum):
    """What can be done for a partition; see above."""

    UNKNOWN = "unknown"
    READING = "reading"
    FAILED = "failed"


class Asked(NamedTuple):
    """One partition of a fetch that is under way."""

    where: TopicPartition
    generation: int
    offset: int


class Position:
    """One partition of a consumer."""

    __slots__ = (
        "buffered",
        "buffered_bytes",
        "error",
        "failures",
        "fetch_offset",
        "generation",
        "high_watermark",
        "is_paused",
        "log_start_offset",
        "look_up",
        "not_before",
        "position",
        "state",
        "where",
    )

    def __init__(self, where: TopicPartition, look_up: int | None) -> None:
        self.where = where
        self.state = State.UNKNOWN
        self.position = -1
        self.fetch_offset = -1
        self.generation = 0
        self.look_up = look_up
        self.is_paused = False
        self.buffered: deque[Fetched] = deque()
        self.buffered_bytes = 0
        self.high_watermark = -1
        self.log_start_offset = -1
        self.error: KafkaError | BadData | None = None
        self.failures = 0
        self.not_before = 0.0

    def seek(self, offset: int) -> None:
        """Goes on from that offset."""
        self._drop()
        self.state = State.READING
        self.position = self.fetch_offset = offset
        self.look_up = None

    def forget(self, look_up: int | None) -> None:
        """Goes on from what `look_up` (a timestamp or an end of the log) will be found to be."""
        self._drop()
        self.state = State.UNKNOWN
        self.position = self.fetch_offset = -1
        self.look_up = look_up

    def _drop(self) -> None:
        self.generation += 1
        self.buffered.clear()
        self.buffered_bytes = 0
        self.error = None
        self.failures = 0
        self.not_before = 0.0

    def fail(self, error: KafkaError | BadData) -> None:
        """What the next poll has to raise."""
        self.state = State.FAILED
        self.error = error

    def take_error(self) -> KafkaError | BadData | None:
        """The error, once; then it goes on, or a position has to be found."""
        error, self.error = self.error, None
        self.state = State.READING if self.position >= 0 else State.UNKNOWN
        return error


class Positions:
    """All partitions of a consumer."""

    def __init__(
        self, fetch_bytes: int, reset: str, backoff: Backoff, random: Random, *, check_crcs: bool
    ) -> None:
        """`reset`: earliest, latest or none, for positions that are unknown or out of range."""
        self._fetch_bytes = max(1, fetch_bytes)
        self.reset = {"earliest": EARLIEST, "latest": LATEST, "none": None}[reset]
        self._backoff = backoff
        self._random = random
        self._check_crcs = check_crcs
        self._all: dict[TopicPartition, Position] = {}

    def __iter__(self) -> Iterator[Position]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def assign(self, wanted: Iterable[TopicPartition]) -> None:
        """These and no others; those that stay keep their positions and what is buffered."""
        self._all = {where: self._all.get(where) or Position(where, self.reset) for where in wanted}

    def get(self, where: TopicPartition) -> Position | None:
        """The partition's position, if it is assigned."""
        return self._all.get(where)

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

    # Fetching

    def to_look_up(self, now: float) -> dict[TopicPartition, int]:
        """The partitions whose position has to be found, each with the timestamp to ask for."""
        wanted = {}
        for each in self:
            if each.state is not State.UNKNOWN or now < each.not_before:
                continue
            if each.look_up is None:
                each.fail(
                    KafkaError(
                        ErrorCode.OFFSET_NOT_AVAILABLE,
                        "the partition has no position, and auto.offset.reset is none: seek first",
                        topic=each.where.topic,
                        partition=each.where.partition,
                    )
                )
            else:
                wanted[each.where] = each.look_up
        return wanted

    def to_fetch(self, now: float, metadata: Metadata) -> dict[int, list[Position]]:
        """The partitions that want more, by leader; under -1 those that have none."""
        found: dict[int, list[Position]] = {}
        for each in self:
            if (
                each.state is State.READING
                and not each.is_paused
                and each.buffered_bytes < self._fetch_bytes
                and now >= each.not_before
            ):
                leader = metadata.leader_of(each.where)
                if leader not in metadata.brokers:
                    leader = NO_LEADER
                found.setdefault(leader, []).append(each)
        for each in found.get(NO_LEADER, ()):
            self._put_off(each, now)
        return found

    def full_at(self, metadata: Metadata) -> set[int]:
        """The leaders of partitions that want more as soon as something is taken of them."""
        return {
            metadata.leader_of(each.where)
            for each in self
            if each.buffered_bytes >= self._fetch_bytes and not each.is_paused
        }

    def _put_off(self, position: Position, now: float) -> None:
        position.failures += 1
        position.not_before = now + self._backoff.wait_s(position.failures, self._random)

    def next_wake(self, now: float) -> float | None:
        """When a partition that was put off may be tried again."""
        waits = [each.not_before for each in self if each.not_before > now]
        return min(waits, default=None)

    def arrived(self, asked: Asked, data: PartitionData, *, is_committed: bool) -> None:
        """A fetch brought something of a partition."""
        position = self._current(asked)
        if position is None:
            return
        position.failures = 0
        position.not_before = 0.0
        position.high_watermark = data.high_watermark
        position.log_start_offset = data.log_start_offset
        end = data.last_stable_offset if is_committed else data.high_watermark
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
            position.buffered.append(fetched)
            position.buffered_bytes += fetched.size_bytes

    def refused(self, asked: Asked, error: KafkaError, now: float) -> None:
        """A fetch failed for a partition."""
        position = self._current(asked)
        if position is None:
            return
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and self.reset is not None:
            position.forget(self.reset)
        elif error.retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._put_off(position, now)
        else:
            context = {
                "topic": asked.where.topic,
                "partition": asked.where.partition,
                "offset": asked.offset,
            }
            position.fail(KafkaError(error.code, error.reason, **{**error.context, **context}))

    def put_off(self, where: TopicPartition, now: float) -> None:
        """Its position could not be looked up; later, then."""
        position = self._all.get(where)
        if position is not None:
            self._put_off(position, now)

    def _current(self, asked: Asked) -> Position | None:
        """The partition that was asked for, unless it has gone on elsewhere since."""
        position = self._all.get(asked.where)
        if position is None or position.generation != asked.generation:
            return None
        return position

    # Records out

    def take(self, count_max: int) -> list[PartitionRecords]:
        """Up to so many records, of the partitions in turn. Raises the error of a partition that
        has one when there is nothing else to give."""
        found: list[PartitionRecords] = []
        served = []
        for where, each in self._all.items():
            if count_max <= 0:
                break
            if each.is_paused or not each.buffered:
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
                part = fetched.take(count_max - count, check_crc=self._check_crcs)
            except BadData as error:
                position.position = fetched.position
                position.fail(error)
                break
            position.position = max(position.position, fetched.position)
            if part is None:
                position.buffered.popleft()
                position.buffered_bytes -= fetched.size_bytes
            else:
                found.append(part)
                count += len(part.records)
        return count

    def _raise_error(self) -> None:
        for each in self:
            if each.state is State.FAILED:
                error = each.take_error()
                if error is not None:
                    raise error
