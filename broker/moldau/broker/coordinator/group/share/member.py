"""One member of a share group. It never changes; a change creates a new one."""

from __future__ import annotations

from dataclasses import field

from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """A member's identity and subscription: the content of record 10."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Member:
    """One member, in the state of the log."""

    member_id: str
    profile: Profile = Profile()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """The partitions that it reads. Other members may read them too."""
