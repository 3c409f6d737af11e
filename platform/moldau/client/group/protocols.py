"""What a `GroupMember` asks of its user: metadata, assignments, and to follow them. No IO.

The group's coordinator passes all of it on as bytes and reads none of it. Each method may be plain
or `async`. While one runs, heartbeats go on; the group waits for it as long as
`rebalance.timeout.ms`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Metadata = Sequence[tuple[str, bytes]]
Assignments = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A member's share in one generation of its group."""

    generation: int
    member_id: str
    leader_id: str
    protocol: str
    assignment: bytes

    @property
    def is_leader(self) -> bool:
        """Whether this member has made the assignments of this generation."""
        return self.leader_id == self.member_id


class Protocols(Protocol):
    """The user's part of a group's protocol. Calls never overlap.

    It may have `on_lost()` too, called instead of `on_revoked` when the member is none any more,
    and others may have its share already: stop using it and commit nothing. Without that method
    `on_revoked` is called. The member joins again by itself.
    """

    def metadata(self) -> Metadata | Awaitable[Metadata]:
        """The protocols that this member speaks, best first, each with what it tells the leader.
        Called before each join."""

    def assign(
        self, protocol: str, leader_id: str, members: Mapping[str, bytes]
    ) -> Assignments | Awaitable[Assignments]:
        """The share of each member, by member id, from the metadata of all. Called at the leader.
        A member that is left out gets b""."""

    def on_assigned(self, assigned: Assigned) -> Awaitable[None] | None:
        """A generation has begun, and this is the member's share in it."""

    def on_revoked(self) -> Awaitable[None] | None:
        """The group is about to share anew, or this member to leave: the last moment to commit.
        What the protocol lets a member keep until it knows its new share, it may keep."""
