"""What an assignor is: it decides for a classic group which member reads which partition. No IO.

A plugin of the group `moldau.assignors` is a callable without arguments, mostly a class, that makes
an object of this shape; a program can give such an object, or its class, to
`Consumer(partition_assignment_strategy=[...])`. Members agree by the assignor's `name` alone, so
two that share a name must understand each other's `user_data`.

Invariants: `assign` gives every partition of every topic that is wanted to exactly one member
that wants it (a cooperative one leaves out what another member has to give up first), and the
same input always has the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from moldau.link.metadata import TopicPartition

NO_GENERATION: Final = -1

Racks = frozenset[str]
Topics = Mapping[str, Sequence[Racks]]
"""By topic, for each of its partitions in order, the racks that have a replica."""
Assignment = dict[str, list[TopicPartition]]
"""By member id."""


class Share(list[TopicPartition]):
    """A member's partitions, with what the leader's assignor tells that member's assignor."""

    def __init__(
        self, partitions: Iterable[TopicPartition] = (), user_data: bytes | None = None
    ) -> None:
        super().__init__(partitions)
        self.user_data = user_data


class Rebalance(Enum):
    """How members change hands."""

    EAGER = "eager"
    """All members give up everything before they join again."""
    COOPERATIVE = "cooperative"
    """Members keep what they have, give up what the assignment takes from them, and join again
    (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants and has. `generation` is that in which it got what it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


class Assignor(Protocol):
    """One way to share partitions. It belongs to one member and may remember what that got."""

    @property
    def name(self) -> str:
        """What members agree on."""

    @property
    def rebalances(self) -> frozenset[Rebalance]:
        """The ways in which its results may be brought about."""

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """What the member tells the leader's assignor when it joins."""

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Shares partitions; called at the leader. Every member is in the answer, with a `Share`
        where its assignor is to get user data."""

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """The member got these partitions in this generation, and this from the leader."""


class Forgetful:
    """An eager assignor that only looks at topics: nothing to tell, nothing to remember."""

    @property
    def rebalances(self) -> frozenset[Rebalance]:
        """Eager alone."""
        return frozenset((Rebalance.EAGER,))

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Nothing."""
        return None

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """Nothing to remember."""
