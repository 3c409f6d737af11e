"""RestoreRecords: batches with their offsets, for a partition of a topic that is being restored.

The answer comes when all replicas in sync have what the request appended, or with
REQUEST_TIMED_OUT. It says where the log ends, also with an error, so the sender knows what comes
next after a lost answer or another leader. What is refused and why: `replication.restoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.delayed_answer import DelayedAnswer
from moldau.broker.api.refusal import client_error, message_of
from moldau.broker.replication.restoring import (
    append_restored,
    begin_restored,
    is_restored,
    raise_restored_start,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.restore_records import (
    RestoreRecordsRequest,
    RestoreRecordsResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.replication.partition import Partition


def serve(node: Node, request: ApiRequest) -> None:
    """Append, and answer when the replicas in sync have it."""
    message = cast(RestoreRecordsRequest, request.decode())
    partition = None
    try:
        partition = _partition(node, message)
        begin_restored(partition, message.start_offset)
        if message.records is not None:
            now_ms = node.runtime.clock.wall_ms()
            append_restored(partition, message.records, message.log_end_offset, now_ms)
    except KafkaError as error:
        request.answer(_failure(node, message, partition, error))
        return
    waiting = _RestoreAnswer(node, request, message, partition)
    if not waiting.try_complete():
        waiting.wait(node.replicas.purgatory, (partition,), message.timeout_ms)


def _partition(node: Node, message: RestoreRecordsRequest) -> Partition:
    partition = node.replicas.partition(message.name, message.partition_index)
    if partition.topic_id != message.topic_id:
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "the topic is another one of this name")
    return partition


def _failure(
    node: Node, message: RestoreRecordsRequest, partition: Partition | None, error: KafkaError
) -> RestoreRecordsResponse:
    shown = client_error(node, message.name, message.partition_index, error)
    return _response(partition, shown.code, message_of(shown))


def _response(
    partition: Partition | None, code: int = ErrorCode.NONE, text: str | None = None
) -> RestoreRecordsResponse:
    response = RestoreRecordsResponse(error_code=code, error_message=text)
    if partition is not None:
        response.log_start_offset = partition.log_start_offset
        response.high_watermark = partition.high_watermark
        response.log_end_offset = partition.log_end_offset
    return response


class _RestoreAnswer(DelayedAnswer):
    """A request that waits until all replicas in sync have its batches."""

    __slots__ = ("_end_offset", "_message", "_node", "_partition")

    def __init__(
        self,
        node: Node,
        request: ApiRequest,
        message: RestoreRecordsRequest,
        partition: Partition,
    ) -> None:
        super().__init__(request)
        self._node = node
        self._message = message
        self._partition = partition
        self._end_offset = partition.log_end_offset

    def try_complete(self) -> bool:
        node, partition = self._node, self._partition
        try:
            if not is_restored(partition, self._end_offset):
                return False
            is_moved = raise_restored_start(partition, self._message.log_start_offset)
        except KafkaError as error:
            self.answer(_failure(node, self._message, partition, error))
            return True
        if is_moved:
            node.runtime.spawn(self._answer_when_durable(), name="restored-start")
        else:
            self.answer(_response(partition))
        return True

    def on_timeout(self) -> None:
        self.answer(_response(self._partition, ErrorCode.REQUEST_TIMED_OUT))

    async def _answer_when_durable(self) -> None:
        await self._node.replicas.log_starts_durable([self._partition])
        if not self.is_gone:
            self.answer(_response(self._partition))
