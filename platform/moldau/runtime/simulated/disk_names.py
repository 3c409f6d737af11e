"""A directory of the simulated disk: its present names, and the changes that are not durable yet.

Invariant: undoing `unsynced` from last to first gives the names that a loss of power cannot change.

On power loss each change is kept or lost independently, with two rules: of the changes to one name
only a first part is kept, and a rename, which changes two names, is kept or lost as one. File
systems with an ordered journal lose less; btrfs, whose sync of one file may log only its name,
behaves so.
"""

from __future__ import annotations

from typing import TypeAlias

from moldau.runtime.simulated.disk_cache import CachedFile
from moldau.runtime.simulated.disk_power import PowerLoss

Node: TypeAlias = "CachedFile | Directory"
NameChange: TypeAlias = tuple[str, "Node | None", "Node | None"]
"""A name, with its target before and after the change."""


class Directory:
    """Names that lead to files and directories."""

    __slots__ = ("entries", "is_known_dirty", "modified_ms", "unsynced")

    def __init__(self, modified_ms: int) -> None:
        self.entries: dict[str, Node] = {}
        self.unsynced: list[tuple[NameChange, ...]] = []
        self.is_known_dirty = False
        self.modified_ms = modified_ms

    def add(self, name: str, node: Node) -> None:
        """Add a new name."""
        self._change(((name, None, node),))

    def remove(self, name: str) -> None:
        """Remove a name."""
        self._change(((name, self.entries[name], None),))

    def rename(self, source: str, target: str) -> None:
        """Change both names at once."""
        node = self.entries[source]
        self._change(((source, node, None), (target, self.entries.get(target), node)))

    def sync(self) -> None:
        """Make the present names durable."""
        self.unsynced.clear()

    def lose_power(self, loss: PowerLoss) -> None:
        """Return to the durable names, then apply the changes that happened to reach the disk."""
        changes = self.unsynced
        self.unsynced = []
        for change in reversed(changes):
            for name, before, _ in change:
                self._lead(name, before)
        lost: set[str] = set()
        for change in changes:
            names = [name for name, _, _ in change]
            if lost.isdisjoint(names) and loss.keeps():
                for name, _, after in change:
                    self._lead(name, after)
            else:
                lost.update(names)

    def _change(self, change: tuple[NameChange, ...]) -> None:
        for name, _, after in change:
            self._lead(name, after)
        self.unsynced.append(change)

    def _lead(self, name: str, node: Node | None) -> None:
        if node is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = node
