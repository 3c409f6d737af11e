"""One member of a consumer group: who it is, what it wants, and where it stands.

A member never changes; a change makes a new one. `Profile` is what record 5 holds and `Progress`
(see `reconciliation`) what record 8 holds, so a record is due when that part differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.protocol.schemas.consumer_group_log import ClassicMemberMetadata, ClassicProtocol


@dataclass(frozen=True, slots=True)
class Profile:
    """Who a member is and what it wants."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    """Empty: none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Of a member that still speaks the classic protocol."""

    @property
    def subscription(self) -> tuple[frozenset[str], str]:
        """Which topics it wants; equal for members that want the same."""
        return self.topic_names, self.topic_regex


@dataclass(frozen=True, slots=True)
class Member:
    """One member as of the log."""

    member_id: str
    profile: Profile = field(default_factory=Profile)
    progress: Progress = field(default_factory=Progress)

    @property
    def epoch(self) -> int:
        """What the member must send; a classic member knows it as its generation."""
        return self.progress.epoch

    @property
    def speaks_classic(self) -> bool:
        """Whether it uses JoinGroup and SyncGroup."""
        return self.profile.classic is not None

    @property
    def classic_protocols(self) -> Sequence[ClassicProtocol]:
        """The assignors that a classic member supports, the preferred one first."""
        classic = self.profile.classic
        return () if classic is None else classic.supported_protocols
