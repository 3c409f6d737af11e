"""The services of the node that the transactions of a shard may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moldau.config import Settings


class TransactionServices(Protocol):
    """The node as a shard sees it."""

    @property
    def settings(self) -> Settings:
        """The broker's current settings."""
        ...

    @property
    def transaction_version(self) -> int:
        """The level of the cluster's feature `transaction.version`."""
        ...

    def wall_ms(self, now_ms: int) -> int:
        """Convert a `now_ms` to wall clock time, for records."""
        ...

    def new_producer_id(self) -> int:
        """Return an id that no producer has had. Raise COORDINATOR_LOAD_IN_PROGRESS, which clients
        retry, if none is available at this moment."""
        ...
