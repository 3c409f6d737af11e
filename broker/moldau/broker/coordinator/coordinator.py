"""A coordinator of one kind on a node: finds the shard of a key, and passes decisions to it.

The number of shards is that of the partitions of the kind's topic; it must not grow, in Kafka
either.

All shards of one coordinator on this node, by partition. They start and end as leadership moves.

Invariant: a shard is here exactly while this node leads its partition, in one leader epoch. After
this node loses the leadership and gets it again, the shard is loaded anew: records behind its old
state may have been truncated meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Generic

from moldau.broker.coordinator.metrics import CoordinatorMetrics
from moldau.broker.coordinator.running_shard import (
    RunningShard,
    ShardServices,
    ShardSettings,
    ShardState,
)
from moldau.broker.coordinator.shard import Decide, S
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import NO_PRODUCER, coordinator_partition

if TYPE_CHECKING:
    from moldau.broker.coordinator.kind import CoordinatorKind
    from moldau.broker.coordinator.parked import OnAnswer
    from moldau.broker.coordinator.running_shard import ShardServices
    from moldau.broker.log.marker import Marker
    from moldau.broker.replication.replicas import Replicas
    from moldau.config import Settings
    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.records import Producer
    from moldau.runtime import Runtime


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


@dataclass(frozen=True, slots=True)
class CoordinatorNode:
    """What coordinators of every kind use of their node."""

    runtime: Runtime
    replicas: Replicas
    log: Logger
    metrics: Registry
    settings: Callable[[], Settings]
    """Returns the broker's current settings."""
    partition_count: Callable[[str], int]
    """Returns the number of partitions of a topic; 0 if it does not exist."""


class Coordinator(Generic[S]):
    """The coordinator of one kind on this node."""

    def __init__(self, kind: CoordinatorKind[S], node: CoordinatorNode) -> None:
        self.kind = kind
        self._node = node
        metrics = CoordinatorMetrics(node.metrics, kind.name)
        services = ShardServices(
            runtime=node.runtime,
            purgatory=node.replicas.purgatory,
            log=node.log,
            schema=kind.schema,
            terms=self._terms,
            metrics=metrics,
            carry_out=kind.carry_out,
        )
        self._known_terms: tuple[Settings, ShardSettings] | None = None
        self._runtime = CoordinatorRuntime(services, node.replicas, kind.make)
        metrics.watch(self._runtime)
        kind.declare(node.metrics, self)

    def _terms(self) -> ShardSettings:
        """Return the values of the settings, cached because every commit calls this."""
        now, known = self._node.settings(), self._known_terms
        if known is None or known[0] is not now:
            known = self._known_terms = now, self.kind.terms(now)
        return known[1]

    # Called by handlers.

    def partition_of(self, key: str) -> int | None:
        """Return the partition of the key; None while the topic does not exist."""
        count = self._node.partition_count(self.kind.schema.topic)
        return coordinator_partition(key, count) if count else None

    def submit(
        self,
        key: str,
        decide: Decide[S],
        on_answer: OnAnswer,
        name: str = "request",
        producer: Producer = NO_PRODUCER,
    ) -> None:
        """Let the key's shard decide. `on_answer` is called once, perhaps before this returns; it
        is the ticket of the decision. `name` is the decision's, for logs and metrics. The
        records belong to the transaction of `producer`."""
        try:
            shell = self._shell_of(key)
        except KafkaError as error:
            on_answer(error)
            return
        shell.run(decide, on_answer, producer, name=name)

    def submit_to(self, index: int, decide: Decide[S], on_answer: OnAnswer, name: str) -> None:
        """Let a shard decide, like `submit`."""
        try:
            shell = self._runtime.shell(index)
        except KafkaError as error:
            on_answer(error)
            return
        shell.run(decide, on_answer, NO_PRODUCER, name=name)

    def gather(
        self, key: str, decide: Decide[S], on_answer: OnAnswer, name: str = "request"
    ) -> None:
        """Decide like `submit`, but the outcome may share a batch with others
        (`RunningShard.gather`)."""
        try:
            shell = self._shell_of(key)
        except KafkaError as error:
            on_answer(error)
            return
        shell.gather(decide, on_answer, name)

    def end_transaction(self, index: int, marker: Marker, on_answer: OnAnswer) -> None:
        """Write the end of a transaction to the log of a shard. `on_answer` is called once."""
        try:
            self._runtime.shell(index).end_transaction(marker, on_answer)
        except KafkaError as error:
            on_answer(error)

    def tables(self) -> Iterator[S]:
        """Yield all shards on this node. Raise KafkaError if one is still loading. A shard that
        could not be loaded is left out."""
        for shell in self._runtime:
            if not shell.is_closed():
                shell.check()
                yield shell.shard

    def loaded(self) -> Iterator[tuple[int, S]]:
        """Yield the loaded shards on this node, by partition."""
        for shell in self._runtime:
            if shell.is_active():
                yield shell.partition.index, shell.shard

    def _shell_of(self, key: str) -> RunningShard[S]:
        index = self.partition_of(key)
        if index is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._runtime.shell(index)

    # Called by the server.

    def elect(self, index: int, leader_epoch: int = 0) -> None:
        """Load the shard of this partition, which this node leads. May be called repeatedly."""
        self._runtime.elect(index, leader_epoch)

    def resign(self, index: int) -> None:
        """Close the shard of this partition, which this node does not lead, or no longer."""
        self._runtime.resign(index)

    def drop_unled(self) -> None:
        """Close the shards that this node no longer leads, after a directory failed."""
        self._runtime.drop_unled()

    def on_topics_changed(self, changed: Collection[str], deleted: Collection[str]) -> None:
        """React to topics that were created, deleted or extended. `deleted` are among `changed`."""
        for shell in self._runtime:
            shell.each(
                lambda shard, now_ms: shard.on_topics_changed(changed, deleted, now_ms), "topics"
            )

    def close(self) -> None:
        """Stop the coordinator. Parked requests are answered with NOT_COORDINATOR."""
        self._runtime.close()
        self.kind.close()
