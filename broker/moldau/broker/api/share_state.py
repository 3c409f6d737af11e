"""The five requests to the share coordinator: initialize, read, write, delete and summarize the
states of share partitions (KIP-932).

Each partition is a key of its own, with a shard of its own. A request is answered when all shards
have. An empty request, or one without a group, gets an empty answer, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from moldau.broker.api.refused import element_of, refused_rows
from moldau.broker.api.together import PartialAnswers
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.share import requests
from moldau.broker.coordinator.share.state import SharePartitionKey
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import request_class, response_class

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest, Handler
    from moldau.broker.coordinator.coordinator import Coordinator
    from moldau.broker.coordinator.outcome import Outcome, Ticket
    from moldau.broker.coordinator.share.states import ShareStates
    from moldau.protocol.declare import Request, Response

Decide: TypeAlias = "Callable[[ShareStates, SharePartitionKey, Any, Ticket, int], Outcome]"


class StateApi:
    """One of the five, and the classes of its messages."""

    def __init__(self, name: str, decide: Decide) -> None:
        self.name = name
        self.decide = decide
        self.request: type[Any] = request_class(name)
        self.asked_topic = element_of(self.request, "topics")
        self.asked = element_of(self.asked_topic, "partitions")
        self.response: type[Any] = response_class(name)
        self.topic = element_of(self.response, "results")
        self.partition = element_of(self.topic, "partitions")

    def request_of(self, key: SharePartitionKey, asked: Any) -> Request:
        """Return the request about one partition."""
        topic = self.asked_topic(topic_id=key.topic_id, partitions=[asked])
        request: Request = self.request(group_id=key.group_id, topics=[topic])
        return request

    def refused(self, partition: int, error: KafkaError) -> Any:
        """Return the result of a partition that was refused."""
        (row,) = refused_rows(self.partition, [partition], error.code, error.reason, start_offset=0)
        return row


INITIALIZE: Final = StateApi("InitializeShareGroupState", requests.initialize)
READ: Final = StateApi("ReadShareGroupState", requests.read)
WRITE: Final = StateApi("WriteShareGroupState", requests.write)
DELETE: Final = StateApi(
    "DeleteShareGroupState",
    lambda states, key, asked, ticket, now_ms: requests.delete(states, key, ticket, now_ms),
)
SUMMARIZE: Final = StateApi(
    "ReadShareGroupStateSummary",
    lambda states, key, asked, ticket, now_ms: requests.summarize(states, key, ticket, now_ms),
)


def handler(api: StateApi) -> Handler:
    """Return the handler of one of the five."""

    def serve(node: Node, request: ApiRequest) -> None:
        answer_states(node, api, request.decode(), request.answer)

    return serve


def answer_states(
    node: Node, api: StateApi, message: Request, then: Callable[[Response], None]
) -> None:
    """Let the shards of this node decide about each partition of a request."""
    asked = cast(Any, message)
    topics = asked.topics
    if not asked.group_id or not all(topic.partitions for topic in topics):
        then(api.response(results=[]))
        return
    wanted = [(topic.topic_id, each) for topic in topics for each in topic.partitions]

    def finish(found: Sequence[Any]) -> None:
        ids = (topic_id for topic_id, _ in wanted)
        then(_response(api, list(zip(ids, found, strict=True))))

    together = PartialAnswers[Any](len(wanted), finish)
    coordinator = node.coordinators.of(KeyType.SHARE)
    for number, (topic_id, each) in enumerate(wanted):
        key = SharePartitionKey(asked.group_id, topic_id, each.partition)
        index = coordinator.partition_of(str(key))
        decide_state(coordinator, index, api, (key, each), partial(together.put, number))


def decide_state(
    coordinator: Coordinator[ShareStates],
    index: int | None,
    api: StateApi,
    about: tuple[SharePartitionKey, Any],
    then: Callable[[Any], None],
) -> None:
    """Let a shard of this node decide about one partition. If the shard is elsewhere, or there is
    none yet, the result is NOT_COORDINATOR."""
    key, asked = about

    def take(answer: Response | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            then(api.refused(key.partition, answer))
        else:
            then(cast(Any, answer).results[0].partitions[0])

    def decide(states: ShareStates, now_ms: int) -> Outcome:
        return api.decide(states, key, asked, take, now_ms)

    if index is None:
        take(KafkaError(ErrorCode.NOT_COORDINATOR))
    else:
        coordinator.submit_to(index, decide, take, api.name)


def _response(api: StateApi, found: Sequence[tuple[bytes, Any]]) -> Response:
    by_topic: dict[bytes, list[Any]] = {}
    for topic_id, result in found:
        by_topic.setdefault(topic_id, []).append(result)
    response: Response = api.response(
        results=[
            api.topic(topic_id=topic_id, partitions=results)
            for topic_id, results in by_topic.items()
        ]
    )
    return response
