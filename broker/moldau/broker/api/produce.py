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
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.delayed_answer import DelayedAnswer
from moldau.broker.api.large_batches import judge
from moldau.broker.api.node import Node
from moldau.broker.api.produce_transaction import (
    NOTHING_CONFIRMED,
    VerifiedPartitions,
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
from moldau.broker.api.produced_batches import (
    ProducedBatches,
    new_answer,
    note_error,
    refusal_of,
)
from moldau.broker.api.refusal import Lead, lead_of
from moldau.broker.api.request import ApiRequest
from moldau.broker.replication.traffic import REQUEST_BYTES
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
from moldau.records.header import (
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
)

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

_LEADERS_SINCE: Final = 10
_CODEC_AT: Final = 22
"""The position of the lower byte of the attributes, which holds all defined attributes."""
_new_response = maker_of(ProduceResponse, "responses")
_new_topic = maker_of(TopicProduceResponse, "name", "topic_id", "partition_responses")


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
    acks, now_ms = outline.acks, node.runtime.clock.wall_ms()
    find: Any = node.replicas.partition_by_id if outline.is_by_id else node.replicas.partition
    rows: list[Any] = []
    unsafe: list[tuple[Partition, int, int]] = []
    partition: Partition | None
    failure: tuple[Partition | None, KafkaError | OversizedRecords] | None = None
    for (index, records), topic, before in zip(batches, outline.keys, outline.before, strict=True):
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
        partition.work += len(records) + REQUEST_BYTES
        log = partition.offsets
        if last_offset >= log.high_watermark:
            unsafe.append((partition, last_offset, len(rows) // ROW_VALUES))
        rows += before, index, base_offset, append_time_ms, log.log_start_offset
    else:
        if not unsafe:
            if acks:
                answer: Any = UsualAnswer(outline, rows)
                request.answer(answer)
            else:
                request.answer_nothing()
            return True
    produce = ProducedBatches(node, request, acks, NOTHING_CONFIRMED)
    _conclude_usual(produce, outline, batches, rows, unsafe, failure)
    return True


def _conclude_usual(
    produce: ProducedBatches,
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
        answers.append(new_answer(index, 0, base_offset, append_time_ms, log_start_offset))
    for partition, last_offset, position in unsafe:
        answer = answers[position]
        assert answer is not None
        produce.wait_if_needed(partition, last_offset, answer)
    is_oversized = failure is not None
    if failure is not None and isinstance(failure[1], KafkaError):
        index, records = batches[len(answers)]
        place = *outline.place(len(answers)), index
        answers.append(produce.refuse(place, failure[0], records, failure[1]))
        is_oversized = False
    if len(answers) < len(batches):
        message: ProduceRequest = produce.request.decode()  # type: ignore[assignment] # by its key
        _append_rest(produce, message, answers, is_oversized=is_oversized)
        return
    topics, start = [], 0
    for name, topic_id, count in outline.topics:
        topics.append(_new_topic(name, topic_id, answers[start : start + count]))
        start += count
    response = _new_response(topics)
    _conclude(produce.node, produce.request, produce, response, outline.timeout_ms)


def _append_all(
    node: Node, request: ApiRequest, message: ProduceRequest, confirmed: VerifiedPartitions
) -> bool:
    """Append the batches, and answer now or when they are as safe as requested. Return False if
    some of them are checked in a thread first: then the order is held until they are appended."""
    is_transactional = message.transactional_id is not None
    produce = ProducedBatches(
        node, request, message.acks, confirmed, is_transactional=is_transactional
    )
    return _append_rest(produce, message, [])


def _append_rest(
    produce: ProducedBatches,
    message: ProduceRequest,
    answers: list[PartitionProduceResponse | None],
    *,
    is_oversized: bool = False,
) -> bool:
    """Append the batches behind those that have `answers`, and so on like `_append_all`.
    `is_oversized`: the first of them is known to need a check in a thread."""
    node, request = produce.node, produce.request
    timeout_ms = message.timeout_ms
    topics = []
    for topic in message.topic_data:
        name, topic_id, partitions = topic.name, topic.topic_id, topic.partition_data
        given, answers = answers[len(partitions) :], answers[: len(partitions)]
        for data in partitions[len(answers) :]:
            answer = None
            if not is_oversized:
                answer = produce.append((name, topic_id, data.index), data.records)
            if answer is None:
                answer = produce.set_aside(answers, name, topic_id, data)
                is_oversized = False
            answers.append(answer)
        topics.append(_new_topic(name, topic_id, answers))
        answers = given
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
    node: Node,
    request: ApiRequest,
    produce: ProducedBatches,
    response: ProduceResponse,
    timeout_ms: int,
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
    node: Node,
    request: ApiRequest,
    produce: ProducedBatches,
    response: ProduceResponse,
    timeout_ms: int,
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
                note_error(answer, error)
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
                partition_responses=[
                    refusal_of(data.index, error) for data in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
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
