"""What the user of one consumer has at hand, as `docs/client.md` promises it. Nothing of the
consumer's own is asked for: its commits are held against this.

At hand is what was given last, by a poll or a stream, until any task asks for more.

- The user's commits cover all that was given.
- What goes by itself as time passes covers nothing that is at hand.
- Where partitions are let go of, what is at hand is covered if the task that has it lets go of
  them, or has ended in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from moldau.client import TopicPartition

Task = asyncio.Task[Any]


class Hands:
    """Of all tasks that read one consumer, one after the other."""

    def __init__(self) -> None:
        self._at_hand: dict[TopicPartition, int] = {}
        self._unsure: dict[TopicPartition, int] = {}
        """What was at hand when somebody asked for more, until he has an answer: who is cut off may
        have been before the consumer knew."""
        self._reader: Task | None = None
        self._asking: set[Task] = set()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """The present task wants more."""
        before, task = self._reader, _present()
        assert task is not None
        self._reader = task
        for where, offset in self._at_hand.items():
            self._unsure.setdefault(where, offset)
        self._at_hand = {}
        self._asking.add(task)
        try:
            yield
        except RuntimeError:  # another one waits for records
            self._reader = before
            raise
        finally:
            self._asking.discard(task)

    def be_answered(self) -> None:
        """It has what it wanted, or nothing came in time."""
        self._reader = _present()
        self._at_hand, self._unsure = {}, {}

    def take(self, where: TopicPartition, offsets: Sequence[int]) -> None:
        """A part, or a record."""
        self._at_hand.setdefault(where, offsets[0])

    def forget(self, where: TopicPartition) -> None:
        """It was sought elsewhere, or belongs to others."""
        self._at_hand.pop(where, None)
        self._unsure.pop(where, None)

    def end_of_done(self, where: TopicPartition, given: int) -> int:
        """How far a commit may go as time passes; `given` is what comes next."""
        return min(given, self._at_hand.get(where, given))

    def end_of_let_go(self, where: TopicPartition, given: int) -> int:
        """The same as the partition is given up."""
        return given if self._is_finished() or self._unsure else self.end_of_done(where, given)

    def sure_of_let_go(self, where: TopicPartition, given: int) -> int:
        """How far that goes at least."""
        if _present() in self._asking or (self._is_finished() and where not in self._unsure):
            return given
        return self._sure(where, given)

    def sure_of_end(self, where: TopicPartition, given: int) -> int:
        """The same in whatever task."""
        is_ended = self._has_ended() and where not in self._unsure
        return given if is_ended else self._sure(where, given)

    def _sure(self, where: TopicPartition, given: int) -> int:
        return min(given, self._at_hand.get(where, given), self._unsure.get(where, given))

    def _is_finished(self) -> bool:
        return self._reader is None or self._reader is _present() or self._has_ended()

    def _has_ended(self) -> bool:
        """In order."""
        reader = self._reader
        if reader is None or not reader.done() or reader.cancelled():
            return False
        return reader.exception() is None


def _present() -> Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # in no loop
        return None
