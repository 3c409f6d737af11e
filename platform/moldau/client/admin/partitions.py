"""Where partitions are: electing leaders, moving replicas among brokers and among their disks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from moldau.client.admin.requests import AdminRequests, error_of
from moldau.client.settings import rows
from moldau.client.settings.arguments import (
    ByPartition,
    Partition,
    broker_of,
    brokers_of,
    by_partition,
    member_of,
    names_of,
    partition_of,
    partitions_in,
)
from moldau.errors.codes import KafkaError, raise_for
from moldau.link.arguments import text_of, told
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages import describe_topic_partitions as paging
from moldau.protocol.messages import elect_leaders as electing
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

Outcomes = dict[TopicPartition, "KafkaError | None"]


class Election(IntEnum):
    """Which replicas may become leader."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move that is under way: all replicas, those that come and those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EligibleReplicas:
    """Brokers that may lead a partition without loss although they are not in sync (KIP-966), and
    those that were known to be able to when that was last so."""

    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


_PAIR: Final = 2


class PartitionAdmin(AdminRequests):
    """Leaders and replicas."""

    _page_partitions = 2000

    async def eligible_replicas(self, *topics: str) -> dict[TopicPartition, EligibleReplicas]:
        """The replicas that could lead each partition of these topics, or of all, when none is in
        sync any more.
        KafkaError for a topic that there is not, and where the broker is older than Kafka 3.8."""
        names = sorted(set(names_of(topics, "topic")))
        found: dict[TopicPartition, EligibleReplicas] = {}
        cursor: paging.Cursor | None = None
        while True:
            request = paging.DescribeTopicPartitionsRequest(
                topics=[paging.TopicRequest(name=name) for name in names],
                response_partition_limit=self._page_partitions,
                cursor=cursor,
            )
            answer = await self._ask(request, paging.DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                raise_for(topic.error_code, topic=topic.name)
                for each in topic.partitions:
                    found[TopicPartition(topic.name or "", each.partition_index)] = (
                        EligibleReplicas(
                            tuple(each.eligible_leader_replicas or ()),
                            tuple(each.last_known_elr or ()),
                        )
                    )
            cursor = answer.next_cursor
            if cursor is None:
                return found

    async def elect_leaders(
        self,
        partitions: Iterable[Partition] | None = None,
        *,
        election: Election = Election.PREFERRED,
    ) -> Outcomes:
        """Elects now, for these partitions or for all. An unclean election may lose records. A
        partition that needs none has the error ELECTION_NOT_NEEDED, or is left out of all."""
        request = electing.ElectLeadersRequest(
            election_type=member_of(Election, election, "election"),
            topic_partitions=None
            if partitions is None
            else [
                electing.TopicPartitions(topic=name, partitions=found)
                for name, found in _by_topic(partitions).items()
            ],
            timeout_ms=self._request_timeout_ms,
        )
        answer = await self._ask_controller(request, electing.ElectLeadersResponse)
        raise_for(answer.error_code)
        return {
            TopicPartition(topic.topic, each.partition_id): error_of(
                each.error_code,
                each.error_message,
                topic=topic.topic,
                partition=each.partition_id,
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    async def alter_partition_reassignments(
        self, replicas: ByPartition[Sequence[int] | None]
    ) -> Outcomes:
        """Starts to move partitions to these brokers, the preferred leader first; None cancels the
        move of a partition. What was started goes on by itself: see
        `list_partition_reassignments`."""
        by_topic: dict[str, list[ReassignablePartition]] = {}
        for where, brokers in by_partition(replicas).items():
            wanted = ReassignablePartition(
                partition_index=where.partition,
                replicas=None if brokers is None else brokers_of(brokers),
            )
            by_topic.setdefault(where.topic, []).append(wanted)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._request_timeout_ms,
            topics=[
                ReassignableTopic(name=name, partitions=found) for name, found in by_topic.items()
            ],
        )
        answer = await self._ask_controller(request, AlterPartitionReassignmentsResponse)
        raise_for(answer.error_code, answer.error_message or "")
        return {
            TopicPartition(topic.name, each.partition_index): error_of(
                each.error_code,
                each.error_message,
                topic=topic.name,
                partition=each.partition_index,
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[Partition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way, of these partitions or of all."""
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._request_timeout_ms,
            topics=None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=found)
                for name, found in _by_topic(partitions).items()
            ],
        )
        answer = await self._ask_controller(request, ListPartitionReassignmentsResponse)
        raise_for(answer.error_code, answer.error_message or "")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def alter_replica_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        """Moves replicas, each told by partition and broker, to another directory of their broker.
        The move goes on by itself: see `describe_log_dirs`. What one broker begins is told though
        another fails; a KafkaError is raised only when all of them do."""
        by_broker: dict[int, dict[str, list[TopicPartition]]] = {}
        for (where, broker), path in _by_replica(directories).items():
            by_broker.setdefault(broker, {}).setdefault(path, []).append(where)
        found: dict[tuple[TopicPartition, int], KafkaError | None] = {}
        failures: list[KafkaError] = []

        async def ask(broker: int, dirs: Mapping[str, list[TopicPartition]]) -> None:
            try:
                found.update(await self._alter_log_dirs(broker, dirs))
            except KafkaError as error:
                failures.append(error)
                found.update({(each, broker): error for its in dirs.values() for each in its})

        await asyncio.gather(*(ask(broker, dirs) for broker, dirs in by_broker.items()))
        if failures and len(failures) == len(by_broker):
            raise failures[0]
        return found

    async def _alter_log_dirs(
        self, broker: int, dirs: Mapping[str, list[TopicPartition]]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=found)
                        for name, found in _by_topic(partitions).items()
                    ],
                )
                for path, partitions in dirs.items()
            ]
        )
        answer = await self._ask(request, AlterReplicaLogDirsResponse, node_id=broker)
        return {
            (TopicPartition(topic.topic_name, each.partition_index), broker): error_of(
                each.error_code,
                None,
                topic=topic.topic_name,
                partition=each.partition_index,
                broker=broker,
            )
            for topic in answer.results
            for each in topic.partitions
        }

    @property
    def _request_timeout_ms(self) -> int:
        return self._cluster.settings[rows.request_timeout_ms]


def _by_replica(
    given: Mapping[tuple[TopicPartition, int], str],
) -> dict[tuple[TopicPartition, int], str]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"replicas with their directories are given as a dict, not as {told(given)}"
        )
    found: dict[tuple[TopicPartition, int], str] = {}
    for replica, path in given.items():
        pair: object = replica
        if not isinstance(pair, tuple) or len(pair) != _PAIR:
            raise TypeError(f"a replica is (partition, broker), not {told(replica)}")
        text_of(path, "a replica's directory")
        found[partition_of(pair[0]), broker_of(pair[1])] = path
    return found


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for where in partitions_in(partitions):
        by_topic.setdefault(where.topic, []).append(where.partition)
    return by_topic
