"""Leaders and replicas: elections, and moves among brokers and directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.client.admin.requests import Requests, at_once, error_of
from moldau.client.base import arguments
from moldau.client.base.arguments import ByPartition, PartitionGiven
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError, raise_for
from moldau.link.arguments import text_of, told
from moldau.link.metadata import TopicPartition, by_topic
from moldau.protocol.election import Election
from moldau.protocol.messages import alter_partition_reassignments as moving
from moldau.protocol.messages import alter_replica_log_dirs as disks
from moldau.protocol.messages import describe_topic_partitions as paging
from moldau.protocol.messages import elect_leaders as electing
from moldau.protocol.messages import list_partition_reassignments as listing

Outcomes = dict[TopicPartition, "KafkaError | None"]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A running move: all replicas, those being added and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EligibleReplicas:
    """Brokers that may lead a partition without loss although they are not in sync (KIP-966), and
    the last known ones."""

    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


_PAIR: Final = 2


class Partitions:
    """Describes and changes leaders and replicas."""

    page_partitions = 2000

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def eligible(self, topics: Iterable[str]) -> dict[TopicPartition, EligibleReplicas]:
        names = sorted(set(arguments.names_of(topics, "topic")))
        found: dict[TopicPartition, EligibleReplicas] = {}
        cursor: paging.Cursor | None = None
        while True:
            request = paging.DescribeTopicPartitionsRequest(
                topics=[paging.TopicRequest(name=name) for name in names],
                response_partition_limit=self.page_partitions,
                cursor=cursor,
            )
            answer = await self._requests.ask(request, paging.DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                raise_for("DescribeTopicPartitions", topic.error_code, topic=topic.name)
                for each in topic.partitions:
                    where = TopicPartition(topic.name or "", each.partition_index)
                    eligible, last = each.eligible_leader_replicas or (), each.last_known_elr or ()
                    found[where] = EligibleReplicas(tuple(eligible), tuple(last))
            cursor = answer.next_cursor
            if cursor is None:
                return found

    async def elect(
        self, partitions: Iterable[PartitionGiven] | None, election: Election
    ) -> Outcomes:
        request = electing.ElectLeadersRequest(
            election_type=arguments.member_of(Election, election, "election"),
            topic_partitions=None
            if partitions is None
            else [
                electing.TopicPartitions(topic=name, partitions=found)
                for name, found in by_topic(arguments.partitions_in(partitions)).items()
            ],
            timeout_ms=self._requests.timeout_ms,
        )
        answer = await self._requests.ask_controller(request, electing.ElectLeadersResponse)
        return dict(
            _outcome(
                "ElectLeaders", topic.topic, each.partition_id, each.error_code, each.error_message
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        )

    async def reassign(self, replicas: ByPartition[Sequence[int] | None]) -> Outcomes:
        chosen = {
            where: None if brokers is None else arguments.brokers_of(brokers)
            for where, brokers in arguments.by_partition(replicas).items()
        }

        def wanted(where: TopicPartition) -> moving.ReassignablePartition:
            number, brokers = where.partition, chosen[where]
            return moving.ReassignablePartition(partition_index=number, replicas=brokers)

        topics = [
            moving.ReassignableTopic(name=name, partitions=each)
            for name, each in by_topic(chosen, wanted).items()
        ]
        timeout_ms = self._requests.timeout_ms
        request = moving.AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)
        response = moving.AlterPartitionReassignmentsResponse
        answer = await self._requests.ask_controller(request, response)
        return dict(
            _outcome(
                "AlterPartitionReassignments",
                topic.name,
                each.partition_index,
                each.error_code,
                each.error_message,
            )
            for topic in answer.responses
            for each in topic.partitions
        )

    async def reassignments(
        self, partitions: Iterable[PartitionGiven] | None
    ) -> dict[TopicPartition, Reassignment]:
        request = listing.ListPartitionReassignmentsRequest(
            timeout_ms=self._requests.timeout_ms,
            topics=None
            if partitions is None
            else [
                listing.ListPartitionReassignmentsTopics(name=name, partition_indexes=found)
                for name, found in by_topic(arguments.partitions_in(partitions)).items()
            ],
        )
        response = listing.ListPartitionReassignmentsResponse
        answer = await self._requests.ask_controller(request, response)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def alter_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        paths = _by_replica(directories)
        by_broker: dict[int, list[TopicPartition]] = {}
        for where, broker in paths:
            by_broker.setdefault(broker, []).append(where)

        async def ask(broker: int) -> Outcomes:
            dirs: dict[str, list[TopicPartition]] = {}
            for where in by_broker[broker]:
                dirs.setdefault(paths[where, broker], []).append(where)
            return await self._alter_log_dirs(broker, dirs)

        answers = await at_once(by_broker, ask)
        failures = [each for each in answers.values() if isinstance(each, KafkaError)]
        if failures and len(failures) == len(by_broker):
            raise without_frames(failures[0])
        return {
            (where, broker): answer if isinstance(answer, KafkaError) else answer[where]
            for broker, answer in answers.items()
            for where in (by_broker[broker] if isinstance(answer, KafkaError) else answer)
        }

    async def _alter_log_dirs(
        self, broker: int, dirs: Mapping[str, list[TopicPartition]]
    ) -> Outcomes:
        dir_of, topic_of = disks.AlterReplicaLogDir, disks.AlterReplicaLogDirTopic
        wanted = [
            dir_of(path=path, topics=[topic_of(name=name, partitions=its) for name, its in each])
            for path, each in ((path, by_topic(dirs[path]).items()) for path in dirs)
        ]
        request = disks.AlterReplicaLogDirsRequest(dirs=wanted)
        answer = await self._requests.ask(request, disks.AlterReplicaLogDirsResponse, broker)
        return dict(
            _outcome(
                "AlterReplicaLogDirs",
                topic.topic_name,
                each.partition_index,
                each.error_code,
                broker=broker,
            )
            for topic in answer.results
            for each in topic.partitions
        )


def _outcome(
    api: str, topic: str, partition: int, code: int, message: str | None = None, **facts: object
) -> tuple[TopicPartition, KafkaError | None]:
    error = error_of(api, code, message, topic=topic, partition=partition, **facts)
    return TopicPartition(topic, partition), error


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
        found[arguments.partition_of(pair[0]), arguments.broker_of(pair[1])] = path
    return found
