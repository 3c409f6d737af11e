"""AlterPartition: a leader proposes another ISR, and the controller accepts or rejects it.

Invariants: only the leader of the current epoch changes an ISR, and only based on the current state
(the partition epoch). A replica may not join if its broker is fenced, is in controlled shutdown, or
is another incarnation than the one that fetched (KIP-841, KIP-903). Rules and codes are Kafka's.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.controller.elections import circumstances_of
from moldau.broker.controller.image import Image
from moldau.broker.controller.leadership import assignment_change
from moldau.broker.controller.outcome import Outcome
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topics import RECOVERED, RECOVERING, Partition, Topic
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord

_EPOCHS_SINCE = 3
_NEW_LEADER_SINCE = 2
_ANY_EPOCH = -1


def alter_partition(
    image: Image, rules: Rules, request: AlterPartitionRequest, version: int
) -> Outcome[AlterPartitionResponse]:
    """Handle each partition separately."""
    broker = image.brokers.by_id.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        code = ErrorCode.STALE_BROKER_EPOCH
        response = AlterPartitionResponse(error_code=code, topics=[])
        return Outcome((), response)
    records: list[PartitionChangeRecord] = []
    topics: list[AlterPartitionResponseTopicData] = []
    for asked_topic in request.topics:
        topic = image.topics.by_id.get(asked_topic.topic_id)
        rows = []
        for asked in asked_topic.partitions:
            row, record = _alter_one(image, rules, (request.broker_id, version), topic, asked)
            rows.append(row)
            if record is not None:
                records.append(record)
        topics.append(
            AlterPartitionResponseTopicData(topic_id=asked_topic.topic_id, partitions=rows)
        )
    response = AlterPartitionResponse(error_code=ErrorCode.NONE, topics=topics)
    return Outcome(tuple(records), response)


def _alter_one(
    image: Image,
    rules: Rules,
    asker: tuple[int, int],
    topic: Topic | None,
    asked: AlterPartitionRequestPartitionData,
) -> tuple[AlterPartitionResponsePartitionData, PartitionChangeRecord | None]:
    partition = None if topic is None else topic.partitions.get(asked.partition_index)
    if topic is None or partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(asked, code), None
    epochs = _isr_of(asked, asker[1])
    isr = list(epochs)
    code = _refusal(partition, asker[0], asked, isr) or _ineligible(image, epochs)
    if code:
        return _refused(asked, code), None
    name: tuple[Uuid, int] = topic.topic_id, asked.partition_index
    active = image.brokers.active_ids()
    at = circumstances_of(image, rules, topic.name, partition, active)
    wanted = replace(partition, isr=tuple(isr), leader_recovery_state=asked.leader_recovery_state)
    record = assignment_change(name, partition, wanted, at)
    after = partition if record is None else partition.changed(record)
    if after.leader != asker[0]:
        # The change completed a reassignment that removes the leader itself.
        is_known = asker[1] >= _NEW_LEADER_SINCE
        code = ErrorCode.NEW_LEADER_ELECTED if is_known else ErrorCode.FENCED_LEADER_EPOCH
        return _refused(asked, code), record
    row = AlterPartitionResponsePartitionData(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )
    return row, record


def _isr_of(asked: AlterPartitionRequestPartitionData, version: int) -> dict[int, int]:
    """Return the broker epoch of each replica; any epoch counts if the request has none."""
    if version < _EPOCHS_SINCE:
        return dict.fromkeys(asked.new_isr, _ANY_EPOCH)
    return {each.broker_id: each.broker_epoch for each in asked.new_isr_with_epochs}


def _refusal(
    partition: Partition,
    broker_id: int,
    asked: AlterPartitionRequestPartitionData,
    isr: list[int],
) -> ErrorCode:
    if (
        asked.leader_epoch > partition.leader_epoch
        or asked.partition_epoch > partition.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER  # the leader knows newer metadata than this controller
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not set(isr) <= set(partition.replicas) or broker_id not in isr:
        return ErrorCode.INVALID_REQUEST
    is_recovering = asked.leader_recovery_state == RECOVERING
    was_recovered = partition.leader_recovery_state == RECOVERED
    if is_recovering and (len(isr) > 1 or was_recovered):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _ineligible(image: Image, epochs: dict[int, int]) -> ErrorCode:
    for broker_id, broker_epoch in epochs.items():
        broker = image.brokers.by_id.get(broker_id)
        if broker is None or not broker.is_active:
            return ErrorCode.INELIGIBLE_REPLICA
        if broker_epoch not in (_ANY_EPOCH, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _refused(
    asked: AlterPartitionRequestPartitionData, code: ErrorCode
) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=asked.partition_index,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )
