"""A fetch session with one broker (KIP-227): what it was told once is not told again. No IO.

The first fetch names every partition (epoch 0) and gets a session; each next one (epoch 1, 2, ...)
names only those that are new, have another position, or are no longer wanted, and its answer only
those that have news. The broker forgets sessions when it needs the room, and says so; then all is
told again.

Invariant: `partitions` is what the broker has been told, from the moment a request is made; a
request that failed, or was refused, ends the session.
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


class Wish(NamedTuple):
    """One partition as it is asked for: two that are equal need not be told twice."""

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
class Tell:
    """What the next fetch has to say."""

    session_id: int
    epoch: int
    wishes: Mapping[TopicPartition, Wish]
    forgotten: Mapping[TopicPartition, Uuid]

    @property
    def is_full(self) -> bool:
        """Whether it names all that is wanted, and its answer all that it names."""
        return self.epoch == _FULL


@dataclass(slots=True)
class FetchSession:
    """The session with one broker."""

    session_id: int = NO_SESSION
    epoch: int = _FULL
    partitions: dict[TopicPartition, Wish] = field(default_factory=dict)

    def next(self, wanted: Mapping[TopicPartition, Wish]) -> Tell:
        """What to say so that the broker knows just what is wanted."""
        if self.epoch == _FULL:
            self.partitions = dict(wanted)
            return Tell(self.session_id, _FULL, wanted, {})
        news = {where: wish for where, wish in wanted.items() if self.partitions.get(where) != wish}
        forgotten = {
            where: known.topic_id
            for where, known in self.partitions.items()
            if where not in wanted or wanted[where].topic_id != known.topic_id
        }
        self.partitions = dict(wanted)
        return Tell(self.session_id, self.epoch, news, forgotten)

    def answered(self, session_id: int) -> None:
        """The fetch was answered well; an id of zero says that there is no session."""
        if session_id == NO_SESSION:
            self.end()
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def end(self, *, is_known: bool = False) -> None:
        """All is told again. `is_known`: the broker still has the session, and may drop it."""
        if not is_known:
            self.session_id = NO_SESSION
        self.epoch = _FULL
        self.partitions = {}
