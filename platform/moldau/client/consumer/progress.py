"""How far a user has read: the records that were taken and not processed yet, and what of the
others is committed. No IO.

`poll` returns everything at once. An `async for` returns one record or part at a time and may be
left in the middle: the rest stays here for the next reader and is not committed. What was returned
last is *at hand* until the user asks for more.

Invariants: the records of a partition are here in log order: the part that is being read, the
waiting parts, those being decoded, those not decoded yet. So `returned` is the offset after the
last returned record, and `finished` the same without what is at hand. Nothing is returned of a
paused partition; nothing at all while a rebalance takes partitions away (`withhold`); and nothing
one by one from the moment a rebalance waits for a poll until that poll (`need_poll`). `pause`,
`drop` and these cut the part that is being read, so single records need no check.

What auto commit covers (`done`) ends before the record, part or poll at hand, and is never less
than a commit that the user has begun. A committed offset is not looked up while a commit of the
partition is pending, or a listener may still change where it is read from.

A thread may iterate over `records` while the loop does the rest (the sync consumer): the lock
guards everything that touches more than the record at hand.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.part import Part
from moldau.client.base.user_code import LOG
from moldau.client.consumer.metrics import Lag
from moldau.client.consumer.position import Position
from moldau.client.consumer.records import PartitionRecords
from moldau.link.metadata import TopicPartition
from moldau.records import ConsumerRecord

if TYPE_CHECKING:
    import asyncio

Chosen = Collection[TopicPartition] | None
"""The only partitions whose records may be returned; None for all."""


_CHUNK: Final = 64
"""A check of the clock is due after this many records."""


class _Begun:
    """A part that is being read, some records at a time. `chunk` holds the next records to return:
    a record taken from it counts as returned, and an emptied chunk ends its reader."""

    __slots__ = ("_end", "_is_cut", "chunk", "part")

    def __init__(self, part: PartitionRecords) -> None:
        self.part = part
        self.chunk: Iterator[ConsumerRecord] = iter(())
        self._end = 0
        """The index after the last record put into a chunk."""
        self._is_cut = False

    def next_chunk(self, count_max: int) -> Iterator[ConsumerRecord] | None:
        """Return the rest of the chunk, or the next chunk; None at the end of the part."""
        if length_hint(self.chunk):
            return self.chunk
        found = self.part.records[self._end : self._end + count_max]
        if self._is_cut or not found:
            return None
        self._end += len(found)
        self.chunk = iter(found)
        return self.chunk

    @property
    def given(self) -> ConsumerRecord | None:
        """The last record returned from the part; None if none was."""
        count = self._end - length_hint(self.chunk)
        return self.part.records[count - 1] if count else None

    @property
    def offset(self) -> int:
        """The offset after the last record returned from the part."""
        given = self.given
        return self.part.records[0].offset if given is None else given.offset + 1

    def cut(self) -> Sequence[ConsumerRecord]:
        """End the part here. Return the records not returned yet; none on a second call."""
        if self._is_cut:
            return ()
        self._is_cut = True
        self._end -= len(list(self.chunk))  # one step, as a thread may take records meanwhile
        return self.part.records[self._end :]


class ReadProgress:
    """The records that were taken from the positions, in the order in which they are returned."""

    def __init__(
        self,
        positions: Mapping[TopicPartition, Position],
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Look at these positions, whatever they become. Use `lock` (reentrant) if a thread
        reads."""
        self._positions = positions
        self._lock = nullcontext() if lock is None else lock
        self._parts: deque[PartitionRecords] = deque()
        self._begun: _Begun | None = None
        self._at_hand: PartitionRecords | None = None
        """The part that was returned last, if parts are returned one by one."""
        self._polled: Sequence[Part] = ()
        """The parts that the last poll returned."""
        self._undecoded: deque[PartitionRecords] = deque()
        self._decoding: list[PartitionRecords] = []
        self.paused = set[TopicPartition]()
        """The partitions that may return no records: kept by `Assignment`."""
        self.is_at_hand = False
        """Whether something that was returned may not be processed yet: `finish` ends that."""
        self.is_withheld = False
        """Whether nothing may be returned at present."""
        self.needs_poll = False
        """Whether nothing may be returned one by one before the next poll."""
        self.commits: dict[Any, tuple[Collection[TopicPartition], float]] = {}
        """The pending commits: their partitions, and until when look-ups of these wait for them."""
        self.asked_by: asyncio.Task[object] | None = None
        """The task that last asked for records."""
        self._failed: asyncio.Task[object] | None = None
        """The task that failed last, as was logged."""
        self._undecided: set[TopicPartition] = set()
        self._committing: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] = {}
        """Both have the offset of each partition's last commit: one that has begun and not failed,
        and one that is stored. Auto commit never goes back before either."""

    # Records out

    def hold(self, parts: Iterable[PartitionRecords]) -> None:
        """Keep parts that were taken and are not decoded yet."""
        with self._lock:
            self._undecoded.extend(parts)

    def begin_decoding(self, count_max: int, chosen: Chosen = None) -> list[PartitionRecords]:
        """Return up to `count_max` records to decode, of partitions that may be returned. Parts
        whose decoding was begun and not ended come first."""
        with self._lock:
            self._undecoded.extendleft(reversed(self._decoding))
            self._decoding = []
            # Skip a partition with decoded parts waiting: it was paused and is resumed.
            waiting = {each[:2] for each in self._parts}
            while count_max > 0:
                part = self._taken(self._undecoded, count_max, chosen, waiting)
                if part is None:
                    break
                self._decoding.append(part)
                count_max -= len(part.records)
            return self._decoding

    def end_decoding(self) -> set[TopicPartition]:
        """End the decoding. Return the partitions whose decoded records are still wanted: not those
        dropped meanwhile, nor those paused, whose records are decoded again later."""
        with self._lock:
            decoded, self._decoding = self._decoding, []
            self._undecoded.extendleft(reversed([each for each in decoded if self._is_kept(each)]))
            return {TopicPartition(*each[:2]) for each in decoded if not self._is_kept(each)}

    def add(self, parts: Iterable[PartitionRecords]) -> None:
        """Add parts after those here, but before later records of their partitions: 1. two
        partitions are paused, 2. a task that waits for more resumes both, and gets one part from
        here, 3. the task adds it, while the rest of its partition is still here."""
        with self._lock:
            if not self._parts:
                self._parts.extend(parts)
                return
            waiting = {each[:2] for each in self._parts}
            for part in parts:
                if part[:2] in waiting:
                    self._parts.insert(self._place_of(part), part)
                else:
                    self._parts.append(part)

    def _place_of(self, part: PartitionRecords) -> int:
        for index, each in enumerate(self._parts):
            if each[:2] == part[:2] and each.records[0].offset > part.records[0].offset:
                return index
        return len(self._parts)

    def take_back(self, parts: Iterable[PartitionRecords]) -> None:
        """Put parts that were taken and not returned back in front."""
        with self._lock:
            self._put_back()
            behind, self._parts = self._parts, deque()
            self.add(parts)
            self.add(behind)

    def finish(self) -> None:
        """Count what is at hand as processed: the user asks for more."""
        with self._lock:
            self._put_back()

    def gave(self, parts: Sequence[Part]) -> None:
        """Record what a poll returns: it is at hand now."""
        with self._lock:
            self._polled = parts
            self.is_at_hand = bool(parts)

    def records(self) -> Iterator[ConsumerRecord]:
        """Iterate over single records. The loop may be left; the next call continues there."""
        while length_hint(some := self.some_records(_CHUNK)):
            yield from some

    def some_records(self, count_max: int) -> Iterator[ConsumerRecord]:
        """Return an iterator over up to `count_max` of the next records, empty if none may be
        returned. A record counts as returned when taken from it; the next reader gets the rest."""
        begun = self._resume()
        while begun is not None:
            found = begun.next_chunk(count_max)
            if found is not None:
                return found
            begun = self._begin(begun)
        return iter(())

    def _resume(self) -> _Begun | None:
        """Return the part being read, unless it is paused by now, or begin the next one."""
        if self._begun is not None and self._is_kept(self._begun.part):
            with self._lock:
                self._put_back()
        return self._begun or self._begin(None)

    def _begin(self, ended: _Begun | None) -> _Begun | None:
        """Begin the next part if `ended` is still the current one. It becomes the begun part before
        it leaves the waiting ones, so at no time does it count as returned whole."""
        with self._lock:
            if self._begun is None or self._begun is ended:
                self._at_hand, self._polled = None, ()
                index = None if self.needs_poll else self._first(self._parts)
                self._begun = None if index is None else _Begun(self._parts[index])
                self.is_at_hand = index is not None
                if index is not None:
                    del self._parts[index]
            return self._begun

    def _first(
        self,
        parts: deque[PartitionRecords],
        chosen: Chosen = None,
        behind: Collection[object] = (),
    ) -> int | None:
        """Return the index of the next part that may be returned and is not in `behind`; else
        None."""
        for index, part in enumerate(parts):
            if chosen is not None and part[:2] not in chosen:
                continue
            if not (self._is_kept(part) or (behind and part[:2] in behind)):
                return index
        return None

    def _is_kept(self, part: PartitionRecords) -> bool:
        return self.is_withheld or part[:2] in self.paused

    def take(self, count_max: int, chosen: Chosen = None) -> list[PartitionRecords]:
        """Return up to `count_max` of the decoded records, as parts."""
        with self._lock:
            self._put_back()
            found: list[PartitionRecords] = []
            while count_max > 0:
                part = self._taken(self._parts, count_max, chosen)
                if part is None:
                    break
                found.append(part)
                count_max -= len(part.records)
            return found

    def take_all(self) -> list[PartitionRecords]:
        """Return everything here, decoded or not, first to last, to read it in another way."""
        with self._lock:
            self._put_back()
            found = [*self._parts, *self._decoding, *self._undecoded]
            self._parts.clear()
            self._undecoded.clear()
            self._decoding = []
            return found

    def take_part(self, count_max: int, chosen: Chosen = None) -> PartitionRecords | None:
        """Return the next part, cut to `count_max` records; the rest of the begun part first."""
        with self._lock:
            self._put_back()
            if not self.needs_poll:
                self._at_hand = self._taken(self._parts, count_max, chosen)
                self.is_at_hand = self._at_hand is not None
            return self._at_hand

    def _taken(
        self,
        parts: deque[PartitionRecords],
        count_max: int,
        chosen: Chosen = None,
        behind: Collection[object] = (),
    ) -> PartitionRecords | None:
        index = self._first(parts, chosen, behind)
        if index is None:
            return None
        part = parts[index]
        if len(part.records) <= count_max:
            del parts[index]
            return part
        rest = part.records[count_max:]
        parts[index] = part._replace(records=rest)
        return part._replace(records=part.records[:count_max], next_offset=rest[0].offset)

    def _put_back(self) -> None:
        self._cut()
        self._at_hand = self._begun = None
        self._polled = ()
        self.is_at_hand = False

    def _cut(self) -> None:
        """Keep the rest of the begun part: its reader ends after the record at hand."""
        begun = self._begun
        left = () if begun is None else begun.cut()
        if begun is not None and left:
            self._parts.appendleft(begun.part._replace(records=left))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Apply a pause of these partitions: keep the rest of the part that is being read."""
        with self._lock:
            if self._begun is not None and TopicPartition(*self._begun.part[:2]) in partitions:
                self._cut()

    def withhold(self) -> None:
        """Return nothing until `is_withheld` is reset. Keep the rest of the begun part."""
        with self._lock:
            self.is_withheld = True
            self._cut()

    def need_poll(self) -> None:
        """Return nothing one by one until a poll resets `needs_poll`: a reader polls before it
        takes the next record or part."""
        with self._lock:
            self.needs_poll = True
            self._cut()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard the records of these partitions, which were moved by a seek or given up."""
        gone = set(partitions)
        with self._lock:
            if self._begun is not None and TopicPartition(*self._begun.part[:2]) in gone:
                self._begun.cut()
                self._begun = None
            self._discard(gone)
            if self._at_hand is not None and TopicPartition(*self._at_hand[:2]) in gone:
                self._at_hand = None
            self._polled = [each for each in self._polled if _where(each) not in gone]

    def drop_waiting(self, partitions: Collection[TopicPartition]) -> None:
        """Discard waiting records of these partitions, to take them again; not what is at hand."""
        with self._lock:
            self._discard(partitions)

    def _discard(self, partitions: Collection[TopicPartition]) -> None:
        self._parts, self._undecoded = (
            deque(each for each in parts if TopicPartition(*each[:2]) not in partitions)
            for parts in (self._parts, self._undecoded)
        )
        self._decoding = [
            each for each in self._decoding if TopicPartition(*each[:2]) not in partitions
        ]

    @property
    def given_last(self) -> object:
        """The record or part that a stream returned last; it changes with each one."""
        begun = self._begun
        return self._at_hand if begun is None else begun.given

    def returned(self) -> dict[TopicPartition, int]:
        """Return the offset after the last returned record of each partition with records here."""
        with self._lock:
            begun = self._begun
            at_hand = {} if begun is None else {TopicPartition(*begun.part[:2]): begun.offset}
            return self._behind(at_hand)

    def finished(self) -> dict[TopicPartition, int]:
        """Return the same as `returned`, but the offset before the record, part or poll at hand."""
        with self._lock:
            return _at_most(self._behind({}), self._in_hand())

    def _in_hand(self) -> Iterator[tuple[TopicPartition, int]]:
        """Iterate over the partitions at hand and the offsets where what is at hand begins."""
        begun, part = self._begun, self._at_hand
        if begun is not None:
            offset = begun.part.records[0].offset if begun.given is None else begun.given.offset
            yield TopicPartition(*begun.part[:2]), offset
        elif part is not None:
            yield TopicPartition(*part[:2]), part.records[0].offset
        for each in self._polled:
            yield _where(each), each.first_offset

    def _behind(self, found: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        for part in (*self._parts, *self._decoding, *self._undecoded):
            _at_most(found, [(TopicPartition(*part[:2]), part.records[0].offset)])
        return found

    # What to commit

    def on_moved(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are read elsewhere, or not any more: their commits do not count."""
        for where in partitions:
            self._committing.pop(where, None)
            self._stored.pop(where, None)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what `commit` stores now: the offsets after all returned records."""
        return self._ahead_of(self.returned())

    def done(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what auto commit stores at an interval: the offsets before what is at hand."""
        return {
            where: each
            for where, each in self._ahead_of(self.finished()).items()
            if each.offset >= max(self._committing.get(where, -1), self._stored.get(where, -1))
        }

    def let_go(self, by: asyncio.Task[Any] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what auto commit stores when this task gives partitions up."""
        return self.consumed() if self._is_finished(by) else self.done()

    def _is_finished(self, by: asyncio.Task[Any] | None) -> bool:
        """Whether what is at hand is processed: its task gives the partitions up itself, or has
        ended without cancellation or error. An error is logged, as asking for it keeps the event
        loop from doing that."""
        asked = self.asked_by
        if asked is None or asked is by:
            return True
        if not asked.done() or asked.cancelled():
            return False
        error = asked.exception()
        if error is not None and self._failed is not asked:
            self._failed = asked
            LOG.warning(
                "consumer: the task that has read has failed, so what it read last is not "
                "committed: %r",
                error,
            )
        return error is None

    def _ahead_of(
        self, left: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            each.where: OffsetAndMetadata(left.get(each.where, each.position), "", each.epoch)
            for each in self._positions.values()
            if each.position >= 0
        }

    def lags(self) -> dict[TopicPartition, Lag]:
        """Return each partition's distance to the end of its log, and from its beginning."""
        begun = self.returned()
        return {each.where: _lag_of(each, begun) for each in self._positions.values()}

    def lag(self, where: TopicPartition) -> Lag:
        """Return the same for one partition."""
        return _lag_of(self._positions[where], self.returned())

    def on_commit(
        self, commit: object, offsets: Mapping[TopicPartition, OffsetAndMetadata], until: float
    ) -> None:
        """A commit begins; look-ups of its partitions wait for it `until` then. Offsets ahead of
        the position do not limit auto commit."""
        self.commits[commit] = (offsets.keys(), until)
        self._note_commit(offsets)

    def _note_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for where, each in offsets.items():
            position = self._positions.get(where)
            if position is not None and each.offset <= position.position:
                self._committing[where] = each.offset

    def on_committed(
        self,
        commit: object,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        left: Collection[TopicPartition],
        *,
        was_cut_off: bool,
    ) -> None:
        """A commit ended: all offsets but those in `left` are stored. If it was cancelled
        (`was_cut_off`), those may be stored too."""
        del self.commits[commit]
        for where, each in offsets.items():
            if where not in left and where in self._committing:
                self._stored[where] = each.offset
            elif not was_cut_off and self._committing.get(where) == each.offset:
                del self._committing[where]

    def on_undecided(self, partitions: Collection[TopicPartition]) -> None:
        """A running listener may still change where these partitions are read from, by a commit or
        a seek: until it returns, however long that takes."""
        self._undecided = set(partitions)

    def on_decided(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Where these partitions are read from, or all, is as it is."""
        self._undecided.difference_update(self._undecided if partitions is None else partitions)

    def held_until(self, where: TopicPartition) -> float:
        """Return until when not to look up the committed offset: a commit of it is pending, and an
        earlier start would read processed records again. The wait ends with the first response that
        is due; it is infinite while a listener is undecided."""
        if where in self._undecided:
            return math.inf
        return min((until for of, until in self.commits.values() if where in of), default=0.0)


def _lag_of(at: Position, begun: Mapping[TopicPartition, int]) -> Lag:
    given = begun.get(at.where, at.position)
    if at.readable_end < 0 or at.position < 0:
        return Lag(None, None)
    # A new leader's high watermark may be behind what it gave before its election.
    is_known = at.readable_end >= at.position
    lag = max(0, at.readable_end - given) if is_known else None
    return Lag(lag, max(0, given - at.log_start_offset))


def _where(part: Part) -> TopicPartition:
    return TopicPartition(part.topic, part.partition)


def _at_most(
    found: dict[TopicPartition, int], bounds: Iterable[tuple[TopicPartition, int]]
) -> dict[TopicPartition, int]:
    for where, offset in bounds:
        found[where] = min(offset, found.get(where, offset))
    return found
