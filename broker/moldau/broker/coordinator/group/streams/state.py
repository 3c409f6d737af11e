"""The state of one streams group: the fold of its records, and what follows from them.

Invariants:
- Only `replay` changes durable state. Nothing in a record can make it fail.
- `holders` has each task that a member owns or has yet to give up, with its role there. It is
  updated with each change, so only a new target assignment walks over all members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any, Final, cast

from moldau.broker.coordinator.group.consumer.deadlines import Deadlines
from moldau.broker.coordinator.group.consumer.metadata_hash import MetadataHashes
from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.broker.coordinator.group.contract import GroupServices
from moldau.broker.coordinator.group.members import member_of
from moldau.broker.coordinator.group.streams.configuration import ConfiguredTopology
from moldau.broker.coordinator.group.streams.graph import TopologyGraph
from moldau.broker.coordinator.group.streams.internal_topics import Creation
from moldau.broker.coordinator.group.streams.member import Member, Profile, TaskProgress
from moldau.broker.coordinator.group.streams.mixed_topologies import (
    PREFIX,
    OlderTopologies,
    Topologies,
    of_settings,
)
from moldau.broker.coordinator.group.streams.positions import TaskPositions
from moldau.broker.coordinator.group.streams.records import state_of_number
from moldau.broker.coordinator.group.streams.tasks import (
    OwnedTasks,
    Role,
    SubtopologyRole,
    TaskId,
    Tasks,
    tasks_of,
)
from moldau.broker.coordinator.group.streams.terms import Terms, terms_of
from moldau.broker.coordinator.group.streams.topology import Topology, topology_of
from moldau.deferred import dataclass
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.schemas import streams_group_log as log

FIRST_EPOCH: Final = 1
"""The epoch of a group without records, and of its empty target. Its first member makes it 2."""
NO_TARGET_EPOCH: Final = -1
NO_TASKS: Final[Mapping[SubtopologyRole, frozenset[int]]] = {}


class GroupState(Enum):
    """The states of a group, with the names that ListGroups and StreamsGroupDescribe show."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"  # topics are missing, or their partitions do not fit
    ASSIGNING = "Assigning"  # the target's epoch is older than the group's
    RECONCILING = "Reconciling"  # a member has not reached its target
    STABLE = "Stable"


