"""A member of a share group for tests of commands: it is assigned partitions and reads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moldau.cli.commands.cluster_connection import OpenClient, opened
from moldau.client import Admin, KafkaError
from moldau.client.base.coordinator import Coordinator
from moldau.errors.codes import ErrorCode
from moldau.ids import format_uuid, new_uuid
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.cli.groups import Cluster
from tests.peers.eventually import eventually

_LEAVE = -1


@contextmanager
def share_member(cluster: Cluster, group: str, topic: str) -> Iterator[str]:
    """The id of a member that has joined and has partitions of the topic; it leaves at the end."""
    given = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "a-sharer"}
    with opened(lambda runtime: Admin(given, runtime=runtime)) as admin:
        member_id = format_uuid(new_uuid(admin.runtime.random))
        epoch = 0

        def beat(member_epoch: int) -> Any:
            return _beat(admin, group, member_id, member_epoch, topic)

        def is_assigned() -> bool:
            nonlocal epoch
            answer = beat(epoch)
            epoch = answer.member_epoch
            return bool(answer.assignment and answer.assignment.topic_partitions)

        eventually(is_assigned)
        yield member_id
        beat(_LEAVE)


def _beat(admin: OpenClient[Admin], group: str, member_id: str, epoch: int, topic: str) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=[topic] if epoch == 0 else None,
    )

    async def ask(coordinator: Coordinator) -> ShareGroupHeartbeatResponse:
        answer = await coordinator.call(request, ShareGroupHeartbeatResponse)
        coordinator.note(answer.error_code)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return answer

    return admin.run(lambda client: client._parts.groups.at_coordinator(group, ask))
