"""Fetch sessions (KIP-227): both sides remember the partitions and send only what changed. Pure.

The session id and epoch of a request define its kind:

| id  | epoch | it is                                                                          |
|-----|-------|--------------------------------------------------------------------------------|
| any | -1    | a fetch without a session; a session of that id ends                           |
| any | 0     | a full fetch that requests a new session; a session of that id ends            |
| n   | > 0   | the next fetch of session n: partitions to add, to change and to forget        |

Invariants:
* An incremental response has a partition if it has records, an error, a diverging epoch or a
  replica to read from instead, or if its high watermark or log start differs from the last
  response. A partition with an error is sent again.
* Partitions are read in the order in which they last had no records: one with records goes to the
  end, so that none starves behind a full one.
* A session of names is never continued with ids, nor the reverse: that is an error.
* An epoch is used once. It shows whether a request is late or repeated; this is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    ForgottenTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from moldau.broker.api.follower_view import FollowerView, Watch

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
TOPIC_IDS_SINCE: Final = 13
_EPOCH_MAX: Final = 2**31 - 1
_NEVER_TOLD: Final = -1

Key: TypeAlias = tuple[str | bytes, int]
"""The topic's name or id, and the partition."""


class RequestedFetch:
    """A partition to read, with the high watermark and log start that the client last received."""

    __slots__ = (
        "asked",
        "high_watermark",
        "is_diverging",
        "known_as",
        "log_start_offset",
        "topic",
        "topic_id",
        "turn",
        "watch",
    )

    turn: int
    """The position in the session's reading order."""
    watch: Watch
    """The partition's watch, in a follower's session after its first fetch."""

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic = topic
        """The name; empty if the request names topics by id."""
        self.topic_id = topic_id
        self.known_as = ""
        """Set while reading: the name that the topic id had. It is kept when the topic is deleted,
        so that the client learns that the topic is gone, or that another topic has its name."""
        self.asked = asked
        self.is_diverging = False
        """Set while reading: the response requires the reader to truncate."""
        self.high_watermark = _NEVER_TOLD
        self.log_start_offset = _NEVER_TOLD

    def __repr__(self) -> str:
        return f"<RequestedFetch {self.topic or self.topic_id.hex()}-{self.asked.partition}>"

    def tell(self, data: PartitionData) -> bool:
        """Whether the response must contain this partition. Remember the marks that the response
        contains."""
        must = bool(data.records) or data.preferred_read_replica >= 0
        if data.high_watermark != self.high_watermark:
            must = True
            self.high_watermark = data.high_watermark
        if data.log_start_offset != self.log_start_offset:
            must = True
            self.log_start_offset = data.log_start_offset
        if data.error_code:
            must = True
            self.high_watermark = _NEVER_TOLD
        return must or self.is_diverging


class FetchSession:
    """The partitions of one reader, in the order of reading."""

    __slots__ = (
        "_turns",
        "created_ms",
        "epoch",
        "evictable_as",
        "is_privileged",
        "partitions",
        "session_id",
        "used_ms",
        "uses_topic_ids",
        "view",
    )

    def __init__(self, session_id: int, partitions: dict[Key, RequestedFetch], now_ms: int) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.uses_topic_ids = False
        self.is_privileged = False
        """Set for a follower, which should not lose its session to a consumer."""
        self.created_ms = self.used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The epoch of the next request."""
        self.evictable_as: EvictionKey | None = None
        """The entry in the cache's order, if the session may be evicted."""
        self.view: FollowerView | None = None
        """In a follower's session: which partitions may have news."""
        self._turns = 0
        for wanted in partitions.values():
            self._go_last(wanted)

    @property
    def eviction_key(self) -> EvictionKey:
        """The order of eviction: sessions with smaller keys go first."""
        return self.is_privileged, len(self.partitions), self.session_id

    def update(self, asked: dict[Key, RequestedFetch], forgotten: Iterable[Key]) -> None:
        """Apply the changes of the next request."""
        partitions, view = self.partitions, self.view
        for key, wanted in asked.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = wanted
                self._go_last(wanted)
                if view is not None:
                    view.add(key, wanted)
            else:
                known.asked = wanted.asked
                if view is not None:
                    view.touch(key)
        for key in forgotten:
            if partitions.pop(key, None) is not None and view is not None:
                view.remove(key)

    def _go_last(self, wanted: RequestedFetch) -> None:
        self._turns += 1
        wanted.turn = self._turns

    def end(self) -> None:
        """End the session: close its view."""
        if self.view is not None:
            self.view.close()

    def select(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows that the response must have. Partitions with records go to the end."""
        partitions = self.partitions
        for row in rows:
            key, wanted, data = row
            if wanted.tell(data):
                if data.records and partitions.get(key) is wanted:
                    del partitions[key]
                    partitions[key] = wanted
                    self._go_last(wanted)
                yield row


EvictionKey: TypeAlias = tuple[bool, int, int]
Row: TypeAlias = tuple[Key, RequestedFetch, PartitionData]
"""A partition of the request, and the response for it."""


def next_epoch(epoch: int) -> int:
    """Return the next epoch. The last one is followed by 1, because 0 would be a full fetch."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def wanted_by(message: FetchRequest, version: int) -> dict[Key, RequestedFetch]:
    """Return the partitions of a request, in its order. If one is named twice, the last counts."""
    wanted: dict[Key, RequestedFetch] = {}
    uses_ids = version >= TOPIC_IDS_SINCE
    for topic in message.topics:
        name, topic_id = topic.topic, topic.topic_id
        of_topic: str | bytes = topic_id if uses_ids else name
        for asked in topic.partitions:
            wanted[of_topic, asked.partition] = RequestedFetch(name, topic_id, asked)
    return wanted


def forgotten_by(topics: Iterable[ForgottenTopic], version: int) -> Iterator[Key]:
    """Yield the partitions that a request removes from the session."""
    for topic in topics:
        of_topic = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic
        for index in topic.partitions:
            yield of_topic, index
