"""The five requests to the share coordinator: initialize, read, write, delete and summarize the
states of share partitions (KIP-932).

Each partition is a key of its own, with a shard of its own. A request is answered when all shards
have. An empty request, or one without a group, gets an empty answer, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from moldau.broker.api.together import Together
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.share import requests
from moldau.broker.coordinator.share.state import SharePartitionKey
from moldau.errors.codes import KafkaError
from moldau.protocol.messages import delete_share_group_state as deleting
from moldau.protocol.messages import initialize_share_group_state as initializing
from moldau.protocol.messages import read_share_group_state as reading
from moldau.protocol.messages import read_share_group_state_summary as summing
from moldau.protocol.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from moldau.broker.api.node import Node, OnAnswer
    from moldau.broker.api.request import ApiRequest, Handler
    from moldau.broker.coordinator.outcome import Outcome, Ticket
    from moldau.broker.coordinator.share.states import ShareStates
    from moldau.protocol.declare import Request, Response

Decide: TypeAlias = "Callable[[ShareStates, SharePartitionKey, Any, Ticket, int], Outcome]"


class StateApi(NamedTuple):
    """One of the five."""

    name: str
    decide: Decide
    response: Callable[..., Response]
    topic: Callable[..., Any]
    refused: Callable[[int, KafkaError], Any]
    """Returns the result of a partition that was refused."""


def _refused_read(partition: int, error: KafkaError) -> reading.PartitionResult:
    return reading.PartitionResult(
        partition=partition,
        error_code=error.code,
        error_message=error.reason,
        state_epoch=0,
        start_offset=0,
        state_batches=[],
    )


def _refused_summary(partition: int, error: KafkaError) -> summing.PartitionResult:
    return summing.PartitionResult(
        partition=partition,
        error_code=error.code,
        error_message=error.reason,
        state_epoch=0,
        leader_epoch=0,
        start_offset=0,
    )


INITIALIZE: Final = StateApi(
    "InitializeShareGroupState",
    requests.initialize,
    initializing.InitializeShareGroupStateResponse,
    initializing.InitializeStateResult,
    lambda partition, error: initializing.PartitionResult(
        partition=partition, error_code=error.code, error_message=error.reason
    ),
)
READ: Final = StateApi(
    "ReadShareGroupState",
    requests.read,
    reading.ReadShareGroupStateResponse,
    reading.ReadStateResult,
    _refused_read,
)
WRITE: Final = StateApi(
    "WriteShareGroupState",
    requests.write,
    writing.WriteShareGroupStateResponse,
    writing.WriteStateResult,
    lambda partition, error: writing.PartitionResult(
        partition=partition, error_code=error.code, error_message=error.reason
    ),
)
DELETE: Final = StateApi(
    "DeleteShareGroupState",
    lambda states, key, asked, ticket, now_ms: requests.delete(states, key, ticket, now_ms),
    deleting.DeleteShareGroupStateResponse,
    deleting.DeleteStateResult,
    lambda partition, error: deleting.PartitionResult(
        partition=partition, error_code=error.code, error_message=error.reason
    ),
)
SUMMARIZE: Final = StateApi(
    "ReadShareGroupStateSummary",
    lambda states, key, asked, ticket, now_ms: requests.summarize(states, key, ticket, now_ms),
    summing.ReadShareGroupStateSummaryResponse,
    summing.ReadStateSummaryResult,
    _refused_summary,
)


def handler(api: StateApi) -> Handler:
    """Return the handler of one of the five."""

    def serve(node: Node, request: ApiRequest) -> None:
        answer_states(node, api, request.decode(), request.answer)

    return serve


def refusal(api: StateApi) -> Callable[[Any, int, KafkaError], Response]:
    """Return what refuses a whole request: the error of each partition."""

    def refuse(message: Any, version: int, error: KafkaError) -> Response:
        found = [
            (topic.topic_id, api.refused(each.partition, error))
            for topic in message.topics
            for each in topic.partitions
        ]
        return _response(api, found)

    return refuse


def answer_states(
    node: Node, api: StateApi, message: Request, then: Callable[[Response], None]
) -> None:
    """Let the shards of this node decide about each partition of a request. Partitions whose
    shards are elsewhere get NOT_COORDINATOR."""
    asked = cast(Any, message)
    topics = asked.topics
    if not asked.group_id or not all(topic.partitions for topic in topics):
        then(api.response(results=[]))
        return
    wanted = [(topic.topic_id, each) for topic in topics for each in topic.partitions]

    def finish(found: Sequence[Any]) -> None:
        ids = (topic_id for topic_id, _ in wanted)
        then(_response(api, list(zip(ids, found, strict=True))))

    together = Together[Any](len(wanted), finish)
    coordinator = node.coordinators.of(KeyType.SHARE)
    for number, (topic_id, each) in enumerate(wanted):
        key = SharePartitionKey(asked.group_id, topic_id, each.partition)
        on_answer = _put(api, together, number, each.partition)
        coordinator.submit(str(key), _deciding(api, key, each, on_answer), on_answer, api.name)


def _put(api: StateApi, together: Together[Any], number: int, partition: int) -> OnAnswer:
    def put(answer: Response | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            together.put(number, api.refused(partition, answer))
        else:
            together.put(number, cast(Any, answer).results[0].partitions[0])

    return put


def _deciding(
    api: StateApi, key: SharePartitionKey, each: Any, ticket: Ticket
) -> Callable[[ShareStates, int], Outcome]:
    return lambda states, now_ms: api.decide(states, key, each, ticket, now_ms)


def _response(api: StateApi, found: Sequence[tuple[bytes, Any]]) -> Response:
    by_topic: dict[bytes, list[Any]] = {}
    for topic_id, result in found:
        by_topic.setdefault(topic_id, []).append(result)
    return api.response(
        results=[
            api.topic(topic_id=topic_id, partitions=results)
            for topic_id, results in by_topic.items()
        ]
    )
