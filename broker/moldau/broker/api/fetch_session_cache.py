"""All fetch sessions of a node, up to a maximum, and the meaning of each fetch for them. Pure.

If there is no room for a new session, one is evicted (KIP-227):
1. the least recently used one, if it was not used for more than two minutes;
2. else the smallest of the sessions that are older than two minutes, if it is smaller than the new
   one. A follower's session is evicted after all others. For a follower's new session even a young
   session of a consumer may be evicted;
3. else none, and the new fetch gets no session.

Invariants: `sessions` is in the order of last use. The two lists of evictable sessions are sorted,
and the place of a session in them is that of its size when it was last used.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.broker.api.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_SINCE,
    EvictionKey,
    FetchSession,
    Key,
    RequestedFetch,
    Row,
    forgotten_by,
    next_epoch,
    wanted_by,
)
from moldau.broker.api.follower_view import FollowerView
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from random import Random

    from moldau.broker.replication.purgatory import Purgatory

EVICTION_MS: Final = 120_000
_ID_MAX: Final = 2**31 - 1


class FetchContext:
    """The partitions of one fetch, and its effect on the session. Used for one request only."""

    __slots__ = ("_epoch", "_is_privileged", "_session", "_sessions", "_uses_topic_ids", "wanted")

    def __init__(
        self,
        wanted: dict[Key, RequestedFetch],
        sessions: FetchSessions | None,
        session: FetchSession | None,
    ) -> None:
        self.wanted = wanted
        """In the order of reading. Must not be changed or kept, because the session continues."""
        self._sessions = sessions
        self._session = session
        self._epoch = FINAL_EPOCH if session is None else session.epoch
        self._uses_topic_ids = False
        self._is_privileged = False

    @property
    def is_superseded(self) -> bool:
        """Whether the session has continued with a later request."""
        return self._session is not None and self._session.epoch != self._epoch

    @property
    def begins_session(self) -> bool:
        """Whether the response will begin a session: one is asked for, and there is room."""
        return self._sessions is not None and self._sessions.has_room

    def view(
        self, replica_id: int, replica_epoch: int, purgatory: Purgatory
    ) -> FollowerView | None:
        """Return a follower's view of its session; None for a fetch that does not continue one."""
        session = self._session
        if session is None:
            return None
        view = session.view
        if view is None or view.replica_id != replica_id or view.replica_epoch != replica_epoch:
            if view is not None:
                view.close()
            view = FollowerView(session.partitions, replica_id, replica_epoch, purgatory)
            session.view = view
        return view

    def hold(self) -> int:
        """Return the session id for a response without any rows, after which the client asks for
        the same again. Raise KafkaError as `conclude`."""
        session = self._session
        if session is None:
            return NO_SESSION
        if session.epoch != self._epoch:
            raise _wrong_epoch(session, self._epoch)
        return session.session_id

    def conclude(self, rows: list[Row], now_ms: int) -> tuple[int, Iterable[Row]]:
        """Return the session id and the rows of the response. Raise KafkaError if the session has
        continued meanwhile, which happens only if a client does not wait for its response."""
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                raise _wrong_epoch(session, self._epoch)
            return session.session_id, session.select(rows)
        if self._sessions is None:
            return NO_SESSION, rows
        for _, wanted, data in rows:
            wanted.tell(data)
        session_id = self._sessions.create(
            self.wanted,
            now_ms,
            uses_topic_ids=self._uses_topic_ids,
            is_privileged=self._is_privileged,
        )
        return session_id, rows


class FetchSessions:
    """The cache of sessions."""

    def __init__(self, slots: int, random: Random) -> None:
        self.slots = slots
        self.sessions: dict[int, FetchSession] = {}
        self._random = random
        self._evictable_by_all: list[EvictionKey] = []
        self._evictable_by_privileged: list[EvictionKey] = []

    def __len__(self) -> int:
        return len(self.sessions)

    @property
    def has_room(self) -> bool:
        """Whether a session can be created without evicting another one."""
        return len(self.sessions) < self.slots

    def begin(
        self, message: FetchRequest, version: int, now_ms: int, *, is_follower: bool = False
    ) -> FetchContext:
        """Begin a fetch: start, continue or end its session. Raise KafkaError if the request is not
        the next one of its session."""
        epoch = message.session_epoch
        session_id = message.session_id
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION:
                self._remove(session_id)
            wanted = wanted_by(message, version)
            if epoch == FINAL_EPOCH:
                return FetchContext(wanted, None, None)
            context = FetchContext(wanted, self, None)
            context._uses_topic_ids = version >= TOPIC_IDS_SINCE
            context._is_privileged = is_follower
            return context
        session = self._next_of(session_id, epoch, version)
        session.update(
            wanted_by(message, version), forgotten_by(message.forgotten_topics_data, version)
        )
        if not session.partitions:
            self._remove(session_id)
            return FetchContext({}, None, None)
        session.epoch = next_epoch(epoch)
        self._touch(session, now_ms)
        return FetchContext(session.partitions, None, session)

    def _next_of(self, session_id: int, epoch: int, version: int) -> FetchSession:
        session = self.sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=session_id)
        if session.epoch != epoch:
            raise _wrong_epoch(session, epoch)
        if session.uses_topic_ids != (version >= TOPIC_IDS_SINCE):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, session_id=session_id)
        return session

    def create(
        self,
        partitions: dict[Key, RequestedFetch],
        now_ms: int,
        *,
        uses_topic_ids: bool = False,
        is_privileged: bool = False,
    ) -> int:
        """Create a session and return its id; NO_SESSION if there is no room for it."""
        if len(self.sessions) >= self.slots and not self._make_room(
            (is_privileged, len(partitions), 0), now_ms
        ):
            return NO_SESSION
        session_id = self._random.randint(1, _ID_MAX)
        while session_id in self.sessions:
            session_id = self._random.randint(1, _ID_MAX)
        session = self.sessions[session_id] = FetchSession(session_id, partitions, now_ms)
        session.uses_topic_ids = uses_topic_ids
        session.is_privileged = is_privileged
        self._touch(session, now_ms)
        return session_id

    def _make_room(self, newcomer: EvictionKey, now_ms: int) -> bool:
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._remove(oldest.session_id)
            return True
        order = self._evictable_by_privileged if newcomer[0] else self._evictable_by_all
        if not order or newcomer < order[0]:
            return False
        self._remove(order[0][2])
        return True

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Note a use: move the session to the end of the order of use,
        and to its place in the order of eviction."""
        sessions = self.sessions
        del sessions[session.session_id]
        sessions[session.session_id] = session
        session.used_ms = now_ms
        is_old = now_ms - session.created_ms > EVICTION_MS
        key = session.eviction_key
        if session.evictable_as is not None:
            if session.evictable_as == key and is_old == _holds(self._evictable_by_all, key):
                return
            self._forget_place(session)
        if not session.is_privileged or is_old:
            session.evictable_as = key
            insort(self._evictable_by_privileged, key)
            if is_old:
                insort(self._evictable_by_all, key)

    def _remove(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._forget_place(session)
            session.end()

    def _forget_place(self, session: FetchSession) -> None:
        key = session.evictable_as
        session.evictable_as = None
        if key is not None:
            for order in (self._evictable_by_privileged, self._evictable_by_all):
                if _holds(order, key):
                    del order[bisect_left(order, key)]


def _wrong_epoch(session: FetchSession, epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        session_id=session.session_id,
        epoch=epoch,
        expected=session.epoch,
    )


def _holds(order: list[EvictionKey], key: EvictionKey) -> bool:
    at = bisect_left(order, key)
    return at < len(order) and order[at] == key
