"""Share groups as an admin sees them: listed, described with members and lag, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.client import Admin, KafkaError, NewTopic, TopicPartition
from moldau.client.base.coordinator import Coordinator
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from moldau.runtime import Runtime
from moldau.testing import EmbeddedBroker
from tests.runtime.arena import simulate

GROUP = "mailer"


def on_a_broker(main: Callable[[Admin, Runtime], Awaitable[None]]) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with (
            EmbeddedBroker(runtime=runtime) as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers, runtime=runtime) as admin,
        ):
            await admin.create_topic(NewTopic("orders", 2, 1))
            await main(admin, runtime)

    simulate(scenario)


async def pause(seconds: float) -> None:
    """Virtual time."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, over.set_result, None)
    await over


async def beat(admin: Admin, epoch: int, *topics: str) -> Any:
    """A heartbeat of the one member."""
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )

    async def ask(coordinator: Coordinator) -> ShareGroupHeartbeatResponse:
        answer = await coordinator.call(request, ShareGroupHeartbeatResponse)
        if answer.error_code:
            coordinator.note(answer.error_code)
            raise KafkaError(ErrorCode(answer.error_code))
        return answer

    found = (await admin._parts.groups.at_coordinators([GROUP], ask))[GROUP]
    assert not isinstance(found, KafkaError), found
    return found


def test_a_share_group_is_listed_described_and_deleted() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        answer = await beat(admin, 0, "orders")
        while not (answer.assignment and answer.assignment.topic_partitions):
            await pause(1.0)
            answer = await beat(admin, answer.member_epoch)
        (listed,) = await admin.list_groups()
        assert (listed.group_id, listed.type, listed.state) == (GROUP, "share", "Stable")
        described = await admin.describe_group(GROUP)
        (member,) = described.members
        both = (TopicPartition("orders", 0), TopicPartition("orders", 1))
        assert (described.type, described.assignor) == ("share", "simple")
        assert (member.topics, member.assignment, member.is_classic) == (("orders",), both, False)
        progress = await admin.group_progress(GROUP)
        assert [each.where for each in progress.partitions] == list(both)
        assert [each.member for each in progress.partitions] == [member, member]
        with pytest.raises(KafkaError) as caught:
            await admin.delete_group(GROUP)
        assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
        await beat(admin, -1)
        await admin.delete_group(GROUP)
        assert await admin.list_groups() == []

    on_a_broker(main)


def test_a_group_that_is_not_there_is_none_of_any_kind() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        with pytest.raises(KafkaError) as caught:
            await admin.describe_group("nothing")
        assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    on_a_broker(main)
