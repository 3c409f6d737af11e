"""CreateTopics, DeleteTopics and CreatePartitions, forwarded to the controller.

The controller answers when its decision is committed. If the controller is on this node, this
broker's metadata includes the change then, so a client can use a new topic here at once: the answer
waits for the logs that this broker still makes for it (`LogMaker`), at most until the request's
timeout. Then the client gets it without them. The topic is created, and the partitions that are not
there yet answer NOT_LEADER_OR_FOLLOWER for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from moldau.broker.api.forwarding import forward
from moldau.broker.api.refused import refused_response
from moldau.broker.replication.purgatory import DelayedOperation
from moldau.broker.replication.replicas import LOGS_MADE
from moldau.broker.settings import creation
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.replication.replicas import Replicas
    from moldau.protocol.declare import Response
    from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
    from moldau.protocol.messages.create_topics import CreateTopicsRequest

_DELETION_DISABLED_SINCE: Final = 3
OnResponse: TypeAlias = "Callable[[Response], Any]"


class _LogsMade(DelayedOperation):
    """The answer to a creation, which waits for the logs of its topics."""

    __slots__ = ("_answer", "_names", "_replicas", "_response")

    def __init__(
        self, replicas: Replicas, names: Collection[str], response: Response, answer: OnResponse
    ) -> None:
        self._replicas = replicas
        self._names = names
        self._response = response
        self._answer = answer

    def try_complete(self) -> bool:
        if self._replicas.is_making(self._names):
            return False
        self.on_timeout()
        return True

    def on_timeout(self) -> None:
        self._answer(self._response)


def serve_creation(node: Node, request: ApiRequest) -> None:
    """Serve CreateTopics and CreatePartitions."""
    message = cast("CreateTopicsRequest | CreatePartitionsRequest", request.decode())
    names = [each.name for each in message.topics]
    begun_ms = _now_ms(node)

    def answer(response: Response) -> None:
        replicas = node.replicas
        if not replicas.is_making(names):
            request.answer(response)
            return
        waiting = _LogsMade(replicas, names, response, request.answer)
        left_ms = message.timeout_ms - (_now_ms(node) - begun_ms)
        replicas.purgatory.watch(waiting, (LOGS_MADE,), left_ms)

    forward(node, request, message, refused_response, answer)


def _now_ms(node: Node) -> int:
    return node.runtime.clock.monotonic_ns() // 1_000_000


def serve_delete_topics(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller, unless the settings forbid the deletion of topics."""
    message = cast(DeleteTopicsRequest, request.decode())
    if not node.settings[creation.delete_topic_enable]:
        version = request.arrival.version
        request.answer(refused_response(message, version, deletion_is_disabled(version)))
        return
    forward(node, request, message, refused_response)


def deletion_is_disabled(version: int) -> KafkaError:
    """Return the error of a forbidden deletion. Old clients do not know TOPIC_DELETION_DISABLED."""
    knows_code = version >= _DELETION_DISABLED_SINCE
    return KafkaError(
        ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST,
        f"{creation.delete_topic_enable.name} is false",
    )
