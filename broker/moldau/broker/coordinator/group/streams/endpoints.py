"""Where the state of each partition can be queried: the endpoints of members, with their tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.streams.tasks import OwnedTasks, Role, of_role
from moldau.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import Cluster
    from moldau.broker.coordinator.group.streams.member import Member
    from moldau.broker.coordinator.group.streams.topology import Topology


def endpoints_of(
    members: Iterable[Member], topology: Topology, cluster: Cluster
) -> list[EndpointToPartitions]:
    """Return the partitions that each member with an endpoint reads, and those of its copies."""
    found = []
    for member in members:
        endpoint = member.profile.endpoint
        if endpoint is None:
            continue
        host, port = endpoint
        owned = member.progress.assigned
        found.append(
            EndpointToPartitions(
                user_endpoint=Endpoint(host=host, port=port),
                active_partitions=_partitions(owned, (Role.ACTIVE,), topology, cluster),
                standby_partitions=_partitions(
                    owned, (Role.STANDBY, Role.WARMUP), topology, cluster
                ),
            )
        )
    return found


def _partitions(
    owned: OwnedTasks, roles: Iterable[Role], topology: Topology, cluster: Cluster
) -> list[TopicPartition]:
    tasks: dict[str, list[int]] = {}
    for role in roles:
        for subtopology_id, partitions in of_role(owned, role).items():
            tasks.setdefault(subtopology_id, []).extend(partitions)
    found = []
    for subtopology in topology.subtopologies:
        for name in sorted(subtopology.inputs):
            topic = cluster.by_name(name)
            wanted = tasks.get(subtopology.subtopology_id)
            if topic is None or wanted is None:
                continue
            # A task may have a number beyond the partitions of a smaller source.
            read = [each for each in sorted(wanted) if each < topic.partition_count]
            if read:
                found.append(TopicPartition(topic=name, partitions=read))
    return found
