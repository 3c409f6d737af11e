"""Fetches: what they name, how many bytes they may bring, and their requests. No IO.

A session with one broker (KIP-227): the first fetch names every partition (epoch 0) and opens it.
Each later one (epoch 1, 2, ...) names only partitions that are new, have another position, or are
no longer wanted; its response names only partitions with news. A broker may drop sessions when it
needs the room, and says so; the next fetch then names everything again.

Invariants: `FetchSession.partitions` is what the broker knows, from the moment a request is made. A
request that fails or is rejected ends the session. Buffered bytes plus the bytes of pending fetches
are at most `memory_bytes`, whatever the number of brokers; but a broker returns at least one batch
however small the limit, so one batch a broker may come on top. Brokers share the room evenly: one
with nothing new, which delays its response, does not block fetches from the others. If there is not
room for all, a broker that was passed over comes first the next time.

A fetch waits at the broker for new records only if it names every partition that is read there:
otherwise a partition whose records were just taken would wait for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from moldau.client.consumer.position import Position, RequestedPosition
from moldau.client.settings import consumer as rows
from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import Metadata, Speaker, TopicPartition
from moldau.protocol.messages import fetch as fetching

NO_SESSION: Final = 0
_FULL: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_NEWEST_WITH_NAMES: Final = 12
_LEAST: Final = 1

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

    def partition(self, where: TopicPartition) -> fetching.FetchPartition:
        return fetching.FetchPartition(
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


@dataclass(slots=True)
class FetchSession:
    """The fetch session with one broker."""

    session_id: int = NO_SESSION
    epoch: int = _FULL
    partitions: dict[TopicPartition, FetchPosition] = field(default_factory=dict)
    names_all: bool = True
    """Whether the response to the pending fetch names all wanted partitions."""

    def next(self, wanted: Mapping[TopicPartition, FetchPosition]) -> SessionRequest:
        """Return the fetch after which the broker knows exactly the wanted partitions."""
        self.names_all = self.epoch == _FULL
        known, self.partitions = self.partitions, dict(wanted)
        if self.names_all:
            return SessionRequest(self.session_id, _FULL, wanted, {})
        news = {where: wish for where, wish in wanted.items() if known.get(where) != wish}
        forgotten = {
            where: each.topic_id
            for where, each in known.items()
            if where not in wanted or wanted[where].topic_id != each.topic_id
        }
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


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch to send to one broker."""

    node_id: int
    session: FetchSession
    requested: list[RequestedPosition]
    max_bytes: int
    may_wait: bool
    """Whether the broker may wait for new records: the fetch names all that is read there."""

    def request(
        self, speaker: Speaker, metadata: Metadata, settings: Settings
    ) -> tuple[fetching.FetchRequest, int]:
        """Return the request and its version: by topic id if all topics have one, else by name."""
        partition_bytes = settings[rows.max_partition_fetch_bytes]
        wanted = {each.where: _wish(each, metadata, partition_bytes) for each in self.requested}
        names_some = any(wish.topic_id == ZERO_UUID for wish in wanted.values())
        version = speaker.version_of(
            fetching.FetchRequest, at_most=_NEWEST_WITH_NAMES if names_some else None
        )
        if version <= _NEWEST_WITH_NAMES:
            wanted = {where: wish._replace(topic_id=ZERO_UUID) for where, wish in wanted.items()}
        session = self.session
        known = session.partitions.values()
        if any((wish.topic_id == ZERO_UUID) != (version <= _NEWEST_WITH_NAMES) for wish in known):
            session.end(is_known=True)  # a session uses either names or ids, not both
        named = session.next(wanted)
        request = fetching.FetchRequest(
            max_wait_ms=settings[rows.fetch_max_wait_ms] if self.may_wait else 0,
            min_bytes=settings[rows.fetch_min_bytes],
            max_bytes=self.max_bytes,
            isolation_level=int(settings[rows.isolation_level] == "read_committed"),
            session_id=named.session_id,
            session_epoch=named.epoch,
            topics=_topics(named.wishes),
            forgotten_topics_data=_forgotten(named.forgotten),
            rack_id=settings[rows.client_rack],
        )
        return request, version


class FetchRoom:
    """The fetch memory of one consumer, divided among brokers."""

    def __init__(self, memory_bytes: int, fetch_bytes: int, partition_bytes: int) -> None:
        """Limit memory, each fetch, and each partition of a fetch to these numbers of bytes."""
        self.memory_bytes = memory_bytes
        self._fetch_bytes = fetch_bytes
        self._partition_bytes = max(_LEAST, partition_bytes)
        self._asked: dict[int, int] = {}
        self._passed_over: dict[int, None] = {}
        """Brokers that were passed over for lack of room, the longest waiting first."""

    @property
    def asked_bytes(self) -> int:
        """The bytes that pending fetches may bring."""
        return sum(self._asked.values())

    def in_turn(self, nodes: Iterable[int]) -> list[int]:
        """Return these brokers in the order in which to fetch from them."""
        places = {each: place for place, each in enumerate(self._passed_over)}
        return sorted(nodes, key=lambda each: places.get(each, len(places)))

    def ask(self, node_id: int, partitions: int, buffered: int, brokers: int) -> int:
        """Return how many bytes to request from a broker, and reserve them until `answered`; 0 if
        there is no room now. `brokers` is the number of brokers to fetch from, `buffered` the bytes
        held. Do not call while the buffers alone fill the memory."""
        left = self.memory_bytes - buffered - self.asked_bytes
        if left <= 0 and self._asked:
            self._passed_over.setdefault(node_id)
            return 0
        self._passed_over.pop(node_id, None)
        share = self.memory_bytes // max(1, brokers)
        of_what_is_left = left // max(1, brokers - len(self._asked))
        room = min(share, max(_LEAST, of_what_is_left))
        wanted = min(self._fetch_bytes, partitions * self._partition_bytes, room)
        self._asked[node_id] = max(_LEAST, wanted)
        return self._asked[node_id]

    def answered(self, node_id: int) -> None:
        """Release the broker's reservation: its response is counted as buffered now."""
        self._asked.pop(node_id, None)


