"""The decision about TxnOffsetCommit: offsets that a transaction commits or drops with its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.group.commits import (
    VALUE_VERSION,
    is_too_large,
    refusal_of_append,
)
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import PartitionCheck
    from moldau.broker.coordinator.group.groups import Groups

_IDS_SINCE: Final = 6
"""The first version with topic ids, and with the errors about them and about members' epochs."""
_GONE: Final = ErrorCode.UNKNOWN_TOPIC_ID


def commit_in_transaction(
    groups: Groups, message: TxnOffsetCommitRequest, version: int, ticket: Ticket, now_ms: int
) -> Outcome:
    """Decide a TxnOffsetCommit of a producer. The records belong to its transaction. A client that
    names its member and generation is fenced as in OffsetCommit (KIP-447). The topics here have
    both their names and the ids that they had when the request came."""
    check = _check(groups, message, version)
    wall_ms = groups.services.wall_ms(now_ms)
    records: list[LogRecord] = []
    answer = TxnOffsetCommitResponse(topics=[])
    for topic in message.topics:
        is_there = groups.services.cluster.by_id(topic.topic_id) is not None
        rows: list[TxnOffsetCommitResponsePartition] = []
        answer.topics.append(
            TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)
        )
        for asked in topic.partitions:
            code = ErrorCode.NONE
            if not is_there:  # it was deleted while the coordinator of transactions was asked
                code = _GONE if version >= _IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif is_too_large(asked.committed_metadata, groups.services.settings):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if check is not None:  # an error raised here rejects the whole commit
                    check(topic.name, topic.topic_id, asked.partition_index)
                key = OffsetCommitKey(
                    group=message.group_id, topic=topic.name, partition=asked.partition_index
                )
                value = OffsetCommitValue(
                    offset=asked.committed_offset,
                    leader_epoch=asked.committed_leader_epoch,
                    metadata=asked.committed_metadata or "",
                    commit_timestamp=wall_ms,
                    topic_id=topic.topic_id,
                )
                records.append(LogRecord(key, value, VALUE_VERSION))
            rows.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=asked.partition_index, error_code=code
                )
            )
    groups.services.counts.offsets_committed.value += len(records)

    def on_failure(error: KafkaError, now_ms: int) -> Outcome:
        return Outcome(
            answers=((ticket, refused_in_transaction(message, refusal_of_append(error))),)
        )

    return Outcome(tuple(records), ((ticket, answer),), on_failure=on_failure)


def _check(groups: Groups, message: TxnOffsetCommitRequest, version: int) -> PartitionCheck | None:
    group = groups.get(message.group_id)
    if group is None:
        if message.generation_id_or_member_epoch >= 0:
            if version >= _IDS_SINCE:
                groups.existing(message.group_id)
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return None
    try:
        return group.check_commit(
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
            version,
            is_txn=True,
        )
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH and version < _IDS_SINCE:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from error
        raise


def refused_in_transaction(
    message: TxnOffsetCommitRequest, error: KafkaError
) -> TxnOffsetCommitResponse:
    """Return a response with the error at each partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error.code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
