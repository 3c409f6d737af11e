"""What a user is told of a rebalance. No IO of its own.

Called inside the user's own `poll` (or `unsubscribe`, or close), never beside it, so a listener may
commit, seek and pause. Methods may be plain or `async`; one that raises makes that poll raise, and
the rebalance goes on all the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Final

from moldau.client.group.member import Change, Kind
from moldau.link.arguments import told
from moldau.link.metadata import TopicPartition


class RebalanceListener:
    """To be subclassed; what is not overridden does nothing."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> object:
        """These are to be given up: the last moment to commit them."""
        return None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> object:
        """These came; with a cooperative assignor only the new ones. May be none."""
        return None

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> object:
        """These are gone: others may read them already, and they cannot be committed. Unless it is
        overridden this is `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


_METHODS: Final = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def check_listener(listener: object) -> None:
    """TypeError unless it can be told of everything, or is None."""
    if listener is None or isinstance(listener, RebalanceListener):
        return
    missing = [name for name in _METHODS if not callable(getattr(listener, name, None))]
    if missing or isinstance(listener, type):
        raise TypeError(
            f"a listener is a RebalanceListener, or has its methods ({', '.join(_METHODS)}), not "
            f"{told(listener)}"
        )


async def tell(listener: RebalanceListener, change: Change) -> None:
    """Calls the method that the change is for."""
    method = {
        Kind.ASSIGNED: listener.on_partitions_assigned,
        Kind.REVOKED: listener.on_partitions_revoked,
        Kind.LOST: listener.on_partitions_lost,
    }[change.kind]
    result = method(change.partitions)
    if inspect.isawaitable(result):
        await result
