"""A follower's fetch session with one leader (KIP-227): only changes are sent. Pure.

The first fetch names every partition and gets a session. Each next one names the partitions that
are new or fetch from another place, and those to forget. The leader answers with the partitions
that have news.

Invariant: after `next`, this object has the state that the leader has after it reads the request. A
request without an answer ends the session, because it is unknown whether the leader has read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from moldau.ids import Uuid

    Key = tuple[Uuid, int]

NO_SESSION: Final = 0
_FULL: Final = 0
_EPOCH_MAX: Final = 2**31 - 1


class FollowerPosition(NamedTuple):
    """The position from which a partition is fetched. Equal ones need not be sent twice."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int
    bytes_max: int


class FollowerSessionRequest(NamedTuple):
    """The session's part of the next request."""

    session_id: int
    epoch: int
    wishes: Mapping[Key, FollowerPosition]
    forgotten: tuple[Key, ...]


class FollowerSession:
    """A follower's side of the session; see the module."""

    __slots__ = ("_epoch", "_known", "_session_id")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = _FULL
        self._known: dict[Key, FollowerPosition] = {}

    def next(
        self, changed: Mapping[Key, FollowerPosition], gone: Iterable[Key] = ()
    ) -> FollowerSessionRequest:
        """Return the content of the next request, with these changes since the last one. The cost
        depends only on the changes, except for a full fetch."""
        known = self._known
        forgotten = tuple(key for key in gone if known.pop(key, None) is not None)
        news = {key: wish for key, wish in changed.items() if known.get(key) != wish}
        known.update(news)
        if self._epoch == _FULL:
            return FollowerSessionRequest(self._session_id, _FULL, dict(known), ())
        return FollowerSessionRequest(self._session_id, self._epoch, news, forgotten)

    def answered(self, session_id: int) -> None:
        """Note that the leader answered. Session id zero means that it keeps no session."""
        if session_id == NO_SESSION:
            self.end()
            return
        self._session_id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def end(self, *, is_known: bool = False) -> None:
        """End the session: the next request names every partition. `is_known`: the leader may still
        have the session, and drops it with the next request."""
        if not is_known:
            self._session_id = NO_SESSION
        self._epoch = _FULL
