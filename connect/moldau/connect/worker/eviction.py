"""Removes a task from its consumer group if it did not leave the group itself.

A task that ends in order leaves its group. Two kinds cannot: a task that was killed because it did
not stop, and a task that was stopped before it joined, while the group still keeps its place from
an earlier run. Their partitions would be kept until the session ends. The member is named by its
instance id: if another process has taken its place meanwhile, that process learns that it was
removed, and joins again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client import Admin
from moldau.connect.api import SinkConnector
from moldau.connect.installed.plugins import connector_class, resolved
from moldau.connect.task.clients import settings_for
from moldau.connect.task.membership import SinkMembership, StopFor
from moldau.connect.task.messages import TaskSpec
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime

_HAS_LEFT: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


async def evict(
    spec: TaskSpec, why: StopFor, worker_settings: Mapping[str, str], runtime: Runtime
) -> None:
    """Remove the task's member from its group. Raise MoldauError or OSError if that fails."""
    if not issubclass(connector_class(spec.connector_config), SinkConnector):
        return

    def read() -> tuple[SinkMembership, dict[str, str]]:
        config, _ = resolved(spec.connector_config, worker_settings)
        worker, _ = resolved(worker_settings, worker_settings)
        given = settings_for(config, worker, "consumer")
        found = SinkMembership.of(spec.id, spec.cluster, given)
        return found, settings_for(config, worker, "admin")

    membership, settings = await runtime.run_blocking(read)
    if membership.instance_id is None or not membership.leaves(why):
        return
    async with Admin(settings, runtime=runtime) as admin:
        try:
            await admin.remove_members(
                membership.group_id,
                instance_ids=[membership.instance_id],
                reason="the task has ended",
            )
        except KafkaError as error:
            if error.code not in _HAS_LEFT:
                raise
