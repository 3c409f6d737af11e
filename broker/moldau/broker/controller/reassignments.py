"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860).

Requests begin, replace, cancel and list moves. `assignment` describes a move. It ends with the
AlterPartition that adds the last added replica to the ISR. Each partition of a request succeeds or
fails on its own. Codes are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from moldau.broker.controller.assignment import cancelled, goal_of, is_moving, towards
from moldau.broker.controller.elections import circumstances_of
from moldau.broker.controller.image import Image
from moldau.broker.controller.leadership import Election, assignment_change
from moldau.broker.controller.new_replicas import NewReplicas
from moldau.broker.controller.outcome import DecisionInputs, Outcome, check_record_count
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topic_creation import check_replicas, first_directory
from moldau.broker.controller.topics import Partition, Topic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord


def alter_reassignments(
    image: Image, rules: Rules, request: AlterPartitionReassignmentsRequest, inputs: DecisionInputs
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Begin or cancel moves. The response has an error for each partition that fails."""
    may_grow = request.allow_replication_factor_change
    new = NewReplicas(image, rules.node_id, inputs.open_files)
    records: dict[tuple[Uuid, int], PartitionChangeRecord] = {}
    topics = []
    for asked_topic in request.topics:
        rows = []
        for asked in asked_topic.partitions:
            code, reason = ErrorCode.NONE, None
            try:
                topic, partition = _known(image, asked_topic.name, asked.partition_index)
                name = topic.topic_id, asked.partition_index
                if name in records:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, "the request names the partition twice"
                    )
                record = _alter(image, rules, (topic, partition), asked, may_grow, new)
                if record is not None:
                    records[name] = record
            except KafkaError as error:
                code, reason = error.code, error.reason
                if code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    reason = None  # as in Kafka
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=code, error_message=reason
                )
            )
        topics.append(ReassignableTopicResponse(name=asked_topic.name, partitions=rows))
    check_record_count(records)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_grow,
        error_code=ErrorCode.NONE,
        error_message=None if topics else "",
        responses=topics,
    )
    return Outcome(tuple(records.values()), response)


def _known(image: Image, name: str, number: int) -> tuple[Topic, Partition]:
    topic = image.topics.by_name(name)
    partition = None if topic is None else topic.partitions.get(number)
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic, partition


def _alter(
    image: Image,
    rules: Rules,
    subject: tuple[Topic, Partition],
    asked: ReassignablePartition,
    may_grow: bool,
    new: NewReplicas,
) -> PartitionChangeRecord | None:
    topic, partition = subject
    at = circumstances_of(image, rules, topic.name, partition, image.brokers.active_ids())
    if asked.replicas is None:
        wanted = _cancel(partition, may_lose=at.election is Election.UNCLEAN)
    else:
        wanted = _begin(image, partition, asked.replicas, may_grow=may_grow)
        if rules.node_id in wanted.replicas and rules.node_id not in partition.replicas:
            new.take([wanted])
    at = circumstances_of(image, rules, topic.name, wanted, image.brokers.active_ids())
    return assignment_change((topic.topic_id, asked.partition_index), partition, wanted, at)


def _cancel(partition: Partition, *, may_lose: bool) -> Partition:
    if not is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    wanted = cancelled(partition)
    if wanted.isr:
        return wanted
    if not may_lose:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the old replicas are out of sync: to go back would lose records",
        )
    return replace(wanted, isr=wanted.replicas[:1])


def _begin(image: Image, partition: Partition, goal: list[int], *, may_grow: bool) -> Partition:
    check_replicas(image, goal)
    factor = len(goal_of(partition))
    if not may_grow and len(goal) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor is changed from {factor} to {len(goal)}",
        )
    return towards(partition, goal, lambda each: first_directory(image.brokers.by_id[each]))


def refuse_listing(
    message: ListPartitionReassignmentsRequest, version: int, error: KafkaError
) -> ListPartitionReassignmentsResponse:
    """Return the response for the case that moves may not be listed: the rows of the request."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.reason,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=each, replicas=[], adding_replicas=[], removing_replicas=[]
                    )
                    for each in topic.partition_indexes
                ],
            )
            for topic in message.topics or ()
        ],
    )


def list_reassignments(
    image: Image, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the moves in progress. Partitions that do not move or do not exist are left out."""
    topics = []
    for topic, numbers in _wanted(image, request):
        moving = list(_moving(topic, numbers))
        if moving:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=moving))
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None, topics=topics
    )


def _wanted(
    image: Image, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[Topic, Iterable[int]]]:
    if request.topics is None:
        for topic in image.topics.by_id.values():
            yield topic, topic.partitions
        return
    for each in request.topics:
        named = image.topics.by_name(each.name)
        if named is not None:
            yield named, each.partition_indexes


def _moving(topic: Topic, numbers: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is not None and is_moving(partition):
            yield OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
