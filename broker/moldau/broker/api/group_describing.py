"""ConsumerGroupDescribe and ShareGroupDescribe, which differ only in the kind of group.

A request that names several groups goes to the shard of each. It is answered when all have
answered, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from moldau.broker.api.authorized_operations import ALL_OF_GROUP
from moldau.broker.api.together import PartialAnswers
from moldau.broker.coordinator.outcome import answered
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest, Handler
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.outcome import Outcome, Ticket


class DescribeApi(NamedTuple):
    """One of the two."""

    name: str
    is_served: Callable[[Node], bool]
    response: Callable[..., Response]
    group: Callable[..., Any]
    """Makes the description of a group."""
    describe: Callable[[Groups, str, Any], Any]
    """Returns the description of a group of this kind for a request, or raises KafkaError."""


def handler(api: DescribeApi) -> Handler:
    """Return the handler of one of the two."""

    def serve(node: Node, request: ApiRequest) -> None:
        message = cast(Any, request.decode())

        def finish(found: Sequence[Any]) -> None:
            if message.include_authorized_operations:
                for each in found:
                    if each.error_code == ErrorCode.NONE:
                        each.authorized_operations = ALL_OF_GROUP
            request.answer(api.response(groups=list(found)))

        together = PartialAnswers[Any](len(message.group_ids), finish)
        for number, group_id in enumerate(message.group_ids):

            def answer(
                response: Response | KafkaError, number: int = number, group_id: str = group_id
            ) -> None:
                if isinstance(response, KafkaError):
                    together.put(number, _not_described(api, group_id, response))
                else:
                    (found,) = cast(Any, response).groups
                    together.put(number, found)

            if not api.is_served(node):
                answer(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
            elif not group_id:
                answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
            else:
                decide = _describing(api, group_id, message, answer)
                node.groups.submit(group_id, decide, answer, api.name)

    return serve


def _describing(
    api: DescribeApi, group_id: str, message: Any, ticket: Ticket
) -> Callable[[Groups, int], Outcome]:
    def decide(groups: Groups, now_ms: int) -> Outcome:
        return answered(ticket, api.response(groups=[api.describe(groups, group_id, message)]))

    return decide


def _not_described(api: DescribeApi, group_id: str, error: KafkaError) -> Any:
    is_unknown = error.code is ErrorCode.GROUP_ID_NOT_FOUND
    return api.group(
        error_code=error.code,
        error_message=error.reason if is_unknown else None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
