"""The tasks that read one consumer, and whether one of them was cancelled with records in hand.

As a server ends, it cancels the task that reads, waits for it, and closes the consumer, or the
task itself closes it in a `finally`. By then the loop over records that the task was in is gone,
and what it had in hand seems to be done with. So this remembers whom records were given to last,
until somebody asks for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol
from weakref import ReferenceType, WeakSet, ref

from moldau.client.fetched import PartitionRecords
from moldau.client.metadata import TopicPartition


class Task(Protocol):
    """One of the loop."""

    def cancelled(self) -> bool: ...

    def cancelling(self) -> int: ...

    def add_done_callback(self, ended: Callable[[Any], object], /) -> None: ...

    def remove_done_callback(self, ended: Callable[[Any], object], /) -> object: ...


class Readers:
    """Of one consumer. No task is kept alive, nor what it was working on."""

    def __init__(self) -> None:
        self._tasks = WeakSet[Task]()
        self._last: ReferenceType[Task] | None = None
        """Who was given records last, unless he waits for more."""
        self._cancels = 0
        """How often it was to be cancelled before."""
        self._begins: dict[TopicPartition, int] = {}
        """Where that began, if a poll gave it."""
        self._is_cut_off = False

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def asks(self, task: Task | None) -> None:
        """It goes through what lies here. Whoever had something in hand before, goes on or is
        forgotten."""
        self._is_cut_off = False
        self._begins = {}
        if task is None:
            return
        self._last, self._cancels = ref(task), task.cancelling()
        if task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def waits(self, task: Task | None) -> None:
        """It has asked for more, and has nothing in hand until that comes."""
        if self._last is not None and self._last() is task:
            self._last = None

    def is_given(self, task: Task | None, parts: Iterable[PartitionRecords]) -> None:
        """By a poll."""
        self._last = None if task is None else ref(task)
        self._begins = {}
        for part in parts:
            where = TopicPartition(part.topic, part.partition)
            self._begins.setdefault(where, part.records[0].offset)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These were sought elsewhere, or are not read any more."""
        for where in partitions:
            self._begins.pop(where, None)

    def before_polled(self, where: TopicPartition, offset: int) -> int:
        """How far somebody is done who has been given so far, but for the last poll."""
        return min(offset, self._begins.get(where, offset))

    @property
    def are_cut_off(self) -> bool:
        """Whether who was given records last was cancelled with them in hand."""
        last = None if self._last is None else self._last()
        return self._is_cut_off or (last is not None and self._was_cut_off(last))

    def end(self) -> None:
        """The consumer is closed: a task that reads one after the other keeps nothing of them."""
        for task in self._tasks:
            task.remove_done_callback(self._ended)

    def _was_cut_off(self, task: Task) -> bool:
        """Also one that goes on to close the consumer, or has ended as if nothing had been."""
        return task.cancelled() or task.cancelling() > self._cancels

    def _ended(self, task: Task) -> None:
        if self._last is not None and self._last() is task and self._was_cut_off(task):
            self._is_cut_off = True
