"""The set of things that committed metadata records change, so that only these are applied again.

Invariant: it contains everything that differs between the images before and after the records. It
may also contain things that do not differ; that does no harm. The records of a metadata transaction
count when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.broker.controller.configs import Resource
from moldau.broker.controller.image import Image
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)


class RemovedTopic(NamedTuple):
    """A deleted topic, and the partitions that it had."""

    name: str
    topic_id: Uuid
    partitions: tuple[int, ...]


@dataclass(slots=True)
class Changes:
    """The changed things, each once, in the order of their first record."""

    partitions: dict[tuple[Uuid, int], bool] = field(default_factory=dict)
    """Maps each changed partition to whether it is new: created by these records."""
    removed: list[RemovedTopic] = field(default_factory=list)
    resources: dict[Resource, None] = field(default_factory=dict)

    def replay(self, image: Image, records: Iterable[MetadataRecord]) -> None:
        """Apply the records to `image`, and note what they change."""
        for record in records:
            self._note(image, record)
            image.replay(record)

    def _note(self, image: Image, record: MetadataRecord) -> None:
        match record:
            case PartitionRecord():
                self.partitions[record.topic_id, record.partition_id] = True
            case PartitionChangeRecord():
                self.partitions.setdefault((record.topic_id, record.partition_id), False)
            case ConfigRecord():
                self.resources[Resource(record.resource_type, record.resource_name)] = None
            case RemoveTopicRecord():
                topic = image.topics.by_id.get(record.topic_id)
                if topic is not None:
                    partitions = tuple(topic.partitions)
                    self.removed.append(RemovedTopic(topic.name, topic.topic_id, partitions))
