"""What is committed as time passes, while the user goes through records: never less than before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import fill
from tests.client.world import ClientWorld

KINDS = pytest.mark.parametrize("kind", PROTOCOLS)
T0 = TopicPartition("t", 0)
LONG_S = 12.0
"""Twice the interval, and more."""


class World(ClientWorld):
    """A topic of forty records."""

    def __init__(self) -> None:
        super().__init__()
        fill(self.cluster.add_topic("t", [1])[0], 40)

    @property
    def stored(self) -> list[int]:
        """One after the other."""
        return [offset for _, _, offset in self.cluster.groups.commits]


Story = Callable[[Consumer, World], Coroutine[None, None, None]]


def play(
    kind: str, story: Story, listener: RebalanceListener | None = None, **options: Any
) -> list[int]:
    """By a member that reads them all; what was stored when it has left."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind, **options) as reader:
            await reader.subscribe("t", listener=listener)
            await story(reader, world)

    with World() as world:
        world.run_client(main)
        return world.stored


async def read_two_parts(reader: Consumer) -> None:
    """Of ten records each; the second one is in hand."""
    count = 0
    async for _ in reader.batches(max_records=10):
        count += 1
        if count == 2:
            return


async def fails(world: World, commit: Awaitable[None]) -> None:
    """No answer comes."""
    world.cluster.silence.add(OffsetCommitRequest)
    with pytest.raises(KafkaError):
        await commit
    world.cluster.silence.clear()


@KINDS
def test_what_the_user_has_committed_stays(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        await reader.commit()
        await asyncio.sleep(LONG_S)
        assert set(world.stored) == {20}

    play(kind, story)


class Slow(RebalanceListener):
    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await asyncio.sleep(LONG_S)


@KINDS
def test_what_goes_was_committed_before_its_listener_hears_and_stays_so(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        await reader.unsubscribe()

    assert set(play(kind, story, listener=Slow())) == {20}


@KINDS
def test_who_seeks_back_wants_less_committed(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        await reader.commit()
        reader.seek(T0, 0)
        await read_two_parts(reader)
        await asyncio.sleep(LONG_S)
        assert world.stored[0] == 20
        assert world.stored[-1] == 10, "the part before the one in hand"

    play(kind, story)


@KINDS
def test_what_could_not_be_committed_does_not_count(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        await fails(world, reader.commit(timeout_s=1.0))
        await asyncio.sleep(LONG_S)
        assert set(world.stored) == {10}

    play(kind, story)


@KINDS
def test_a_commit_that_fails_takes_back_none_before_it(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        await reader.commit()
        await fails(world, reader.commit(timeout_s=1.0))
        await asyncio.sleep(LONG_S)
        assert set(world.stored) == {20}

    play(kind, story)


@KINDS
def test_what_was_stored_while_the_next_commit_waited_stays_when_that_fails(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        first = asyncio.ensure_future(reader.commit({T0: 20}))
        second = asyncio.ensure_future(reader.commit({T0: 15}, timeout_s=1.0))
        await first
        await fails(world, second)
        await asyncio.sleep(LONG_S)
        assert set(world.stored) == {20}

    play(kind, story)


@KINDS
def test_what_was_stored_stays_though_others_of_that_commit_were_refused(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        world.cluster.add_topic("u", [1])
        await reader.partitions("u")
        world.cluster.add_topic("u", [1])  # another one of that name
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
            await reader.commit({T0: 20, ("u", 0): 1}, timeout_s=1.0)
        await asyncio.sleep(LONG_S)
        assert set(world.stored) == {20}

    play(kind, story)


@KINDS
def test_a_commit_of_what_was_never_given_keeps_none_from_being_made(kind: str) -> None:
    async def story(reader: Consumer, world: World) -> None:
        await read_two_parts(reader)
        await reader.commit({T0: 10**6})
        await asyncio.sleep(LONG_S)
        assert world.stored[-1] == 10

    play(kind, story)
