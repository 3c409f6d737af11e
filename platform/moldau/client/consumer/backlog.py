"""Records that a consumer has taken of its positions, and its user has not worked on yet. No IO.

`poll` gives everything at once. An `async for` gives one record or part at a time and may be left
in the middle: the rest lies here, is given by whatever reads next, and is not committed. What was
given last is *at hand* until the user asks for more.

Invariants: the records of a partition lie here in the order of its log: the part that is begun, the
parts that wait, what is being decoded, what is not decoded yet. So `consumed` is the offset behind
the last record given, and `done` the same without what is at hand. Nothing is given of a paused
partition, nothing at all while a rebalance takes partitions away (`withhold`), and nothing one by
one from when a rebalance waits for a poll until that poll (`need_poll`). `pause`, `drop` and these
cut the part that is being read, so no record costs a look.

A thread may go through `records` while the loop does the rest (the sync consumer): the lock is for
all that touches more than the record at hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import length_hint
from typing import Final

from moldau.client.consumer.part import Part
from moldau.client.consumer.records import PartitionRecords
from moldau.link.metadata import TopicPartition
from moldau.records import ConsumerRecord

Chosen = Collection[TopicPartition] | None
"""The only partitions of which anything is given; None for all."""


_CHUNK: Final = 64
"""At each end of so many records a look at the clock is due."""


class _Begun:
    """A part that is being read, some records at a time. `chunk` is what of them is to be given: a
    record that is taken of it is given, and one that is drained leaves its reader dry."""

    __slots__ = ("_end", "_is_cut", "chunk", "part")

    def __init__(self, part: PartitionRecords) -> None:
        self.part = part
        self.chunk: Iterator[ConsumerRecord] = iter(())
        self._end = 0
        """Behind the last record that a chunk had."""
        self._is_cut = False

    def next_chunk(self, count_max: int) -> Iterator[ConsumerRecord] | None:
        """What is left of the chunk, or the next; None at the end of the part."""
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
        """The last one that was."""
        count = self._end - length_hint(self.chunk)
        return self.part.records[count - 1] if count else None

    @property
    def offset(self) -> int:
        """Behind what was given of it."""
        given = self.given
        return self.part.records[0].offset if given is None else given.offset + 1

    def cut(self) -> Sequence[ConsumerRecord]:
        """What was not given: nothing of it is any more."""
        if self._is_cut:
            return ()
        self._is_cut = True
        self._end -= len(list(self.chunk))  # in one step, as a thread may take them
        return self.part.records[self._end :]


class Backlog:
    """The parts that are being read one record at a time, the first of them begun."""

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        """`lock` where a thread reads; its holder may take it again."""
        self._lock = nullcontext() if lock is None else lock
        self._parts: deque[PartitionRecords] = deque()
        self._begun: _Begun | None = None
        self._at_hand: PartitionRecords | None = None
        """The part that was given last, where parts are given one by one."""
        self._polled: Sequence[Part] = ()
        """What the last poll gave."""
        self._undecoded: deque[PartitionRecords] = deque()
        self._decoding: list[PartitionRecords] = []
        self.is_paused: Callable[[TopicPartition], bool] = lambda _: False
        self.is_withheld = False
        """Whether nothing is given for the time being."""
        self.needs_poll = False
        """Whether nothing is given one by one before a poll."""

    def hold(self, parts: Iterable[PartitionRecords]) -> None:
        """These were taken, and are not decoded yet."""
        with self._lock:
            self._undecoded.extend(parts)

    def begin_decoding(self, count_max: int, chosen: Chosen = None) -> list[PartitionRecords]:
        """Up to so many records of what is not decoded and may be given, beginning with what
        decoding was begun with and not ended."""
        with self._lock:
            self._undecoded.extendleft(reversed(self._decoding))
            self._decoding = []
            # Not of a partition of which decoded parts wait: it was paused, and is no more.
            waiting = {each[:2] for each in self._parts}
            while count_max > 0:
                part = self._taken(self._undecoded, count_max, chosen, waiting)
                if part is None:
                    break
                self._decoding.append(part)
                count_max -= len(part.records)
            return self._decoding

    def end_decoding(self) -> set[TopicPartition]:
        """It is ended; tells of which partitions what it gave is still wanted. Of those that were
        dropped meanwhile it is not, and those that were paused are decoded again."""
        with self._lock:
            decoded, self._decoding = self._decoding, []
            self._undecoded.extendleft(reversed([each for each in decoded if self._is_kept(each)]))
            return {TopicPartition(*each[:2]) for each in decoded if not self._is_kept(each)}

    def add(self, parts: Iterable[PartitionRecords]) -> None:
        """These are read behind what lies here, but before what comes after them in their logs: 1.
        two partitions are paused, 2. a task that waits for more resumes both, and is handed a part
        of what lies here, 3. the task adds it, and the rest of it lies here still."""
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
        """These were found and not given: they are the next ones again."""
        with self._lock:
            self._put_back()
            behind, self._parts = self._parts, deque()
            self.add(parts)
            self.add(behind)

    def finish(self) -> None:
        """The user asks for more: nothing is at hand any more."""
        with self._lock:
            self._put_back()

    def gave(self, parts: Sequence[Part]) -> None:
        """A poll gives these: they are at hand."""
        with self._lock:
            self._polled = parts

    def records(self) -> Iterator[ConsumerRecord]:
        """One by one; may be left at any time, and goes on from there when it is called again."""
        while length_hint(some := self.some_records(_CHUNK)):
            yield from some

    def some_records(self, count_max: int) -> Iterator[ConsumerRecord]:
        """Up to so many of the next ones; none where nothing may be given. A record
        counts as given when it is taken from here; the next reader gets the rest."""
        begun = self._resume()
        while begun is not None:
            found = begun.next_chunk(count_max)
            if found is not None:
                return found
            begun = self._begin(begun)
        return iter(())

    def _resume(self) -> _Begun | None:
        """The part that was left in the middle, unless it is paused by now, or the first."""
        if self._begun is not None and self._is_kept(self._begun.part):
            with self._lock:
                self._put_back()
        return self._begun or self._begin(None)

    def _begin(self, ended: _Begun | None) -> _Begun | None:
        """The next part, behind one that has ended or was dropped: begun before it is no more among
        those that wait, so that at no time it counts as given out whole."""
        with self._lock:
            if self._begun is None or self._begun is ended:
                self._at_hand, self._polled = None, ()
                index = None if self.needs_poll else self._first(self._parts)
                self._begun = None if index is None else _Begun(self._parts[index])
                if index is not None:
                    del self._parts[index]
            return self._begun

    def _first(
        self,
        parts: deque[PartitionRecords],
        chosen: Chosen = None,
        behind: Collection[object] = (),
    ) -> int | None:
        """Which of the parts that wait is next: of none of the partitions in `behind`."""
        for index, part in enumerate(parts):
            if chosen is not None and part[:2] not in chosen:
                continue
            if not (self._is_kept(part) or (behind and part[:2] in behind)):
                return index
        return None

    def _is_kept(self, part: PartitionRecords) -> bool:
        return self.is_withheld or self.is_paused(TopicPartition(*part[:2]))

    def take(self, count_max: int, chosen: Chosen = None) -> list[PartitionRecords]:
        """The rest, or so many of it, as parts."""
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
        """All that lies here, decoded or not, first to last, to be read in another way."""
        with self._lock:
            self._put_back()
            found = [*self._parts, *self._decoding, *self._undecoded]
            self._parts.clear()
            self._undecoded.clear()
            self._decoding = []
            return found

    def take_part(self, count_max: int, chosen: Chosen = None) -> PartitionRecords | None:
        """The next part, or so many of its records; what was left in the middle comes first."""
        with self._lock:
            self._put_back()
            if not self.needs_poll:
                self._at_hand = self._taken(self._parts, count_max, chosen)
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

    def _cut(self) -> None:
        """The rest of the part that is being read lies here: its reader ends after the record at
        hand."""
        begun = self._begun
        left = () if begun is None else begun.cut()
        if begun is not None and left:
            self._parts.appendleft(begun.part._replace(records=left))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """These are paused by now: what is left of the part that is being read is kept too."""
        with self._lock:
            if self._begun is not None and TopicPartition(*self._begun.part[:2]) in partitions:
                self._cut()

    def withhold(self) -> None:
        """From now on nothing is given, until `is_withheld` is taken back: also what is left of the
        part that is being read is kept."""
        with self._lock:
            self.is_withheld = True
            self._cut()

    def need_poll(self) -> None:
        """Give nothing one by one until a poll takes `needs_poll` back: a reader polls before it
        takes the next record or part."""
        with self._lock:
            self.needs_poll = True
            self._cut()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not read on: they were sought elsewhere, or belong to others."""
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
        """What lies here of these is to be taken anew. What was given of them is in hand still."""
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
        """The record or part that a stream gave last: another one with each that is given."""
        begun = self._begun
        return self._at_hand if begun is None else begun.given

    def consumed(self) -> dict[TopicPartition, int]:
        """The partitions that were not given out whole, and how far each was."""
        with self._lock:
            begun = self._begun
            at_hand = {} if begun is None else {TopicPartition(*begun.part[:2]): begun.offset}
            return self._behind(at_hand)

    def done(self) -> dict[TopicPartition, int]:
        """As `consumed`, without the record, the part or the poll at hand."""
        with self._lock:
            return _at_most(self._behind({}), self._in_hand())

    def _in_hand(self) -> Iterator[tuple[TopicPartition, int]]:
        """Where that begins which was given last."""
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


def _where(part: Part) -> TopicPartition:
    return TopicPartition(part.topic, part.partition)


def _at_most(
    found: dict[TopicPartition, int], bounds: Iterable[tuple[TopicPartition, int]]
) -> dict[TopicPartition, int]:
    for where, offset in bounds:
        found[where] = min(offset, found.get(where, offset))
    return found
