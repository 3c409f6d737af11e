"""Produce: appends the batch of each partition, and answers when `acks` is satisfied.

Invariants:
* Each partition of a request succeeds or fails on its own. If the whole request is invalid (bad
  acks, transactional batches without a transactional id), nothing is appended.
* acks=0 gets no response. If any part of it failed, the connection is closed: there is no other way
  to report a failure to such a producer.
* No bytes of the request are held after `serve` returns: they are in the log or rejected. Batches
  that wait for the coordinator of their transaction are copied, and hold the connection's order
  until they are appended: the batches behind them continue their sequences.

The common case, valid batches that are acknowledged at once, is one loop without a task, a closure
or a check of single records. If the request is like an earlier one, `_append_usual` does all of it,
and the codec is not used (`produce_usual`).
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from moldau.broker.api.delayed_answer import DelayedAnswer
from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.large_batches import BatchVerdict, LargeBatch, check_of, judge
from moldau.broker.api.node import Node
from moldau.broker.api.produce_transaction import (
    NOTHING_CONFIRMED,
    VerifiedPartitions,
    check_transaction,
    confirm,
)
from moldau.broker.api.produce_usual import (
    ROW_VALUES,
    Batches,
    Outline,
    Usual,
    UsualAnswer,
    learn,
    outlined,
)
from moldau.broker.api.record_errors import record_errors
from moldau.broker.api.refusal import Lead, client_error, client_error_by_id, lead_of, message_of
from moldau.broker.api.request import ApiRequest
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.constructor import maker_of
from moldau.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
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
_LEADERS_SINCE: Final = 10
_ADMIN_CLIENT: Final = "__admin_client"
"""The client id with which Kafka's brokers write to internal topics."""
_CODEC_AT: Final = 22
"""The position of the lower byte of the attributes, which holds all defined attributes."""
_ZSTD: Final = int(Codec.ZSTD)
_batch_start = Struct(">qi4xB5xB").unpack_from
"""Base offset, length, magic, and the lower byte of the attributes."""
_batch_length = Struct(">8xi").unpack_from

Place: TypeAlias = tuple[str, bytes, int]
"""A partition of a request: the topic's name and id, one of which counts, and the index."""

