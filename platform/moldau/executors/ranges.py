"""Read ranges of offsets with the consumer that this worker keeps for equal settings.

Of a partition that goes on, the consumer keeps what it has fetched in advance, paused; the next
range of it goes on there.

Invariant: no record is of another topic than its range, if the caller asks `other_topics` before it
uses what a poll gave: a topic may be deleted and made again after a range was planned, or after the
consumer last read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from moldau.client import PartitionColumns, TopicPartition
from moldau.client.sync import Consumer
from moldau.executors.clients import cached_client
from moldau.ids import ZERO_UUID, format_uuid

POLL_S: Final = 0.2
_DEFAULTS: Final = {
    "max.partition.fetch.bytes": "4194304",
    # The fetch under way when a range ends holds up the next range, and most ranges end where the
    # log does.
    "fetch.max.wait.ms": "5",
    "allow.auto.create.topics": "false",
}
_FORCED: Final = {"auto.offset.reset": "none", "enable.auto.commit": "false"}
_GROUP_SETTINGS: Final = ("group.id", "group.instance.id")
"""A task does not use these settings: Spark assigns its partitions, and it joins no group."""


class RangeConsumer:
    """This worker's consumer at the partitions of one task, from `seek` to `release`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        topic_ids: Mapping[TopicPartition, str],
        on_start: Callable[[], object],
    ) -> None:
        """`topic_ids` has the partitions of the task, and the id of each topic, "" if it is not
        known. `on_start` is called after the start of a new consumer."""
        own = {name: text for name, text in settings.items() if name not in _GROUP_SETTINGS}
        self._settings = {**_DEFAULTS, **own, **_FORCED}
        self._topic_ids = topic_ids
        self._on_start = on_start
        self.consumer = self._cached()

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets. Records that were fetched in advance stay if they begin there and
        are of the same topic."""
        self.consumer = self._cached()
        if self.other_topics():
            self.consumer.close()
            self.consumer = self._cached()
        consumer, own = self.consumer, list(self._topic_ids)
        others = [each for each in consumer.assignment if each not in self._topic_ids]
        if len(others) + len(own) > len(consumer.assignment):
            consumer.assign([*others, *own])
        consumer.resume(own)
        for where, offset in positions.items():
            if consumer.position(where) != offset:
                consumer.seek(where, offset)

    def poll(
        self, partitions: Sequence[TopicPartition], records_max: int
    ) -> list[PartitionColumns]:
        """Return the next records of these partitions, as columns. Raise KafkaError."""
        return self.consumer.poll_batches(POLL_S, max_records=records_max, partitions=partitions)

    def other_topics(self) -> list[str]:
        """Return the topics that the consumer knows by other ids than the ranges, as far as both
        are known."""
        known = self.consumer.topic_ids(list(self._topic_ids))
        return [
            where.topic
            for where, topic_id in self._topic_ids.items()
            if known[where] != ZERO_UUID and topic_id not in ("", format_uuid(known[where]))
        ]

    def release(self, kept_max: int, ended: Collection[TopicPartition] = ()) -> None:
        """Stop fetching. Keep what was fetched in advance of the last `kept_max` partitions, but
        not of those that have `ended`."""
        consumer = self.consumer
        if consumer.is_over:
            return
        kept = [where for where in consumer.assignment if where not in ended][-kept_max:]
        if len(kept) < len(consumer.assignment):
            consumer.assign(kept)
        consumer.pause(kept)

    def _cached(self) -> Consumer[Any, Any]:
        return cached_client(Consumer, self._settings, self._on_start)
