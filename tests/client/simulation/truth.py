"""What is true of records and groups in a run, and the promises that are held against it.

The names of the promises, as a failure tells them:

    only what was sent is read                  each record is of a producer that sent it
    an offset names one record                  whoever says so: an acknowledgement, a consumer
    a record stands once                        of an idempotent producer, however often it was sent
    what was refused is nowhere                 a send that raised leaves nothing in the log
    order of a producer is kept                 in each partition, of an idempotent one
    what was acknowledged is kept               to the end
    nothing is left out                         who takes a partition over goes on where the group
                                                is done with everything, or before
    nothing is repeated that was committed      it does not begin before what was committed then
    records follow one another                  from one poll to the next, without a gap
    a poll gives only what is assigned          and listeners hear of each partition in order
    a commit covers only what was worked on     invariant 11 as far as consumers go
    a committed offset does not go back         unless somebody committed less (invariant 13)
    what was committed is written               when the client hears so

Nobody but this module knows the truth; clients tell it what they do, the watch what it sees.
Offsets of a topic that was deleted and made again say nothing, so there only names count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moldau.client import TopicPartition
from tests.broker.simulation.promises import demand

MORTAL: Final = "phoenix"
"""The topic that is deleted and made again."""


def is_mortal(where: TopicPartition) -> bool:
    return where.topic == MORTAL


@dataclass(slots=True)
class Sent:
    """A record, by its name."""

    writer: str
    number: int
    is_idempotent: bool
    was_refused: bool = False
    acknowledged: tuple[TopicPartition, int] | None = None
    """Where; the offset is -1 if the broker did not say it."""


class Records:
    """All that was sent."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.at: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        self._offsets: dict[tuple[TopicPartition, str], int] = {}

    def sending(self, writer: str, number: int, *, is_idempotent: bool) -> str:
        """Its name."""
        name = f"{writer}/{number}"
        assert name not in self.sent
        self.sent[name] = Sent(writer, number, is_idempotent)
        return name

    def refused(self, name: str) -> None:
        """`send` raised."""
        self.sent[name].was_refused = True

    def acknowledged(self, name: str, where: TopicPartition, offset: int) -> None:
        """A delivery was told."""
        self.sent[name].acknowledged = where, offset
        if offset >= 0:
            self._learn(name, where, offset)

    def seen(self, name: str, where: TopicPartition, offset: int) -> None:
        """A consumer was given it."""
        known = self.sent.get(name)
        demand(known is not None, "only what was sent is read", at=where, offset=offset, name=name)
        assert known is not None
        demand(not known.was_refused, "what was refused is nowhere", at=where, name=name)
        self._learn(name, where, offset)

    def _learn(self, name: str, where: TopicPartition, offset: int) -> None:
        if is_mortal(where):
            return
        known = self.at[where].setdefault(offset, name)
        demand(
            known == name,
            "an offset names one record",
            at=where,
            offset=offset,
            known=known,
            told=name,
        )
        if self.sent[name].is_idempotent:
            first = self._offsets.setdefault((where, name), offset)
            demand(
                first == offset,
                "a record stands once",
                at=where,
                name=name,
                at_both=(first, offset),
            )

    def known_end(self, where: TopicPartition) -> int:
        """Behind the last record that anybody was told of."""
        return max(self.at[where], default=-1) + 1

    def check_whole(self, found: Mapping[TopicPartition, list[tuple[int, str]]]) -> None:
        """All that there is, read from the beginnings while nobody writes (invariant 9)."""
        stands: dict[str, list[TopicPartition]] = defaultdict(list)
        for where, records in found.items():
            for _, name in records:
                stands[name].append(where)
        for name, sent in self.sent.items():
            if sent.acknowledged is not None and not is_mortal(sent.acknowledged[0]):
                demand(name in stands, "what was acknowledged is kept", name=name)
            if sent.is_idempotent:
                demand(len(stands[name]) <= 1, "a record stands once", name=name)
        for where, records in found.items():
            last: dict[str, int] = {}
            for offset, name in records:
                self.seen(name, where, offset)
                sent = self.sent[name]
                demand(
                    not sent.is_idempotent or sent.number > last.get(sent.writer, -1),
                    "order of a producer is kept",
                    at=where,
                    offset=offset,
                    name=name,
                )
                last[sent.writer] = sent.number


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
    unanswered: dict[TopicPartition, Counter[int]] = field(
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
            "a commit covers only what was worked on",
            group=self.name,
            at=where,
            offset=offset,
            done=self.done[where].end,
        )
        demand(
            may_go_back or before is None or offset >= before or offset in self.unanswered[where],
            "a committed offset does not go back",
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
            "nothing is left out",
            group=self.name,
            at=where,
            begins=offset,
            done=self.done[where].end,
        )
        least = self.least_since(where, moment)
        demand(
            offset >= least,
            "nothing is repeated that was committed",
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
                "what is committed is told",
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

    def __init__(self, groups: Iterable[Group]) -> None:
        self.records = Records()
        self.groups = {each.name: each for each in groups}
        self.counts: Counter[str] = Counter()
