"""A topic as a producer sees it: its queues, and where records without a key go now."""

from __future__ import annotations

from moldau.client.accumulator import Accumulator
from moldau.client.batches import PartitionQueue
from moldau.client.metadata import Topic, TopicPartition
from moldau.client.partitioner import Partitioner
from moldau.ids import ZERO_UUID


class OutgoingTopic:
    """A topic that a producer writes to."""

    __slots__ = ("_accumulator", "_topic_id", "name", "partitioner", "queues", "sticky", "used_at")

    def __init__(self, topic: Topic, accumulator: Accumulator) -> None:
        self.name = topic.name
        self.queues: list[PartitionQueue] = []
        self.partitioner: Partitioner
        self.sticky: PartitionQueue
        """Where records without a key go; the partitioner's choice."""
        self.used_at = 0.0
        self._accumulator = accumulator
        self._topic_id = topic.topic_id
        self._grow(len(topic.partitions))

    def choose_by(self, partitioner: Partitioner) -> None:
        """From now on. Its queues are there: it may have asked `waiting` while it was made."""
        self.partitioner = partitioner
        self.sticky = self.queues[partitioner.sticky]

    def update(self, topic: Topic) -> None:
        """The topic's partitions or their leaders have changed. Queues come before the partitioner
        can choose them: another thread may be choosing."""
        self._grow(len(topic.partitions))
        if topic.topic_id != self._topic_id:
            if self._topic_id != ZERO_UUID:
                for queue in self.queues:
                    queue.begin_anew()
            self._topic_id = topic.topic_id
        self.partitioner.update(topic)
        self.sticky = self.queues[self.partitioner.sticky]

    def _grow(self, count: int) -> None:
        """Has queues for so many partitions at least."""
        for index in range(len(self.queues), count):
            self.queues.append(self._accumulator.queue(TopicPartition(self.name, index)))

    def filled(self, queue: PartitionQueue, size_bytes: int) -> None:
        """A partition got so many bytes: records without a key may go elsewhere now."""
        if queue is self.sticky:
            self.partitioner.filled(size_bytes)
            self.sticky = self.queues[self.partitioner.sticky]

    def waiting(self, partition: int) -> int:
        """How many batches wait to be sent there."""
        return self._accumulator.waiting(self.queues[partition])
