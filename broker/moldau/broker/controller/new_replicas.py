"""The replicas that one decision makes: on which brokers they may be, and whether this node has a
file descriptor left to make its logs.

If it has none, a topic is rejected when it is requested: once it is in the metadata log, the node
must make all of it. What earlier topics of the same request place counts for the later ones, before
any of it is in the image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from moldau.broker.controller.image import Image
from moldau.broker.controller.placement import Candidate
from moldau.broker.controller.topics import Partition
from moldau.broker.log.open_files import refusal_of_logs
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import OpenFiles


class NewReplicas:
    """The new replicas of one request."""

    __slots__ = ("_files", "_image", "_node_id", "_preferred")

    def __init__(self, image: Image, node_id: int, files: OpenFiles | None) -> None:
        """`files` are the open files of the process. None means no limit."""
        self._image = image
        self._files = files
        self._node_id = node_id
        self._preferred = Counter[int]()

    def candidates(self) -> list[Candidate]:
        """Return the brokers that may get new replicas."""
        preferred = self._image.topics.preferred
        return [
            Candidate(
                each.broker_id,
                each.rack,
                not each.is_active,
                preferred[each.broker_id] + self._preferred[each.broker_id],
            )
            for each in self._image.brokers.by_id.values()
            if each.takes_new_replicas
        ]

    def take(self, partitions: Iterable[Partition]) -> None:
        """Count these partitions. Raise KafkaError if this node would hold a replica of one of
        them, and its process has no file left to make it."""
        refusal = None if self._files is None else refusal_of_logs(self._files)
        if refusal is not None and any(self._node_id in each.replicas for each in partitions):
            raise KafkaError(ErrorCode.POLICY_VIOLATION, refusal)
        self._preferred.update(each.preferred_leader for each in partitions)
