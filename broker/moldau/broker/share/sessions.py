"""Share sessions: the partitions that a member reads here, so that a request names only changes.
Pure.

A session is of one member of one group, and of one connection: when that closes, the member's
records are released. Epoch 0 begins a session, -1 ends it, and each request in between has the next
epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple, TypeAlias

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1

TopicIdPartition: TypeAlias = "tuple[Uuid, int]"
"""A topic's id and a partition."""


class SessionKey(NamedTuple):
    """The member that a session is of."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions of one member, in the order in which they are read."""

    __slots__ = ("connection", "epoch", "places")

    def __init__(self, places: Iterable[TopicIdPartition], connection: Hashable) -> None:
        self.places: dict[TopicIdPartition, None] = dict.fromkeys(places)
        self.epoch = INITIAL_EPOCH + 1
        """The epoch of the next request."""
        self.connection = connection


class ShareSessions:
    """The sessions of a node."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[Hashable, dict[SessionKey, None]] = {}
        self._counts: Counter[str] = Counter()
        """How many sessions each group has."""

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return group_id in self._counts

    def begin(
        self, key: SessionKey, places: Iterable[TopicIdPartition], connection: Hashable, limit: int
    ) -> ShareSession:
        """Begin a session; one that the member had ends. Raise SHARE_SESSION_LIMIT_REACHED if there
        are too many."""
        self.end(key)
        if len(self._sessions) >= limit:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, sessions=limit)
        session = self._sessions[key] = ShareSession(places, connection)
        self._counts[key.group_id] += 1
        self._by_connection.setdefault(connection, {})[key] = None
        return session

    def existing(self, key: SessionKey) -> ShareSession:
        """Return the session of a member. Raise SHARE_SESSION_NOT_FOUND if it has none."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, member=key.member_id)
        return session

    def next(
        self,
        key: SessionKey,
        epoch: int,
        added: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
    ) -> ShareSession:
        """Continue a session with the next request, and apply its changes. Raise
        INVALID_SHARE_SESSION_EPOCH for any other request."""
        session = self._sessions.get(key) or self.existing(key)
        if session.epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, epoch=epoch, expected=session.epoch
            )
        for place in added:
            session.places.setdefault(place)
        for place in forgotten:
            session.places.pop(place, None)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1  # KIP-932: never 0 again
        return session

    def end(self, key: SessionKey) -> ShareSession | None:
        """End the session of a member, if it has one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._counts[key.group_id] -= 1
            if not self._counts[key.group_id]:
                del self._counts[key.group_id]
            keys = self._by_connection.get(session.connection)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._by_connection[session.connection]
        return session

    def of_connection(self, connection: Hashable) -> tuple[SessionKey, ...]:
        """Return the keys of the sessions of a connection."""
        return tuple(self._by_connection.get(connection, ()))
