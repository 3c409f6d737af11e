"""All shards of one coordinator on this node, by partition. They start and end as leadership moves.

Invariant: a shard is here exactly while this node leads its partition, in one leader epoch. After
this node loses the leadership and gets it again, the shard is loaded anew: records behind its old
state may have been truncated meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic

from moldau.broker.coordinator.running_shard import RunningShard, ShardState
from moldau.broker.coordinator.shard import S
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.running_shard import ShardServices
    from moldau.broker.replication.replicas import Replicas


class CoordinatorRuntime(Generic[S]):
    """The shards of one kind of coordinator, and so of one log."""

    def __init__(self, services: ShardServices, replicas: Replicas, make: Callable[[], S]) -> None:
        """`make` creates an empty shard."""
        self._services = services
        self._replicas = replicas
        self._make = make
        self._shells: dict[int, RunningShard[S]] = {}
        self._epochs: dict[int, int] = {}
        self._is_closed = False

    def elect(self, index: int, leader_epoch: int = 0) -> None:
        """Load the shard of a partition that this node leads in this epoch. May be repeated."""
        if self._is_closed:
            return
        try:
            partition = self._replicas.partition(self._services.schema.topic, index)
        except KafkaError:  # its directory failed
            self.resign(index)
            return
        known = self._shells.get(index)
        if known is not None:
            is_same = known.partition is partition and self._epochs.get(index) == leader_epoch
            if is_same and known.state is not ShardState.CLOSED:
                return
            known.close()
        self._epochs[index] = leader_epoch
        self._shells[index] = RunningShard(self._services, partition, self._make())

    def resign(self, index: int) -> None:
        """Close the shard of a partition that this node does not lead. Parked requests are answered
        with NOT_COORDINATOR."""
        self._epochs.pop(index, None)
        known = self._shells.pop(index, None)
        if known is not None:
            known.close()

    def drop_unled(self) -> None:
        """Close the shards that this node no longer leads, after replicas went out of service."""
        for index, shell in list(self._shells.items()):
            if not shell.partition.is_leader:
                self.resign(index)

    def shell(self, index: int) -> RunningShard[S]:
        """Return the shard of this partition. Raise NOT_COORDINATOR if it is not on this node."""
        known = self._shells.get(index)
        if known is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return known

    def __iter__(self) -> Iterator[RunningShard[S]]:
        """Iterate over all shards on this node, including those that are loading."""
        return iter(list(self._shells.values()))

    def states(self) -> Iterator[ShardState]:
        """Return the state of each shard on this node."""
        return iter([shell.state for shell in self._shells.values()])

    def close(self) -> None:
        """Stop: close all shards, and load no more."""
        self._is_closed = True
        for index in list(self._shells):
            self.resign(index)
