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
* A batch that takes long to read is read in a thread (`LargeLookup`), and the remote tier of a
  partition in a task (`RemoteLookup`), for as long as the request or
  `remote.list.offsets.request.timeout.ms` says; then it is REQUEST_TIMED_OUT. Its partition is
  judged again after that, as it may have another leader.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final, NamedTuple, cast

from moldau.broker.api.gate import allowed
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import client_error
from moldau.broker.api.request import ApiRequest
from moldau.broker.log.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    LargeLookup,
    OffsetAt,
)
from moldau.broker.replication.ends import check_end
from moldau.broker.settings.tiered import remote_list_offsets_request_timeout_ms
from moldau.broker.tiered.remote_lookup import RemoteLookup
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.runtime.process import short_turns
from moldau.runtime.timeouts import timeout

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
_OF_REMOTE: Final = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)


class _Asked(NamedTuple):
    """One partition of a request."""

    message: ListOffsetsRequest
    version: int
    topic: str
    row: ListOffsetsPartition


class _LargeRow(NamedTuple):
    """The place of a row that takes long."""

    rows: list[ListOffsetsPartitionResponse]
    number: int
    asked: _Asked
    lookup: LargeLookup | RemoteLookup


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
    large: list[_LargeRow] = []
    for topic in message.topics:
        rows: list[ListOffsetsPartitionResponse] = []
        for row in topic.partitions:
            times = named.pop((topic.name, row.partition_index), 0)
            if not times:
                continue
            asked = _Asked(message, version, topic.name, row)
            if topic.name not in names:
                refusal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                rows.append(_refused(node, asked, refusal))
            elif times > 1:
                rows.append(_refused(node, asked, KafkaError(ErrorCode.INVALID_REQUEST)))
            elif isinstance(found := _row(node, asked), LargeLookup | RemoteLookup):
                large.append(_LargeRow(rows, len(rows), asked, found))
                rows.append(_found(asked, _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH))
            else:
                rows.append(found)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    response = ListOffsetsResponse(topics=topics)
    if large:
        node.runtime.spawn(_answer_later(node, request, response, large), name="large-lookups")
    else:
        request.answer(response)


async def _answer_later(
    node: Node, request: ApiRequest, response: ListOffsetsResponse, large: list[_LargeRow]
) -> None:
    """Put the rows that take long in their places, and answer. Those that look into remote storage
    do so at the same time."""
    is_done = False
    end = node.runtime.clock.monotonic() + _patience_s(node, large[0].asked)
    remote = [
        node.runtime.spawn(_put_row(node, row, end), name="remote lookups", reported=False)
        for row in large
        if isinstance(row.lookup, RemoteLookup)
    ]
    try:
        for row in large:
            if isinstance(row.lookup, LargeLookup):
                await _put_row(node, row, end)
        for task in remote:
            await task
        is_done = True
    finally:
        for task in remote:
            task.cancel()
        if not is_done:
            request.connection.close()
    request.answer(response)


def _patience_s(node: Node, asked: _Asked) -> float:
    """Return how long the request waits for remote storage."""
    asked_ms: int = asked.message.timeout_ms
    ours_ms: int = node.settings[remote_list_offsets_request_timeout_ms]
    return (asked_ms if asked_ms > 0 else ours_ms) / 1000


async def _put_row(node: Node, row: _LargeRow, end: float) -> None:
    row.rows[row.number] = await _later_row(node, row.asked, row.lookup, end)


async def _later_row(
    node: Node, asked: _Asked, lookup: LargeLookup | RemoteLookup, end: float
) -> ListOffsetsPartitionResponse:
    while True:
        try:
            if isinstance(lookup, LargeLookup):
                found = await node.large_lookups.result(node.runtime, partial(_run, lookup))
            else:
                async with timeout(end - node.runtime.clock.monotonic()):
                    found = await lookup.run()
        except KafkaError as error:
            return _refused(node, asked, error)
        except TimeoutError:
            return _refused(node, asked, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        row = _row(node, asked, found, lookup.next_offset)
        if not isinstance(row, LargeLookup | RemoteLookup):
            return row
        lookup = row


def _run(lookup: LargeLookup) -> OffsetAt | None:
    with short_turns():
        return lookup.run()


def _row(
    node: Node, asked: _Asked, known: OffsetAt | None = None, start_offset: int = 0
) -> ListOffsetsPartitionResponse | LargeLookup | RemoteLookup:
    """Return the row, an error's too, or what is to be done elsewhere first. `known` was found
    there; without it, records from `start_offset` on are looked for."""
    try:
        row = _find(node, asked, known, start_offset)
    except KafkaError as error:
        return _refused(node, asked, error)
    if asked.version < _EPOCHS_SINCE and isinstance(row, ListOffsetsPartitionResponse):
        row.leader_epoch = _NO_EPOCH
    return row


def _find(
    node: Node, asked: _Asked, known: OffsetAt | None, start_offset: int
) -> ListOffsetsPartitionResponse | LargeLookup | RemoteLookup:
    message, version, topic, row = asked
    timestamp = row.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, _NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, timestamp=timestamp, version=version)
    must_lead = message.replica_id != _DEBUGGER
    find = node.replicas.partition if must_lead else node.replicas.readable
    partition = find(topic, row.partition_index)
    partition.check_epoch(row.current_leader_epoch, must_lead=must_lead)
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
    found: OffsetAt | LargeLookup | RemoteLookup | None = known
    if found is None:
        found = partition.look_up(timestamp, upper, start_offset)
    if isinstance(found, LargeLookup | RemoteLookup):
        return found
    # The log has kept below the bound what it found. Only a consumer is not to know all of it.
    is_checked = known is None and not (is_consumer and timestamp in _OF_REMOTE)
    if found is None or (not is_checked and found.offset >= bound):
        if is_consumer:
            check_end(partition)  # the record may be one that was acknowledged
        return _found(asked, _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH)
    epoch = _NO_EPOCH if found.leader_epoch is None else found.leader_epoch
    if upper is None and found.offset == partition.log_end_offset:
        epoch = partition.leader_epoch  # the epoch of the next record
    return _found(asked, found.timestamp, found.offset, epoch)


def _found(
    asked: _Asked, timestamp: int, offset: int, leader_epoch: int
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.row.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _refused(node: Node, asked: _Asked, error: KafkaError) -> ListOffsetsPartitionResponse:
    index = asked.row.partition_index
    code = client_error(node, asked.topic, index, error).code
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and asked.version < _NOT_AVAILABLE_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