@dataclass(slots=True)
class Volatile:
    """State that is not in the log. The next coordinator of the group begins with new state."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    hashes: MetadataHashes = field(default_factory=MetadataHashes)
    configured: ConfiguredTopology | None = None
    """The topology with the topics of the cluster. None: it must be configured anew."""
    checked_epoch: int | None = None
    """The group epoch in which its topics were last compared with the metadata. None means that
    they must be compared. A value above the current epoch does not count: that epoch was never
    reached."""
    first_target_ms: int | None = None
    """When the first target may be computed, while the group waits for more members."""
    shutdown_by: str | None = None
    """The member that wants the whole application to stop."""
    endpoint_epoch: int = 0
    """Grows when the tasks of a member with an endpoint change."""
    creation: Creation = field(default_factory=Creation)
    positions: TaskPositions = field(default_factory=TaskPositions)
    graph: TopologyGraph = field(default_factory=TopologyGraph)
    terms: Terms | None = None


@dataclass(slots=True)
class StreamsGroupState:
    """The durable and volatile state of one group."""

    group_id: str
    services: GroupServices
    volatile: Volatile = field(default_factory=Volatile)
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_epoch: int = 0
    """The epoch of the topology that was last found ready; -1 if it was not."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of the last assignment."""
    older: OlderTopologies = field(default_factory=dict)
    """The older topologies that members have, during a rolling upgrade."""
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    topology: Topology | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """The ids of static members, by instance id."""
    target: dict[str, Tasks] = field(default_factory=dict)
    holders: dict[TaskId, dict[str, frozenset[Role]]] = field(default_factory=dict)

    # Questions

    def member(self, member_id: str) -> Member:
        """Return the member with this id. Raise UNKNOWN_MEMBER_ID if there is none."""
        return member_of(self.members, self.group_id, member_id)

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member that has this instance id now, or None."""
        return self.members.get(self.static.get(instance_id or "", ""))

    @property
    def terms(self) -> Terms:
        """The settings of the group."""
        settings = self.services.group_settings(self.group_id)
        known = self.volatile.terms
        if known is None or known.settings is not settings:
            known = self.volatile.terms = terms_of(settings)
        return known

    @property
    def name(self) -> GroupState:
        """The group's state."""
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        reached = all(
            each.progress.is_reconciled_to(self.target_epoch) for each in self.members.values()
        )
        return GroupState.STABLE if reached else GroupState.RECONCILING

    def reads(self, topic: str) -> bool:
        """Whether the topology has the topic as a source or repartition topic."""
        return self.topology is not None and topic in self.topology.by_input

    def has_metadata_expired(self) -> bool:
        """Whether the group's topics must be compared with the metadata."""
        checked = self.volatile.checked_epoch
        return checked is None or self.epoch < checked

    def is_free(self, member: Member, role: Role, task: TaskId, topologies: Topologies) -> bool:
        """Whether the member can take a task in this role: no other member has it active, if the
        role is active, and no other member of the same process has it at all. A task of a
        subtopology that has changed also waits until older topologies run no such task.

        What the member itself holds does not count: it gets nothing before it has reported that the
        tasks it loses are closed. Nor does what its instance id held under another member id."""
        replaced = self.static.get(member.profile.instance_id or "", member.member_id)
        for member_id, roles in self.holders.get(task, {}).items():
            if member_id in (member.member_id, replaced):
                continue
            if role is Role.ACTIVE and Role.ACTIVE in roles:
                return False
            other = self.members.get(member_id)
            if other is not None and other.process_id == member.process_id:
                return False
        return (
            role is not Role.ACTIVE
            or not topologies.is_changed(task.subtopology_id)
            or not self._runs_what_has_changed(topologies)
        )

    def _runs_what_has_changed(self, topologies: Topologies) -> bool:
        """Whether a member of an older topology still runs a task of a subtopology that has
        changed: it may read the partitions of any other."""
        for member in self.members.values():
            same = topologies.runs(member.profile.topology_epoch)
            if same is not None and any(
                key.role is Role.ACTIVE and key.subtopology_id not in same
                for owned in (member.progress.assigned, member.progress.revoking)
                for key in owned
            ):
                return True
        return False

    # Records

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        """Apply one record."""
        given = cast("Any", value)
        match key:
            case log.StreamsGroupMetadataKey():
                self._replay_metadata(given)
            case log.StreamsGroupMemberMetadataKey():
                self._replay_profile(key.member_id, given)
            case log.StreamsGroupTargetAssignmentMetadataKey():
                self.target_epoch = NO_TARGET_EPOCH if given is None else given.assignment_epoch
                self.target_timestamp_ms = 0 if given is None else given.assignment_timestamp
            case log.StreamsGroupTargetAssignmentMemberKey():
                self._replay_target(key.member_id, given)
            case log.StreamsGroupCurrentMemberAssignmentKey():
                self._replay_progress(key.member_id, given)
            case log.StreamsGroupTopologyKey():
                self._replay_topology(given)
            case other:
                raise AssertionError(f"{type(other).__name__} is no record of a streams group")

    def _replay_metadata(self, value: log.StreamsGroupMetadataValue | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            self.validated_epoch = value.validated_topology_epoch
            configs = {each.key: each.value for each in value.last_assignment_configs or ()}
            self.older = of_settings(configs)
            self.configs = {key: configs[key] for key in configs if not key.startswith(PREFIX)}

    def _replay_profile(
        self, member_id: str, value: log.StreamsGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            member = self.members.pop(member_id, None)
            self.volatile.deadlines.forget(member_id)
            self.volatile.positions.forget(member_id)
            if member is not None:
                self._release(member)
                self._forget_instance(member)
            if not self.members:
                self.volatile.shutdown_by = None
            return
        endpoint = value.user_endpoint
        profile = Profile(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=tuple((each.key, each.value) for each in value.client_tags),
        )
        before = self._member_or_new(member_id)
        if before.profile.instance_id != profile.instance_id:
            self._forget_instance(before)
        if profile.instance_id is not None:
            self.static[profile.instance_id] = member_id
        self.members[member_id] = replace(before, profile=profile)

    def _replay_target(
        self, member_id: str, value: log.StreamsGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = tasks_of(
                {
                    Role.ACTIVE: value.active_tasks,
                    Role.STANDBY: value.standby_tasks,
                    Role.WARMUP: value.warmup_tasks,
                }
            )

    def _replay_progress(
        self, member_id: str, value: log.StreamsGroupCurrentMemberAssignmentValue | None
    ) -> None:
        if value is None and member_id not in self.members:
            return
        before = self._member_or_new(member_id)
        progress: TaskProgress = Progress() if value is None else _progress_of(value)
        after = replace(before, progress=progress)
        self._release(before)
        self.members[member_id] = after
        for owned in (progress.assigned, progress.revoking):
            for task, role in _held(owned):
                of_task = self.holders.setdefault(task, {})
                of_task[member_id] = of_task.get(member_id, frozenset()) | {role}

    def _replay_topology(self, value: log.StreamsGroupTopologyValue | None) -> None:
        self.volatile.configured = None
        self.volatile.checked_epoch = None
        try:
            self.topology = None if value is None else topology_of(value)
        except IndexError:  # a copartition group names no topic: a member brings another one
            self.topology = None

    # Indices

    def _member_or_new(self, member_id: str) -> Member:
        return self.members.get(member_id) or Member(member_id)

    def _forget_instance(self, member: Member) -> None:
        instance_id = member.profile.instance_id
        if instance_id is not None and self.static.get(instance_id) == member.member_id:
            del self.static[instance_id]

    def _release(self, member: Member) -> None:
        for owned in (member.progress.assigned, member.progress.revoking):
            for task, _ in _held(owned):
                of_task = self.holders.get(task)
                if of_task is not None:
                    of_task.pop(member.member_id, None)
                    if not of_task:
                        del self.holders[task]


def _held(owned: OwnedTasks) -> Iterable[tuple[TaskId, Role]]:
    for (role, subtopology_id), partitions in owned.items():
        for partition in partitions:
            yield TaskId(subtopology_id, partition), role


def _progress_of(value: log.StreamsGroupCurrentMemberAssignmentValue) -> TaskProgress:
    assigned = {
        Role.ACTIVE: value.active_tasks,
        Role.STANDBY: value.standby_tasks,
        Role.WARMUP: value.warmup_tasks,
    }
    revoking = {
        Role.ACTIVE: value.active_tasks_pending_revocation,
        Role.STANDBY: value.standby_tasks_pending_revocation,
        Role.WARMUP: value.warmup_tasks_pending_revocation,
    }
    return Progress(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state_of_number(value.state),
        assigned=_owned_of(assigned, value.member_epoch),
        revoking=_owned_of(revoking, value.member_epoch),
    )


def _owned_of(
    by_role: Mapping[Role, Collection[log.CurrentTaskIds]], member_epoch: int
) -> OwnedTasks:
    """Return the owned tasks of a record. A task without an epoch of its own has the member's."""
    owned: dict[SubtopologyRole, Mapping[int, int]] = {}
    for role, named in by_role.items():
        for each in named:
            epochs = each.assignment_epochs
            if epochs is None or len(epochs) != len(each.partitions):
                epochs = [max(member_epoch, 0)] * len(each.partitions)
            if each.partitions:
                key = SubtopologyRole(role, each.subtopology_id)
                owned[key] = dict(zip(each.partitions, epochs, strict=True))
    return owned
