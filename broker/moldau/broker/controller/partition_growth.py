"""CreatePartitions: add partitions to topics. Partitions are never removed.

Each topic of a request succeeds or fails on its own.
"""

from __future__ import annotations

from collections import Counter

from moldau.broker.controller.image import Image
from moldau.broker.controller.new_replicas import NewReplicas
from moldau.broker.controller.outcome import BATCH_RECORDS_MAX, DecisionInputs, Outcome
from moldau.broker.controller.placement import place
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topic_creation import (
    bad_assignment,
    check_replicas,
    new_partition,
    too_many_partitions,
)
from moldau.broker.controller.topics import Partition, Topic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    image: Image, rules: Rules, request: CreatePartitionsRequest, inputs: DecisionInputs
) -> Outcome[CreatePartitionsResponse]:
    """Create the new partitions. The response has an error for each topic that fails."""
    named = Counter(each.name for each in request.topics)
    new = NewReplicas(image, rules.node_id, inputs.open_files)
    records: list[MetadataRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    for wanted in request.topics:
        if named[wanted.name] > 1:
            continue
        try:
            made = _grow(image, wanted, inputs, new)
            if len(records) + len(made) > BATCH_RECORDS_MAX:
                raise too_many_partitions()
        except KafkaError as error:
            results.append(_result(wanted.name, error.code, error.reason))
        else:
            records.extend(made)
            results.append(_result(wanted.name, ErrorCode.NONE, None))
    results.extend(
        _result(name, ErrorCode.INVALID_REQUEST, "the request names the topic twice")
        for name, times in named.items()
        if times > 1
    )
    return Outcome(
        () if request.validate_only else tuple(records),
        CreatePartitionsResponse(results=results),
    )


def _grow(
    image: Image, wanted: CreatePartitionsTopic, inputs: DecisionInputs, new: NewReplicas
) -> list[MetadataRecord]:
    topic = image.topics.by_name(wanted.name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {wanted.name!r} does not exist"
        )
    now = len(topic.partitions)
    if wanted.count <= now:
        raise _no_increase(wanted, now)
    if wanted.count - now > BATCH_RECORDS_MAX:
        raise too_many_partitions()
    added = _added((image, topic), wanted, inputs, new)
    inputs.charge(len(added))
    new.take(added)
    metadata_version = image.features.metadata_version
    return [
        partition.record(topic.topic_id, now + number, metadata_version)
        for number, partition in enumerate(added)
    ]


def _no_increase(wanted: CreatePartitionsTopic, now: int) -> KafkaError:
    if wanted.count == now:
        reason = f"Topic already has {now} partitions"
    else:
        reason = (
            f"Topic {wanted.name!r} has {now} partitions; {wanted.count} would not be an increase"
        )
    return KafkaError(ErrorCode.INVALID_PARTITIONS, reason)


def _added(
    where: tuple[Image, Topic],
    wanted: CreatePartitionsTopic,
    inputs: DecisionInputs,
    new: NewReplicas,
) -> list[Partition]:
    image, topic = where
    count = wanted.count - len(topic.partitions)
    if wanted.assignments is None:
        placed = place(count, topic.replication_factor, new.candidates(), inputs.random)
        return [new_partition(image, replicas) for replicas in placed]
    if len(wanted.assignments) != count:
        raise bad_assignment(
            f"{count} partitions are to be added and {len(wanted.assignments)} are placed"
        )
    partitions = []
    for number, each in enumerate(wanted.assignments, len(topic.partitions)):
        check_replicas(image, each.broker_ids)
        if len(each.broker_ids) != topic.replication_factor:
            raise bad_assignment(f"partition {number} has another number of replicas")
        partitions.append(new_partition(image, each.broker_ids, number))
    return partitions


def _result(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
