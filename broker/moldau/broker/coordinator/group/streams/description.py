"""The description of a streams group, for StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.streams.tasks import OwnedTasks, Role, TaskId, Tasks, of_role
from moldau.protocol.messages import streams_group_describe as describing

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.streams.member import Member
    from moldau.broker.coordinator.group.streams.state import StreamsGroupState
    from moldau.broker.coordinator.group.streams.topology import InternalTopic, Topology


def described(state: StreamsGroupState) -> describing.DescribedGroup:
    """Return the group, its topology, its members and their tasks."""
    topology = state.topology
    return describing.DescribedGroup(
        error_code=0,
        group_id=state.group_id,
        group_state=state.name.value,
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        topology=None if topology is None else _topology(state, topology),
        members=[_member(state, each) for _, each in sorted(state.members.items())],
        assignor_name=state.terms.assignor,
    )


def _topology(state: StreamsGroupState, topology: Topology) -> describing.Topology:
    return describing.Topology(
        epoch=topology.epoch,
        subtopologies=[
            describing.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=sorted(each.sources),
                repartition_sink_topics=sorted(each.repartition_sinks),
                state_changelog_topics=_infos(state, each.changelogs),
                repartition_source_topics=_infos(state, each.repartition_sources),
            )
            for each in topology.subtopologies
        ],
    )


def _infos(state: StreamsGroupState, topics: Iterable[InternalTopic]) -> list[describing.TopicInfo]:
    """Return internal topics with the partitions that they have, if they exist."""
    found = []
    for topic in topics:
        existing = state.services.cluster.by_name(topic.name)
        found.append(
            describing.TopicInfo(
                name=topic.name,
                partitions=topic.partitions if existing is None else existing.partition_count,
                replication_factor=topic.replication_factor,
                topic_configs=[
                    describing.KeyValue(key=key, value=value) for key, value in topic.configs
                ],
            )
        )
    return found


def _member(state: StreamsGroupState, member: Member) -> describing.Member:
    profile = member.profile
    endpoint = profile.endpoint
    offsets, ends = state.volatile.positions.reported(member.member_id)
    return describing.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        topology_epoch=profile.topology_epoch,
        process_id=profile.process_id,
        user_endpoint=endpoint and describing.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[describing.KeyValue(key=key, value=tag) for key, tag in profile.client_tags],
        task_offsets=_offsets(offsets),
        task_end_offsets=_offsets(ends),
        assignment=_assignment(member.progress.assigned),
        target_assignment=_assignment(state.target.get(member.member_id, {})),
        is_classic=False,
    )


def _offsets(of_tasks: Mapping[TaskId, int]) -> list[describing.TaskOffset]:
    return [
        describing.TaskOffset(
            subtopology_id=task.subtopology_id, partition=task.partition, offset=of_tasks[task]
        )
        for task in sorted(of_tasks)
    ]


def _assignment(tasks: Tasks | OwnedTasks) -> describing.Assignment:
    return describing.Assignment(
        active_tasks=_task_ids(tasks, Role.ACTIVE),
        standby_tasks=_task_ids(tasks, Role.STANDBY),
        warmup_tasks=_task_ids(tasks, Role.WARMUP),
    )


def _task_ids(tasks: Tasks | OwnedTasks, role: Role) -> list[describing.TaskIds]:
    found = of_role(tasks, role)
    return [describing.TaskIds(subtopology_id=each, partitions=found[each]) for each in found]
