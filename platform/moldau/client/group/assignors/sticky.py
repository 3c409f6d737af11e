"""Sticky: even shares in which each member keeps as much as possible; eager and cooperative. No IO.

A member reports what it had itself: in the user data of its subscription (`sticky`), or among its
owned partitions (`cooperative-sticky`), with the generation in which it got it. If two members
claim a partition, the later generation counts; with the same generation, neither does.

If all members want the same topics, shares are computed by counting (`even_shares`); otherwise
partitions are moved until no move makes them more even (`uneven_shares`).

The cooperative variant then leaves out every partition that its present owner has to give up first:
that member joins again afterwards, and the next generation assigns the partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from moldau.client.group.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Rebalance,
    Subscription,
    Topics,
)
from moldau.client.group.assignors.even_shares import EvenShares
from moldau.client.group.assignors.order import members_in_hash_order, wanted_topics
from moldau.client.group.assignors.racks import RackView
from moldau.client.group.assignors.uneven_shares import OwnedPartitions, UnevenShares
from moldau.errors import MalformedMessage
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Data, Struct, field
from moldau.protocol.types import Int32, String


class StickyTopic(Struct):
    """A topic and its partitions."""

    topic: String
    partitions: list[Int32]


class StickyUserData(Data, versions="0-1", flexible="none"):
    """What a member of `sticky` had, and in which generation it got it."""

    previous_assignment: list[StickyTopic]
    generation: Int32 = field(since=1, default=NO_GENERATION, ignorable=True)


_INT32: Final = 4


class _Claims(NamedTuple):
    """What all members report to have had, after contradictions are settled."""

    are_alike: bool
    owned: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]


class _Sticky:
    """The common part of both variants."""

    def __init__(self) -> None:
        self._generation = NO_GENERATION
        self._generation_max = NO_GENERATION

    def _claim(self, member: Subscription) -> OwnedPartitions:
        raise AssertionError("each kind knows where members say it")

    def _share(
        self, topics: Topics, members: Mapping[str, Subscription]
    ) -> tuple[Assignment, dict[TopicPartition, str] | None]:
        """Return the shares, and the new members of partitions that move (None if unknown)."""
        ordered = members_in_hash_order(members)
        wanted = wanted_topics(topics, members)
        held = {member: self._claim(each) for member, each in ordered.items()}
        claims = self._claims(wanted, ordered, held)
        racks = RackView(wanted, ordered)
        if claims.are_alike:
            even = EvenShares(wanted, racks, claims.owned, claims.disputed)
            return even.assign(), even.changing_hands
        before = self._held_before(held)
        return UnevenShares(wanted, racks, claims.owned, ordered, before).assign(), None

    def _claims(
        self,
        topics: Topics,
        members: Mapping[str, Subscription],
        held: Mapping[str, OwnedPartitions],
    ) -> _Claims:
        first = next((frozenset(each.topics) for each in members.values() if each.topics), None)
        are_alike = all(frozenset(each.topics) == first for each in members.values())
        are_alike |= first is None
        owned: dict[str, list[TopicPartition]] = {}
        owners: dict[TopicPartition, str] = {}
        disputed: set[TopicPartition] = set()
        for member, (partitions, told) in held.items():
            generation = NO_GENERATION if told is None else told
            self._generation_max = max(self._generation_max, generation)
            owned[member] = []
            for where in partitions:
                if where.partition >= len(topics.get(where.topic, ())):
                    continue
                other = owners.get(where)
                if other is not None:
                    theirs = members[other].generation
                    if generation < theirs:
                        continue
                    if where in owned[other]:
                        owned[other].remove(where)
                    if generation == theirs:
                        disputed.add(where)
                        owners[where] = member
                        continue
                owned[member].append(where)
                owners[where] = member
        return _Claims(are_alike, owned, disputed)

    def _held_before(self, held: Mapping[str, OwnedPartitions]) -> dict[TopicPartition, str]:
        """Return the member that had each partition before: it may get it back."""
        found: dict[TopicPartition, tuple[int, str]] = {}
        for member, (partitions, told) in held.items():
            generation = NO_GENERATION if told is None else told
            if generation >= self._generation_max:
                continue
            for where in partitions:
                if where not in found or generation > found[where][0]:
                    found[where] = (generation, member)
        return {where: member for where, (_, member) in found.items()}


class StickyAssignor(_Sticky):
    """Eager: all members give up everything, and get most of it back."""

    def __init__(self) -> None:
        super().__init__()
        self._partitions: Sequence[TopicPartition] | None = None

    @property
    def name(self) -> str:
        """The name in Kafka."""
        return "sticky"

    @property
    def rebalances(self) -> frozenset[Rebalance]:
        """Eager only."""
        return frozenset((Rebalance.EAGER,))

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the partitions that the member had."""
        if self._partitions is None:
            return None
        by_topic: dict[str, list[int]] = {}
        for where in self._partitions:
            by_topic.setdefault(where.topic, []).append(where.partition)
        return StickyUserData(
            previous_assignment=[
                StickyTopic(topic=topic, partitions=found) for topic, found in by_topic.items()
            ],
            generation=self._generation,
        ).encode(1)

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Return even shares in which members keep what they can."""
        return self._share(topics, members)[0]

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """Remember the share for the next join."""
        self._partitions = tuple(partitions)
        self._generation = generation

    def _claim(self, member: Subscription) -> OwnedPartitions:
        if not member.user_data:
            return OwnedPartitions((), None)
        for version in (1, 0):
            try:
                told, _ = StickyUserData.decode_from(member.user_data, 0, version)
            except MalformedMessage:
                continue
            partitions = tuple(
                TopicPartition(each.topic, partition)
                for each in told.previous_assignment
                for partition in each.partitions
            )
            return OwnedPartitions(partitions, told.generation if version else None)
        return OwnedPartitions((), NO_GENERATION)


class CooperativeStickyAssignor(_Sticky):
    """Sticky, but members continue to read what they keep during a rebalance."""

    @property
    def name(self) -> str:
        """The name in Kafka."""
        return "cooperative-sticky"

    @property
    def rebalances(self) -> frozenset[Rebalance]:
        """Both: with a member that has an eager assignor, all rebalance eagerly."""
        return frozenset((Rebalance.COOPERATIVE, Rebalance.EAGER))

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the generation, for leaders that read subscriptions before version 2."""
        return self._generation.to_bytes(_INT32, "big", signed=True)

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Return even shares, without what has to be given up first."""
        assignment, changing = self._share(topics, members)
        if changing is None:
            changing = _changing_hands(members, assignment)
        for where, member in changing.items():
            assignment[member].remove(where)
        return assignment

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """Remember the generation. The subscription itself has the owned partitions."""
        self._generation = generation

    def _claim(self, member: Subscription) -> OwnedPartitions:
        if member.generation >= 0:
            return OwnedPartitions(member.owned, member.generation)
        if member.user_data is None:
            return OwnedPartitions(member.owned, None)
        if len(member.user_data) < _INT32:
            return OwnedPartitions(member.owned, NO_GENERATION)
        told = int.from_bytes(member.user_data[:_INT32], "big", signed=True)
        return OwnedPartitions(member.owned, told)


def _changing_hands(
    members: Mapping[str, Subscription], assignment: Assignment
) -> dict[TopicPartition, str]:
    """Return what one member gets and another still has."""
    added: dict[TopicPartition, str] = {}
    given_up: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        owned = set(members[member].owned)
        added |= {where: member for where in partitions if where not in owned}
        given_up |= owned.difference(partitions)
    return {where: member for where, member in added.items() if where in given_up}
