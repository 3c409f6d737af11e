"""The share partitions and share sessions of a node. Nothing is here before a share fetch comes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.share.partition import SharePartition
from moldau.broker.share.persister import ShareKey
from moldau.broker.share.sessions import SessionKey, ShareSessions, TopicIdPartition
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.share.partition import ShareServices

_SWEPT_AT: Final = 64
"""Share partitions that have ended are dropped whenever there are this many more."""


class SharePartitions:
    """See the module."""

    def __init__(self, services: ShareServices) -> None:
        self.sessions = ShareSessions()
        self.counts = services.share_counts
        self._services = services
        self._known: dict[ShareKey, SharePartition] = {}
        self._swept = 0

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[SharePartition]:
        return iter(self._known.values())

    def get(self, key: ShareKey) -> SharePartition | None:
        """Return a share partition that is not over, or None."""
        known = self._known.get(key)
        if known is None:
            return None
        try:
            known.check()
        except KafkaError:
            del self._known[key]
            return None
        return known

    def find(self, key: ShareKey, partition: Partition) -> SharePartition:
        """Return a share partition that has not ended; it may be loading. One that has ended is
        loaded anew. Raise the error of one that cannot be loaded."""
        known = self.get(key)
        if known is not None and known.is_retired:
            known.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            known = None
        if known is None:
            if not partition.is_leader:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, topic=partition.topic)
            known = SharePartition(self._services, key, partition)
            known.check()
            self._known[key] = known
            if len(self._known) > self._swept + _SWEPT_AT:
                self._sweep()
        return known

    def _sweep(self) -> None:
        for key in list(self._known):
            self.get(key)
        self._swept = len(self._known)

    def release(self, key: SessionKey, places: Iterable[TopicIdPartition]) -> None:
        """Release the records of a member whose session is over. After the last session of a group
        its share partitions end, so that the next ones begin where the stored state says: it may
        have been reset."""
        is_last = not self.sessions.has_group(key.group_id)
        for topic_id, index in places:
            known = self.get(ShareKey(key.group_id, topic_id, index))
            if known is not None:
                known.leave(key.member_id)
        if is_last:
            for place in [each for each in self._known if each.group_id == key.group_id]:
                self._known[place].retire()

    def on_disconnected(self, connection: Hashable) -> None:
        """End the sessions of a connection that has closed."""
        for key in self.sessions.of_connection(connection):
            session = self.sessions.end(key)
            if session is not None:
                self.release(key, session.places)

    def close(self) -> None:
        """End all: the node stops."""
        for known in list(self._known.values()):  # an answer asks for others, and drops ended ones
            known.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._known.clear()
