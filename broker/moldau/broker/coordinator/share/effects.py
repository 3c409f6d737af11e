"""The effect of the share coordinator's decisions: the log forgets what no state needs."""

from __future__ import annotations

from moldau.broker.coordinator.outcome import Effect
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class Prune(Effect):
    """Delete the records of the shard's partition before `offset`. Each state was written again in
    a later snapshot, or was deleted."""

    offset: int
