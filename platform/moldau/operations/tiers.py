"""Where the tiers of topics begin and end (KIP-405), and the records that say what is remote.

All is asked over the wire, so it works with Apache Kafka's brokers too (from 3.4 on, which know
where local logs begin): ListOffsets, DescribeLogDirs, and a read of the topic of remote segments.
What its records mean is left to the caller.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.operations.hidden import check_all_visible, check_visible

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from moldau.client import Admin, TopicPartition
    from moldau.ids import Uuid
    from moldau.records import ConsumerRecord
    from moldau.runtime import Runtime

METADATA_TOPIC: Final = "__remote_log_metadata"
REMOTE: Final = "remote.storage.enable"
_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class PartitionTiers:
    """One partition as its leader reports it. Offsets are where something begins; None: unknown."""

    where: TopicPartition
    topic_id: Uuid
    start: int
    """Of the log, in whichever tier."""
    local_start: int
    """Of what the leader has on its disk."""
    end: int
    """The high watermark."""
    pending: int | None
    """The first offset that is not in the remote tier."""
    local_bytes: int | None
    """The size of the leader's replica."""

    @property
    def backlog_records(self) -> int | None:
        """How many offsets are not in the remote tier, those of the active segment included."""
        return None if self.pending is None else max(self.end - self.pending, 0)

    def backlog_bytes(self, remote_bytes: int, remote_records: int) -> int | None:
        """Return about how many bytes they have: as many for a record as in the remote tier, or if
        that has nothing, as on the disk. Files of what is remote may still be there."""
        records, local = self.backlog_records, self.end - self.local_start
        if records is None or self.local_bytes is None:
            return None
        if remote_records:
            return min(records * remote_bytes // remote_records, self.local_bytes)
        return 0 if local <= 0 else self.local_bytes * min(records, local) // local


@dataclass(frozen=True, slots=True)
class TierSurvey:
    """The partitions of some topics, and those that have no leader to ask."""

    found: Sequence[PartitionTiers]
    leaderless: Sequence[TopicPartition]


async def remote_topics(admin: Admin) -> list[str]:
    """Return the topics with segments that go to remote storage. Raise HiddenNames if some may be
    hidden."""
    from moldau.client import Resource, ResourceType

    await check_all_visible(admin)
    names = [each.name for each in await admin.list_topics()]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def is_remote(name: str) -> bool:
        async with turns:
            resource = Resource(ResourceType.TOPIC, name)
            entries = await admin.describe_configs(resource, names=[REMOTE])
        return any(each.value == "true" for each in entries)

    answers = await asyncio.gather(*map(is_remote, names))
    return [name for name, answer in zip(names, answers, strict=True) if answer]


async def survey(admin: Admin, topics: Collection[str]) -> TierSurvey:
    """Return how far the partitions of these topics are copied. Raise KafkaError for a topic that
    does not exist."""
    from moldau.client import TopicPartition

    ids, leaders = {}, {}
    for name, topic in (await admin.describe_topics(topics)).items():
        if isinstance(topic, KafkaError):
            raise topic
        ids[name] = topic.topic_id
        for each in topic.partitions:
            leaders[TopicPartition(name, each.index)] = each.leader
    return await tiers_of(admin, leaders, ids)


async def tiers_of(
    admin: Admin, leaders: Mapping[TopicPartition, int], ids: Mapping[str, Uuid]
) -> TierSurvey:
    """Return how far these partitions are copied, by their leaders (-1: there is none) and the ids
    of their topics."""
    led = sorted(where for where, leader in leaders.items() if leader >= 0)
    sizes = await _local_sizes(admin, {where: leaders[where] for where in led})
    starts, local, ends, pending = await _offsets(admin, led)
    found = [
        PartitionTiers(
            where,
            ids[where.topic],
            starts[where],
            local[where],
            ends[where],
            pending[where] if pending[where] >= 0 else None,
            sizes.get(where),
        )
        for where in led
    ]
    return TierSurvey(found, sorted(leaders.keys() - set(led)))


async def _offsets(
    admin: Admin, led: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], ...]:
    """Return starts, local starts, ends, and the first offsets that are not remote. The first of
    these are asked last: what is copied meanwhile is not counted as waiting."""
    from moldau.client.base.offsets import EARLIEST, EARLIEST_LOCAL, LATEST

    found = []
    for end in (EARLIEST, EARLIEST_LOCAL, LATEST):
        answer = await admin.list_offsets(dict.fromkeys(led, end)) if led else {}
        found.append({where: each.offset for where, each in answer.items()})
    return (*found, await _pending(admin, led) if led else {})


