"""Sticky shares if members want different topics: moves until they are even. No IO.

Each member keeps what it has and still wants. The rest goes to the members with the least. Then
partitions move, one at a time, from a member to one that has at least two fewer, until no such move
is left. A result that is no more even than the state before is discarded.

A partition that is to move from B to A while another of its topic has moved from A to B swaps with
that one (`Movements`): moves back and forth would only cost stickiness.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.client.group.assignors.assignor import Assignment, Subscription, Topics
from moldau.client.group.assignors.order import (
    in_hash_order,
    partition_hash,
    table_size,
    text_order,
)
from moldau.client.group.assignors.racks import RackView
from moldau.link.metadata import TopicPartition


class OwnedPartitions(NamedTuple):
    """The partitions that a member reports as its own, and their generation if it reports one."""

    partitions: Sequence[TopicPartition]
    generation: int | None


class _Moved:
    """Partitions of a topic that moved from one member to another, in the order of a Java HashSet,
    whose table grows and never shrinks."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self._buckets = table_size(0)

    def add(self, where: TopicPartition) -> None:
        self.partitions[where] = None
        self._buckets = table_size(len(self.partitions), self._buckets)

    def first(self) -> TopicPartition:
        return in_hash_order(self.partitions, partition_hash, self._buckets)[0]


class Movements:
    """Moves of partitions between members, with chains shortened: A to B to C is A to C."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], _Moved] = {}

    def move(self, where: TopicPartition, source: str, target: str) -> None:
        """Record that the partition moves from one member to another."""
        before = self._pairs.pop(where, None)
        if before is not None:
            key = (where.topic, *before)
            del self._moved[key].partitions[where]
            if not self._moved[key].partitions:
                del self._moved[key]
            source = before[0]
            if source == target:
                return
        self._pairs[where] = (source, target)
        self._moved.setdefault((where.topic, source, target), _Moved()).add(where)

    def better(self, where: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move instead: one that moved the other way, if there is one."""
        if where in self._pairs:
            source = self._pairs[where][0]
        back = self._moved.get((where.topic, target, source))
        return where if back is None else back.first()