_new_response = maker_of(ProduceResponse, "responses")
_new_topic = maker_of(TopicProduceResponse, "name", "topic_id", "partition_responses")
_new_answer = maker_of(
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


def serve(
    node: Node,
    request: ApiRequest,
    passed: ProduceRequest | None = None,
    usual: Usual | None = None,
) -> None:
    """Handle a Produce request; see the module. `passed` is its message, if the gate has decoded
    it; `usual` its outline, if the gate has found that."""
    if passed is None:
        usual = usual or outlined(request.body, request.arrival.version)
        if usual is not None and _append_usual(node, request, *usual):
            return
    message: ProduceRequest = passed or request.decode()  # type: ignore[assignment] # by its key
    if message.transactional_id is None and _has_transaction(message):
        _end(node, request, message.acks, _refused_whole(message, _NO_TRANSACTIONAL_ID))
        return
    acks = message.acks
    if acks not in (-1, 0, 1):
        _end(node, request, acks, _refused_whole(message, _bad_acks(acks)))
    elif message.transactional_id is None:
        _append_all(node, request, message, NOTHING_CONFIRMED)
    else:
        append_all = partial(_append_all, node, request, message)
        confirm(node, request, message, append_all)


def _append_usual(node: Node, request: ApiRequest, outline: Outline, batches: Batches) -> bool:
    """Append the batches of a request like an earlier one, and answer. Return False and do nothing
    if the disk is watched. Batches behind one that takes more than that are handled with the
    codec."""
    directories = node.directories
    if directories.is_room_watched or directories.is_short_of_room:
        return False
    topic, acks, now_ms = outline.topic_key, outline.acks, node.runtime.clock.wall_ms()
    find: Any = node.replicas.partition_by_id if outline.is_by_id else node.replicas.partition
    rows: list[Any] = []
    unsafe: list[tuple[Partition, int, int]] = []
    partition: Partition | None
    failure: tuple[Partition | None, KafkaError | OversizedRecords] | None = None
    before = outline.start
    for index, records in batches:
        partition = None
        try:
            partition = find(topic, index)
            if partition.is_reserved:
                break
            appended = partition.append_usual(records, acks, now_ms)
        except (KafkaError, OversizedRecords) as error:
            failure = partition, without_frames(error)
            break
        if appended is None:
            break
        base_offset, last_offset, append_time_ms, _ = appended
        traffic = partition.traffic
        traffic.produces += 1
        traffic.bytes_in += len(records)
        traffic.messages_in += last_offset - base_offset + 1
        log = partition.offsets
        if last_offset >= log.high_watermark:
            unsafe.append((partition, last_offset, len(rows) // ROW_VALUES))
        rows += before, index, base_offset, append_time_ms, log.log_start_offset
        before = outline.before_next
    else:
        if not unsafe:
            if acks:
                answer: Any = UsualAnswer(outline, rows)
                request.answer(answer)
            else:
                request.answer_nothing()
            return True
    produce = _Produce(node, request, acks, NOTHING_CONFIRMED)
    _conclude_usual(produce, outline, batches, rows, unsafe, failure)
    return True


def _conclude_usual(
    produce: _Produce,
    outline: Outline,
    batches: Batches,
    rows: list[Any],
    unsafe: list[tuple[Partition, int, int]],
    failure: tuple[Partition | None, KafkaError | OversizedRecords] | None,
) -> None:
    """Conclude a request of which some batches are appended. Of these, `unsafe` may have to wait;
    the next one failed or takes the codec."""
    answers: list[PartitionProduceResponse | None] = []
    for at in range(1, len(rows), ROW_VALUES):
        index, base_offset, append_time_ms, log_start_offset = rows[at : at + ROW_VALUES - 1]
        answers.append(_new_answer(index, 0, base_offset, append_time_ms, log_start_offset))
    for partition, last_offset, position in unsafe:
        answer = answers[position]
        assert answer is not None
        produce.wait_if_needed(partition, last_offset, answer)
    is_oversized = failure is not None
    if failure is not None and isinstance(failure[1], KafkaError):
        index, records = batches[len(answers)]
        place = outline.topic, outline.topic_id, index
        answers.append(produce.refuse(place, failure[0], records, failure[1]))
        is_oversized = False
    if len(answers) < len(batches):
        message: ProduceRequest = produce.request.decode()  # type: ignore[assignment] # by its key
        _append_rest(produce, message, answers, is_oversized=is_oversized)
        return
    response = _new_response([_new_topic(outline.topic, outline.topic_id, answers)])
    _conclude(produce.node, produce.request, produce, response, outline.timeout_ms)


def _append_all(
    node: Node, request: ApiRequest, message: ProduceRequest, confirmed: VerifiedPartitions
) -> bool:
    """Append the batches, and answer now or when they are as safe as requested. Return False if
    some of them are checked in a thread first: then the order is held until they are appended."""
    is_transactional = message.transactional_id is not None
    produce = _Produce(node, request, message.acks, confirmed, is_transactional=is_transactional)
    return _append_rest(produce, message, [])


def _append_rest(
    produce: _Produce,
    message: ProduceRequest,
    answers: list[PartitionProduceResponse | None],
    *,
    is_oversized: bool = False,
) -> bool:
    """Append the batches behind those of the first topic that have `answers`, and so on like
    `_append_all`. `is_oversized`: the first of them is known to need a check in a thread."""
    node, request = produce.node, produce.request
    timeout_ms = message.timeout_ms
    topics = []
    for topic in message.topic_data:
        name, topic_id = topic.name, topic.topic_id
        for data in topic.partition_data[len(answers) :]:
            answer = None
            if not is_oversized:
                answer = produce.append((name, topic_id, data.index), data.records)
            if answer is None:
                answer = produce.set_aside(answers, name, topic_id, data)
                is_oversized = False
            answers.append(answer)
        topics.append(_new_topic(name, topic_id, answers))
        answers = []
    response = _new_response(topics)
    if not produce.large:
        if not produce.errors:
            learn(message, request.body, request.arrival.version)
        _conclude(node, request, produce, response, timeout_ms)
        return True
    request.hold_order()
    node.runtime.spawn(
        _append_large(node, request, produce, response, timeout_ms), name="large-batches"
    )
    return False


async def _append_large(
    node: Node, request: ApiRequest, produce: _Produce, response: ProduceResponse, timeout_ms: int
) -> None:
    """Check the large batches, append them, and answer the request."""
    size = sum(len(each.records) for each in produce.large)
    is_done = False
    try:
        for each in produce.large:
            judged = await judge(node, each)
            place = each.topic, each.topic_id, each.partition
            answer = produce.append(place, each.records, judged)
            each.answers[each.position] = answer
        is_done = True
    finally:
        node.unchecked_bytes -= size
        request.release_order()
        if not is_done:
            request.connection.close()
    _conclude(node, request, produce, response, timeout_ms)


def _conclude(
    node: Node, request: ApiRequest, produce: _Produce, response: ProduceResponse, timeout_ms: int
) -> None:
    """Answer now, or when the batches are as safe as requested."""
    acks = produce.acks
    if produce.errors and request.arrival.version >= _LEADERS_SINCE:
        _name_leaders(node, request, response)
    pending = produce.pending
    if pending and acks:
        delayed = DelayedProduce(request, response, acks, pending)
        partitions = [each[0] for each in pending]
        delayed.wait(node.replicas.purgatory, partitions, timeout_ms)
        return
    _end(node, request, acks, response)


class _Produce:
    """One request while its batches are appended."""

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
        log = partition.offsets
        answer = _new_answer(index, 0, base_offset, append_time_ms, log.log_start_offset)
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
            return _refusal(index, error)
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
            _note(answer, error)

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
        answer = _refusal(index, error)
        if partition is not None and error.code not in _WITHOUT_LOG_START:
            answer.log_start_offset = partition.log_start_offset
            if judged is not None:
                answer.record_errors = list(judged.record_errors)
            else:
                config = partition.log_config
                answer.record_errors = record_errors(records, error, config, self._now_ms)
        return answer


class DelayedProduce(DelayedAnswer):
    """A request whose batches are in the logs, but not yet as safe as `acks` demands."""

    __slots__ = ("_acks", "_pending", "_response")

    def __init__(
        self,
        request: ApiRequest,
        response: ProduceResponse,
        acks: int,
        pending: list[tuple[Partition, int, PartitionProduceResponse]],
    ) -> None:
        super().__init__(request)
        self._response = response
        self._acks = acks
        self._pending = pending

    def try_complete(self) -> bool:
        # Each call checks every partition. One that this node no longer leads must not be checked
        # again later, when the node may lead it again with other records.
        still = []
        for each in self._pending:
            partition, last_offset, answer = each
            try:
                if not partition.is_acknowledged(last_offset, self._acks):
                    still.append(each)
            except KafkaError as error:
                _note(answer, error)
        self._pending = still
        if still:
            return False
        self.answer(self._response)
        return True

    def on_timeout(self) -> None:
        """Answer with REQUEST_TIMED_OUT. The batches stay in the log: if an idempotent producer
        sends them again, they are duplicates."""
        for partition, _, answer in self._pending:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            answer.error_message = f"{partition.topic}-{partition.index} is appended, not yet safe"
        self.answer(self._response)


def _note(answer: PartitionProduceResponse, error: KafkaError) -> None:
    """Record an error for a batch that is in the log but not acknowledged as requested."""
    answer.error_code = error.code
    answer.error_message = message_of(error)


def _has_transaction(message: ProduceRequest) -> bool:
    for topic in message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) >= HEADER_BYTES
                and records[_CODEC_AT] & TRANSACTIONAL
                and records[MAGIC_AT] == MAGIC
            ):
                return True
    return False


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


_NO_TRANSACTIONAL_ID: Final = KafkaError(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "batches of a transaction in a request without transactional id",
)


def _bad_acks(acks: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, acks=acks)


def _refused_whole(message: ProduceRequest, error: KafkaError) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refusal(data.index, error) for data in topic.partition_data],
            )
            for topic in message.topic_data
        ]
    )


