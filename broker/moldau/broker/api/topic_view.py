"""The topics of the metadata image, for programs in this broker's process that show them.

They are those that DescribeTopicPartitions gives a client of the same listener that may describe
every topic, without a request. A program without that right must ask over the wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.listener_view import Identity, ListenerView
from moldau.link.metadata import Partition, Topic

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller import topics as metadata

SLICE_PARTITIONS: Final = 500
"""Of a slice: a millisecond or two of work."""


def topic_slices(node: Node, listener: str) -> Iterator[list[Topic]]:
    """Yield all topics in slices, in the order of their names. Each slice is of its own moment; a
    topic that is created meanwhile is missing."""
    left = deque(node.image.topics.ordered_names())
    while left:
        identity = Identity(node.node_id, node.cluster_id, node.endpoints)
        view = ListenerView(node.image, identity, listener)
        found: list[Topic] = []
        count = 0
        while left and count < SLICE_PARTITIONS:
            topic = view.image.topics.by_name(left.popleft())
            if topic is not None:  # else it was deleted meanwhile
                found.append(_described(view, topic))
                count += len(topic.partitions)
        yield found


def _described(view: ListenerView, topic: metadata.Topic) -> Topic:
    partitions = tuple(
        Partition(
            number,
            view.leader(each),
            each.leader_epoch,
            each.replicas,
            each.isr,
            tuple(view.offline_replicas(each)),
        )
        for number, each in sorted(topic.partitions.items())
    )
    return Topic(topic.name, topic.topic_id, partitions, is_internal(topic.name))
