"""What is true of groups in a run, and the promises that are held against it; those of records are
in `records`.

Nobody but these two knows the truth; clients tell it what they do, the watch what it sees. Offsets
of a topic that was deleted and made again say nothing, so there only names count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.client import TopicPartition
from tests.broker.simulation.promises import demand
from tests.client.simulation.promises import Promise
from tests.client.simulation.records import Records, is_mortal


class Done:
    """The records of a partition that a group has worked on: all below `end`, and some above."""

    __slots__ = ("_above", "end")

    def __init__(self) -> None:
        self.end = 0
        self._above: set[int] = set()

    def add(self, offset: int) -> None:
        if offset > self.end:
            self._above.add(offset)
        elif offset == self.end:
            self.end += 1
            while self._above and self.end in self._above:
                self._above.discard(self.end)
                self.end += 1


class Attempt(NamedTuple):
    """A request to commit."""

    offset: int
    goes_back: bool
    """Whether more was stored already when it was made."""


@dataclass
class Group:
    """What is true of one group."""

    name: str
    topics: frozenset[str] = frozenset()
    partitions_max: int = 1000
    """It reads no others of its topics."""
    done: dict[TopicPartition, Done] = field(default_factory=lambda: defaultdict(Done))
    names: set[str] = field(default_factory=set)
    """Of the records that were worked on."""
    history: dict[TopicPartition, list[int | None]] = field(
        default_factory=lambda: defaultdict(lambda: [None])
    )
    """What was stored, one after the other."""
    is_free: bool = False
    """Its offsets are set by an administrator, anywhere."""
    unanswered: dict[TopicPartition, Counter[Attempt]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """Commits that are under way, or whose answers were lost: they may still come."""

    def reads(self, where: TopicPartition) -> bool:
        return where.topic in self.topics and where.partition < self.partitions_max

    def stored(self, where: TopicPartition) -> int | None:
        """What is committed now."""
        return self.history[where][-1]

    def now(self, where: TopicPartition) -> int:
        """A moment in the history of that offset."""
        return len(self.history[where]) - 1

    def least_since(self, where: TopicPartition, moment: int) -> int:
        """The smallest that was stored since; 0 where nothing was."""
        return min(each or 0 for each in self.history[where][moment:])

    def worked_on(self, where: TopicPartition, offset: int, name: str) -> None:
        """A member is done with that record."""
        self.names.add(name)
        if not is_mortal(where):
            self.done[where].add(offset)

    def tries(self, where: TopicPartition, offset: int) -> Attempt:
        """A client sends that."""
        attempt = Attempt(offset, offset < (self.stored(where) or 0))
        self.unanswered[where][attempt] += 1
        return attempt

    def is_answered(self, where: TopicPartition, attempt: Attempt) -> None:
        """It was stored, or will never be."""
        self.unanswered[where][attempt] -= 1

    def on_stored(
        self, where: TopicPartition, offset: int | None, *, may_go_back: bool = False
    ) -> None:
        """The coordinator has appended a commit, or a tombstone."""
        before = self.stored(where)
        self.history[where].append(offset)
        if self.is_free or is_mortal(where) or offset is None:
            return
        demand(
            offset <= self.done[where].end,
            Promise.ONLY_WORKED_ON,
            group=self.name,
            at=where,
            offset=offset,
            done=self.done[where].end,
        )
        demand(
            may_go_back
            or before is None
            or offset >= before
            or self.unanswered[where][Attempt(offset, goes_back=False)] > 0,
            Promise.COMMITTED_GROWS,
            group=self.name,
            at=where,
            before=before,
            now=offset,
        )

    def on_lost(self, where: TopicPartition, offset: int | None) -> None:
        """A life of the broker ended, and this is what the next one has."""
        if offset != self.stored(where):
            self.history[where].append(offset)

    def check_first(self, where: TopicPartition, offset: int, moment: int) -> None:
        """Who was assigned the partition at that moment begins with that record."""
        if self.is_free or is_mortal(where):
            return
        demand(
            offset <= self.done[where].end,
            Promise.NOTHING_LEFT_OUT,
            group=self.name,
            at=where,
            begins=offset,
            done=self.done[where].end,
        )
        least = self.least_since(where, moment)
        demand(
            offset >= least,
            Promise.NOTHING_REPEATED,
            group=self.name,
            at=where,
            begins=offset,
            committed=least,
        )

    def check_committed(
        self, told: Mapping[TopicPartition, int], since: Mapping[TopicPartition, int]
    ) -> None:
        """An administrator was told these, and asked at the moments `since`."""
        for where, moments in since.items():
            may_be = self.history[where][moments:]
            demand(
                told.get(where) in may_be,
                Promise.COMMITTED_TOLD,
                group=self.name,
                at=where,
                told=told.get(where),
                may_be=may_be[-5:],
            )

    def moments(self) -> dict[TopicPartition, int]:
        """Now, for all partitions that were ever committed."""
        return {where: self.now(where) for where in self.history}


class Truth:
    """All of it."""

    def __init__(self, groups: Iterable[Group], records: Records) -> None:
        self.records = records
        self.groups = {each.name: each for each in groups}
        self.counts: Counter[str] = Counter()
        self.ends: dict[TopicPartition, int] = {}
        """Where logs ended when the members left."""
