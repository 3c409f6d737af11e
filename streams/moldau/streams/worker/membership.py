"""A worker's membership in the group of its app, by either protocol.

- *classic*: the members' own assignor shares out partitions (`owners`); the member that leads the
  group decides.
- *streams* (KIP-1071): the coordinator assigns tasks, of which a worker may also keep copies. It
  has to know the topology: that of the layout, with the topics that the app makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from moldau.client import Consumer, TopicPartition
from moldau.client.consumer.task_consumer import TaskConsumer
from moldau.client.group.descriptions import GroupDescription
from moldau.client.group.streams import GroupTask, StreamsSettings, TaskPosition
from moldau.client.group.topology import (
    GroupTopology,
    SubtopologyDescription,
    TopicDescription,
    TopologyDescription,
)
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topology import Epochs
from moldau.streams.worker.committer import LOST
from moldau.streams.worker.owners import OwnerAssignor
from moldau.streams.worker.settings import AppSettings
from moldau.streams.worker.tasks import TaskId

_START: Final = "moldau.start"
"""The client tag of a member with what its process has drawn at its start."""
LEAVING: Final = "moldau.leaving"
"""The client tag of a member that is about to leave; our coordinator looks for it."""
NO_COPIES: Final[frozenset[TaskId]] = frozenset()
_EPOCHS_MAX: Final = 20
"""How many topologies of an app are known by their epochs."""


class Membership(Protocol):
    """A worker's consumer, and what its group tells it beside partitions."""

    lost: frozenset[ErrorCode]
    """The errors of a commit after which the worker is no member of its group."""
    start: str | None
    """What the group shows of this start of the worker; None if it shows nothing."""

    @property
    def consumer(self) -> Consumer:
        """The consumer of the inputs."""

    def prepare(self, layout: Layout, topology_epoch: int) -> None:
        """Set what the group has to know of the app, before the worker joins."""

    def owner(self, where: TopicPartition) -> str | None:
        """Return the address of the worker that has the partition; None if it is unknown."""

    def copy_owners(self, where: TopicPartition) -> tuple[str, ...]:
        """Return the addresses of the workers with a copy of the state of the partition's task."""

    def copies(self) -> frozenset[TaskId]:
        """Return the tasks of which this worker keeps a copy now."""

    def report(self, positions: Mapping[TaskId, TaskPosition]) -> None:
        """Report how far the copies are."""

    def announce_leave(self) -> None:
        """Say to the group that this worker leaves as soon as others have taken its tasks over."""

    @property
    def is_app_ended(self) -> bool:
        """Whether a worker has asked all workers of the app to stop."""

    def end_app(self) -> bool:
        """Ask all workers to stop. Return whether polls have to follow until they have heard it;
        else they hear it as this one leaves."""


class ClassicMembership:
    """Partitions by the assignor of the leading member."""

    lost = LOST
    start: str | None = None

    def __init__(self, settings: Mapping[str, str], server: str, runtime: Runtime) -> None:
        self._owners = OwnerAssignor(server)
        self.consumer = Consumer(
            settings, runtime=runtime, partition_assignment_strategy=[self._owners]
        )
        self.owner = self._owners.owner

    def prepare(self, layout: Layout, topology_epoch: int) -> None:
        """Keep partitions of one number together."""
        self._owners.together = [program.inputs for program in layout.plan.programs]

    def copy_owners(self, where: TopicPartition) -> tuple[str, ...]:
        """Return none: there are no copies."""
        return ()

    def copies(self) -> frozenset[TaskId]:
        """Return none: the assignor shares out no copies."""
        return NO_COPIES

    def report(self, positions: Mapping[TaskId, TaskPosition]) -> None:
        """Do nothing: there are no copies."""

    def announce_leave(self) -> None:
        """Do nothing: the assignor moves tasks when the worker has left."""

    @property
    def is_app_ended(self) -> bool:
        """Whether the leading member has passed on that a worker asks all to stop."""
        return self._owners.is_app_ended

    def end_app(self) -> bool:
        """Ask all workers to stop, with a rebalance."""
        self._owners.ends_app = True
        return self.consumer.enforce_rebalance("a worker ends the app")


