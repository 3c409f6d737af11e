"""Fetch requests from positions, and the effects of their responses on each partition. No IO.

A `Told` travels with each request: the requested partitions, and whether the response names them
all (a full fetch) or only those with news (in a session, see `fetch_session`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.client.consumer.fetch_session import SESSION_ERRORS, FetchPosition, FetchSession
from moldau.client.consumer.position import Asked, Position
from moldau.client.consumer.positions import Positions
from moldau.client.settings import consumer as rows
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.addresses import Address
from moldau.link.metadata import Metadata, TopicPartition
from moldau.link.speech import Listener, Speaker
from moldau.protocol.messages import fetch as fetching

_NEWEST_WITH_NAMES: Final = 12


@dataclass(frozen=True, slots=True)
class Told:
    """What a pending fetch requested."""

    session: FetchSession
    asked: list[Asked]
    is_full: bool


def fetch_request(
    speaker: Speaker,
    session: FetchSession,
    positions: list[Position],
    metadata: Metadata,
    settings: Settings,
) -> tuple[fetching.FetchRequest, int, Told]:
    """Return the request and its version: by topic id if all topics have one, else by name."""
    wanted = {each.where: _wish(each, metadata, settings) for each in positions}
    names_some = any(wish.topic_id == ZERO_UUID for wish in wanted.values())
    version = speaker.version_of(
        fetching.FetchRequest, at_most=_NEWEST_WITH_NAMES if names_some else None
    )
    if version <= _NEWEST_WITH_NAMES:
        wanted = {where: wish._replace(topic_id=ZERO_UUID) for where, wish in wanted.items()}
    known = session.partitions.values()
    if any((wish.topic_id == ZERO_UUID) != (version <= _NEWEST_WITH_NAMES) for wish in known):
        session.end(is_known=True)  # a session uses either names or ids, not both
    tell = session.next(wanted)
    request = fetching.FetchRequest(
        max_wait_ms=settings[rows.fetch_max_wait_ms],
        min_bytes=settings[rows.fetch_min_bytes],
        max_bytes=settings[rows.fetch_max_bytes],
        isolation_level=int(settings[rows.isolation_level] == "read_committed"),
        session_id=tell.session_id,
        session_epoch=tell.epoch,
        topics=_topics(tell.wishes),
        forgotten_topics_data=_forgotten(tell.forgotten),
        rack_id=settings[rows.client_rack],
    )
    return request, version, Told(session, [each.asked() for each in positions], tell.is_full)


def _wish(position: Position, metadata: Metadata, settings: Settings) -> FetchPosition:
    known = metadata.partition(position.where)
    topic = metadata.topics.get(position.where.topic)
    return FetchPosition(
        ZERO_UUID if topic is None else topic.topic_id,
        position.fetch_offset,
        -1 if known is None else known.leader_epoch,
        settings[rows.max_partition_fetch_bytes],
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


def settle_fetch(
    response: fetching.FetchResponse,
    told: Told,
    positions: Positions,
    listener: Listener,
    now_and_isolation: tuple[float, bool],
) -> None:
    """Apply the response to each requested partition."""
    now, is_committed = now_and_isolation
    metadata = listener.metadata
    if response.error_code:
        _refused(response.error_code, told, positions, listener, now)
        return
    told.session.answered(response.session_id)
    answered: dict[TopicPartition, fetching.PartitionData] = {}
    for topic in response.responses:
        name = topic.topic or metadata.name_of(topic.topic_id) or ""
        for data in topic.partitions:
            answered[TopicPartition(name, data.partition_index)] = data
    addresses = {each.node_id: Address(each.host, each.port) for each in response.node_endpoints}
    for each in told.asked:
        found = answered.get(each.where)
        if found is None and not told.is_full:
            continue
        if found is not None and not found.error_code:
            positions.arrived(each, found, is_committed=is_committed, now=now)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_ID if found is None else found.error_code
        error = KafkaError(code, **each.where._asdict())
        leader = None if found is None else found.current_leader
        if leader is None or not metadata.moved(
            each.where, leader.leader_id, leader.leader_epoch, addresses.get(leader.leader_id)
        ):
            listener.note(error)
        positions.refused(each, error, now)


def _refused(code: int, told: Told, positions: Positions, listener: Listener, now: float) -> None:
    """Handle a failed fetch. After a lost session the next fetch is full: no partition's error."""
    if code in SESSION_ERRORS:
        told.session.end()
        if code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
            listener.note(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
        return
    told.session.end()
    error = KafkaError(code, api="Fetch")
    listener.note(error)
    for each in told.asked:
        positions.refused(each, error, now)