class UnevenShares:
    """A computation of one assignment. `owned` is what members have, `before` what they had."""

    def __init__(
        self,
        topics: Topics,
        racks: RackView,
        owned: Mapping[str, Sequence[TopicPartition]],
        members: Mapping[str, Subscription],
        before: Mapping[TopicPartition, str],
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._before = before
        self._shares: Assignment = {member: list(owned[member]) for member in members}
        self._wants = {
            member: [topic for topic in each.topics if topic in topics]
            for member, each in members.items()
        }
        self._room = {
            member: sum(len(topics[topic]) for topic in wanted)
            for member, wanted in self._wants.items()
        }
        self._takers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member, wanted in self._wants.items():
            for topic in wanted:
                self._takers[topic].append(member)
        by_takers = sorted(topics, key=lambda each: (len(self._takers[each]), text_order(each)))
        self._all = [
            TopicPartition(topic, index)
            for topic in by_takers
            for index in range(len(topics[topic]))
        ]
        self._owner: dict[TopicPartition, str] = {}
        self._movements = Movements()
        self._ranking: list[tuple[int, bytes, str]] = []

    def assign(self) -> Assignment:
        """Return the shares."""
        must_revoke = self._drop_what_is_not_wanted()
        left = [where for where in self._all if where not in self._owner]
        for member in self._shares:
            self._rank(member)
        is_new = not self._ranking[-1][0]
        self._hand_out(left)
        self._balance(left, is_new=is_new, must_revoke=must_revoke)
        return self._shares

    def _drop_what_is_not_wanted(self) -> bool:
        must_revoke = False
        for member, share in self._shares.items():
            wanted = set(self._wants[member])
            kept = []
            for where in share:
                if where.topic not in wanted or self._racks.is_far(member, where):
                    must_revoke = True
                else:
                    kept.append(where)
                    self._owner[where] = member
            self._shares[member] = kept
        return must_revoke

    # The ranking: members with few partitions first

    def _rank(self, member: str) -> None:
        insort(self._ranking, (len(self._shares[member]), text_order(member), member))

    def _unrank(self, member: str) -> None:
        self._ranking.remove((len(self._shares[member]), text_order(member), member))

    # Handing out

    def _hand_out(self, partitions: Sequence[TopicPartition]) -> None:
        left: Iterable[TopicPartition] = partitions
        if self._racks.members:
            left = [where for where in partitions if not self._give(where, near=True)]
        for where in left:
            self._give(where, near=False)

    def _give(self, where: TopicPartition, *, near: bool) -> bool:
        for _, _, member in self._ranking:
            if where.topic not in self._wants[member]:
                continue
            if near and self._racks.is_far(member, where):
                continue
            self._unrank(member)
            self._shares[member].append(where)
            self._owner[where] = member
            self._rank(member)
            return True
        return False

    # Moving

    def _balance(
        self, handed_out: list[TopicPartition], *, is_new: bool, must_revoke: bool
    ) -> None:
        movable = [where for where in self._all if len(self._takers[where.topic]) > 1]
        fixed = [member for member in self._wants if not self._can_take_part(member)]
        set_apart = {member: self._shares[member] for member in fixed}
        for member in fixed:
            self._unrank(member)
            del self._shares[member]
        saved = {member: list(share) for member, share in self._shares.items()}
        if not must_revoke:
            self._move([each for each in handed_out if len(self._takers[each.topic]) > 1])
        moved = self._move(movable)
        if moved and not is_new and _unevenness(self._shares) >= _unevenness(saved):
            self._shares = saved
        self._shares |= set_apart

    def _can_take_part(self, member: str) -> bool:
        share = self._shares[member]
        if len(share) < self._room[member]:
            return True
        return any(len(self._takers[where.topic]) > 1 for where in share)

    def _move(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until the shares are even or no move helps. Return whether any moved."""
        has_moved = False
        goes_on = True
        while goes_on:
            goes_on = False
            for where in partitions:
                if self._is_even():
                    break
                if self._move_one(where):
                    has_moved = goes_on = True
        return has_moved

    def _move_one(self, where: TopicPartition) -> bool:
        owner = self._owner[where]
        most = len(self._shares[owner]) - 1
        before = self._before.get(where)
        if (
            before in self._shares
            and where.topic in self._wants[before]
            and len(self._shares[before]) < most
        ):
            self._move_to(where, before)
            return True
        if not any(len(self._shares[taker]) < most for taker in self._takers[where.topic]):
            return False
        target = next(each for _, _, each in self._ranking if where.topic in self._wants[each])
        self._move_to(where, target)
        return True

    def _move_to(self, where: TopicPartition, target: str) -> None:
        where = self._movements.better(where, self._owner[where], target)
        source = self._owner[where]
        self._unrank(source)
        if source != target:
            self._unrank(target)
        self._movements.move(where, source, target)
        self._shares[source].remove(where)
        self._shares[target].append(where)
        self._owner[where] = target
        self._rank(target)
        if source != target:
            self._rank(source)

    def _is_even(self) -> bool:
        """Whether no member could get a partition from one that has at least two more."""
        if not self._ranking or self._ranking[0][0] >= self._ranking[-1][0] - 1:
            return True
        for count, _, member in self._ranking:
            if count == self._room[member]:
                continue
            if count + 1 >= self._ranking[-1][0]:
                return True
            for topic in self._wants[member]:
                for index in range(len(self._topics[topic])):
                    owner = self._owner.get(TopicPartition(topic, index))
                    if owner in self._shares and count + 1 < len(self._shares[owner]):
                        return False
        return True


def _unevenness(shares: Assignment) -> int:
    """Return the sum of the differences between all pairs of members."""
    counts = sorted(map(len, shares.values()))
    return sum(count * (2 * index - len(counts) + 1) for index, count in enumerate(counts))