async def _pending(admin: Admin, led: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the first offset of each that is not remote, -1 if it is unknown. The last remote one
    is asked for where that is no answer: a broker before KIP-1023 does not know the question, and
    no broker names an offset without a record, as it is when all is remote."""
    from moldau.client.base.offsets import EARLIEST_PENDING_UPLOAD, LATEST_TIERED

    found = dict.fromkeys(led, -1)
    try:
        answer = await admin.list_offsets(dict.fromkeys(led, EARLIEST_PENDING_UPLOAD))
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
    else:
        found = {where: each.offset for where, each in answer.items()}
    unknown = [where for where, offset in found.items() if offset < 0]
    if unknown:
        answer = await admin.list_offsets(dict.fromkeys(unknown, LATEST_TIERED))
        found |= {where: each.offset + 1 or -1 for where, each in answer.items()}
    return found


async def _local_sizes(
    admin: Admin, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the sizes of the leaders' replicas, as far as brokers tell them."""
    brokers = sorted(set(leaders.values()))
    dirs = await admin.describe_log_dirs(brokers) if brokers else []
    return {
        replica.where: replica.size_bytes
        for each in dirs
        for replica in each.replicas
        if not replica.is_future and leaders.get(replica.where) == each.broker
    }


async def metadata_values(
    admin: Admin, settings: Mapping[str, object], runtime: Runtime
) -> list[bytes]:
    """Return the values of all records of the topic of remote segments that are committed at the
    call, in the order of each partition; none if there is no such topic. `settings` are those of a
    client."""
    from moldau.folds.topic import FoldTopic
    from moldau.folds.topic_fold import TopicFold

    await check_visible(admin, {METADATA_TOPIC: None})
    if METADATA_TOPIC not in {each.name for each in await admin.list_topics(internal=True)}:
        return []
    values: list[bytes] = []

    def replay(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
        values.append(record.value or b"")

    fold = TopicFold(
        runtime, settings, FoldTopic(METADATA_TOPIC, "the topic of remote segments"), replay
    )
    try:
        await fold.connect()
        await fold.assign()
        await fold.catch_up()
    finally:
        await fold.aclose()
    return values


async def pause(seconds: float) -> None:
    """Wait before the next question about copies."""
    await asyncio.sleep(seconds)


async def copy_now(admin: Admin, where: TopicPartition) -> int:
    """Let the leader of a partition copy all that it has to remote storage, its active segment too,
    and return the offset up to which that is. Return when it has begun.

    Raise KafkaError; UNSUPPORTED_VERSION from brokers that are not moldau's.
    """
    from moldau.protocol.messages.copy_segments import (
        CopySegmentsPartition,
        CopySegmentsRequest,
        CopySegmentsResponse,
        CopySegmentsTopic,
    )

    cluster = admin._cluster
    asked = CopySegmentsPartition(partition_index=where.partition)
    topic = CopySegmentsTopic(name=where.topic, partitions=[asked])
    request = CopySegmentsRequest(topics=[topic])

    async def attempt() -> int:
        leader = await cluster.leader(where)
        answer = await cluster.call(request, CopySegmentsResponse, node_id=leader)
        (row,) = [each for topic in answer.topics for each in topic.partitions]
        if row.error_code:
            text = row.error_message or ""
            error = error_from("CopySegments", row.error_code, text, **where._asdict())
            cluster.note(error)
            raise error
        return row.end_offset

    return await cluster.retry(attempt)