class BrokerFetches:
    """The fetches of one consumer: which brokers may be asked, and for how much."""

    def __init__(self, room: FetchRoom) -> None:
        self._room = room
        self._sessions: dict[int, FetchSession] = {}
        self._pending: set[int] = set()
        self.had_nothing: set[int] = set()
        """Brokers whose last response had nothing new of the partitions with room for more, and
        from which nothing was taken since."""

    @property
    def memory_bytes(self) -> int:
        """How many bytes may be buffered."""
        return self._room.memory_bytes

    @property
    def pending(self) -> frozenset[int]:
        """The brokers with a pending fetch."""
        return frozenset(self._pending)

    def to_send(
        self,
        wanted: Mapping[int, list[Position]],
        full: set[int],
        awaited: set[int],
        buffered: int,
    ) -> list[Fetch]:
        """Return a fetch for each broker that has none pending and has positions to fetch. From one
        with `full` partitions and no news of the others nothing is wanted: the next take makes room
        there. Leave room for partitions that are looked up, at brokers in `awaited`."""
        brokers = len(wanted.keys() | self._pending | awaited)
        found = []
        for node_id in self._room.in_turn(wanted):
            if node_id in self._pending or node_id in full & self.had_nothing:
                continue
            some = wanted[node_id]
            max_bytes = self._room.ask(node_id, len(some), buffered, brokers)
            if not max_bytes:
                continue  # the next response, or records taken, will make room
            self._pending.add(node_id)
            session = self._sessions.get(node_id)
            if session is None:
                session = self._sessions[node_id] = FetchSession()
            requested = [each.requested() for each in some]
            found.append(Fetch(node_id, session, requested, max_bytes, node_id not in full))
        return found

    def on_connecting(self, node_id: int) -> None:
        """A fetch waits for a connection, and is made anew then (`on_connected`)."""
        self._room.answered(node_id)
        self._sessions.pop(node_id, None)

    def on_connected(self, node_id: int) -> None:
        """The broker may be fetched from, or tried again."""
        self._pending.discard(node_id)

    def on_answered(self, fetch: Fetch, *, is_lost: bool) -> None:
        """A fetch has ended. If it was not sent, or has no response, its session is lost."""
        self._pending.discard(fetch.node_id)
        self._room.answered(fetch.node_id)
        if is_lost:
            self._sessions.pop(fetch.node_id, None)

    def on_data(self, node_id: int, *, has_data: bool) -> None:
        """A broker has responded with records, or without."""
        (self.had_nothing.discard if has_data else self.had_nothing.add)(node_id)


def _wish(each: RequestedPosition, metadata: Metadata, max_bytes: int) -> FetchPosition:
    known = metadata.partition(each.where)
    topic = metadata.topics.get(each.where.topic)
    topic_id = ZERO_UUID if topic is None else topic.topic_id
    return FetchPosition(
        topic_id, each.offset, -1 if known is None else known.leader_epoch, max_bytes
    )


def _topics(wishes: Mapping[TopicPartition, FetchPosition]) -> list[fetching.FetchTopic]:
    by_topic: dict[tuple[str, Uuid], list[fetching.FetchPartition]] = {}
    for where, wish in wishes.items():
        by_topic.setdefault((where.topic, wish.topic_id), []).append(wish.partition(where))
    return [
        fetching.FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in by_topic.items()
    ]


def _forgotten(forgotten: Mapping[TopicPartition, Uuid]) -> list[fetching.ForgottenTopic]:
    by_topic: dict[tuple[str, Uuid], list[int]] = {}
    for where, topic_id in forgotten.items():
        by_topic.setdefault((where.topic, topic_id), []).append(where.partition)
    return [
        fetching.ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in by_topic.items()
    ]


def bytes_of(response: fetching.FetchResponse) -> int:
    """Return the bytes of records in the response."""
    return sum(
        len(data.records)
        for topic in response.responses
        for data in topic.partitions
        if data.records
    )


def partitions_of(
    response: fetching.FetchResponse, metadata: Metadata
) -> dict[TopicPartition, fetching.PartitionData]:
    """Return the response's partitions by name."""
    return {
        TopicPartition(name, data.partition_index): data
        for topic in response.responses
        for name in (topic.topic or metadata.name_of(topic.topic_id) or "",)
        for data in topic.partitions
    }
