"""The records of a streams group, and their tombstones. All are in version 0.

Subtopologies and partitions are sorted, so that the same state always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.streams.member import Member, Profile, TaskProgress
from moldau.broker.coordinator.group.streams.tasks import OwnedTasks, Role, Tasks, of_role
from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.schemas import streams_group_log as log

VERSION: Final = 0
_UNKNOWN_STATE: Final = 127
_FIRST_STATE: Final = 1
"""The states of members have other numbers than in consumer groups: they begin here."""


def state_number(state: MemberState) -> int:
    """Return the number of a member's state in record 22."""
    return _UNKNOWN_STATE if state is MemberState.UNKNOWN else state.value + _FIRST_STATE


def state_of_number(number: int) -> MemberState:
    """Return the state with this number in record 22."""
    return MemberState.of_number(number - _FIRST_STATE)


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
) -> LogRecord:
    """Record 17: the group epoch, the metadata hash, and what the assignment depends on."""
    value = log.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=[
            log.LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)
        ],
    )
    return LogRecord(log.StreamsGroupMetadataKey(group_id=group_id), value, VERSION)


def member_profile(group_id: str, member_id: str, profile: Profile) -> LogRecord:
    """Record 19: a member's identity."""
    endpoint = profile.endpoint
    value = log.StreamsGroupMemberMetadataValue(
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        topology_epoch=profile.topology_epoch,
        process_id=profile.process_id,
        user_endpoint=None
        if endpoint is None
        else log.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[log.KeyValue(key=key, value=tag) for key, tag in profile.client_tags],
    )
    key = log.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return LogRecord(key, value, VERSION)


def topology(group_id: str, value: log.StreamsGroupTopologyValue) -> LogRecord:
    """Record 23: the topology."""
    return LogRecord(log.StreamsGroupTopologyKey(group_id=group_id), value, VERSION)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> LogRecord:
    """Record 20: the epoch of the target assignment, and its time."""
    value = log.StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    key = log.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
    return LogRecord(key, value, VERSION)


def target_of_member(group_id: str, member_id: str, tasks: Tasks) -> LogRecord:
    """Record 21: a member's part of the target assignment."""
    value = log.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_task_ids(tasks, Role.ACTIVE),
        standby_tasks=_task_ids(tasks, Role.STANDBY),
        warmup_tasks=_task_ids(tasks, Role.WARMUP),
    )
    key = log.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return LogRecord(key, value, VERSION)


def member_progress(group_id: str, member_id: str, progress: TaskProgress) -> LogRecord:
    """Record 22: a member's progress. Only active tasks have epochs."""
    assigned, revoking = progress.assigned, progress.revoking
    value = log.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=progress.epoch,
        previous_member_epoch=progress.previous_epoch,
        state=state_number(progress.state),
        active_tasks=_with_epochs(assigned, Role.ACTIVE),
        standby_tasks=_with_epochs(assigned, Role.STANDBY),
        warmup_tasks=_with_epochs(assigned, Role.WARMUP),
        active_tasks_pending_revocation=_with_epochs(revoking, Role.ACTIVE),
        standby_tasks_pending_revocation=_with_epochs(revoking, Role.STANDBY),
        warmup_tasks_pending_revocation=_with_epochs(revoking, Role.WARMUP),
    )
    key = log.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return LogRecord(key, value, VERSION)


def member_deleted(group_id: str, member: Member | str) -> tuple[LogRecord, ...]:
    """Return the tombstones of records 22, 21 and 19, in the order that readers rely on."""
    member_id = member if isinstance(member, str) else member.member_id
    of_member = {"group_id": group_id, "member_id": member_id}
    return (
        LogRecord(log.StreamsGroupCurrentMemberAssignmentKey(**of_member)),
        LogRecord(log.StreamsGroupTargetAssignmentMemberKey(**of_member)),
        LogRecord(log.StreamsGroupMemberMetadataKey(**of_member)),
    )


def group_deleted(group_id: str) -> tuple[LogRecord, ...]:
    """Return the tombstones of records 20, 23 and 17."""
    return (
        LogRecord(log.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        LogRecord(log.StreamsGroupTopologyKey(group_id=group_id)),
        LogRecord(log.StreamsGroupMetadataKey(group_id=group_id)),
    )


def _task_ids(tasks: Tasks, role: Role) -> list[log.TaskIds]:
    found = of_role(tasks, role)
    return [log.TaskIds(subtopology_id=each, partitions=found[each]) for each in found]


def _with_epochs(owned: OwnedTasks, role: Role) -> list[log.CurrentTaskIds]:
    epochs = {key.subtopology_id: owned[key] for key in owned if key.role is role}
    return [
        log.CurrentTaskIds(
            subtopology_id=each,
            partitions=partitions,
            assignment_epochs=[epochs[each][partition] for partition in partitions]
            if role is Role.ACTIVE
            else [],
        )
        for each, partitions in of_role(owned, role).items()
    ]
