"""What the user of one consumer has in hand, as `docs/client.md` promises it. Nothing of the
consumer's own is asked for: its commits are held against this.

What `poll` gave is in hand until any task asks for more. What a stream gave last, a record or a
part, is in hand until the task that has it asks for more in any way, drops the stream, or ends.
What a task had in hand as it was cancelled stays so: nobody was done with it.

A commit covers all that was given, but for this:
- as time passes (in no task) nothing that anybody has in hand;
- in a task that reads, nothing that another one has of a stream;
- in a task that has read nothing, what it covers of that is not promised;
- where partitions are let go of, nothing that tasks were cancelled with, until a commit has covered
  it; nor as time passes, until somebody asks for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from moldau.client import TopicPartition

Task = asyncio.Task[Any]


class _Held(NamedTuple):
    task: Task
    where: TopicPartition
    offset: int
    """The first that is in hand."""
    end: int
    """Behind the last."""


class Hands:
    """Of all tasks that read one consumer."""

    def __init__(self) -> None:
        self._polled: dict[TopicPartition, int] = {}
        self._polled_by: WeakKeyDictionary[Task, list[_Held]] = WeakKeyDictionary()
        """What the last poll of each task gave: to who is cancelled with it, it is in hand though
        others have asked for more."""
        self._of_streams: dict[object, _Held] = {}
        self._asked: WeakKeyDictionary[Task, list[_Held]] = WeakKeyDictionary()
        """What a task had when it asked for more, until it has an answer: who is cut off may have
        been, before the consumer knew."""
        self._readers: WeakSet[Task] = WeakSet()
        self._cut_off: list[_Held] = []
        """What tasks had as they were cancelled."""
        self._is_cut_off_lately = False

    def ask(self) -> None:
        """The present task wants more."""
        task = _present()
        assert task is not None
        self._readers.add(task)
        self._polled.clear()
        self._polled_by[task] = []
        self._is_cut_off_lately = False
        own = [each for each in self._of_streams.values() if each.task is task]
        self._asked.setdefault(task, []).extend(own)
        self._of_streams = {
            stream: each for stream, each in self._of_streams.items() if each.task is not task
        }

    def be_answered(self) -> None:
        """It has what it wanted, or nothing came in time."""
        task = _present()
        assert task is not None
        self._asked.pop(task, None)
        self._is_cut_off_lately = False

    def be_refused(self) -> None:
        """It reads nothing, because another one polls: it may not have read before either."""
        task = _present()
        assert task is not None
        self._readers.discard(task)

    def take(self, where: TopicPartition, offsets: Sequence[int], stream: object = None) -> None:
        """A part, or a record; of a poll where there is no stream."""
        task = _present()
        assert task is not None
        taken = _Held(task, where, offsets[0], offsets[-1] + 1)
        if stream is None:
            if all(each is task for each in self._asked):  # who asks may come behind this
                self._polled.setdefault(where, taken.offset)
            self._polled_by[task].append(taken)
        else:
            self._of_streams[stream] = taken

    def cut_off(self, task: Task) -> None:
        """It is to be cancelled."""
        cut_off = [each for each in self._of_streams.values() if each.task is task]
        cut_off += self._polled_by.get(task, [])
        self._cut_off += cut_off
        self._is_cut_off_lately |= bool(cut_off)

    def drop(self, stream: object) -> None:
        """Its user has left it for good."""
        self._of_streams.pop(stream, None)

    def forget(self, where: TopicPartition) -> None:
        """It was sought elsewhere, or belongs to others: what is in hand of it is no matter of
        commits any more."""
        self._polled.pop(where, None)
        for task, polled in list(self._polled_by.items()):
            self._polled_by[task] = [each for each in polled if each.where != where]
        self._of_streams = {
            stream: each for stream, each in self._of_streams.items() if each.where != where
        }
        self._cut_off = [each for each in self._cut_off if each.where != where]
        for task, left in list(self._asked.items()):
            self._asked[task] = [each for each in left if each.where != where]

    @property
    def are_of_streams(self) -> bool:
        """Whether all that is in hand is known to the consumer as time passes."""
        return bool(self._of_streams) and not (self._polled or any(self._polled_by.values()))

    def end_of_commit(self, where: TopicPartition, given: int, chosen: int) -> int:
        """How far a commit may go that is chosen now; `given` is what comes next, and up to
        `chosen` another one goes."""
        task = _present()
        if task is not None and task not in self._readers:
            return given
        end = min([given, *self._held_elsewhere(where)])
        if task is None:
            end = min(end, self._polled.get(where, given))
            if self._is_cut_off_lately:
                end = self.end_of_let_go(where, end, chosen)
        return end

    def end_of_let_go(self, where: TopicPartition, given: int, chosen: int) -> int:
        """The same where it goes by itself as the partition is given up, in whatever task."""
        cut_off = [each for each in self._cut_off if each.where == where and each.end > chosen]
        return min([given, *(each.offset for each in cut_off)])

    def sure_of_commit(self, where: TopicPartition, given: int) -> int:
        """How far one goes that is chosen now, if not as time passes."""
        asked = [
            each.offset
            for task, left in self._asked.items()
            for each in left
            if each.where == where and task is not _present()
        ]
        return min([given, *asked, *self._held_elsewhere(where)])

    def sure_of_let_go(self, where: TopicPartition, given: int, stored: int) -> int:
        """The same where the partition is given up, and is committed up to `stored`."""
        cut_off = [each.offset for each in self._not_stored(where, stored)]
        return min([self.sure_of_commit(where, given), *cut_off])

    def sure_of_end(self, where: TopicPartition, given: int, stored: int) -> int:
        """The same in whatever task."""
        held = (
            *self._of_streams.values(),
            *(each for left in self._asked.values() for each in left),
            *self._not_stored(where, stored),
        )
        return min([given, *(each.offset for each in held if each.where == where)])

    def _not_stored(self, where: TopicPartition, stored: int) -> list[_Held]:
        """What tasks had as they were cancelled, unless all of that is stored: it is one place."""
        cut_off = [each for each in self._cut_off if each.where == where]
        return cut_off if any(each.end > stored for each in cut_off) else []

    def _held_elsewhere(self, where: TopicPartition) -> Iterator[int]:
        present = _present()
        for each in self._of_streams.values():
            if each.where == where and each.task is not present and not each.task.done():
                yield each.offset


def _present() -> Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # in no loop
        return None
