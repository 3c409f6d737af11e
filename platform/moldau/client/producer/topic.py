"""A topic as a producer sees it: its queues, and where records without a key go now."""

from __future__ import annotations

from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.partitioner import Partitioner
from moldau.client.producer.queue import PartitionQueue
from moldau.link.metadata import Topic, TopicPartition


class OutgoingTopic:
    """A topic that a producer writes to."""

    __slots__ = ("_accumulator", "name", "partitioner", "queues", "sticky", "topic", "used_at")

    def __init__(self, topic: Topic, accumulator: Accumulator) -> None:
        self.name = topic.name
        self.topic = topic
        """As metadata had it when they last had it."""
        self.queues: list[PartitionQueue] = []
        """At least one a partition; more, if it was made again with fewer partitions."""
        self.partitioner: Partitioner
        self.sticky: PartitionQueue
        """Where records without a key go; the partitioner's choice."""
        self.used_at = 0.0
        self._accumulator = accumulator
        self._keep(topic)

    def choose_by(self, partitioner: Partitioner) -> None:
        """From now on. Its queues are there: it may have asked `waiting` while it was made."""
        self.partitioner = partitioner
        self.sticky = self.queues[partitioner.sticky]

    @property
    def count(self) -> int:
        """How many partitions it has."""
        return len(self.topic.partitions)

    def update(self, topic: Topic) -> None:
        """The topic's partitions or their leaders have changed. Queues come before the partitioner
        can choose them: another thread may be choosing."""
        self._keep(topic)
        self.partitioner.update(topic)
        self.sticky = self.queues[self.partitioner.sticky]

    def _keep(self, topic: Topic) -> None:
        for index in range(len(self.queues), len(topic.partitions)):
            self.queues.append(self._accumulator.queue(TopicPartition(self.name, index)))
        for queue in self.queues:
            queue.belongs_to(topic.topic_id)
        self.topic = topic

    def forget(self) -> None:
        """Nothing was sent there for long."""
        for queue in self.queues:
            queue.forget()

    def filled(self, queue: PartitionQueue, size_bytes: int) -> None:
        """A partition got so many bytes: records without a key may go elsewhere now."""
        if queue is self.sticky:
            self.partitioner.filled(size_bytes)
            self.sticky = self.queues[self.partitioner.sticky]

    def waiting(self, partition: int) -> int:
        """How many batches wait to be sent there."""
        return self._accumulator.waiting(self.queues[partition])
