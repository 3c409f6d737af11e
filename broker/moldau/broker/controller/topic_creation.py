"""CreateTopics: check the topics, place their replicas, and set their first settings.

Each topic of a request succeeds or fails on its own. All that succeed enter the log as one batch.
If they are too many for one batch, none does. A name that is twice in the request fails as a whole,
because it is unclear which one was meant.

RestoreTopic makes a topic with the id and the leader epochs that it had in another cluster. It is
marked by a setting that no user can set; the removal of that (IncrementalAlterConfigs, as of any
setting) ends the restore. A topic that is there with the id of the request is left as it is, so a
restore may ask again. Restored batches name producer ids of the other cluster. Those must not be
given out here: a new producer would be taken for an old one, and its first batches for duplicates.
So the next block begins above them, and brokers drop the blocks that they hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.broker.controller.brokers import Broker
from moldau.broker.controller.configs import Resource, ResourceType
from moldau.broker.controller.directories import DIRECTORY_UNASSIGNED
from moldau.broker.controller.image import Image
from moldau.broker.controller.new_replicas import NewReplicas
from moldau.broker.controller.outcome import (
    BATCH_RECORDS_MAX,
    DecisionInputs,
    Outcome,
    check_record_count,
)
from moldau.broker.controller.placement import place
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topic_names import METADATA_TOPIC, check_topic_name
from moldau.broker.controller.topics import Partition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid, new_uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.restore_topic import (
    RESTORING,
    RestoreTopicRequest,
    RestoreTopicResponse,
)
from moldau.protocol.schemas.metadata_log import ConfigRecord, ProducerIdsRecord, TopicRecord

UNSAID: Final = -1


def create_topics(
    image: Image, rules: Rules, request: CreateTopicsRequest, inputs: DecisionInputs
) -> Outcome[CreateTopicsResponse]:
    """Create the valid topics. The response has an error for each other one. Raise KafkaError if
    all of them together are more than one request may create."""
    _check_partition_count(rules, request)
    named = Counter(each.name for each in request.topics)
    new = NewReplicas(image, rules.node_id, inputs.open_files)
    records: list[MetadataRecord] = []
    results: list[CreatableTopicResult] = []
    for topic in request.topics:
        if named[topic.name] > 1:
            continue
        try:
            made, result = _create(image, rules, topic, inputs, new)
        except KafkaError as error:
            results.append(_failure(topic.name, error))
        else:
            records.extend(made)
            results.append(result)
    check_record_count(records)
    repeated = KafkaError(ErrorCode.INVALID_REQUEST, "the request names the topic twice")
    results.extend(_failure(name, repeated) for name, times in named.items() if times > 1)
    return Outcome(
        () if request.validate_only else tuple(records),
        CreateTopicsResponse(topics=results),
    )


def _check_partition_count(rules: Rules, request: CreateTopicsRequest) -> None:
    """Reject too many partitions before any is created. Topics that would fail count too."""
    wanted = 0
    for each in request.topics:
        said = rules.num_partitions if each.num_partitions == UNSAID else each.num_partitions
        wanted += len(each.assignments) or max(0, said)
    if wanted > BATCH_RECORDS_MAX:
        raise too_many_partitions()


def too_many_partitions() -> KafkaError:
    """Return the error of a request with more records than enter the log at once."""
    return KafkaError(
        ErrorCode.POLICY_VIOLATION,
        "too many partitions for one request",
        records_max=BATCH_RECORDS_MAX,
    )


class Origin(NamedTuple):
    """What a topic keeps from another cluster, and the settings that only its restore gives it."""

    topic_id: Uuid
    leader_epochs: Sequence[int]
    settings: Mapping[str, str]


def _create(
    image: Image,
    rules: Rules,
    topic: CreatableTopic,
    inputs: DecisionInputs,
    new: NewReplicas,
    origin: Origin | None = None,
) -> tuple[list[MetadataRecord], CreatableTopicResult]:
    """Return the records of a new topic, and its row of the answer. Raise KafkaError if it cannot
    be created."""
    _check_name(image, topic.name)
    configs = _configs_of(topic)
    rules.configs.check(Resource(ResourceType.TOPIC, topic.name), configs, {})
    partitions = _partitions_of(image, rules, topic, inputs, new)
    inputs.charge(len(partitions))
    new.take(partitions)
    own_configs = configs
    if origin is None:
        topic_id = _fresh_id(image, inputs)
    else:
        topic_id, epochs, own = origin
        partitions = [
            replace(each, leader_epoch=epoch)
            for each, epoch in zip(partitions, epochs, strict=True)
        ]
        own_configs = {**configs, **own}
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records.extend(
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value
        )
        for name, value in own_configs.items()
    )
    metadata_version = image.features.metadata_version
    records.extend(
        partition.record(topic_id, number, metadata_version)
        for number, partition in enumerate(partitions)
    )
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=_shown(image, rules, topic.name, configs),
    )
    return records, result


def _check_name(image: Image, name: str) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is the cluster's own log")
    check_topic_name(name)
    if image.topics.by_name(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists")
    other = image.topics.colliding_with(name)
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic {name!r} collides with existing topic {other!r}: one name in metrics",
        )


def _fresh_id(image: Image, inputs: DecisionInputs) -> Uuid:
    while True:
        topic_id = new_uuid(inputs.random)
        if topic_id not in image.topics.by_id:
            return topic_id


def _configs_of(topic: CreatableTopic) -> dict[str, str]:
    """Return the first settings of the topic, sorted by name. If one is given twice, the last one
    counts."""
    values = {each.name: each.value for each in topic.configs}
    unset = sorted(name for name, value in values.items() if value is None)
    if unset:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for {', '.join(unset)}"
        )
    return {name: value for name, value in sorted(values.items()) if value is not None}


def _partitions_of(
    image: Image, rules: Rules, topic: CreatableTopic, inputs: DecisionInputs, new: NewReplicas
) -> list[Partition]:
    if topic.assignments:
        return _assigned(image, topic)
    factor = topic.replication_factor
    if factor < UNSAID or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be 1 or more, or -1 for the default",
        )
    count = topic.num_partitions
    if count < UNSAID or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to {count}: give 1 or more, or -1 for the default",
        )
    count = rules.num_partitions if count == UNSAID else count
    factor = rules.replication_factor if factor == UNSAID else factor
    placed = place(count, factor, new.candidates(), inputs.random)
    return [new_partition(image, replicas) for replicas in placed]


def _assigned(image: Image, topic: CreatableTopic) -> list[Partition]:
    """Return the partitions with the replicas that the user chose."""
    for said, what in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "number of partitions"),
    ):
        if said != UNSAID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"with replicas placed by hand the {what} must be -1"
            )
    by_number: dict[int, list[int]] = {}
    for each in topic.assignments:
        if each.partition_index in by_number:
            raise bad_assignment(f"partition {each.partition_index} is placed twice")
        check_replicas(image, each.broker_ids)
        by_number[each.partition_index] = each.broker_ids
    if sorted(by_number) != list(range(len(by_number))):
        raise bad_assignment("the partitions are not numbered from 0 without gaps")
    factor = len(by_number[0])
    partitions = []
    for number, replicas in sorted(by_number.items()):
        if len(replicas) != factor:
            raise bad_assignment(f"partition {number} has another number of replicas")
        partitions.append(new_partition(image, replicas, number))
    return partitions


def bad_assignment(reason: str) -> KafkaError:
    """Return the error of an invalid choice of replicas."""
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def check_replicas(image: Image, replicas: list[int]) -> None:
    """Raise KafkaError unless these are registered brokers, each once, and at least one."""
    if not replicas:
        raise bad_assignment("a partition without replicas")
    for broker_id in replicas:
        if broker_id not in image.brokers.by_id:
            raise bad_assignment(f"broker {broker_id}: no such broker is registered")
    if len(set(replicas)) != len(replicas):
        raise bad_assignment(f"a broker holds two replicas: {replicas}")


def new_partition(image: Image, replicas: list[int], number: int | None = None) -> Partition:
    """Return a partition on these brokers, led by the first active one. `number` is for the error
    message if none is active."""
    brokers = image.brokers.by_id
    isr = tuple(each for each in replicas if brokers[each].is_active)
    if not isr:
        where = "" if number is None else f" of partition {number}"
        raise bad_assignment(f"all replicas{where} are on brokers that are fenced or stopping")
    return Partition(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        directories=tuple(first_directory(brokers[each]) for each in replicas),
    )


def first_directory(broker: Broker) -> Uuid:
    """Return the directory of a new replica on the broker. A broker with several directories
    chooses it itself."""
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else DIRECTORY_UNASSIGNED


def _shown(
    image: Image, rules: Rules, name: str, configs: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    dynamic = image.configs.of_broker(rules.node_id)
    return [
        CreatableTopicConfigs(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            read_only=each.is_read_only,
            config_source=each.source,
            is_sensitive=each.is_sensitive,
        )
        for each in rules.configs.effective(Resource(ResourceType.TOPIC, name), configs, dynamic)
    ]


def _failure(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.reason)


def restore_topic(
    image: Image, rules: Rules, request: RestoreTopicRequest, inputs: DecisionInputs
) -> Outcome[RestoreTopicResponse]:
    """Create the topic, unless it is there. Raise KafkaError if it cannot be created."""
    ids = image.producer_ids
    response = RestoreTopicResponse(
        error_code=0, is_restoring=True, backup=request.backup, next_producer_id=ids.next_id
    )
    above = _ids_above(image, request.producer_id_end)
    known = image.topics.by_name(request.name)
    if known is not None and known.topic_id == request.topic_id:
        backup = image.configs.of_topic(request.name).get(RESTORING)
        response.is_restoring, response.backup = backup is not None, backup or ""
        return Outcome(() if backup is None else above, response)
    if request.topic_id == ZERO_UUID or request.topic_id in image.topics.by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "another topic has this id")
    topic = CreatableTopic(
        name=request.name,
        num_partitions=len(request.leader_epochs),
        replication_factor=request.replication_factor,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=each.name, value=each.value) for each in request.configs
        ],
    )
    origin = Origin(request.topic_id, request.leader_epochs, {RESTORING: request.backup})
    new = NewReplicas(image, rules.node_id, inputs.open_files)
    created, _ = _create(image, rules, topic, inputs, new, origin)
    records = (*created, *above)
    check_record_count(records)
    return Outcome(records, response)


def _ids_above(image: Image, producer_id_end: int) -> tuple[MetadataRecord, ...]:
    """Return the record after which producers get ids that are in no batch of the backup. Also
    where the next block is above them: brokers then drop the blocks that they hold."""
    if not producer_id_end:
        return ()
    next_id = max(producer_id_end, image.producer_ids.next_id)
    return (ProducerIdsRecord(broker_id=-1, next_producer_id=next_id),)
