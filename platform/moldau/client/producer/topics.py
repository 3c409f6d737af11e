"""The topics that a producer writes to: looked up when used, kept up to date, forgotten when idle.

Invariants: a topic in `usual` is known, and its records take the short path. Metadata is not
requested for a topic that was not used for `metadata.max.idle.ms`, whether it was ever found or
not: a request may create it.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.client.base.arguments import name_of
from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.metrics import METADATA_WAIT, ProducerMetrics
from moldau.client.producer.partitioner import Loads, Partitioner
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.sender import Sender
from moldau.client.settings import producer as own_rows
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError, error_from, may_work_later
from moldau.link.cluster import Cluster
from moldau.link.lifetime import ClientClosed
from moldau.link.metadata import Topic, TopicPartition
from moldau.runtime import Runtime


class OutgoingTopic:
    """A topic: its queues, and the queue that records without a key go to now."""

    __slots__ = ("_accumulator", "name", "partitioner", "queues", "sticky", "topic", "used_at")

    def __init__(self, topic: Topic, accumulator: Accumulator) -> None:
        self.name = topic.name
        self.topic = topic
        """The topic as metadata last had it."""
        self.queues: list[PartitionQueue] = []
        """One for each partition, or more, if the topic was created again with fewer partitions."""
        self.partitioner: Partitioner
        self.sticky: PartitionQueue
        """The queue for records without a key; the partitioner's choice."""
        self.used_at = 0.0
        self._accumulator = accumulator
        self._keep(topic)

    def choose_by(self, partitioner: Partitioner) -> None:
        """Use this partitioner. The queues exist already: its constructor may call `waiting`."""
        self.partitioner = partitioner
        self._choose()

    def _choose(self) -> None:
        self.sticky = self.queues[self.partitioner.sticky]
        for queue in self.queues:
            queue.on_filled = self.filled

    @property
    def count(self) -> int:
        """The number of partitions."""
        return len(self.topic.partitions)

    def update(self, topic: Topic) -> None:
        """Apply a change of partitions or leaders. Queues are made before the partitioner can
        choose them: another thread may be choosing."""
        self._keep(topic)
        self.partitioner.update(topic)
        self._choose()

    def _keep(self, topic: Topic) -> None:
        for index in range(len(self.queues), len(topic.partitions)):
            self.queues.append(self._accumulator.queue(TopicPartition(self.name, index)))
        for queue in self.queues:
            queue.belongs_to(topic.topic_id)
        self.topic = topic

    def forget(self) -> None:
        """Note that nothing was sent to the topic for long."""
        for queue in self.queues:
            queue.forget()

    def filled(self, queue: PartitionQueue, size_bytes: int) -> None:
        """Count bytes of a partition: records without a key may go to another one now."""
        if queue is self.sticky:
            self.partitioner.filled(size_bytes)
            self.sticky = self.queues[self.partitioner.sticky]

    def waiting(self, partition: int) -> int:
        """Return how many batches of the partition wait to be sent."""
        return self._accumulator.waiting(self.queues[partition])


