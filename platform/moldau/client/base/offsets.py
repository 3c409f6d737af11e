"""Offsets that leaders report: by time or ends of logs (ListOffsets), and ends of epochs
(OffsetForLeaderEpoch), by which a consumer detects a truncated log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from moldau.client.base.unknown_topic import final
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from, may_work_later
from moldau.link.addresses import Address
from moldau.link.cluster import Cluster
from moldau.link.metadata import NO_LEADER, TopicPartition, by_topic
from moldau.protocol.messages import api_of
from moldau.protocol.messages import list_offsets as asking
from moldau.protocol.messages import offset_for_leader_epoch as epoch_ends

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_NEEDS_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER: Final = -1
_EPOCHS_FOR_CONSUMERS: Final = 3
"""Before this version a consumer needed rights on the whole cluster for the ends of epochs."""
_ANY_END: Final = 2**63 - 1


class FoundOffset(NamedTuple):
    """An offset, its record's timestamp and epoch; -1 if there is no such record."""

    offset: int
    timestamp: int
    leader_epoch: int


Found = dict[TopicPartition, FoundOffset]
F = TypeVar("F", FoundOffset, FoundOffset | KafkaError)


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    is_committed: bool = False,
    timeout_s: float | None = None,
    waits_for_topics: bool = True,
) -> Found:
    """Return the offset for each partition's timestamp in ms, or for an end of its log (see above).

    Missing partitions are requested again, from their new leaders, until all are found or the time
    is over; then KafkaError names a missing partition. With `is_committed` the end is the last
    stable offset. Without `waits_for_topics` an unknown topic is an error at once.
    """
    found: Found = {}

    def why_not_led(where: TopicPartition) -> KafkaError:
        problem = cluster.metadata.why_not_led(where)
        may_come = waits_for_topics or where.topic in cluster.metadata.topics
        return problem if may_come else final(problem)

    async def attempt() -> Found:
        cluster.look_at({where.topic for where in wanted})
        missing = [where for where in wanted if where not in found]
        if NO_LEADER in cluster.metadata.by_leader(missing):
            await cluster.refresh()
        by_leader = cluster.metadata.by_leader(missing)
        problems = [why_not_led(each) for each in by_leader.pop(NO_LEADER, ())]
        asked = [
            ask_leader(cluster, leader, {where: wanted[where] for where in chosen}, is_committed)
            for leader, chosen in by_leader.items()
        ]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, KafkaError):
                problems.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                for where, each in answer.items():
                    if isinstance(each, KafkaError):
                        problems.append(each)
                    else:
                        found[where] = each
        if problems:
            fatal = [each for each in problems if not may_work_later(each)]
            raise without_frames((fatal or problems)[0])
        return found

    try:
        return await cluster.retry(attempt, timeout_s=timeout_s)
    except KafkaError as error:
        where = next((each for each in wanted if each not in found), None)
        if where is not None and "topic" not in error.context:
            facts = where._asdict()
            error.context = {**error.context, **facts}
        raise


async def found_or_end(
    ask: Callable[[Mapping[TopicPartition, int]], Awaitable[dict[TopicPartition, F]]],
    wanted: Mapping[TopicPartition, int],
) -> dict[TopicPartition, F]:
    """Look offsets up by time; where no record is that new, use the end. The second look by time
    catches records that came meanwhile."""
    found = await ask(wanted)
    late = {where: wanted[where] for where, each in found.items() if _is_none(each)}
    if late:
        ends = await ask(dict.fromkeys(late, LATEST))
        for where, each in (await ask(late)).items():
            found[where] = ends[where] if _is_none(each) else each
    return found


def _is_none(answer: FoundOffset | KafkaError) -> bool:
    return isinstance(answer, FoundOffset) and answer.offset < 0


