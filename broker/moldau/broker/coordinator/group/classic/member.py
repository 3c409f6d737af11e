"""A member of a classic group: its metadata, its assignment, and its waiting requests.

Invariant: a ticket is in at most one place. A caller that takes it out of the member (`take_join`,
`take_sync`) must answer it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.outcome import Ticket
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.protocol.messages.join_group import JoinGroupRequest


class MemberProtocol(NamedTuple):
    """An assignor that the member supports, with its subscription as the client encoded it."""

    name: str
    metadata: bytes


def protocols_of(message: JoinGroupRequest) -> tuple[MemberProtocol, ...]:
    """Return the protocols that a member offers, in its order of preference."""
    return tuple(MemberProtocol(each.name, each.metadata) for each in message.protocols)


@dataclass(slots=True)
class Member:
    """One member. It is new (`is_new`) until its first join is answered. Before that it does not
    know its member id and cannot send heartbeats, so other rules apply to its session."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place across a restart (KIP-345)."""
        return self.instance_id is not None

    @property
    def is_joining(self) -> bool:
        """Whether the member waits for the next generation."""
        return self.join_ticket is not None

    @property
    def keeps_its_session(self) -> bool:
        """Whether the session stays valid without heartbeats. A member that waits for a response
        sends none. A new member may be dropped all the same, because its client may be gone
        unnoticed."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's subscription for this assignor; empty if it is not supported."""
        for each in self.protocols:
            if each.name == protocol_name:
                return each.metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str | None:
        """Return the member's first protocol among the candidates, which all members support."""
        return next((each.name for each in self.protocols if each.name in candidates), None)

    def take_join(self) -> Ticket | None:
        """Remove and return the ticket that waits for a join. The caller answers it."""
        ticket, self.join_ticket = self.join_ticket, None
        return ticket

    def take_sync(self) -> Ticket | None:
        """Remove and return the ticket that waits for a sync. The caller answers it."""
        ticket, self.sync_ticket = self.sync_ticket, None
        return ticket

    def reborn(
        self,
        member_id: str,
        protocols: Sequence[MemberProtocol],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> Member:
        """Return the static member that came back with a new id: same place, same assignment. As in
        Kafka, it keeps its original client id and host."""
        return replace(
            self,
            member_id=member_id,
            protocols=tuple(protocols),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            is_new=False,
            join_ticket=None,
            sync_ticket=None,
        )
