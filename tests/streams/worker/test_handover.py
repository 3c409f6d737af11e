"""A worker that is to stop runs on exactly as long as others are about to take its tasks over."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.coordinator.group.streams.member import LEAVING_TAG
from moldau.client import KafkaError, TopicPartition
from moldau.client.group.descriptions import GroupDescription, MemberDescription, MemberTasks
from moldau.errors.codes import ErrorCode
from moldau.streams.worker.handover import Handover
from moldau.streams.worker.membership import LEAVING

LINES = [TopicPartition("lines", partition) for partition in range(4)]
TAGS = ((LEAVING, "true"),)


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0  # so that each call looks
        return self.now


class Member:
    """The worker `own` in its group, as its door shows it."""

    is_streams_group = True
    member_id = "own"

    def __init__(
        self,
        *others: MemberDescription,
        tags: Any = (),
        active: int = 2,
        is_static: bool = False,
    ) -> None:
        self.is_static = is_static
        self.clock = Clock()
        self.consumer = self.membership = self
        self.announced = 0
        self.active = active
        self.others = others
        self.tags = tags
        self.error: KafkaError | None = None

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(LINES[: self.active])

    def copies(self) -> frozenset[object]:
        return frozenset()

    def announce_leave(self) -> None:
        self.announced += 1
        self.tags = TAGS

    async def group(self) -> GroupDescription:
        if self.error is not None:
            raise self.error
        own = member("own", range(self.active), tags=self.tags)
        return GroupDescription("app", "", "streams", "streams", "", (own, *self.others))

    async def goes_on(self) -> bool:
        found: Any = self
        return await Handover(found, "own", found).goes_on()


def member(
    name: str, active: Any = (), target: Any = (), warmup: Any = (), tags: Any = ()
) -> MemberDescription:
    return MemberDescription(
        name,
        None,
        "c",
        "/h",
        assignment=tuple(LINES[each] for each in active),
        target=tuple(LINES[each] for each in target),
        tasks=MemberTasks(
            tuple(f"0_{each}" for each in active),
            client_tags=tags,
            target_warmup=tuple(f"0_{each}" for each in warmup),
        ),
    )


def test_the_coordinator_knows_the_tag() -> None:
    assert LEAVING == LEAVING_TAG


async def test_a_worker_beside_others_says_that_it_leaves_and_runs_on() -> None:
    own = Member(member("other", (2, 3)))
    assert await own.goes_on()
    assert own.announced == 1


@pytest.mark.parametrize(
    "other",
    [member("other", (2, 3), target=(1, 2, 3)), member("other", (2, 3), (2, 3), warmup=(0, 1))],
)
async def test_it_runs_on_while_another_is_to_get_its_tasks(other: MemberDescription) -> None:
    assert await Member(other, tags=TAGS).goes_on()


@pytest.mark.parametrize(
    "own",
    [
        Member(),
        Member(member("other", (2, 3), tags=TAGS)),
        Member(member("other", (2, 3), (2, 3)), tags=TAGS),
        Member(member("other", (2, 3), (1, 2, 3)), tags=TAGS, active=0),
        Member(member("other", (2, 3)), is_static=True),
    ],
    ids=["alone", "all leave", "the coordinator moves nothing", "it has no tasks", "static"],
)
async def test_it_leaves_at_once_if_nothing_follows(own: Member) -> None:
    assert not await own.goes_on()
    assert not own.announced


async def test_it_leaves_at_once_without_an_answer() -> None:
    own = Member(member("other", (2, 3)))
    own.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert not await own.goes_on()


async def test_it_says_once_that_it_leaves() -> None:
    own: Any = Member(member("other", (2, 3), (1, 2, 3)))
    handover = Handover(own, "own", own)
    assert await handover.goes_on()
    assert await handover.goes_on()
    assert own.announced == 1
