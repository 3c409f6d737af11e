"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups: requests about whole groups.

A request that names several groups goes to the shard of each. It is answered when all have
answered, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.authorized_operations import ALL_OF_GROUP
from moldau.broker.api.group_describing import DescribeApi, handler
from moldau.broker.api.group_membership import serves_consumer_groups
from moldau.broker.api.share_offsets import delete_states_of_group
from moldau.broker.api.together import PartialAnswers
from moldau.broker.coordinator.group.commits import delete_group
from moldau.broker.coordinator.outcome import answered
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages import consumer_group_describe as consumers
from moldau.protocol.messages import describe_groups as classics
from moldau.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node, OnAnswer
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.group.contract import Group
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.outcome import Outcome, Ticket


_UNKNOWN_IS_ERROR_SINCE: Final = 6
_DEAD: Final = "Dead"


def serve_list_groups(node: Node, request: ApiRequest) -> None:
    """Answer with the groups of this broker. The filters ignore case. If a shard is loading, the
    whole request fails, because an incomplete list is worse."""
    message = cast(ListGroupsRequest, request.decode())
    states = {each.lower() for each in message.states_filter}
    types = {each.lower() for each in message.types_filter}
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.kind.value,
        )
        for groups in node.groups.tables()
        for group in groups
        if _passes(group, states, types)
    ]
    request.answer(ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed))


def _passes(group: Group, states: set[str], types: set[str]) -> bool:
    is_state = not states or group.state_name.lower() in states
    return is_state and (not types or group.kind.value in types)


def serve_describe_groups(node: Node, request: ApiRequest) -> None:
    """Describe classic groups. A missing group is described as dead; since version 6 it also has an
    error (KIP-1043)."""
    message = cast(classics.DescribeGroupsRequest, request.decode())
    version = request.arrival.version

    def finish(found: Sequence[classics.DescribedGroup]) -> None:
        if message.include_authorized_operations:
            for each in found:
                if each.error_code == ErrorCode.NONE:
                    each.authorized_operations = ALL_OF_GROUP
        request.answer(classics.DescribeGroupsResponse(groups=list(found)))

    together = PartialAnswers[classics.DescribedGroup](len(message.groups), finish)
    for number, group_id in enumerate(message.groups):

        def answer(
            response: Response | KafkaError, number: int = number, group_id: str = group_id
        ) -> None:
            if isinstance(response, KafkaError):
                together.put(number, _not_described(group_id, response, version))
            else:
                (found,) = cast(classics.DescribeGroupsResponse, response).groups
                together.put(number, found)

        node.groups.submit(group_id, _describe_classic(group_id, answer), answer, "DescribeGroups")


def _describe_classic(group_id: str, ticket: Ticket) -> Callable[[Groups, int], Outcome]:
    def decide(groups: Groups, now_ms: int) -> Outcome:
        described = groups.classic(group_id).describe()
        return answered(ticket, classics.DescribeGroupsResponse(groups=[described]))

    return decide


def _not_described(group_id: str, error: KafkaError, version: int) -> classics.DescribedGroup:
    described = classics.DescribedGroup(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        described.group_state = _DEAD
        if version >= _UNKNOWN_IS_ERROR_SINCE:
            described.error_message = error.reason
        else:
            described.error_code = ErrorCode.NONE
    return described


serve_consumer_group_describe: Final = handler(
    DescribeApi(
        "ConsumerGroupDescribe",
        serves_consumer_groups,
        consumers.ConsumerGroupDescribeResponse,
        consumers.DescribedGroup,
        lambda groups, group_id, message: groups.consumer(group_id).describe(),
    )
)


def serve_delete_groups(node: Node, request: ApiRequest) -> None:
    """Delete each group independently. A group that is named twice is deleted once."""
    message = cast(DeleteGroupsRequest, request.decode())

    def finish(found: Sequence[DeletableGroupResult]) -> None:
        request.answer(DeleteGroupsResponse(results=list(found)))

    names = list(dict.fromkeys(message.groups_names))
    together = PartialAnswers[DeletableGroupResult](len(names), finish)
    for number, group_id in enumerate(names):

        def answer(
            response: Response | KafkaError, number: int = number, group_id: str = group_id
        ) -> None:
            if isinstance(response, KafkaError):
                result = DeletableGroupResult(group_id=group_id, error_code=response.code)
                together.put(number, result)
            else:
                (found,) = cast(DeleteGroupsResponse, response).results
                together.put(number, found)

        delete_states_of_group(node, group_id, _then_delete(node, group_id, answer))


def _then_delete(node: Node, group_id: str, answer: OnAnswer) -> OnAnswer:
    """Delete the group when its states are deleted."""

    def go_on(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            answer(response)
        else:
            node.groups.submit(group_id, _delete(group_id, answer), answer, "DeleteGroups")

    return go_on


def _delete(group_id: str, ticket: Ticket) -> Callable[[Groups, int], Outcome]:
    return lambda groups, now_ms: delete_group(groups, group_id, ticket)
