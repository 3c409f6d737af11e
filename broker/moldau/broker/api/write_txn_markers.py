"""WriteTxnMarkers: a coordinator ends a transaction in partitions that this node leads.

A marker is written like a batch with acks=all: the coordinator hears of it when enough in-sync
replicas have it. In a partition of an internal topic of a coordinator, that coordinator's shard
writes the marker, because it has to apply it: the offsets of a transaction are then committed or
dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from moldau.broker.api.together import PartialAnswers
from moldau.broker.log.marker import Marker
from moldau.broker.replication.purgatory import DelayedOperation
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.declare import Response

OnWritten: TypeAlias = Callable[[ErrorCode], None]

_ALL_IN_SYNC: Final = -1
_TIMEOUT_MS: Final = 5_000
"""How long one partition without enough replicas delays the answer for all others."""


def serve(node: Node, request: ApiRequest) -> None:
    """Write all markers, and answer when each is safe or refused."""
    message = cast(WriteTxnMarkersRequest, request.decode())
    response = WriteTxnMarkersResponse(markers=[])
    rows: list[tuple[Marker, str, WritableTxnMarkerPartitionResult]] = []
    for asked in message.markers:
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        result = WritableTxnMarkerResult(producer_id=asked.producer_id, topics=[])
        response.markers.append(result)
        for topic in asked.topics:
            partitions = [
                WritableTxnMarkerPartitionResult(partition_index=each, error_code=0)
                for each in topic.partition_indexes
            ]
            rows += ((marker, topic.name, each) for each in partitions)
            result.topics.append(
                WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions)
            )
    together = PartialAnswers[None](len(rows), lambda _: request.answer(response))
    for number, (marker, name, row) in enumerate(rows):
        on_written = partial(_note, together, number, row)
        write_marker(node, name, row.partition_index, marker, on_written)


def _note(
    together: PartialAnswers[None],
    number: int,
    row: WritableTxnMarkerPartitionResult,
    code: ErrorCode,
) -> None:
    row.error_code = code
    together.put(number, None)


def write_marker(node: Node, topic: str, index: int, marker: Marker, on_written: OnWritten) -> None:
    """Write a marker to a partition of this node. `on_written` is called once, perhaps before this
    returns."""

    def on_code(code: ErrorCode) -> None:
        is_old = code is ErrorCode.INVALID_PRODUCER_EPOCH
        if is_old and not _has_open(node, topic, index, marker.producer_id):
            # A marker of an older epoch, sent again: its transaction has ended here. A refusal
            # would make its coordinator wait for ever (KAFKA-19999).
            code = ErrorCode.NONE
        on_written(code)

    coordinator = node.coordinators.of_topic(topic)
    if coordinator is not None:
        coordinator.end_transaction(index, marker, lambda answer: on_code(_code_of(answer)))
        return
    try:
        partition = node.replicas.partition(topic, index)
        wall_ms = node.runtime.clock.wall_ms()
        batch = marker.batch(wall_ms)
        appended = partition.append_own(batch, wall_ms, marker.transaction_version)
        if partition.is_acknowledged(appended.last_offset, _ALL_IN_SYNC):
            on_written(ErrorCode.NONE)
            return
    except KafkaError as error:
        on_code(error.code)
        return
    waiting = _Waiting(partition, appended.last_offset, on_written)
    node.replicas.purgatory.watch(waiting, (partition,), _TIMEOUT_MS)


def _has_open(node: Node, topic: str, index: int, producer_id: int) -> bool:
    try:
        entry = node.replicas.partition(topic, index).producers.get(producer_id)
    except KafkaError:
        return True
    return entry is not None and entry.transaction_first_offset is not None


def _code_of(answer: Response | KafkaError) -> ErrorCode:
    return answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE


class _Waiting(DelayedOperation):
    """A marker that is not on enough replicas yet."""

    __slots__ = ("_last_offset", "_on_written", "_partition")

    def __init__(self, partition: Partition, last_offset: int, on_written: OnWritten) -> None:
        self._partition = partition
        self._last_offset = last_offset
        self._on_written = on_written

    def try_complete(self) -> bool:
        try:
            if not self._partition.is_acknowledged(self._last_offset, _ALL_IN_SYNC):
                return False
        except KafkaError as error:
            self._on_written(error.code)
            return True
        self._on_written(ErrorCode.NONE)
        return True

    def on_timeout(self) -> None:
        self._on_written(ErrorCode.REQUEST_TIMED_OUT)
