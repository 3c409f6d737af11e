"""Reads the lists of a large cluster in slices, so that neither side works long without a pause.

    survey = Survey(admin)
    async for part in survey.topics():
        print(len(part.topics))

Invariant: a slice costs a bounded number of requests, each with at most `PARTITIONS` partitions, or
with the groups that the caller names; nothing is added to the metadata that the client keeps fresh.
`Admin.list_topics` and `Admin.groups_progress` are simpler, and ask for everything at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.admin.requests import at_once
from moldau.client.base.coordinator import GROUP, find_coordinator
from moldau.client.base.offsets import LATEST, ask_leader
from moldau.client.group import offset_requests
from moldau.client.group.offset_requests import MANY_GROUPS, NEWEST_WITH_NAMES
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.link.addresses import Address
from moldau.link.metadata import Partition, Topic, TopicPartition, by_topic
from moldau.protocol.messages import describe_log_dirs as disks
from moldau.protocol.messages import describe_share_group_offsets as shares
from moldau.protocol.messages import describe_topic_partitions as paging
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

PARTITIONS: Final = 100
"""Of a slice of topics: a millisecond of work for the client, less for our broker."""
OFFSETS: Final = 500
"""Of a request for the ends of logs."""
_MANY_KEYS: Final = 4
_LANE: Final = "survey"


class Slice(NamedTuple):
    """Some topics, in the order of their names, and whether they are the last ones."""

    topics: list[Topic]
    is_last: bool


class Survey:
    """Lists topics, their sizes, and the lag of groups, by a started admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._requests = admin._requests

    # Topics.

    async def topics(self, names: Iterable[str] | None = None) -> AsyncGenerator[Slice]:
        """Yield all topics in slices, internal ones included, in the order of their names, or those
        of these names that exist. A broker before Kafka 3.8 has no slices: it gives all at once."""
        wanted = [] if names is None else [paging.TopicRequest(name=name) for name in sorted(names)]
        if names is not None and not wanted:
            return
        connection = await self._requests.cluster.connection()
        try:
            connection.version_of(paging.DescribeTopicPartitionsRequest)
        except KafkaError:
            chosen = {each.name for each in wanted}
            listed = await self._admin.list_topics(internal=True)
            yield Slice([each for each in listed if not chosen or each.name in chosen], True)
            return
        cursor: paging.Cursor | None = None
        begun: Topic | None = None
        while True:
            request = paging.DescribeTopicPartitionsRequest(
                topics=wanted, response_partition_limit=PARTITIONS, cursor=cursor
            )
            answer = await self._requests.ask(request, paging.DescribeTopicPartitionsResponse)
            found = [_topic(each) for each in answer.topics if not each.error_code]
            if begun is not None and found and found[0].name == begun.name:
                found[0] = _joined(begun, found[0])
            cursor = answer.next_cursor
            if cursor is None:
                yield Slice(found, True)
                return
            begun = None
            if found and cursor.partition_index and found[-1].name == cursor.topic_name:
                begun = found.pop()
            yield Slice(found, False)

    async def sizes(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Return the bytes of all replicas of these topics; the values are their numbers of
        partitions. A topic is missing if a broker does not tell."""
        request = disks.DescribeLogDirsRequest(
            topics=[
                disks.DescribableLogDirTopic(topic=name, partitions=list(range(count)))
                for name, count in topics.items()
            ]
        )

        async def ask(broker: int) -> disks.DescribeLogDirsResponse:
            return await self._requests.ask_once(request, disks.DescribeLogDirsResponse, broker)

        answers = await at_once(list(self._requests.cluster.metadata.brokers), ask)
        found = dict.fromkeys(topics, 0)
        for answer in answers.values():
            if isinstance(answer, KafkaError) or answer.error_code:
                return {}
            for directory in answer.results:
                for topic in directory.topics:
                    found[topic.name] += sum(each.partition_size for each in topic.partitions)
        return found

    # Groups.

    async def lags(
        self,
        groups: Iterable[str],
        share_groups: Iterable[str],
        leaders: Mapping[str, Sequence[int]],
    ) -> dict[str, int]:
        """Return the lag of each group whose offsets are known: the sum over its partitions.

        `leaders` has the leaders of topics that the caller knows; others are asked for.
        """
        offsets, lags = await self._committed(groups)
        lags.update(await self._share_lags(share_groups))
        places = sorted({where for found in offsets.values() for where in found})
        ends = await self._ends(places, leaders)
        for group, found in offsets.items():
            lags[group] = sum(
                max(0, ends[where] - offset) for where, offset in found.items() if where in ends
            )
        return lags

    async def _committed(
        self, groups: Iterable[str]
    ) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, int]]:
        """Return the committed offsets of each group; and the lags of those whose brokers are too
        old to tell of several groups in one answer."""
        found: dict[str, dict[TopicPartition, int]] = {}
        old: list[str] = []

        async def ask(address: Address) -> None:
            names = by_address[address]
            connection = await self._requests.cluster.connection_to(address, _LANE)
            version = connection.version_of(OffsetFetchRequest, at_most=NEWEST_WITH_NAMES)
            if version < MANY_GROUPS:
                old.extend(names)
                return
            wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
            request = OffsetFetchRequest(groups=wanted)
            answer = await connection.request(request, OffsetFetchResponse, version=version)
            found.update(
                (each.group_id, _offsets(each)) for each in answer.groups if not each.error_code
            )

        by_address = await self._coordinators(list(groups))
        await at_once(by_address, ask)
        progress = await self._admin.groups_progress(old) if old else {}
        return found, {
            name: each.lag for name, each in progress.items() if not isinstance(each, KafkaError)
        }

    async def _share_lags(self, groups: Iterable[str]) -> dict[str, int]:
        lags: dict[str, int] = {}

        async def ask(address: Address) -> None:
            wanted = [
                shares.DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
                for name in by_address[address]
            ]
            request = shares.DescribeShareGroupOffsetsRequest(groups=wanted)
            connection = await self._requests.cluster.connection_to(address, _LANE)
            answer = await connection.request(request, shares.DescribeShareGroupOffsetsResponse)
            for group in answer.groups:
                if not group.error_code:
                    rows = (row for topic in group.topics for row in topic.partitions)
                    lags[group.group_id] = sum(max(0, row.lag) for row in rows)

        by_address = await self._coordinators(list(groups))
        await at_once(by_address, ask)
        return lags

    async def _coordinators(self, groups: Sequence[str]) -> dict[Address, list[str]]:
        found: dict[Address, list[str]] = {}
        if not groups:
            return found
        connection = await self._requests.cluster.connection()
        if connection.version_of(FindCoordinatorRequest) < _MANY_KEYS:
            for name in groups:
                at = await find_coordinator(self._requests.cluster, name)
                found.setdefault(at, []).append(name)
            return found
        request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=list(groups))
        answer = await connection.request(request, FindCoordinatorResponse)
        for each in answer.coordinators:
            if not each.error_code:
                found.setdefault(Address(each.host, each.port), []).append(each.key)
        return found

    async def _ends(
        self, places: Sequence[TopicPartition], leaders: Mapping[str, Sequence[int]]
    ) -> dict[TopicPartition, int]:
        """Return the ends of the logs; those of partitions without a leader are missing."""
        known = dict(leaders)
        unknown = by_topic(where for where in places if where.topic not in known)
        async for part in self.topics(unknown):
            for topic in part.topics:
                known[topic.name] = [each.leader for each in topic.partitions]
        by_leader: dict[int, list[TopicPartition]] = {}
        for where in places:
            leading = known.get(where.topic, ())
            if where.partition < len(leading) and leading[where.partition] >= 0:
                by_leader.setdefault(leading[where.partition], []).append(where)
        ends: dict[TopicPartition, int] = {}

        async def ask(leader: int) -> None:
            rest = iter(by_leader[leader])
            while chosen := dict.fromkeys(islice(rest, OFFSETS), LATEST):
                answers = await ask_leader(self._requests.cluster, leader, chosen, False)
                for where, each in answers.items():
                    if not isinstance(each, KafkaError):
                        ends[where] = each.offset

        await at_once(by_leader, ask)
        return ends


def _topic(found: paging.DescribeTopicPartitionsResponseTopic) -> Topic:
    partitions = tuple(
        Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            ErrorCode(each.error_code),
        )
        for each in found.partitions
    )
    return Topic(found.name or "", found.topic_id or ZERO_UUID, partitions, found.is_internal)


def _joined(begun: Topic, rest: Topic) -> Topic:
    """Return a topic whose partitions came in two slices."""
    partitions = (*begun.partitions, *rest.partitions)
    return Topic(begun.name, begun.topic_id, partitions, begun.is_internal)


def _offsets(group: OffsetFetchResponseGroup) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name or "", each.partition_index): each.committed_offset
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset != offset_requests.NOT_COMMITTED
    }