async def ask_leader(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], is_committed: bool
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """Send one ListOffsets request to one broker. Return each partition's offset or error. Raise
    KafkaError if there is no response."""
    connection = await cluster.connection(leader)
    version = connection.version_of(asking.ListOffsetsRequest)
    for timestamp in wanted.values():
        if version < _NEEDS_VERSION.get(timestamp, 0):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "the broker is too old for that kind of offset",
                timestamp=timestamp,
                broker=str(connection.address),
            )
    request = asking.ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=int(is_committed),
        topics=_topics(cluster, wanted),
        timeout_ms=int(connection.options.request_timeout_s * 1000),
    )
    answer = await cluster.call(request, asking.ListOffsetsResponse, node_id=leader)
    found: dict[TopicPartition, FoundOffset | KafkaError] = {
        where: _left_out(where, connection.address) for where in wanted
    }
    for topic in answer.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.name, each.partition_index)
            found[where] = FoundOffset(each.offset, each.timestamp, each.leader_epoch)
            if each.error_code:
                found[where] = _noted(api_of(answer), cluster, where, each.error_code)
    return found


def _topics(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> list[Any]:
    def asked(where: TopicPartition) -> asking.ListOffsetsPartition:
        return asking.ListOffsetsPartition(
            partition_index=where.partition,
            current_leader_epoch=_leader_epoch(cluster, where),
            timestamp=wanted[where],
        )

    found = by_topic(wanted, asked)
    return [asking.ListOffsetsTopic(name=name, partitions=each) for name, each in found.items()]


def _leader_epoch(cluster: Cluster, where: TopicPartition) -> int:
    known = cluster.metadata.partition(where)
    return -1 if known is None else known.leader_epoch


class EpochEnd(NamedTuple):
    """The largest epoch not above the requested one, and its end in the log; -1 if none."""

    epoch: int
    end_offset: int


async def ends_of_epochs(
    cluster: Cluster, leader: int, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Send one request for the ends of epochs to a leader. Return each partition's end or error. A
    broker that is too old agrees with every position. Raise KafkaError without a response."""
    connection = await cluster.connection(leader)
    served = connection.versions.by_key.get(epoch_ends.OffsetForLeaderEpochRequest.spec.key or 0)
    if served is None or served.last < _EPOCHS_FOR_CONSUMERS:
        return {where: EpochEnd(epoch, _ANY_END) for where, epoch in epochs.items()}

    def wanted(where: TopicPartition) -> epoch_ends.OffsetForLeaderPartition:
        return epoch_ends.OffsetForLeaderPartition(
            partition=where.partition,
            current_leader_epoch=_leader_epoch(cluster, where),
            leader_epoch=epochs[where],
        )

    topics = [
        epoch_ends.OffsetForLeaderTopic(topic=name, partitions=each)
        for name, each in by_topic(epochs, wanted).items()
    ]
    request = epoch_ends.OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)
    response = epoch_ends.OffsetForLeaderEpochResponse
    answer = await cluster.call(request, response, node_id=leader)
    found: dict[TopicPartition, EpochEnd | KafkaError] = {
        where: _left_out(where, connection.address) for where in epochs
    }
    for topic in answer.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.topic, each.partition)
            found[where] = EpochEnd(each.leader_epoch, each.end_offset)
            if each.error_code:
                found[where] = _noted(api_of(answer), cluster, where, each.error_code)
    return found


def _noted(api: str, cluster: Cluster, where: TopicPartition, code: int) -> KafkaError:
    """Return a partition's error, and note it for the metadata: the leader may have changed."""
    problem = error_from(api, code, **where._asdict())
    cluster.note(problem)
    return problem


def _left_out(where: TopicPartition, address: Address) -> KafkaError:
    """Return the error for a partition that is missing in the response."""
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "the broker's answer leaves the partition out",
        **where._asdict(),
        broker=str(address),
    )


async def partitions_of(
    cluster: Cluster, topics: Iterable[str], *, timeout_s: float | None = None
) -> list[TopicPartition]:
    """Return all partitions of these topics. Raise KafkaError if one does not exist."""
    found = []
    for name in topics:
        topic = await cluster.topic(name, timeout_s=timeout_s)
        found += [TopicPartition(name, each.index) for each in topic.partitions]
    return found
