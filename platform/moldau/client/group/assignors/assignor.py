"""The interface of assignors, which assign partitions to the members of a classic group. No IO.

A plugin of the group `moldau.assignors` is a callable without arguments, mostly a class, that
returns such an object; a program can also pass an object, or its class, to
`Consumer(partition_assignment_strategy=[...])`. Members agree by the assignor's `name` alone, so
two assignors of one name must understand each other's `user_data`.

Invariants: `assign` gives every partition of every wanted topic to exactly one member that wants it
(a cooperative one leaves out what another member has to give up first), and the same input always
has the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from moldau.deferred import dataclass
from moldau.link.metadata import TopicPartition

NO_GENERATION: Final = -1

Racks = frozenset[str]
Topics = Mapping[str, Sequence[Racks]]
"""By topic, for each of its partitions in order, the racks that have a replica."""
Assignment = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id."""


class Share(list[TopicPartition]):
    """A member's partitions, with the user data from the leader's assignor to the member's."""

    def __init__(
        self, partitions: Iterable[TopicPartition] = (), user_data: bytes | None = None
    ) -> None:
        super().__init__(partitions)
        self.user_data = user_data


class Rebalance(Enum):
    """How partitions change hands."""

    EAGER = "eager"
    """All members give up everything before they join again."""
    COOPERATIVE = "cooperative"
    """Members keep their partitions, give up what the assignment takes from them, and join again
    (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's topics and owned partitions. `generation` is the one in which it got these."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


class Assignor(Protocol):
    """A way to assign partitions. It belongs to one member and may remember that member's share."""

    @property
    def name(self) -> str:
        """The name that members agree on."""

    @property
    def rebalances(self) -> frozenset[Rebalance]:
        """The kinds of rebalance that its results work with."""

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the member's data for the leader's assignor, sent when it joins."""

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Assign the partitions; called at the leader. Return every member, with a `Share` if its
        assignor gets user data."""

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """Called with the member's partitions in this generation, and the leader's user data."""


class Forgetful:
    """An eager assignor that needs only topics: no user data, nothing to remember."""

    @property
    def rebalances(self) -> frozenset[Rebalance]:
        """Eager only."""
        return frozenset((Rebalance.EAGER,))

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return None: it has no user data."""
        return None

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """Do nothing: it remembers nothing."""
