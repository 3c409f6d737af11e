"""A member of a classic group: what it told when it joined, its assignment, and what it waits for.

Invariant: a ticket stands in at most one place. Taking it out of the member (`take_join`,
`take_sync`) is a promise to answer it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.outcome import Ticket

if TYPE_CHECKING:
    from moldau.protocol.messages.join_group import JoinGroupRequest


class MemberProtocol(NamedTuple):
    """An assignor that the member knows, and its subscription for it, as the client encoded it."""

    name: str
    metadata: bytes


def protocols_of(message: JoinGroupRequest) -> tuple[MemberProtocol, ...]:
    """What a member offers, in its order of preference."""
    return tuple(MemberProtocol(each.name, each.metadata) for each in message.protocols)


@dataclass(slots=True)
class Member:
    """One member. `is_new` until its first join is answered: it knows no member id before, so it
    cannot send heartbeats, and other rules hold for its session."""

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
        """KIP-345: it keeps its place over a restart."""
        return self.instance_id is not None

    @property
    def is_joining(self) -> bool:
        """It waits for the next generation."""
        return self.join_ticket is not None

    @property
    def keeps_its_session(self) -> bool:
        """Whether silence is fine: who waits for an answer sends no heartbeats. A new member may
        be forgotten all the same, for the client may be gone and nobody would know."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its subscription for that assignor; empty if it does not know it."""
        for each in self.protocols:
            if each.name == protocol_name:
                return each.metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str | None:
        """The first of its protocols that everybody knows."""
        return next((each.name for each in self.protocols if each.name in candidates), None)

    def take_join(self) -> Ticket | None:
        """The ticket that waits for a join, which no longer waits here."""
        ticket, self.join_ticket = self.join_ticket, None
        return ticket

    def take_sync(self) -> Ticket | None:
        """The ticket that waits for a sync, which no longer waits here."""
        ticket, self.sync_ticket = self.sync_ticket, None
        return ticket

    def reborn(
        self,
        member_id: str,
        protocols: Sequence[MemberProtocol],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> Member:
        """A static member that came back under a new id: same place, same assignment. As in Kafka
        it keeps the client id and host of its first life."""
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
