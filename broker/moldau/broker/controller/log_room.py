"""The number of new replicas that this node has file descriptors for, within one decision.

A topic that needs more is rejected when it is requested: once it is in the metadata log, the node
must open all of it at each start.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.controller.image import Image
from moldau.broker.controller.topics import Partition
from moldau.broker.log.open_files import refusal_of_logs
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import OpenFiles


class LogRoom:
    """The room for new logs of one request. Its topics take their part one after the other."""

    __slots__ = ("_files", "_logs", "_node_id", "_taken")

    def __init__(self, image: Image, node_id: int, files: OpenFiles | None) -> None:
        """`files` are the open files of the process. None means no limit."""
        self._files = files
        self._node_id = node_id
        self._logs = 0 if files is None else _replicas_on(image, node_id)
        self._taken = 0

    def take(self, partitions: Iterable[Partition]) -> None:
        """Take room for these partitions. Raise KafkaError if this node would hold too many of
        their replicas."""
        if self._files is None:
            return
        more = sum(self._node_id in each.replicas for each in partitions)
        refusal = refusal_of_logs(self._files, self._logs, self._taken + more)
        if more and refusal is not None:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, refusal)
        self._taken += more


def _replicas_on(image: Image, node_id: int) -> int:
    topics = image.topics.by_id.values()
    if len(image.brokers.by_id) == 1:  # the common case, and fast
        return sum(len(topic.partitions) for topic in topics)
    return sum(
        node_id in partition.replicas for topic in topics for partition in topic.partitions.values()
    )