class OutgoingTopics:
    """The topics of one producer."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        cluster: Cluster,
        accumulator: Accumulator,
        sender: Sender,
        metrics: ProducerMetrics,
    ) -> None:
        self.ignores_keys = settings[own_rows.partitioner_ignore_keys]
        self.has_short_way = False
        """Whether records of bytes go straight into their batches."""
        self.usual: dict[str, OutgoingTopic] = {}
        self.metadata_at = runtime.clock.monotonic()
        self._known: dict[str, OutgoingTopic] = {}
        self._sought: dict[str, float] = {}
        """The topics that were not found, and when each was last requested."""
        self._settings = settings
        self._random = runtime.random
        self._clock = runtime.clock
        self._cluster = cluster
        self._accumulator = accumulator
        self._sender = sender
        self._metrics = metrics
        self._stuck_s = settings[own_rows.partitioner_availability_timeout_ms] / 1000
        self._idle_s = settings[own_rows.metadata_max_idle_ms] / 1000

    async def of(self, topic: str, partitions: Collection[int]) -> OutgoingTopic:
        """Return the topic, with all of these partitions. Raise KafkaError as `learn`."""
        wanted = max(partitions, default=0)
        return self.find(topic, wanted) or await self.learn(topic, wanted)

    def find(self, name: str, partition: int | None = None) -> OutgoingTopic | None:
        """Return the topic if it is known and has that partition. Call again after each wait: idle
        topics are forgotten."""
        known = self._known.get(name)
        if known is None or (partition or 0) >= known.count:
            return None
        known.used_at = self._clock.monotonic()
        return known

    async def learn(
        self, name: str, partition: int | None = None, until: float | None = None
    ) -> OutgoingTopic:
        """Request the topic, and return it, with that partition if it was added lately. Raise
        KafkaError at `until` (loop time)."""
        name_of(name, "topic")
        self._sender.check_open()
        until = self._sender.patience() if until is None else until
        start_ns = self._clock.monotonic_ns()
        try:
            found = await self._cluster.topic(
                name, partition=partition, timeout_s=self._sender.left_s(until)
            )
        except ClientClosed:
            raise
        except KafkaError as error:
            context = {"topic": name, **error.context}
            if may_work_later(error):  # else there was no wait
                context["setting"] = "max.block.ms"
            raise error_from("Produce", error.code, error.reason, **context) from error
        finally:
            self._metrics.spent(METADATA_WAIT, start_ns)
            self._sought[name] = self._clock.monotonic()
        del self._sought[name]
        self._cluster.watch([name])
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._made(found)
            if self.has_short_way:
                self.usual[name] = known
        elif known.count != len(found.partitions):
            known.update(found)
        known.used_at = self._clock.monotonic()
        return known

    def _made(self, topic: Topic) -> OutgoingTopic:
        made = OutgoingTopic(topic, self._accumulator)
        loads = Loads(made.waiting, self._is_stuck if self._stuck_s > 0 else None)
        size_bytes = max(1, self._accumulator.options.batch_bytes)
        is_adaptive = self._settings[own_rows.partitioner_adaptive]
        made.choose_by(Partitioner(topic, size_bytes, self._random, loads, is_adaptive=is_adaptive))
        return made

    def choose(
        self, known: OutgoingTopic, key: bytes | None, partition: int | None
    ) -> PartitionQueue:
        """Return the queue of a record. Raise KafkaError if its partition does not exist."""
        if partition is None:
            if key is None or self.ignores_keys:
                return known.sticky
            partition = known.partitioner.of_key(key)
        elif not 0 <= partition < known.count:
            self._cluster.metadata.check(TopicPartition(known.name, partition))
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=known.name, partition=partition
            )
        return known.queues[partition]

    def _is_stuck(self, node_id: int) -> bool:
        return self._accumulator.is_stuck(node_id, self._clock.monotonic(), self._stuck_s)

    def metadata_age_s(self) -> float:
        """Return the seconds since metadata came."""
        return self._clock.monotonic() - self.metadata_at

    def on_metadata(self) -> None:
        """Apply new metadata: update topics, and forget idle ones."""
        self.metadata_at = self._clock.monotonic()
        idle_since = self.metadata_at - self._idle_s
        for known in list(self._known.values()):
            found = self._cluster.metadata.topics.get(known.name)
            is_idle = known.used_at < idle_since and not self._sender.waiting
            if is_idle and all(queue.is_empty for queue in known.queues):
                known.forget()
                del self._known[known.name]
                self.usual.pop(known.name, None)
                self._cluster.unwatch([known.name])
            elif found is not None:
                known.update(found)
        for name, sought_at in list(self._sought.items()):
            if sought_at < idle_since:
                del self._sought[name]
                self._cluster.unwatch({name} - self._known.keys())
        self._sender.drain_soon()
