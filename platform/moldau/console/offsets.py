"""A change of a group's offsets, planned before it is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.client.admin.progress import PartitionProgress
from moldau.console.rendering import BadForm
from moldau.link.metadata import TopicPartition

WAYS: Final = ("beginning", "end", "offset", "back", "time")


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's change: from where to where, and what that means for its reader."""

    where: TopicPartition
    before: int | None
    after: int

    @property
    def effect(self) -> str:
        """What the group reads again, or never."""
        if self.before is None:
            return f"starts at {self.after:,}"
        change = self.after - self.before
        if not change:
            return "stays"
        return f"skips {change:,}" if change > 0 else f"reads {-change:,} again"


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the next offset of each partition, and the one at the wanted time."""

    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    times: Mapping[TopicPartition, int]


def movable(rows: Sequence[PartitionProgress], topic: str | None) -> list[PartitionProgress]:
    """Return the partitions, of one topic if one is given, that have an end to move to: a leader is
    there to ask. Raise BadForm if none is left."""
    found = [
        each for each in rows if each.end is not None and (not topic or each.where.topic == topic)
    ]
    if not found:
        raise BadForm("no partition has a known end: each has no leader, or its topic is gone")
    return found


def planned(rows: Sequence[PartitionProgress], way: str, amount: str, ends: Ends) -> list[Move]:
    """Return the moves, each within its log. Raise BadForm."""
    if way not in WAYS:
        raise BadForm(f"to: {', '.join(WAYS)}")
    if way in ("offset", "back") and not amount.isdecimal():
        raise BadForm(f"{way}: give a whole number")
    moves = []
    for row in rows:
        where = row.where
        if where not in ends.ends:
            continue
        begin, end = ends.begins[where], ends.ends[where]
        before = None if row.committed is None else row.committed.offset
        if way == "beginning":
            after = begin
        elif way == "end":
            after = end
        elif way == "offset":
            after = int(amount)
        elif way == "back":
            after = (end if before is None else before) - int(amount)
        else:
            after = ends.times[where]
        moves.append(Move(where, before, min(max(begin, after), end)))
    return moves
