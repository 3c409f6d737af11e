"""A fetch session with one broker (KIP-227): each fetch names only what has changed. No IO.

The first fetch names every partition (epoch 0) and opens a session. Each later one (epoch 1, 2,
...) names only partitions that are new, have another position, or are no longer wanted; its
response names only partitions with news. A broker may drop sessions when it needs the room, and
says so; the next fetch then names everything again.

Invariant: `partitions` is what the broker knows, from the moment a request is made. A request that
fails or is rejected ends the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.fetch import FetchPartition

NO_SESSION: Final = 0
_FULL: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class FetchPosition(NamedTuple):
    """A partition as a fetch names it: an equal one need not be sent again in the session."""

    topic_id: Uuid
    offset: int
    leader_epoch: int
    max_bytes: int

    def partition(self, where: TopicPartition) -> FetchPartition:
        return FetchPartition(
            partition=where.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.offset,
            partition_max_bytes=self.max_bytes,
        )


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The contents of the next fetch."""

    session_id: int
    epoch: int
    wishes: Mapping[TopicPartition, FetchPosition]
    forgotten: Mapping[TopicPartition, Uuid]

    @property
    def is_full(self) -> bool:
        """Whether the fetch names all wanted partitions, and its response all of these."""
        return self.epoch == _FULL


@dataclass(slots=True)
class FetchSession:
    """The fetch session with one broker."""

    session_id: int = NO_SESSION
    epoch: int = _FULL
    partitions: dict[TopicPartition, FetchPosition] = field(default_factory=dict)

    def next(self, wanted: Mapping[TopicPartition, FetchPosition]) -> SessionRequest:
        """Return the fetch after which the broker knows exactly the wanted partitions."""
        if self.epoch == _FULL:
            self.partitions = dict(wanted)
            return SessionRequest(self.session_id, _FULL, wanted, {})
        news = {where: wish for where, wish in wanted.items() if self.partitions.get(where) != wish}
        forgotten = {
            where: known.topic_id
            for where, known in self.partitions.items()
            if where not in wanted or wanted[where].topic_id != known.topic_id
        }
        self.partitions = dict(wanted)
        return SessionRequest(self.session_id, self.epoch, news, forgotten)

    def answered(self, session_id: int) -> None:
        """Record a successful response; session id 0 means that the broker opened no session."""
        if session_id == NO_SESSION:
            self.end()
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def end(self, *, is_known: bool = False) -> None:
        """Make the next fetch a full one. With `is_known` the broker can drop the old session."""
        if not is_known:
            self.session_id = NO_SESSION
        self.epoch = _FULL
        self.partitions = {}
