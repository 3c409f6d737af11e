"""How far a mirror is: records copied, and records that are left. A volatile core; no IO.

Left are the offsets from where the mirror continues to the end of each partition. Offsets of
transaction markers hold no record for a reader, so a partition may be at its end while offsets are
left. `on_end_reached` says so, after a look (`running`).

What is copied of a partition may move back to its beginning: its topic was deleted and created
anew. Then all of the new topic is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.errors.amounts import counted

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """What is known now."""

    topics: int
    partitions: int
    copied: int
    left: int
    unsure: tuple[TopicPartition, ...]
    """Partitions with offsets left that have not moved since the last look: they may be at their
    end."""

    @property
    def is_done(self) -> bool:
        return self.left == 0

    def line(self, seconds: float) -> str:
        """Return the progress as one line; `seconds` since the start."""
        rate = self.copied / seconds if seconds > 0 else 0.0
        return (
            f"{counted(self.topics, 'topic')}, {counted(self.partitions, 'partition')}: "
            f"{self.copied:,} copied "
            f"({rate:,.0f}/s), {self.left:,} to go"
        )


@dataclass(slots=True)
class CopyProgress:
    """The progress of one flow since its start."""

    has_fixed_ends: bool = False
    """Whether the goal is the end that a partition had when it was first seen, or an earlier end
    that it has by now."""
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition's copy began in this run."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    at: dict[TopicPartition, int] = field(default_factory=dict)
    _copied_before: int = 0
    """Records that were copied of topics that others have replaced since."""
    _moved: set[TopicPartition] = field(default_factory=set)
    _reached: dict[TopicPartition, int] = field(default_factory=dict)

    def on_look(self, begins: Offsets, ends: Offsets, stored: Offsets) -> None:
        """The source's partitions begin and end here, and are copied up to `stored`. Leave out what
        is stored of an earlier topic."""
        goals = self.ends if self.has_fixed_ends else {}
        self.ends = {where: min(goals.get(where, end), end) for where, end in ends.items()}
        self._moved.clear()
        for where, begin in begins.items():
            at = max(stored.get(where, begin), begin)
            if where not in self.begins:
                self.begins[where] = at
                self._moved.add(where)
            elif at != self.at[where]:
                self._moved.add(where)
            if at < self.at.get(where, at):
                self._begin_anew(where, at, ends[where])
            self.at[where] = at

    def _begin_anew(self, where: TopicPartition, at: int, end: int) -> None:
        self._copied_before += self.at[where] - self.begins[where]
        self.begins[where], self.ends[where] = at, end
        self._reached.pop(where, None)

    def on_end_reached(self, where: TopicPartition, end: int) -> None:
        """Between what is copied and `end` there is no record."""
        self._reached[where] = end

    def _left(self, where: TopicPartition) -> int:
        end = self.ends[where]
        at = max(self.at.get(where, 0), self._reached.get(where, 0))
        return max(0, end - at)

    def ready(self) -> Ready:
        """Return what is known now."""
        left = {where: self._left(where) for where in self.ends}
        return Ready(
            len({where.topic for where in self.ends}),
            len(self.ends),
            self._copied_before
            + sum(self.at[where] - begin for where, begin in self.begins.items()),
            sum(left.values()),
            tuple(where for where, count in left.items() if count and where not in self._moved),
        )
