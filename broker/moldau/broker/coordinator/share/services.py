"""The services of the node that the share states of a shard may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.ids import Uuid


class ShareStateServices(Protocol):
    """The node as a shard sees it."""

    @property
    def settings(self) -> Settings:
        """The broker's current settings."""
        ...

    def wall_ms(self, now_ms: int) -> int:
        """Convert a `now_ms` to wall clock time, for records."""
        ...

    def partition_count(self, topic_id: Uuid) -> int:
        """Return the number of partitions of a topic; 0 if it does not exist."""
        ...

    @property
    def knows_topics(self) -> bool:
        """Whether the node's metadata is loaded, so that a topic that is not in it was deleted."""
        ...
