"""ListOffsets: find offsets by time, and the ends of logs.

| timestamp | finds                                            | since version |
|-----------|--------------------------------------------------|---------------|
| >= 0      | the first record of that time or a later one     | 1             |
| -1        | the end, as far as the client may read           | 1             |
| -2        | the beginning                                    | 1             |
| -3        | the record of the largest timestamp              | 7             |
| -4        | the beginning of what is on this disk            | 8             |
| -5        | the end of what is in remote storage             | 9             |
| -6        | the first that waits for upload                  | 11            |

Invariants:
* A consumer never gets an offset that it may not read. Another broker (a follower) and a debugging
  client (replica id -2, also from a follower) may.
* A consumer never gets an end below what was acknowledged before it asked. After an election the
  end, and a time that has no answer below it, are OFFSET_NOT_AVAILABLE until the high watermark has
  reached the offset at which the leader's epoch began (KIP-207); before version 5
  LEADER_NOT_AVAILABLE. Clients retry both.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, cast

from moldau.broker.api.gate import allowed
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import client_error
from moldau.broker.api.request import ApiRequest
from moldau.broker.log.offset_lookup import EARLIEST, EARLIEST_LOCAL, LATEST
from moldau.broker.replication.ends import check_end
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_ISOLATION_LEVELS: Final = (0, 1)
_NO_TIMESTAMP: Final = -1
_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1
_EPOCHS_SINCE: Final = 4
_NOT_AVAILABLE_SINCE: Final = 5
_SINCE: Final = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
_NEVER: Final = 1 << 15


def serve(node: Node, request: ApiRequest) -> None:
    """Answer for each partition; see the module. One that is named twice gets one
    INVALID_REQUEST."""
    message = cast(ListOffsetsRequest, request.decode())
    version = request.arrival.version
    named = Counter(
        (topic.name, asked.partition_index)
        for topic in message.topics
        for asked in topic.partitions
    )
    names = allowed(node, request, AclResource.TOPIC, [each.name for each in message.topics])
    topics = []
    for topic in message.topics:
        rows = []
        for asked in topic.partitions:
            index = asked.partition_index
            times = named.pop((topic.name, index), 0)
            if not times:
                continue
            try:
                if topic.name not in names:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if times > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                row = _find(node, message, version, topic.name, asked)
                if version < _EPOCHS_SINCE:
                    row.leader_epoch = _NO_EPOCH
                rows.append(row)
            except KafkaError as error:
                code = _code_of(client_error(node, topic.name, index, error), version)
                rows.append(_refused(index, code))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    request.answer(ListOffsetsResponse(topics=topics))


def _find(
    node: Node,
    message: ListOffsetsRequest,
    version: int,
    topic: str,
    asked: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, _NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, timestamp=timestamp, version=version)
    must_lead = message.replica_id != _DEBUGGER
    find = node.replicas.partition if must_lead else node.replicas.readable
    partition = find(topic, asked.partition_index)
    partition.check_epoch(asked.current_leader_epoch, must_lead=must_lead)
    if message.isolation_level not in _ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, isolation_level=message.isolation_level)
    is_consumer = message.replica_id == _CONSUMER
    bound = partition.log_end_offset
    if is_consumer:
        bound = partition.fetch_bound(message.isolation_level, False)
    if timestamp == LATEST:
        if is_consumer:
            check_end(partition)
        return _found(asked, _NO_TIMESTAMP, bound, partition.leader_epoch)
    # The beginning may equal the end, in a log without records.
    upper = None if timestamp in (EARLIEST, EARLIEST_LOCAL) else bound
    found = partition.find_offset(timestamp, upper)
    if found is None:
        if is_consumer:
            check_end(partition)  # the record may be one that was acknowledged
        return _found(asked, _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH)
    epoch = _NO_EPOCH if found.leader_epoch is None else found.leader_epoch
    if upper is None and found.offset == partition.log_end_offset:
        epoch = partition.leader_epoch  # the epoch of the next record
    return _found(asked, found.timestamp, found.offset, epoch)


def _found(
    asked: ListOffsetsPartition, timestamp: int, offset: int, leader_epoch: int
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _code_of(error: KafkaError, version: int) -> ErrorCode:
    if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code


def _refused(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
