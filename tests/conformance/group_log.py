"""What `__consumer_offsets` says of one group, in its order: who held what, led, and committed.

The log is the coordinator's own account, the same on Apache Kafka and here: it is read over the
wire, like any topic. Members are known by their client id, which each has for itself.

    log = await read_group_log(bootstrap, group, topic)
    log.epoch_ends = await read_epoch_ends(bootstrap, topic)
    log.rounds              # of a classic group: each generation with its leader and its shares
    log.starts("kcat.3", 0) # the offsets at which that member may have begun to read partition 0

A member holds a partition from the record that gives it to the one that takes it away. It has to
begin at what is committed then, or at what was committed while it held it.

Sarama commits with the epoch of the leader that it began under, however many came after that one.
To who comes next, an offset behind the end of the epoch that it was committed with says that the
log was truncated: Java's client, franz-go and ours then begin again where that epoch ended. Who
does that is right, if `epoch_ends` tells of it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client import Consumer, TopicPartition
from moldau.client.group.subscription_bytes import decode_assignment
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
)
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import GroupMetadataKey, OffsetCommitKey
from moldau.records import java_string_hash

OFFSETS_TOPIC: Final = "__consumer_offsets"
Shares = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Round:
    """One generation of a classic group, once its members have their shares."""

    strategy: str | None
    leader: str | None  # where a group has just come from the other protocol it may have none yet
    shares: Shares


@dataclass(slots=True)
class Holding:
    """From `start` until `end`, as places in the log, a member held a partition."""

    member: str
    partition: int
    start: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset that was committed, and the place in the log where that is written."""

    place: int
    offset: int
    leader_epoch: int = -1


