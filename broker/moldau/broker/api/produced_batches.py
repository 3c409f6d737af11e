"""The batches of one Produce request: each is checked, appended, or refused, and gets its answer.

Invariants:
* Each partition succeeds or fails on its own, and is counted once in its topic's traffic.
* A batch is answered with `acks` satisfied, or is in `pending`: appended, not yet as safe as that.
* A batch that decompresses to much is copied to `large`, to be checked in a thread, and so are
  those behind it for the same partition: their order stays.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.large_batches import BatchVerdict, LargeBatch, check_of
from moldau.broker.api.node import Node
from moldau.broker.api.produce_transaction import VerifiedPartitions, check_transaction
from moldau.broker.api.record_errors import record_errors
from moldau.broker.api.refusal import client_error, client_error_by_id, message_of
from moldau.broker.api.request import ApiRequest
from moldau.broker.replication.traffic import REQUEST_BYTES
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.constructor import maker_of
from moldau.protocol.messages.produce import PartitionProduceResponse
from moldau.records import HEADER_BYTES, OversizedRecords
from moldau.records.codecs import Codec
from moldau.records.header import (
    CODEC_MASK,
    MAGIC,
    MAGIC_AT,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
)

if TYPE_CHECKING:
    from moldau.broker.log.appending import AppendedFields
    from moldau.broker.replication.partition import Partition

NO_OFFSET: Final = -1
_TOPIC_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_ADMIN_CLIENT: Final = "__admin_client"
"""The client id with which Kafka's brokers write to internal topics."""
_ZSTD: Final = int(Codec.ZSTD)
_batch_start = Struct(">qi4xB5xB").unpack_from
"""Base offset, length, magic, and the lower byte of the attributes."""
_batch_length = Struct(">8xi").unpack_from

Place: TypeAlias = tuple[str, bytes, int]
"""A partition of a request: the topic's name and id, one of which counts, and the index."""

new_answer = maker_of(
    PartitionProduceResponse,
    *("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset"),
)

