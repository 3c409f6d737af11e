"""How many more replicas this node has files for, in one decision.

A topic that is more than that is refused while it is only a wish: once it is in the metadata log,
the node has to open all of it at each start.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.controller.image import Image
from moldau.broker.controller.topics import Partition
from moldau.broker.log.open_files import refusal_of_logs
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import OpenFiles


class LogRoom:
    """Made for one request; topics take their part of it one after the other."""

    __slots__ = ("_files", "_logs", "_node_id", "_taken")

    def __init__(self, image: Image, node_id: int, files: OpenFiles | None) -> None:
        """`files` are those of the process; None: nothing limits them."""
        self._files = files
        self._node_id = node_id
        self._logs = 0 if files is None else _replicas_on(image, node_id)
        self._taken = 0

    def take(self, partitions: Iterable[Partition]) -> None:
        """KafkaError when those of their replicas that this node would hold are too many."""
        if self._files is None:
            return
        more = sum(self._node_id in each.replicas for each in partitions)
        refusal = refusal_of_logs(self._files, self._logs, self._taken + more)
        if more and refusal is not None:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, refusal)
        self._taken += more


def _replicas_on(image: Image, node_id: int) -> int:
    topics = image.topics.by_id.values()
    if len(image.brokers.by_id) == 1:  # usual, and quick
        return sum(len(topic.partitions) for topic in topics)
    return sum(
        node_id in partition.replicas for topic in topics for partition in topic.partitions.values()
    )
