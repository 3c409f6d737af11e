"""The user's part of a `GroupMember`: metadata, assignments, and following them. No IO.

The group's coordinator passes all of it on as bytes and reads none of it. Each method may be plain
or `async`. While one runs, heartbeats continue; the group waits for it as long as
`rebalance.timeout.ms`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, Protocol

from moldau.deferred import dataclass

Metadata = Sequence[tuple[str, bytes]]
Assignments = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class GenerationAssignment:
    """A member's share in one generation of its group."""

    generation: int
    member_id: str
    leader_id: str
    protocol: str
    assignment: bytes

    @property
    def is_leader(self) -> bool:
        """Whether this member made the assignments of this generation."""
        return self.leader_id == self.member_id


class Protocols(Protocol):
    """The user's part of a group's protocol. Calls never overlap.

    An optional method `on_lost()` is called instead of `on_revoked` when the membership is lost and
    other members may have the share already: stop using it and commit nothing. Without that method
    `on_revoked` is called. The member joins again by itself.
    """

    def metadata(self) -> Metadata | Awaitable[Metadata]:
        """Return the protocols that this member supports, best first, each with its bytes for the
        leader. Called before each join."""

    def assign(
        self, protocol: str, leader_id: str, members: Mapping[str, bytes]
    ) -> Assignments | Awaitable[Assignments]:
        """Return the share of each member, by member id, from the metadata of all. Called at the
        leader. A member that is left out gets b""."""

    def on_assigned(self, assigned: GenerationAssignment) -> Awaitable[None] | None:
        """Called when a generation has begun, with this member's share in it."""

    def on_revoked(self) -> Awaitable[None] | None:
        """Called before the group rebalances, or this member leaves: the last moment to commit. If
        the protocol lets members keep something until they know their new share, keep it."""


GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
