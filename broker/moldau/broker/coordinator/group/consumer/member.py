"""One member of a consumer group: its identity, its subscription, and its progress.

A member never changes; a change creates a new one. `Profile` is the content of record 5, and
`Progress` (see `reconciliation`) the content of record 8, so a record is written when its part
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.deferred import dataclass
from moldau.ids import Uuid
from moldau.protocol.schemas.consumer_group_log import ClassicMemberMetadata, ClassicProtocol


@dataclass(frozen=True, slots=True)
class Profile:
    """A member's identity and subscription."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    """The subscribed regular expression; empty if there is none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Set for a member that still uses the classic protocol."""

    @property
    def subscription(self) -> tuple[frozenset[str], str]:
        """The subscribed topics and regular expression; equal for members with the same
        subscription."""
        return self.topic_names, self.topic_regex


@dataclass(frozen=True, slots=True)
class Member:
    """One member, in the state of the log."""

    member_id: str
    profile: Profile = field(default_factory=Profile)
    progress: Progress[Uuid] = field(default_factory=Progress)

    @property
    def epoch(self) -> int:
        """The member epoch that the member must send. A classic member sends it as its
        generation."""
        return self.progress.epoch

    @property
    def speaks_classic(self) -> bool:
        """Whether the member uses JoinGroup and SyncGroup."""
        return self.profile.classic is not None

    @property
    def classic_protocols(self) -> Sequence[ClassicProtocol]:
        """The assignors that a classic member supports, the preferred one first."""
        classic = self.profile.classic
        return () if classic is None else classic.supported_protocols
