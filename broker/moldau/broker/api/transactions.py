"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions and ListTransactions.

Checks that do not need the transaction come first, in Kafka's order. Then the coordinator's shard
decides, and its answer becomes a response of the request's version.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.gate import allowed, is_allowed, may_on_cluster
from moldau.broker.api.joining import partitions_of, submit
from moldau.broker.api.together import PartialAnswers
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.outcome import Outcome, Ticket, answered
from moldau.broker.coordinator.regular_expression import compiled
from moldau.broker.coordinator.transaction.ending import end_transaction
from moldau.broker.coordinator.transaction.listing import NAMES, describe, listed
from moldau.broker.coordinator.transaction.membership import JoiningPartitions, results
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages import describe_transactions as describing
from moldau.protocol.messages import list_transactions as listing
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.transaction.state import Partitions
    from moldau.broker.coordinator.transaction.transactions import Transactions
    from moldau.protocol.declare import Response

_FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that has PRODUCER_FENCED."""
_OF_BROKERS_SINCE: Final = 4
"""The version of AddPartitionsToTxn that only brokers send."""
_BUMPS_SINCE: Final = 5
"""The version of EndTxn with which clients of transaction version 2 begin."""
_VERSION_TWO: Final = 2


def code_for(error: KafkaError, version: int, fenced_since: int = _FENCED_SINCE) -> ErrorCode:
    """Return the error code for a client that may not know that of a fenced producer."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def serve_add_partitions(node: Node, request: ApiRequest) -> None:
    """Add partitions to transactions: a client's one, or any number that a broker names."""
    message = cast(AddPartitionsToTxnRequest, request.decode())
    if request.arrival.version < _OF_BROKERS_SINCE:
        _add_of_client(node, request, message)
        return
    if not may_on_cluster(node, request):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        request.answer(AddPartitionsToTxnResponse(error_code=code))
        return

    def finish(found: Sequence[AddPartitionsToTxnResult]) -> None:
        request.answer(AddPartitionsToTxnResponse(results_by_transaction=list(found)))

    together = PartialAnswers[AddPartitionsToTxnResult](len(message.transactions), finish)
    for number, asked in enumerate(message.transactions):
        take = partial(_put, together, number, asked.transactional_id)
        submit(node, _joining_of(asked), take, verify_only=asked.verify_only)


def _put(
    together: PartialAnswers[AddPartitionsToTxnResult],
    number: int,
    transactional_id: str,
    answer: AddPartitionsToTxnResponse,
) -> None:
    rows = answer.results_by_topic_v3_and_below
    together.put(
        number, AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=rows)
    )


def _joining_of(asked: AddPartitionsToTxnTransaction) -> JoiningPartitions:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    return JoiningPartitions(
        asked.transactional_id, producer, partitions_of(asked.topics), client_version=_VERSION_TWO
    )


