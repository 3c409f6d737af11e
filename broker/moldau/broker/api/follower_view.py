"""A follower's fetch session between its fetches: which partitions may have news for it. Pure.

A fetch of a session with 300 partitions must not check all 300 when one of them was written to. So
each partition of the session is settled or not. A settled one has nothing new for the next
response, and no fetch checks it.

A partition is settled if all of this holds:
* it could be read, this node leads it in the epoch that the follower believes in, and the follower
  is in its ISR;
* the follower fetches from the end of the log, and its log does not diverge;
* the last responses contained its current high watermark and log start.

Invariant: what could end one of these unsettles the partition in the same call. These are:
* an append, a move of the high watermark or of the log start (by retention too), a new epoch or
  leader, another ISR, other replicas, a failed directory, a deleted topic: `Partition` tells its
  `watchers` after each of them;
* another offset, epoch or log start in the follower's request: `touch`;
* another session of the same follower that reads the partition: `on_displaced`;
* another broker epoch of the follower: the session gets a new view.

A change that is missed stalls a replica, so there is no partition whose state changes past it.

While a partition is settled, each fetch of the session counts as a fetch from the end of its log:
the leader reads the time from the view's `FetchClock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.broker.replication.leader import FetchClock

if TYPE_CHECKING:
    from moldau.broker.api.fetch_session import Key, RequestedFetch
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.purgatory import Purgatory


class Watch:
    """One partition of the session. It is called when the partition changes."""

    __slots__ = ("is_settled", "key", "partition", "view", "wanted")

    def __init__(self, view: FollowerView, key: Key, wanted: RequestedFetch) -> None:
        self.view = view
        self.key = key
        self.wanted = wanted
        self.partition: Partition | None = None
        """The replica that was read last, which reports its changes here; None if unreadable."""
        self.is_settled = False

    def on_change(self) -> None:
        """Unsettle the partition, which has changed, and check the waiting fetch again."""
        view = self.view
        if self.is_settled:
            self.unsettle()
        view.changed[self] = None
        view.purgatory.moved(view)

    def on_displaced(self) -> None:
        """Unsettle the partition: its changes now go to another session of the follower."""
        self.unsettle()
        self.partition = None

    def bind(self, partition: Partition) -> None:
        """Subscribe to the changes of this partition, which can be read."""
        if self.partition is not partition and not self.view.is_closed:
            self.release()
            self.partition = partition
            partition.watchers.add(self.view.replica_id, self)

    def release(self) -> None:
        """Unsettle and unsubscribe: the partition is not readable, or left the session."""
        self.unsettle()
        partition, self.partition = self.partition, None
        if partition is not None:
            partition.watchers.remove(self.view.replica_id, self)

    def settle(self) -> bool:
        """Settle the partition if it has no news, and return whether it has none. Call it after the
        leader has noted the fetch."""
        wanted, partition = self.wanted, self.partition
        if (
            partition is None
            or not partition.is_leader
            or wanted.is_diverging
            or wanted.asked.fetch_offset != partition.log_end_offset
            or wanted.high_watermark != partition.high_watermark
            or wanted.log_start_offset != partition.log_start_offset
            or self.view.replica_id not in partition.leadership.isr
        ):
            return False
        partition.leadership.settle(self.view.replica_id, self.view.clock)
        self.is_settled = True
        del self.view.active[self]
        return True

    def unsettle(self) -> None:
        """Check the partition again in the next fetch."""
        if self.is_settled:
            self.is_settled = False
            view, partition = self.view, self.partition
            view.active[self] = None
            if partition is not None and partition.is_leader:
                partition.leadership.unsettle(view.replica_id, view.clock)


class FollowerView:
    """The partitions of one session. It is also the key under which the session's fetch waits."""

    __slots__ = (
        "active",
        "changed",
        "clock",
        "is_closed",
        "purgatory",
        "replica_epoch",
        "replica_id",
        "watches",
    )

    def __init__(
        self,
        partitions: Mapping[Key, RequestedFetch],
        replica_id: int,
        replica_epoch: int,
        purgatory: Purgatory,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.purgatory = purgatory
        self.clock = FetchClock()
        self.active: dict[Watch, None] = {}
        """The partitions that are not settled."""
        self.changed: dict[Watch, None] = {}
        """The partitions that have changed since the waiting fetch last checked them."""
        self.watches: dict[Key, Watch] = {}
        self.is_closed = False
        for key, wanted in partitions.items():
            self.add(key, wanted)

    # Changes that the follower requests.

    def add(self, key: Key, wanted: RequestedFetch) -> None:
        """Add a partition to the session, unsettled."""
        watch = wanted.watch = self.watches[key] = Watch(self, key, wanted)
        self.active[watch] = None

    def touch(self, key: Key) -> None:
        """Unsettle the partition: its offset, epoch or log start in the request has changed."""
        self.watches[key].unsettle()

    def remove(self, key: Key) -> None:
        """Remove a partition from the session."""
        watch = self.watches.pop(key)
        watch.release()
        self.active.pop(watch, None)
        self.changed.pop(watch, None)

    def close(self) -> None:
        """End the session. A fetch that waits is answered."""
        self.is_closed = True
        for watch in self.watches.values():
            watch.release()
        self.purgatory.moved(self)

    # The partitions that a fetch checks.

    @property
    def has_settled(self) -> bool:
        """Whether there are partitions that need no check."""
        return len(self.active) < len(self.watches)

    def due(self) -> list[tuple[Key, RequestedFetch]]:
        """Return the partitions to check, in the session's order, and forget earlier changes."""
        self.changed.clear()
        found = [(each.key, each.wanted) for each in self.active]
        if len(found) > 1:
            found.sort(key=_turn)
        return found

    def take_changed(self) -> list[Watch]:
        """Return the partitions that have changed since the last call, and forget them."""
        changed = list(self.changed)
        self.changed.clear()
        return changed


def _turn(item: tuple[Key, RequestedFetch]) -> int:
    return item[1].turn