_WITHOUT_LOG_START: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors that say nothing about the log. As in Kafka, the responses for other errors include the
log start offset."""


class ProducedBatches:
    """The batches of one request while they are appended."""

    __slots__ = (
        "_confirmed",
        "_is_short_of_room",
        "_is_usual",
        "_now_ms",
        "_replicas",
        "_version",
        "acks",
        "errors",
        "large",
        "node",
        "pending",
        "request",
    )

    def __init__(
        self,
        node: Node,
        request: ApiRequest,
        acks: int,
        confirmed: VerifiedPartitions,
        *,
        is_transactional: bool = False,
    ) -> None:
        self.node = node
        self._confirmed = confirmed
        self._replicas = node.replicas
        self.request = request
        self._version = request.arrival.version
        self.acks = acks
        self._now_ms = node.runtime.clock.wall_ms()
        directories = node.directories
        if directories.is_room_watched:
            directories.watch_room(self._now_ms)
        self._is_short_of_room = directories.is_short_of_room
        self._is_usual = (
            not is_transactional and self._version >= _ZSTD_SINCE and not self._is_short_of_room
        )
        self.errors = 0
        self.pending: list[tuple[Partition, int, PartitionProduceResponse]] = []
        self.large: list[LargeBatch] = []

    def append(
        self, place: Place, records: Any, judged: BatchVerdict | None = None
    ) -> PartitionProduceResponse | None:
        """Append the batch and return the response, which is final unless in `pending`. None, if
        nothing was done, because the batch is to be `judged` first."""
        topic, topic_id, index = place
        asked: Partition | None = None
        if self.large and judged is None and self._is_behind_large(place):
            return None
        try:
            if self._version < _TOPIC_IDS_SINCE:
                partition = self._replicas.partition(topic, index)
            else:
                partition = self._replicas.partition_by_id(topic_id, index)
            appended: AppendedFields | None = None
            is_usual = self._is_usual and judged is None
            if is_usual and records is not None and not partition.is_reserved:
                asked = partition
                appended = partition.append_usual(records, self.acks, self._now_ms)
            if appended is None:
                asked = None
                base_offset = self._check_batch(partition, records)
                asked = partition
                if base_offset:
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD, "a produced batch begins at offset 0"
                    )
                if judged is None:
                    appended = partition.append(records, self.acks, self._now_ms)
                elif judged.admitted is None:
                    assert judged.error is not None
                    raise without_frames(judged.error)
                else:
                    admitted = judged.admitted
                    appended = partition.append(records, self.acks, self._now_ms, admitted)
        except OversizedRecords:
            return None
        except KafkaError as error:
            return self.refuse(place, asked, records, error, judged)
        base_offset, last_offset, append_time_ms, _ = appended
        traffic = partition.traffic
        traffic.produces += 1
        traffic.bytes_in += len(records)
        traffic.messages_in += last_offset - base_offset + 1
        partition.work += len(records) + REQUEST_BYTES
        log = partition.offsets
        answer = new_answer(index, 0, base_offset, append_time_ms, log.log_start_offset)
        # A batch below the high watermark is already as safe as any `acks` can require.
        if last_offset >= log.high_watermark:
            self.wait_if_needed(partition, last_offset, answer)
        return answer

    def refuse(
        self,
        place: Place,
        partition: Partition | None,
        records: Any,
        error: KafkaError,
        judged: BatchVerdict | None = None,
    ) -> PartitionProduceResponse:
        """Count a refused batch and return the response. `partition` refused it; None if the
        request was refused before its partition was known."""
        topic, topic_id, index = place
        self.errors += 1
        traffic = self._replicas.traffic.unknown() if partition is None else partition.traffic
        traffic.produces += 1
        traffic.failed_produces += 1
        if self._version < _TOPIC_IDS_SINCE:
            refusal = client_error(self.node, topic, index, without_frames(error))
        else:
            refusal = client_error_by_id(self.node, topic_id, index, without_frames(error))
        return self._refused(index, partition, records, refusal, judged)

    def set_aside(
        self, answers: list[PartitionProduceResponse | None], topic: str, topic_id: bytes, data: Any
    ) -> PartitionProduceResponse | None:
        """Copy a batch that is to be checked in a thread. Return an answer only if it is refused:
        too many wait already."""
        index, records = data.index, bytearray(data.records)
        try:
            partition = self._partition(topic, topic_id, index)
            check = check_of(self.node, partition, records, self._now_ms)
        except KafkaError as error:
            self.errors += 1
            return refusal_of(index, error)
        self.node.unchecked_bytes += len(records)
        position = len(answers)
        self.large.append(LargeBatch(answers, position, topic, topic_id, index, records, check))
        return None

    def _partition(self, topic: str, topic_id: bytes, index: int) -> Partition:
        if self._version < _TOPIC_IDS_SINCE:
            return self._replicas.partition(topic, index)
        return self._replicas.partition_by_id(topic_id, index)

    def _is_behind_large(self, place: Place) -> bool:
        """Whether a batch before this one, for the same partition, waits for its check."""
        return any((each.topic, each.topic_id, each.partition) == place for each in self.large)

    def wait_if_needed(
        self, partition: Partition, last_offset: int, answer: PartitionProduceResponse
    ) -> None:
        """Note the batch as pending, unless it is as safe as `acks` requires."""
        try:
            if not partition.is_acknowledged(last_offset, self.acks):
                self.pending.append((partition, last_offset, answer))
        except KafkaError as error:
            self.errors += 1
            note_error(answer, error)

    def _check_batch(self, partition: Partition, records: Any) -> int:
        """Check the parts that depend on the request; the log checks the rest. Return the base
        offset, which is not checked yet."""
        if records is None or len(records) < HEADER_BYTES:
            _refuse_shape(records)
        base_offset: int
        base_offset, length, magic, attributes = _batch_start(records)
        if magic != MAGIC or length != len(records) - OVERHEAD_BYTES:
            _refuse_shape(records)
        if attributes or partition.is_reserved:
            self._check_unusual(partition, records, attributes)
        return base_offset

    def _check_unusual(self, partition: Partition, records: Any, attributes: int) -> None:
        """Check a batch that is compressed or transactional, or that is for an internal topic."""
        if self._version < _ZSTD_SINCE and attributes & CODEC_MASK == _ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                "zstd is for Produce 7 and later",
                version=self._version,
            )
        if attributes & TRANSACTIONAL:
            check_transaction(self.node, partition, records, self._confirmed, self._version)
        if is_internal(partition.topic):
            self._check_insider(partition.topic)

    def _check_insider(self, topic: str) -> None:
        """Reject a client's write to an internal topic: only brokers write there."""
        if self.request.arrival.client_id != _ADMIN_CLIENT:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "only brokers write there", topic=topic
            )

    def _refused(
        self,
        index: int,
        partition: Partition | None,
        records: Any,
        error: KafkaError,
        judged: BatchVerdict | None,
    ) -> PartitionProduceResponse:
        """Return the response for a rejected batch. `partition` rejected it; None if the request
        was rejected before its partition was known."""
        answer = refusal_of(index, error)
        if partition is not None and error.code not in _WITHOUT_LOG_START:
            answer.log_start_offset = partition.log_start_offset
            if judged is not None:
                answer.record_errors = list(judged.record_errors)
            else:
                config = partition.log_config
                answer.record_errors = record_errors(records, error, config, self._now_ms)
        return answer


def note_error(answer: PartitionProduceResponse, error: KafkaError) -> None:
    """Record an error for a batch that is in the log but not acknowledged as requested."""
    answer.error_code = error.code
    answer.error_message = message_of(error)


def _refuse_shape(records: Any) -> NoReturn:
    """Reject records that are not exactly one batch of version 2."""
    given = 0 if records is None else len(records)
    if given <= MAGIC_AT:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch")
    magic = records[MAGIC_AT]
    if magic != MAGIC:
        code = ErrorCode.INVALID_RECORD if magic < MAGIC else ErrorCode.CORRUPT_MESSAGE
        raise KafkaError(code, "batches of version 2 only", magic=magic)
    size = _batch_length(records)[0] + OVERHEAD_BYTES
    if size < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "batch is smaller than its header", size=size)
    if size > given:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "there is no whole batch", size=size, given=given
        )
    raise KafkaError(ErrorCode.INVALID_RECORD, "one batch for a partition", size=size, given=given)


def refusal_of(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        error_message=message_of(error),
    )
