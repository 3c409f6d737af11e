"""One member of a streams group: usually a thread of an instance of the application.

A member never changes; a change creates a new one. `Profile` is the content of record 19, and
`Progress` the content of record 22.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, TypeAlias

from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.broker.coordinator.group.streams.tasks import SubtopologyRole
from moldau.deferred import dataclass

LEAVING_TAG: Final = "moldau.leaving"
"""The client tag of a member that is about to leave. It stays, and runs its tasks, until others
have what they need to take them over, or it has waited long enough."""
TaskProgress: TypeAlias = Progress[SubtopologyRole]


@dataclass(frozen=True, slots=True)
class Profile:
    """A member's identity."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """The instance of the application. Its members share a directory of state."""
    endpoint: tuple[str, int] | None = None
    """Host and port where its state can be queried."""
    client_tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_leaving(self) -> bool:
        """Whether the member is about to leave."""
        return any(name == LEAVING_TAG for name, _ in self.client_tags)


@dataclass(frozen=True, slots=True)
class Member:
    """One member, in the state of the log."""

    member_id: str
    profile: Profile = field(default_factory=Profile)
    progress: TaskProgress = field(default_factory=Progress)

    @property
    def epoch(self) -> int:
        """The member epoch that the member must send."""
        return self.progress.epoch

    @property
    def process_id(self) -> str:
        """The instance of the application that the member is of."""
        return self.profile.process_id