@dataclass(slots=True)
class GroupLog:
    """See the module. Records are given one by one, oldest first."""

    group: str
    topic: str
    rounds: list[Round] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    commits: dict[int, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    # By partition and leader epoch: the offset behind the last record of that epoch.
    epoch_ends: dict[tuple[int, int], int] = field(default_factory=dict)
    _held: dict[str, frozenset[int]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def take(self, place: int, key: bytes, value: bytes | None) -> None:
        """The next record of the log; those of other groups are passed over."""
        told: Any
        what: Any
        told, what = GROUP_LOG.decode(key, value)
        if isinstance(told, OffsetCommitKey):
            if (told.group, told.topic) == (self.group, self.topic) and what is not None:
                self.commits[told.partition].append(Commit(place, what.offset, what.leader_epoch))
        elif isinstance(told, GroupMetadataKey):
            if told.group == self.group:
                self._generation(place, what)
        elif isinstance(told, ConsumerGroupMemberMetadataKey):
            if told.group_id == self.group and what is not None:
                self._names[told.member_id] = what.client_id
        elif isinstance(told, ConsumerGroupCurrentMemberAssignmentKey) and (
            told.group_id == self.group
        ):
            self._reconciled(place, told.member_id, what)

    def starts(self, member: str, partition: int) -> set[int]:
        """Where that member may begin to read there."""
        found = set()
        for each in self.holdings:
            if (each.member, each.partition) == (member, partition):
                commits = self.commits[partition]
                before = [commit for commit in commits if commit.place < each.start]
                within = [
                    commit
                    for commit in commits
                    if each.start < commit.place and (each.end is None or commit.place < each.end)
                ]
                seen = [*(before[-1:] or [Commit(-1, 0)]), *within]
                found |= {commit.offset for commit in seen}
                found |= {self._epoch_end(partition, commit) for commit in seen}
        return found

    def set_back(self) -> set[int]:
        """The partitions in which a commit names an epoch that had ended before its offset."""
        return {
            partition
            for partition, commits in self.commits.items()
            if any(self._names_an_old_epoch(partition, each) for each in commits)
        }

    def check_epochs(self, may_be_old: Collection[str]) -> None:
        """AssertionError if another than these has committed with an epoch that had ended, unless
        one of these had: who took the partition over may have kept what was committed."""
        for partition, commits in self.commits.items():
            excused = set()
            for each in commits:
                if not self._names_an_old_epoch(partition, each):
                    continue
                members = self._holders(partition, each.place)
                if members and set(members) <= set(may_be_old):
                    excused.add(each.leader_epoch)
                assert each.leader_epoch in excused, (
                    f"{members} committed offset {each.offset} of partition {partition} with the "
                    f"leader epoch {each.leader_epoch}, which had ended before it"
                )

    def check_starts(self, member: str, read: Iterable[tuple[int, int]]) -> None:
        """AssertionError if a member, of whose partitions and offsets these are all, in its order,
        ever began at another offset than those that it may begin at."""
        offsets: dict[int, list[int]] = defaultdict(list)
        for partition, offset in read:
            offsets[partition].append(offset)
        for partition, found in offsets.items():
            allowed = self.starts(member, partition)
            begun = [run[0] for run in runs(found)]
            assert set(begun) <= allowed, (
                f"{member} began at {begun} in partition {partition}; "
                f"what was committed while it held it: {sorted(allowed)}"
            )

    def who_passed(self, partition: int, offset: int) -> list[str]:
        """Who held that partition when an offset behind that one was committed, the first time."""
        places = [each.place for each in self.commits[partition] if each.offset > offset]
        return self._holders(partition, places[0]) if places else []

    def check_dropped(
        self,
        unread: Iterable[tuple[int, int]],
        may_drop: Mapping[str, Collection[tuple[int, int]]],
    ) -> None:
        """AssertionError unless each of these was passed over by a member that may have dropped it,
        and no member has dropped two."""
        left = dict(may_drop)
        for partition, offset in unread:
            passed = self.who_passed(partition, offset)
            assert len(passed) == 1, f"{partition}:{offset} was passed over by {passed}"
            dropped = left.pop(passed[0], ())
            assert (partition, offset) in dropped, (
                f"{passed[0]} passed over {partition}:{offset}, and may have dropped one of "
                f"{sorted(dropped)}"
            )

    def committed(self) -> dict[int, int]:
        """The last commit of each partition that has one; the furthest where members were set
        back, who need not have come that far again."""
        set_back = self.set_back()
        return {
            partition: max(
                each.offset for each in (commits if partition in set_back else commits[-1:])
            )
            for partition, commits in self.commits.items()
            if commits
        }

    def _holders(self, partition: int, place: int) -> list[str]:
        return [
            each.member
            for each in self.holdings
            if each.partition == partition
            and each.start < place
            and (each.end is None or place < each.end)
        ]

    def _names_an_old_epoch(self, partition: int, commit: Commit) -> bool:
        return self._epoch_end(partition, commit) < commit.offset

    def _epoch_end(self, partition: int, commit: Commit) -> int:
        """Where the epoch ended that the offset was committed with, or the offset itself."""
        return min(
            commit.offset, self.epoch_ends.get((partition, commit.leader_epoch), commit.offset)
        )

    def _generation(self, place: int, value: Any) -> None:
        """A snapshot of a classic group: its members and their shares."""
        members = [] if value is None else value.members
        shares = {
            each.client_id: frozenset(
                where.partition for where in decode_assignment(bytes(each.assignment))
            )
            for each in members
        }
        if any(shares.values()):
            names = {each.member_id: each.client_id for each in members}
            leader = None if value.leader is None else names[value.leader]
            self.rounds.append(Round(value.protocol, leader, shares))
        self._now_held(place, shares)

    def _reconciled(self, place: int, member_id: str, value: Any) -> None:
        """How far a member of a KIP-848 group is: it holds what it has still to give up, too."""
        parts = []
        if value is not None:
            parts = [
                *value.assigned_partitions,
                *value.partitions_pending_revocation,
            ]
        share = frozenset(each for part in parts for each in part.partitions)
        self._now_held(place, {**self._held, self._names[member_id]: share})

    def _now_held(self, place: int, shares: Shares) -> None:
        everything = [each for share in shares.values() for each in share]
        assert len(everything) == len(set(everything)), f"held twice at {place}: {shares}"
        for each in self.holdings:
            if each.end is None and each.partition not in shares.get(each.member, ()):
                each.end = place
        for member, share in shares.items():
            new = share - self._held.get(member, frozenset())
            self.holdings += [Holding(member, each, place) for each in sorted(new)]
        self._held = dict(shares)


def partition_of(group: str, count: int) -> int:
    """Which of so many partitions of the log has the group; its leader is the coordinator."""
    return abs(java_string_hash(group)) % count


async def read_group_log(bootstrap: str, group: str, topic: str) -> GroupLog:
    """All that the coordinator has written of the group until now."""
    log = GroupLog(group, topic)
    async with asyncio.timeout(30), Consumer(bootstrap_servers=bootstrap) as consumer:
        count = len(await consumer.partitions(OFFSETS_TOPIC))
        where = TopicPartition(OFFSETS_TOPIC, partition_of(group, count))
        consumer.assign([where])
        await consumer.seek_to_beginning()
        end = (await consumer.end_offsets([where]))[where]
        while (consumer.position(where) or 0) < end:
            for part in await consumer.poll(1.0):
                for record in part.records:
                    assert record.key is not None
                    log.take(record.offset, record.key, record.value)
    return log


async def read_epoch_ends(bootstrap: str, topic: str) -> dict[tuple[int, int], int]:
    """By partition and leader epoch: the offset behind the last record of that epoch."""
    ends: dict[tuple[int, int], int] = {}
    async with asyncio.timeout(30), Consumer(bootstrap_servers=bootstrap) as consumer:
        wheres = await consumer.partitions(topic)
        consumer.assign(wheres)
        await consumer.seek_to_beginning()
        offsets = await consumer.end_offsets(wheres)
        while any((consumer.position(each) or 0) < offsets[each] for each in wheres):
            # One by one: a part names the epoch of its last record.
            for part in await consumer.poll(1.0, max_records=1):
                last = part.records[-1]
                ends[part.partition, part.leader_epoch] = last.offset + 1
    return ends


def runs(offsets: Iterable[int]) -> list[Sequence[int]]:
    """The offsets that a member read of one partition, cut where it did not go on."""
    found: list[list[int]] = []
    for each in offsets:
        if found and each == found[-1][-1] + 1:
            found[-1].append(each)
        else:
            found.append([each])
    return list(found)
