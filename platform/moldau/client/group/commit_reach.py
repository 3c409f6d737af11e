"""How far commits reach: what goes by itself must not undo what the user has committed.

Invariant: a commit counts from when it is begun until it has failed, as the next one may be told
before it is answered. One that was cut off may be stored: it counts until a later one is stored. Of
those that were cut off only the last is kept: who gives up again and again would fill memory.

A commit reaches as far as it does in one course of its partition's position alone: after a seek, or
once the partition has gone and come again, less may be meant.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.link.metadata import TopicPartition


class _Reach(NamedTuple):
    course: int
    end: int
    is_cut_off: bool = False


_NOWHERE: Final = _Reach(-1, -1)


class CommitReach:
    """Of one consumer, whose commits are answered in the order in which they are begun."""

    def __init__(self) -> None:
        self._begun: dict[TopicPartition, list[_Reach]] = {}
        """Behind what is known to be stored."""
        self._stored: dict[TopicPartition, _Reach] = {}

    def end(self, where: TopicPartition, course: int) -> int:
        """Up to where it was committed in that course; -1 if it was not."""
        begun = self._begun.get(where)
        last = begun[-1] if begun else self._stored.get(where, _NOWHERE)
        return last.end if last.course == course else _NOWHERE.end

    def begins(self, where: TopicPartition, course: int, end: int) -> None:
        """It is to be stored, while the partition is read in that course."""
        self._begun.setdefault(where, []).append(_Reach(course, end))

    def is_stored(self, where: TopicPartition, end: int) -> None:
        """The first that reaches there of those that were begun; none before it counts any more."""
        at = self._place(where, end)
        if at is not None:
            self._stored[where] = self._begun[where][at]
            del self._begun[where][: at + 1]

    def has_failed(self, where: TopicPartition, end: int) -> None:
        """The same one is not stored, and will not be."""
        at = self._place(where, end)
        if at is not None:
            del self._begun[where][at]

    def was_cut_off(self, where: TopicPartition, end: int) -> None:
        """Nobody will know whether the same one is stored."""
        at = self._place(where, end)
        if at is not None:
            begun = self._begun[where]
            begun[at] = begun[at]._replace(is_cut_off=True)
            begun[:at] = [each for each in begun[:at] if not each.is_cut_off]

    def _place(self, where: TopicPartition, end: int) -> int | None:
        for at, each in enumerate(self._begun.get(where, ())):
            if each.end == end and not each.is_cut_off:
                return at
        return None
