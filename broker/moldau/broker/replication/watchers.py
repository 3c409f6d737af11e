"""The followers' sessions that are informed about changes of a partition between fetches."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """A partition in a follower's session."""

    def on_change(self) -> None:
        """Called after a change that the next fetch response may need. Must not call the
        partition."""

    def on_displaced(self) -> None:
        """Called when another session of the same follower begins to watch the partition."""


class Watchers:
    """The watchers of one partition."""

    __slots__ = ("by_replica",)

    def __init__(self) -> None:
        self.by_replica: dict[int, Watcher] = {}
        """The watching session of each follower."""

    def add(self, replica_id: int, watcher: Watcher) -> None:
        """Inform `watcher` about changes. Each follower has one watching session at a time."""
        before = self.by_replica.get(replica_id)
        self.by_replica[replica_id] = watcher
        if before is not None and before is not watcher:
            before.on_displaced()

    def remove(self, replica_id: int, watcher: Watcher) -> None:
        """Stop informing `watcher`."""
        if self.by_replica.get(replica_id) is watcher:
            del self.by_replica[replica_id]

    def tell(self) -> None:
        """Inform all watchers about a change."""
        for watcher in self.by_replica.values():
            watcher.on_change()