def _add_of_client(node: Node, request: ApiRequest, message: AddPartitionsToTxnRequest) -> None:
    transactional_id = message.v3_and_below_transactional_id
    partitions = partitions_of(message.v3_and_below_topics)
    version = request.arrival.version
    if not is_allowed(node, request, AclResource.TRANSACTIONAL_ID, transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        request.answer(results(partitions, code))
        return
    refused = _unusable(node, request, partitions)
    if refused:
        rest = results(partitions - refused.keys(), ErrorCode.OPERATION_NOT_ATTEMPTED)
        for partition, code in refused.items():
            one = results(frozenset((partition,)), code)
            rest.results_by_topic_v3_and_below += one.results_by_topic_v3_and_below
        request.answer(rest)
        return
    producer = Producer(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)

    def answer(response: Response | KafkaError) -> None:
        assert isinstance(response, AddPartitionsToTxnResponse)
        for topic in response.results_by_topic_v3_and_below:
            for row in topic.results_by_partition:
                error = KafkaError(ErrorCode(row.partition_error_code))
                row.partition_error_code = code_for(error, version)
        request.answer(response)

    submit(
        node, JoiningPartitions(transactional_id, producer, partitions), answer, verify_only=False
    )


def _unusable(
    node: Node, request: ApiRequest, partitions: Partitions
) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions that cannot join. If there is one, none joins."""
    names = {each.topic for each in partitions}
    writable = allowed(node, request, AclResource.TOPIC, names)
    refused: dict[TopicPartition, ErrorCode] = {}
    for each in partitions:
        topic = node.image.topics.by_name(each.topic)
        if each.topic not in writable:
            refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or each.partition not in topic.partitions:
            refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def serve_add_offsets(node: Node, request: ApiRequest) -> None:
    """Add the partition of a group's offsets to the client's transaction."""
    message = cast(AddOffsetsToTxnRequest, request.decode())
    version = request.arrival.version
    index = node.groups.partition_of(message.group_id)
    code = ErrorCode.NONE
    if not is_allowed(node, request, AclResource.TRANSACTIONAL_ID, message.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not is_allowed(node, request, AclResource.GROUP, message.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif index is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code or index is None:
        request.answer(AddOffsetsToTxnResponse(error_code=code))
        return
    producer = Producer(message.producer_id, message.producer_epoch)
    partitions = frozenset((TopicPartition(node.groups.kind.topic, index),))

    def answer(response: AddPartitionsToTxnResponse) -> None:
        (topic,) = response.results_by_topic_v3_and_below
        found = KafkaError(ErrorCode(topic.results_by_partition[0].partition_error_code))
        request.answer(AddOffsetsToTxnResponse(error_code=code_for(found, version)))

    joining = JoiningPartitions(message.transactional_id, producer, partitions)
    submit(node, joining, answer, verify_only=False)


def serve_end(node: Node, request: ApiRequest) -> None:
    """Commit or abort the client's transaction."""
    message = cast(EndTxnRequest, request.decode())
    version = request.arrival.version

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = EndTxnResponse(error_code=code_for(response, version))
        request.answer(response)

    if not is_allowed(node, request, AclResource.TRANSACTIONAL_ID, message.transactional_id):
        answer(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    client_version = _VERSION_TWO if version >= _BUMPS_SINCE else 0
    node.coordinators.of(KeyType.TRANSACTION).submit(
        message.transactional_id,
        lambda shard, now_ms: end_transaction(shard, message, client_version, answer, now_ms),
        answer,
        "EndTxn",
    )


# Tools.


def serve_describe(node: Node, request: ApiRequest) -> None:
    """Describe transactional ids, each with an error of its own."""
    message = cast(describing.DescribeTransactionsRequest, request.decode())
    ids = list(dict.fromkeys(message.transactional_ids))
    readable = allowed(node, request, AclResource.TRANSACTIONAL_ID, ids)
    found: dict[str, describing.TransactionState] = {}

    def take(transactional_id: str, response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            state = _undescribed(transactional_id, response)
        else:
            assert isinstance(response, describing.DescribeTransactionsResponse)
            (state,) = response.transaction_states
            names = [each.topic for each in state.topics]
            shown = allowed(node, request, AclResource.TOPIC, names)
            state.topics = [each for each in state.topics if each.topic in shown]
        found[transactional_id] = state
        if len(found) == len(ids):
            states = [found[each] for each in ids]
            request.answer(describing.DescribeTransactionsResponse(transaction_states=states))

    if not ids:
        request.answer(describing.DescribeTransactionsResponse(transaction_states=[]))
    for each in ids:
        if each not in readable:
            take(each, KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        else:
            _describe(node, each, take)


def _describe(node: Node, transactional_id: str, take: object) -> None:
    def answer(response: Response | KafkaError) -> None:
        assert callable(take)
        take(transactional_id, response)

    def decide(shard: Transactions, now_ms: int) -> Outcome:
        state = describe(shard, transactional_id)
        ticket: Ticket = answer
        states = [state]
        return answered(ticket, describing.DescribeTransactionsResponse(transaction_states=states))

    coordinator = node.coordinators.of(KeyType.TRANSACTION)
    coordinator.submit(transactional_id, decide, answer, "DescribeTransactions")


def _undescribed(transactional_id: str, error: KafkaError) -> describing.TransactionState:
    return describing.TransactionState(
        error_code=error.code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def serve_list(node: Node, request: ApiRequest) -> None:
    """List the transactional ids that this node coordinates."""
    message = cast(listing.ListTransactionsRequest, request.decode())
    response = listing.ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[each for each in message.state_filters if each not in NAMES],
        transaction_states=[],
    )
    try:
        if message.transactional_id_pattern:
            compiled(message.transactional_id_pattern)
    except KafkaError as error:
        response.error_code = error.code
        request.answer(response)
        return
    now_ms = node.runtime.clock.monotonic_ns() // 1_000_000
    is_filter_known = len(response.unknown_state_filters) < len(message.state_filters)
    try:
        if is_filter_known or not message.state_filters:
            for shard in node.coordinators.of(KeyType.TRANSACTION).tables():
                response.transaction_states += listed(shard, message, now_ms)
    except KafkaError as error:
        response.error_code, response.transaction_states = error.code, []
    names = {each.transactional_id for each in response.transaction_states}
    shown = allowed(node, request, AclResource.TRANSACTIONAL_ID, names)
    response.transaction_states = [
        each for each in response.transaction_states if each.transactional_id in shown
    ]
    request.answer(response)
