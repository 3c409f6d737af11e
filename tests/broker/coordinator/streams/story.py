"""A seeded story of one streams group: threads of several processes with state on their disks join,
work, fall behind, leave, die and come back, a new topology arrives, the coordinator moves, and the
leaders of the changelogs say now and then where those end.

After each step it is checked that
* no partition of a topic has two readers, whatever topologies they have,
* no process has the state of a task twice,
* no task moves from a living owner to a member whose state is not near enough,
* no member is given a task of a subtopology that its topology does not have,
* member epoch <= target epoch <= group epoch, and the group epoch does not fall.

At the end all is quiet, and the group comes to rest with each task active once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from moldau.broker.coordinator.group.streams.positions import UNKNOWN
from moldau.broker.coordinator.group.streams.tasks import Role, ids_of
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import streams_group_heartbeat as messages
from tests.broker.coordinator.streams.shard import Member, Shard, task_offsets
from tests.broker.coordinator.streams.topologies import subtopology, topology

PARTITIONS: Final = 3
LAG: Final = 10
STEPS: Final = 120
QUIET: Final = 80
KEPT: Final = subtopology("0", "kept", changelogs=["kept-log"])
PLAIN: Final = subtopology("p", "plain")
OLD: Final = topology(KEPT, PLAIN, subtopology("1", "changed", changelogs=["old-log"]), epoch=1)
NEW: Final = topology(KEPT, subtopology("2", "changed", "plain", changelogs=["new-log"]), epoch=2)
FOREIGN: Final = {1: topology(KEPT, epoch=1), 2: topology(PLAIN, epoch=2)}
TOPICS: Final = ("kept", "plain", "changed", "kept-log", "old-log", "new-log")
ROLES: Final = ("active", "standby", "warmup")

_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)

State = tuple[str, int]
"""A changelog and a partition of it: the state of a task."""


class Story:
    """One story; `run` raises AssertionError if something is wrong in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shard = Shard(
            group_streams_assignment_interval_ms=0,
            group_streams_num_standby_replicas=1,
            group_streams_acceptable_recovery_lag=LAG,
        )
        for name in TOPICS:
            self.shard.topics.put(name, PARTITIONS)
        self.processes = ["x", "y", "z"]
        self.members: list[Member] = []
        self.away: list[Member] = []
        self.made = 0
        self.ends: Counter[State] = Counter()
        self.disks: dict[str, Counter[State]] = {}
        self.is_behind: dict[tuple[str, State], bool] = {}
        """Whether a process said that it lacks much of a log, when it last told how far it is."""
        self.known: dict[tuple[str, State], int] = {}
        """The end of a log when a process last told how far its copy is, and knew the end."""
        self.unsure: set[tuple[str, State]] = set()
        """Where a process has told how far its copy is and did not know the end."""
        self.told_ends: dict[State, int] = {}
        """The ends of logs when their leaders last told them."""
        self.owners: dict[State, str] = {}
        """The members that have tasks with state in the last target."""
        self.epoch = 0
        self.warm_moves = 0
        self.has_new = False
        self.is_at_rest = False

    def run(self) -> None:
        steps = (
            *[self.beat] * 8,
            *[self.work] * 4,
            *[self.restore] * 4,
            *[self.join] * 2,
            *(self.leave, self.die, self.go_away, self.come_back),
            *(self.move_coordinator, self.upgrade, self.intrude, self.pass_time),
            self.tell_ends,
        )
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.check()
        self.come_to_rest()

    # Steps.

    def join(self) -> None:
        if len(self.members) >= 6:
            return
        process = self.random.choice(self.processes)
        self.made += 1
        instance = f"i{self.made}" if self.random.random() < 0.4 else None
        given = NEW if self.has_new and self.random.random() < 0.6 else OLD
        self.begin(f"m{self.made}", process, given, instance)

    def begin(
        self, member_id: str, process: str, given: messages.Topology, instance: str | None
    ) -> None:
        self.disks.setdefault(process, Counter())
        member = self.shard.member(
            member_id, process, topology=given, instance_id=instance, version=1
        )
        self.shard.now_ms += 10
        member.join(**self.report(member))
        self.members.append(member)
        self.told(member)

    def beat(self) -> None:
        if self.members:
            self.beat_of(self.random.choice(self.members), reports=self.random.random() < 0.6)

    def beat_of(self, member: Member, *, reports: bool) -> None:
        self.shard.now_ms += 10
        given = self.report(member) if reports else {}
        if self.is_done(lambda: member.beat(**given), *_FENCED):
            self.told(member)
        else:
            self.members.remove(member)

    def report(self, member: Member) -> dict[str, Any]:
        """The offsets and ends that the member sends, of all state on its process's disk."""
        offsets, ends = {}, {}
        disk = self.disks[member.process]
        for each in member.topology.subtopologies:
            for log in each.state_changelog_topics:
                for partition in range(PARTITIONS):
                    state = log.name, partition
                    if state in disk:
                        name = f"{each.subtopology_id}_{partition}"
                        offsets[name], ends[name] = disk[state], self.ends[state]
                        if not self.is_at_rest and self.random.random() < 0.2:
                            ends[name] = UNKNOWN
                            self.unsure.add((member.process, state))
                        else:
                            self.known[member.process, state] = self.ends[state]
                        is_behind = disk[state] < self.ends[state] - LAG
                        self.is_behind[member.process, state] = is_behind
        return {"task_offsets": task_offsets(offsets), "task_end_offsets": task_offsets(ends)}

    def work(self) -> None:
        """Active tasks restore what they lack, and then write."""
        for member in self.members:
            for state in states_of(member, "active"):
                disk = self.disks[member.process]
                if disk[state] < self.ends[state]:
                    disk[state] = min(self.ends[state], disk[state] + 40)
                else:
                    self.ends[state] += self.random.randrange(8)
                    disk[state] = self.ends[state]

    def restore(self) -> None:
        """Copies come nearer to the ends of their logs."""
        for member in self.members:
            for role in ("standby", "warmup"):
                for state in states_of(member, role):
                    disk = self.disks[member.process]
                    disk[state] = min(self.ends[state], disk[state] + self.random.randrange(30))

    def leave(self) -> None:
        if len(self.members) > 1:
            member = self.members.pop(self.random.randrange(len(self.members)))
            self.is_done(member.leave, ErrorCode.UNKNOWN_MEMBER_ID)

    def die(self) -> None:
        """A member says nothing any more. Sometimes its disk is lost, too, and with it the process
        id: another process takes its place."""
        if len(self.members) > 1:
            member = self.members.pop(self.random.randrange(len(self.members)))
            lives = (each.process for each in (*self.members, *self.away))
            is_last = member.process in self.processes and member.process not in lives
            if is_last and self.random.random() < 0.3:
                at = self.processes.index(member.process)
                self.processes[at] = f"{member.process}'"

    def go_away(self) -> None:
        static = [each for each in self.members if each.instance_id is not None]
        if static:
            member = self.random.choice(static)
            self.members.remove(member)
            if self.is_done(lambda: member.leave(-2), ErrorCode.UNKNOWN_MEMBER_ID):
                self.away.append(member)

    def come_back(self) -> None:
        if self.away:
            gone = self.away.pop()
            self.made += 1
            given = NEW if self.has_new and self.random.random() < 0.5 else gone.topology
            self.begin(f"m{self.made}", gone.process, given, gone.instance_id)

    def is_done(self, send: Callable[[], object], *codes: ErrorCode) -> bool:
        """Whether a request is answered, and not refused with one of these codes."""
        try:
            send()
        except KafkaError as error:
            if error.code not in codes:
                raise
            return False
        return True

    def move_coordinator(self) -> None:
        if self.random.random() < 0.5 and self.shard.groups.get("app") is not None:
            self.shard.groups = self.shard.reloaded()
            self.shard.group.on_loaded(self.shard.now_ms)

    def upgrade(self) -> None:
        """A member of the new topology comes, and those of the old one stay for now."""
        if self.made > 2 and len(self.members) < 6:
            self.has_new = True
            self.made += 1
            self.begin(f"m{self.made}", self.random.choice(self.processes), NEW, None)

    def intrude(self) -> None:
        """A member brings another topology in an epoch that stands for one already."""
        epoch = 2 if self.has_new else 1
        if not self.members or not any(e.topology.epoch == epoch for e in self.members):
            return
        intruder = self.shard.member("intruder", "q", topology=FOREIGN[epoch], version=1)
        is_in = self.is_done(intruder.join, ErrorCode.INVALID_REQUEST)
        assert not is_in, "two topologies are in one epoch"

    def tell_ends(self) -> None:
        """The leaders of the logs answer, if the group has asked. Some partitions have none."""
        if self.shard.asked and self.shard.groups.get("app") is not None:
            ends = {
                (name, partition): self.ends[name, partition]
                for name in TOPICS
                for partition in range(PARTITIONS)
                if self.is_at_rest or self.random.random() < 0.8
            }
            self.shard.tell_ends(ends)
            self.told_ends.update(ends)

    def pass_time(self) -> None:
        """Long enough for sessions to end; the living send heartbeats."""
        for _ in range(3):
            self.shard.pass_ms(20_000)
            for member in list(self.members):
                self.beat_of(member, reports=True)
                self.check()

    # Checks.

    def told(self, member: Member) -> None:
        """Look at the tasks that an answer gives to a member."""
        names = {each.subtopology_id for each in member.topology.subtopologies}
        for role in ROLES:
            assert member.tasks[role].keys() <= names, "a task of another topology"

    def look_at_target(self) -> None:
        """A task with state leaves a member that stays only for one whose state is near."""
        state = self.shard.group.state
        assert state.topology is not None
        logs = {
            each.subtopology_id: topic.name
            for each in state.topology.subtopologies
            for topic in each.changelogs
        }
        now = {
            (logs[task.subtopology_id], task.partition): member_id
            for member_id, tasks in state.target.items()
            for task in ids_of(tasks, Role.ACTIVE)
            if task.subtopology_id in logs
        }
        processes = {each: member.process_id for each, member in state.members.items()}
        for place, member_id in now.items():
            owner = self.owners.get(place, member_id)
            if owner in processes and processes[owner] != processes[member_id]:
                self.moved(place, processes[owner], processes[member_id])
        self.owners = now

    def moved(self, state: State, before: str, after: str) -> None:
        is_behind = self.disks[before][state] < self.ends[state] - LAG
        if is_behind or self.is_behind.get((before, state)):
            return  # the owner has not restored it either, as far as it has told
        disk = self.disks[after]
        is_unsure = (after, state) in self.unsure
        believed = [
            end
            for (process, one), end in self.known.items()
            if one == state and (process == after or is_unsure)
        ]
        if state in self.told_ends:
            believed.append(self.told_ends[state])
        is_near = any(disk[state] >= end - LAG for end in believed)
        self.warm_moves += is_near
        assert is_near, f"{state} goes from {before} to {after} before its state is there"

    def check(self) -> None:
        readers = Counter(
            (topic, partition)
            for member in self.members
            for each in member.topology.subtopologies
            for topic in each.source_topics
            for partition in member.active.get(each.subtopology_id, ())
        )
        twice = [place for place, count in readers.items() if count > 1]
        assert not twice, f"{twice} have two readers"
        held = Counter(
            (member.process, state)
            for member in self.members
            for role in ROLES
            for state in states_of(member, role)
        )
        assert not held or max(held.values()) == 1, "a process has a task twice"
        if self.shard.groups.get("app") is None:
            return
        self.look_at_target()
        state = self.shard.group.state
        assert self.epoch <= state.epoch, "the group epoch fell"
        self.epoch = state.epoch
        assert state.target_epoch <= state.epoch
        assert all(each.epoch <= state.target_epoch for each in state.members.values())

    def come_to_rest(self) -> None:
        """Members only beat and restore: the group becomes stable with each task active once."""
        self.has_new = self.is_at_rest = True
        if not any(each.topology is NEW for each in self.members):
            self.made += 1
            self.begin(f"m{self.made}", "w", NEW, None)
        self.away.clear()
        self.pass_time()
        for _ in range(QUIET):
            for member in list(self.members):
                self.beat_of(member, reports=True)
                self.check()
            self.restore()
            self.work()
            self.tell_ends()
        assert self.shard.state_name() == "Stable"
        active = Counter(
            (name, partition)
            for member in self.members
            for name, partitions in member.active.items()
            for partition in partitions
        )
        wanted = Counter(
            (each.subtopology_id, partition)
            for each in NEW.subtopologies
            for partition in range(PARTITIONS)
        )
        assert active == wanted, "not each task is active once"
        assert not any(each.warmup for each in self.members)


def states_of(member: Member, role: str) -> list[State]:
    return states_in(member, member.tasks[role])


def states_in(member: Member, tasks: dict[str, list[int]]) -> list[State]:
    """The state of tasks, by the topology of the member."""
    return [
        (log.name, partition)
        for each in member.topology.subtopologies
        for log in each.state_changelog_topics
        for partition in tasks.get(each.subtopology_id, ())
    ]
