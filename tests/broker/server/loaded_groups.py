"""A node's groups, as soon as they are loaded."""

from __future__ import annotations

from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.broker.server.wire import Wire


async def coordinated(wire: Wire) -> None:
    """Until groups can be asked for."""
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    while True:
        answer = await wire.ask(request, FindCoordinatorResponse)
        if not answer.coordinators[0].error_code and await listed(wire) is not None:
            return


async def listed(wire: Wire) -> list[str] | None:
    """The groups that there are; None while they are loaded."""
    answer = await wire.ask(ListGroupsRequest(), ListGroupsResponse)
    return None if answer.error_code else [each.group_id for each in answer.groups]
