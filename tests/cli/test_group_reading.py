"""What a member of `moldau consume --group` commits, and when: only what was written out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.cli.commands.consume_place import BEGINNING, OffsetOrTime
from moldau.cli.commands.consume_reading import GroupReader
from moldau.client import Consumer, FoundOffset, OffsetAndMetadata, TopicPartition
from moldau.client.base.offsets import EARLIEST
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Clock

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Now:
    """A clock that a test sets."""

    seconds: float = 0.0

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Member:
    """A consumer whose positions and polls are a test's."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    stored: dict[TopicPartition, int] = field(default_factory=dict)
    commits: list[dict[TopicPartition, int]] = field(default_factory=list)
    sought: dict[TopicPartition, int] = field(default_factory=dict)
    refuses: ErrorCode = ErrorCode.NONE
    on_poll: Callable[[], Any] | None = None
    paused: set[TopicPartition] = field(default_factory=set)
    leader: int = 1

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {where: OffsetAndMetadata(each) for where, each in self.positions.items()}

    async def poll(self, timeout_s: float, *, max_records: int) -> list[Any]:
        if self.on_poll is not None:
            await self.on_poll()
        return []

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.refuses:
            raise KafkaError(self.refuses)
        plain = {where: each.offset for where, each in offsets.items()}
        self.commits.append(plain)
        self.stored |= plain

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        known = self.stored
        return {
            where: OffsetAndMetadata(known[where]) if where in known else None
            for where in partitions
        }

    async def partitions(self, *topics: str, timeout_s: float) -> list[TopicPartition]:
        return [A, B]

    async def offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        """Partition 0 has the offsets 5 to 9, partition 1 has none."""
        ends = {A: 5 if EARLIEST in wanted.values() else 10, B: 7}
        return {where: FoundOffset(ends[where], -1, 0) for where in wanted}

    async def list_topics(self, *, internal: bool) -> list[Any]:
        led = [SimpleNamespace(index=0, leader=1), SimpleNamespace(index=1, leader=self.leader)]
        return [SimpleNamespace(name="t", partitions=led)]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    async def subscribe(self, topics: Sequence[str], *, listener: object) -> None:
        return

    async def seek_to_time(self, timestamp_ms: int, partitions: list[TopicPartition]) -> None:
        self.sought |= dict.fromkeys(partitions, timestamp_ms)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought[partition] = offset


def reading(member: Member, place: OffsetOrTime = BEGINNING) -> tuple[GroupReader, Now]:
    now = Now()
    return GroupReader(cast(Consumer, member), cast(Clock, now), "g", place), now


def test_a_poll_commits_what_earlier_polls_gave_once_a_second() -> None:
    member = Member({A: 3})
    group, now = reading(member)

    async def main() -> None:
        await group.next(10)
        assert member.commits == []
        now.seconds = 1.0
        member.positions = {A: 4}
        await group.next(10)
        assert member.commits == [{A: 4}]
        now.seconds = 1.5
        member.positions = {A: 6}
        await group.next(10)
        assert member.commits == [{A: 4}]
        now.seconds = 9.0
        await group.next(10)
        await group.finish()
        assert member.commits == [{A: 4}, {A: 6}]

    asyncio.run(main())


def test_what_goes_is_committed_as_far_as_it_was_written() -> None:
    member = Member({A: 3, B: 4})
    group, _ = reading(member)

    async def rebalance() -> None:
        member.positions = {A: 30, B: 40}  # fetched, but not given out
        await group.on_partitions_revoked([B])
        del member.positions[B]

    async def main() -> None:
        member.on_poll = rebalance
        await group.next(10)
        assert member.commits == [{B: 4}]
        await group.commit()
        assert member.commits == [{B: 4}, {A: 3}]

    asyncio.run(main())
    assert group.notes == ["group g gives up t-1"]


def test_what_is_lost_is_not_committed_any_more() -> None:
    member = Member({A: 3, B: 4})
    group, _ = reading(member)

    async def rebalance() -> None:
        await group.on_partitions_lost([B])

    async def main() -> None:
        member.on_poll = rebalance
        await group.next(10)
        await group.commit()

    asyncio.run(main())
    assert member.commits == [{A: 3}]
    assert group.notes == ["group g has lost t-1"]


def test_who_is_no_member_any_more_is_told_and_goes_on() -> None:
    member = Member({A: 3}, refuses=ErrorCode.UNKNOWN_MEMBER_ID)
    group, _ = reading(member)
    asyncio.run(group.finish())
    (note,) = group.notes
    assert note.startswith("not committed, so others read it again: UNKNOWN_MEMBER_ID")
    member.refuses = ErrorCode.NONE
    asyncio.run(group.finish())
    assert member.commits == [{A: 3}]


def test_a_topic_that_is_gone_is_told_and_the_others_go_on() -> None:
    member = Member({A: 3}, refuses=ErrorCode.UNKNOWN_TOPIC_ID)
    group, _ = reading(member)
    asyncio.run(group.finish())
    (note,) = group.notes
    assert note.startswith("not committed: UNKNOWN_TOPIC_ID")


def test_what_will_go_on_failing_is_an_error() -> None:
    member = Member({A: 3}, refuses=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group, _ = reading(member)
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        asyncio.run(group.finish())


def test_all_is_read_when_this_member_and_the_others_have_read_it() -> None:
    member = Member()
    group, _ = reading(member)

    async def main() -> None:
        await group.begin(["t"])
        assert not await group.is_read()  # nobody has partition 0 yet
        member.positions = {B: 7}
        member.stored = {A: 9}
        assert not await group.is_read()  # another one has it and is not done
        member.stored = {A: 10}
        assert await group.is_read()
        member.positions = {}
        assert await group.is_read()  # nobody commits of partition 1: it had nothing to begin with
        member.positions = {A: 9, B: 7}
        assert not await group.is_read()
        member.positions = {A: 10, B: 7}
        assert await group.is_read()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("place", "sought"),
    [
        (BEGINNING, {}),
        (OffsetOrTime(is_end=True), {B: 7}),
        (OffsetOrTime(offset=4), {B: 4}),
        (OffsetOrTime(offset=9), {B: 7}),  # a reset would go from behind the end to the beginning
        (OffsetOrTime(timestamp_ms=1000), {B: 1000}),
    ],
)
def test_only_what_nobody_has_read_begins_where_it_is_told(
    place: OffsetOrTime, sought: dict[TopicPartition, int]
) -> None:
    member = Member(stored={A: 9})
    group, _ = reading(member, place)

    async def main() -> None:
        await group.begin(["t"])
        await group.on_partitions_assigned([B, A])
        await group.on_partitions_assigned([])

    asyncio.run(main())
    assert (member.sought, member.paused) == (sought, set())
    assert group.notes == ["group g reads now t-0, t-1"]


def test_what_waits_for_a_leader_is_neither_committed_nor_waited_for_when_it_goes() -> None:
    """The client has begun at its beginning, as far as it knows."""
    member = Member({A: 9, B: 0}, stored={A: 8}, leader=-1)
    group, _ = reading(member, OffsetOrTime(is_end=True))

    async def main() -> None:
        await group.begin(["t"])
        await group.on_partitions_assigned([A, B])
        assert (member.paused, group.is_whole) == ({B}, False)
        await group.finish()
        assert member.commits == [{A: 9}]
        await group.on_partitions_revoked([B])
        assert group.is_whole

    asyncio.run(main())
    assert member.sought == {}
