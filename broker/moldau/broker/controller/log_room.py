"""Whether this node has a file descriptor left to make a log, within one decision.

If it has none, a topic is rejected when it is requested: once it is in the metadata log, the node
must make all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.controller.topics import Partition
from moldau.broker.log.open_files import refusal_of_logs
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import OpenFiles


class LogRoom:
    """The room for new logs of one request."""

    __slots__ = ("_files", "_node_id")

    def __init__(self, node_id: int, files: OpenFiles | None) -> None:
        """`files` are the open files of the process. None means no limit."""
        self._files = files
        self._node_id = node_id

    def take(self, partitions: Iterable[Partition]) -> None:
        """Raise KafkaError if this node would hold a replica of one of these partitions, and its
        process has no file left to make it."""
        refusal = None if self._files is None else refusal_of_logs(self._files)
        if refusal is not None and any(self._node_id in each.replicas for each in partitions):
            raise KafkaError(ErrorCode.POLICY_VIOLATION, refusal)
