"""The tasks that read one consumer, and what they had in hand when they were cancelled.

As a server ends, it cancels the tasks that read, waits for them, and closes the consumer, or a
task closes it itself in a `finally`. By then the loops over records that they were in are gone, and
what they had in hand seems to be done with. So this remembers of each task where that begins, until
it asks for more; and of one that was cancelled for as long as the partition is read from there, for
the others go on while one after the other is cancelled. Once a commit has been begun that covers
it, as those of the others do in time, it holds back nothing any more.

Who was given records last may be given more without being asked here (`RecordsOut`), so what he has
in hand is looked up only when another one has his turn, and when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

from moldau.client.consumer.origin import Part
from moldau.link.metadata import TopicPartition


class Place(NamedTuple):
    """Of what is in hand: from its first offset to the one behind it."""

    first: int
    end: int

    def widened(self, other: Place) -> Place:
        """To hold what is there too."""
        return Place(min(self.first, other.first), max(self.end, other.end))


Places = dict[TopicPartition, Place]


class Task(Protocol):
    """One of the loop."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def cancelling(self) -> int: ...

    def add_done_callback(self, ended: Callable[[Any], object], /) -> None: ...

    def remove_done_callback(self, ended: Callable[[Any], object], /) -> object: ...


@dataclass(slots=True)
class _Reading:
    """By one task."""

    cancels: int = 0
    """How often it was to be cancelled before it asked last."""
    in_hand: Places = field(default_factory=dict)
    """As far as it is known here."""


class Readers:
    """Of one consumer. No task is kept alive, nor what it was working on."""

    def __init__(self, given_last: Callable[[], tuple[TopicPartition, Place] | None]) -> None:
        """That is where the record or part is that a stream gave last."""
        self._given_last = given_last
        self._readings = WeakKeyDictionary[Task, _Reading]()
        self._last: ReferenceType[Task] | None = None
        """Who was given records last, unless he waits for more."""
        self._reading = _Reading()
        """Of who has asked last."""
        self._left: Places = {}
        """By tasks that were cancelled, and have ended."""
        self._is_left_lately = False
        """Whether nobody has asked since."""

    def __contains__(self, task: object) -> bool:
        return task in self._readings

    def asks(self, task: Task | None) -> None:
        """It goes through what lies here, and is done with what it had."""
        self._is_left_lately = False
        if self._last is None or self._last() is not task:
            self._is_anothers_turn(task)
        if task is not None:
            self._reading.cancels = task.cancelling()
            self._reading.in_hand.clear()

    def _is_anothers_turn(self, task: Task | None) -> None:
        self.put_aside()
        self._last = None
        if task is None:
            return
        self._last = ref(task)
        reading = self._readings.get(task)
        if reading is None:
            reading = self._readings[task] = _Reading()
            task.add_done_callback(self._ended)
        self._reading = reading

    def waits(self, task: Task | None) -> None:
        """It has asked for more, and has nothing in hand until that comes."""
        if self._last is not None and self._last() is task:
            self._last = None
        if task is not None and task in self._readings:
            self._readings[task].in_hand.clear()

    def is_given(self, task: Task | None, parts: Iterable[Part]) -> None:
        """By a poll, in which another one may have had his turn."""
        self.put_aside()
        self._last = None if task is None else ref(task)
        reading = None if task is None else self._readings.get(task)
        if reading is None:
            return
        self._reading, in_hand = reading, reading.in_hand
        for part in parts:
            where = TopicPartition(part.topic, part.partition)
            place = Place(part.first_offset, part.next_offset)
            in_hand[where] = in_hand[where].widened(place) if where in in_hand else place

    def put_aside(self) -> None:
        """What was given last is to be taken away from the stream that gave it."""
        task = None if self._last is None else self._last()
        if task is not None and task in self._readings:
            self._readings[task].in_hand = self._in_hand(task)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These were sought elsewhere, or are not read any more."""
        for where in partitions:
            self._left.pop(where, None)
            for reading in self._readings.values():
                reading.in_hand.pop(where, None)

    def commit_begins(self, ends: Mapping[TopicPartition, int]) -> None:
        """Up to there: what tasks have in hand before that is committed already."""
        for places in (self._left, *(each.in_hand for each in self._readings.values())):
            for where in [each for each in places if places[each].end <= ends.get(each, -1)]:
                del places[where]

    def cut_off(self) -> dict[TopicPartition, int]:
        """Where that begins which tasks had in hand as they were cancelled: for who lets go of the
        partitions."""
        return self._cut_off(dict(self._left))

    def cut_off_lately(self) -> dict[TopicPartition, int]:
        """The same, of tasks that have not ended yet, or behind which nobody has asked for more."""
        return self._cut_off(dict(self._left) if self._is_left_lately else {})

    def end(self) -> None:
        """The consumer is closed: a task that reads one after the other keeps nothing of them."""
        for task in self._readings:
            task.remove_done_callback(self._ended)

    def _cut_off(self, found: Places) -> dict[TopicPartition, int]:
        for task, reading in self._readings.items():
            if _was_cut_off(task, reading):
                _widen(found, self._in_hand(task).items())
        return {where: each.first for where, each in found.items()}

    def _in_hand(self, task: Task) -> Places:
        found = dict(self._readings[task].in_hand)
        last = self._given_last() if self._last is not None and self._last() is task else None
        return found if last is None else _widen(found, [last])

    def _ended(self, task: Task) -> None:
        if _was_cut_off(task, self._readings[task]):
            in_hand = self._in_hand(task)
            _widen(self._left, in_hand.items())
            self._is_left_lately |= bool(in_hand)
        del self._readings[task]


def _was_cut_off(task: Task, reading: _Reading) -> bool:
    """Also one that goes on to close the consumer, or has ended as if nothing had been."""
    return task.cancelled() or task.cancelling() > reading.cancels


def _widen(found: Places, others: Iterable[tuple[TopicPartition, Place]]) -> Places:
    for where, other in others:
        found[where] = found[where].widened(other) if where in found else other
    return found