class StreamsMembership:
    """Tasks by the coordinator. The name of a worker is its id in the group, so that one that was
    killed and started again finds its tasks.

    A commit may also be refused because a task went while it was under way. Then the worker is
    still a member, and begins again from the last commit with the tasks that it has.
    """

    lost = frozenset((ErrorCode.UNKNOWN_MEMBER_ID,))

    def __init__(
        self, of_group: Mapping[str, str], member: str, settings: AppSettings, runtime: Runtime
    ) -> None:
        self.start: str | None = runtime.random.randbytes(8).hex()
        self._tags = {**settings.tags, _START: self.start}
        process = StreamsSettings(member, _endpoint(settings.server), self._tags)
        self._consumer = TaskConsumer(of_group, member_id=member, process=process, runtime=runtime)
        self.consumer: Consumer = self._consumer
        self.owner = self._consumer.owner
        self.copy_owners = self._consumer.standby_owners

    def prepare(self, layout: Layout, topology_epoch: int) -> None:
        """Set the topology that the coordinator shares out."""
        self._consumer.topology = replace(described_topology(layout), epoch=topology_epoch)

    def copies(self) -> frozenset[TaskId]:
        """Return the standby and warm-up tasks."""
        return frozenset(
            TaskId(int(each.subtopology), each.partition) for each in self._consumer.tasks.copies
        )

    def report(self, positions: Mapping[TaskId, TaskPosition]) -> None:
        """Report to the coordinator, which moves a task when a warm-up is near."""
        self._consumer.report(
            {GroupTask(str(each.program), each.partition): at for each, at in positions.items()}
        )

    def announce_leave(self) -> None:
        """Say it by a client tag."""
        self._consumer.announce({**self._tags, LEAVING: "true"})

    @property
    def is_app_ended(self) -> bool:
        """Whether the coordinator says that a worker asks all to stop."""
        return self._consumer.is_app_ended

    def end_app(self) -> bool:
        """Ask all workers to stop, by the heartbeat that leaves the group."""
        self._consumer.end_app()
        return False


class NameWatch:
    """Notices that another process is in the group under this worker's name.

    A worker has its name from its state directory, which is locked, so one of the two has a copy of
    the directory of the other. The group shows the start of the process that joined last. A join
    moves the group to a new epoch, so the group is described once for each epoch of the member; the
    one that sees another start than its own while its epoch stays the same is superseded. One that
    was fenced meanwhile has joined again with a new epoch, and the other one is superseded.
    """

    def __init__(self, member: str, start: str | None) -> None:
        self.is_superseded = False
        self.wanted: int | None = None
        """The epoch of the member for which the group is to be described; None if it is not."""
        self._member = member
        self._start = start
        self._epoch = self._other_at = -1

    def on_epoch(self, epoch: int) -> None:
        """The worker is a member of this epoch; -1 while it is none."""
        self.is_superseded = epoch >= 0 and epoch == self._other_at
        if epoch != self._epoch:
            self._epoch = epoch
            self.look()

    def look(self) -> None:
        """Have the group described again: another process may have fenced this one."""
        self.wanted = None if self._start is None or self._epoch < 0 else self._epoch

    def on_described(self, epoch: int, group: GroupDescription | None) -> None:
        """The group was described when the worker was a member of this epoch."""
        if self.wanted == epoch:
            self.wanted = None
        for each in () if group is None else group.members:
            if each.member_id == self._member and each.tasks is not None:
                shown = dict(each.tasks.client_tags).get(_START, self._start)
                self._other_at = -1 if shown == self._start else epoch


def topology_epoch(
    topology: TopologyDescription, kept: Epochs, of_group: GroupTopology | None
) -> tuple[int, Epochs]:
    """Return the epoch of an app's topology in its group, and what to keep of all epochs.

    A topology keeps its epoch, so that a worker of a former version that starts again, in the
    middle of a rolling upgrade, does not take the new one's place. A new topology gets the next
    epoch. Two versions that are new at the same time may have chosen the same one: the group has
    one of them, and the other one moves on.
    """
    digest, outline = topology.digest, topology.outline

    def is_of_another(epoch: int) -> bool:
        return of_group is not None and of_group.epoch == epoch and of_group.outline != outline

    own = [epoch for epoch, each in kept if each == digest and not is_of_another(epoch)]
    if own:
        return max(own), kept
    known = [epoch for epoch, _ in kept]
    if of_group is not None and of_group.outline == outline and of_group.epoch not in known:
        found = of_group.epoch
    else:
        found = max([-1, *known, *([] if of_group is None else [of_group.epoch])]) + 1
    others = (each for each in kept if each[0] != found)
    return found, ((found, digest), *others)[:_EPOCHS_MAX]


def _endpoint(server: str) -> tuple[str, int] | None:
    host, _, port = server.rpartition(":")
    return (host.removeprefix("[").removesuffix("]"), int(port)) if host else None


def described_topology(layout: Layout) -> TopologyDescription:
    """Return an app on its topics as a coordinator has to know it: programs as subtopologies."""
    return TopologyDescription(
        tuple(_described(layout, program) for program in layout.plan.programs)
    )


def _described(layout: Layout, program: Program) -> SubtopologyDescription:
    plan = layout.plan
    internal = {each.name: each for each in layout.internal}
    own = {each.name for each in plan.repartitions}
    return SubtopologyDescription(
        str(program.index),
        tuple(name for name in program.inputs if name not in own),
        tuple(
            TopicDescription(name, layout.counts[name], _sorted(internal[name].configs))
            for name in program.inputs
            if name in own
        ),
        tuple(name for name in program.outputs if name in own),
        tuple(
            TopicDescription(name, 0, _sorted(internal[name].configs if name in internal else {}))
            for name in _changelogs(plan, program)
        ),
        program.copartitioned,
    )


def _changelogs(plan: Plan, program: Program) -> Sequence[str]:
    found = (store.changelog(plan.app) for store in program.stores)
    return sorted({name for name in found if name is not None})


def _sorted(configs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(configs.items()))
