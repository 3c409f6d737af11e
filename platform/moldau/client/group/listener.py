"""The user's callbacks for a rebalance. No IO of its own.

They are called inside the user's own `poll` (or `unsubscribe`, or close), never concurrently with
it, so a listener may commit, seek and pause. Methods may be plain or `async`. If one raises, that
poll raises it, and the rebalance continues all the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Final

from moldau.client.group.member import Change, Kind
from moldau.link.arguments import told
from moldau.link.metadata import TopicPartition


class RebalanceListener:
    """The base class of rebalance listeners; methods that are not overridden do nothing."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> object:
        """Called before these partitions are given up: the last moment to commit them."""
        return None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> object:
        """Called with the partitions that were assigned, possibly none; with a cooperative assignor
        only the new ones."""
        return None

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> object:
        """Called with partitions that are lost: other members may read them already, and they
        cannot be committed. By default this calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


_METHODS: Final = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def check_listener(listener: object) -> None:
    """Raise TypeError if the listener is neither None nor has all methods."""
    if listener is None or isinstance(listener, RebalanceListener):
        return
    missing = [name for name in _METHODS if not callable(getattr(listener, name, None))]
    if missing or isinstance(listener, type):
        raise TypeError(
            f"a listener is a RebalanceListener, or has its methods ({', '.join(_METHODS)}), not "
            f"{told(listener)}"
        )


async def tell(listener: RebalanceListener, change: Change) -> None:
    """Call the listener's method for this kind of change."""
    method = {
        Kind.ASSIGNED: listener.on_partitions_assigned,
        Kind.REVOKED: listener.on_partitions_revoked,
        Kind.LOST: listener.on_partitions_lost,
    }[change.kind]
    result = method(change.partitions)
    if inspect.isawaitable(result):
        await result