def _refusal(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        error_message=message_of(error),
    )


def _end(node: Node, request: ApiRequest, acks: int, response: ProduceResponse) -> None:
    if acks:
        request.answer(response)
        return
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                _refuse_by_closing(node, request, topic, answer)
                return
    request.answer_nothing()


def _refuse_by_closing(
    node: Node, request: ApiRequest, topic: TopicProduceResponse, answer: PartitionProduceResponse
) -> None:
    node.log.info(
        "closes connection: a produce that wants no answer failed",
        client=request.arrival.client_id,
        peer=request.connection.address,
        topic=topic.name or topic.topic_id.hex(),
        partition=answer.index,
        error=ErrorCode(answer.error_code).name,
        reason=answer.error_message,
    )
    request.connection.close()


def _name_leaders(node: Node, request: ApiRequest, response: ProduceResponse) -> None:
    """Add the current leader to partitions with a wrong leader (KIP-951)."""
    leads: dict[int, Lead] = {}
    listener = request.connection.listener
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            lead = lead_of(node, topic.name, topic.topic_id, answer.index, listener)
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=lead.leader_id, leader_epoch=lead.leader_epoch
            )
            if lead.is_reachable:
                leads[lead.leader_id] = lead
    response.node_endpoints = [
        NodeEndpoint(node_id=lead.leader_id, host=lead.host, port=lead.port, rack=lead.rack)
        for lead in leads.values()
    ]
