"""Fetch requests from positions, and what their answers mean for each partition. No IO.

Full fetches outside of any session: what a request says is all that the broker knows of it.
"""

from __future__ import annotations

from typing import Final

from moldau.client import settings as rows
from moldau.client.addresses import Address
from moldau.client.metadata import Metadata, TopicPartition
from moldau.client.positions import Asked, Positions
from moldau.client.produce_requests import Listener, Speaker
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_NEWEST_WITH_NAMES: Final = 12


def fetch_request(
    speaker: Speaker, asked: list[Asked], metadata: Metadata, settings: Settings
) -> tuple[FetchRequest, int]:
    """The request and its version: by topic id where all topics have one, else by name."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for where, _, offset in asked:
        known = metadata.partition(where)
        wanted = FetchPartition(
            partition=where.partition,
            current_leader_epoch=-1 if known is None else known.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=settings[rows.max_partition_fetch_bytes],
        )
        by_topic.setdefault(where.topic, []).append(wanted)
    ids = {
        name: ZERO_UUID if name not in metadata.topics else metadata.topics[name].topic_id
        for name in by_topic
    }
    at_most = _NEWEST_WITH_NAMES if ZERO_UUID in ids.values() else None
    request = FetchRequest(
        max_wait_ms=settings[rows.fetch_max_wait_ms],
        min_bytes=settings[rows.fetch_min_bytes],
        max_bytes=settings[rows.fetch_max_bytes],
        isolation_level=int(settings[rows.isolation_level] == "read_committed"),
        topics=[
            FetchTopic(topic=name, topic_id=ids[name], partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )
    return request, speaker.version_of(FetchRequest, at_most=at_most)


def settle_fetch(
    response: FetchResponse,
    asked: list[Asked],
    positions: Positions,
    listener: Listener,
    now_and_isolation: tuple[float, bool],
) -> None:
    """Hands out what came of each partition that was asked for. A Full fetch names them all."""
    now, is_committed = now_and_isolation
    metadata = listener.metadata
    if response.error_code:
        error = KafkaError(response.error_code, api="Fetch")
        listener.note(error)
        for each in asked:
            positions.refused(each, error, now)
        return
    answered: dict[TopicPartition, PartitionData] = {}
    for topic in response.responses:
        name = topic.topic or metadata.name_of(topic.topic_id) or ""
        for data in topic.partitions:
            answered[TopicPartition(name, data.partition_index)] = data
    addresses = {each.node_id: Address(each.host, each.port) for each in response.node_endpoints}
    for each in asked:
        found = answered.get(each.where)
        if found is not None and not found.error_code:
            positions.arrived(each, found, is_committed=is_committed)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_ID if found is None else found.error_code
        error = KafkaError(code, topic=each.where.topic, partition=each.where.partition)
        leader = None if found is None else found.current_leader
        if leader is None or not metadata.moved(
            each.where, leader.leader_id, leader.leader_epoch, addresses.get(leader.leader_id)
        ):
            listener.note(error)
        positions.refused(each, error, now)
