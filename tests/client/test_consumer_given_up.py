"""A commit that is in trouble while its partitions are given up, and go to somebody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import Consumer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.test_consumer import fill
from tests.client.test_consumer_membership import PROTOCOLS, member
from tests.client.world import ClientWorld

COUNT = 50
PATIENCE_S = 60.0

Seen = list[tuple[int, int]]


async def read_for(reader: Consumer, clock: Any, seconds: float) -> Seen:
    """Partitions and offsets."""
    seen: Seen = []
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0:
        for part in await reader.poll(min(left, 0.2)):
            seen += [(part.partition, offset) for offset in part.offsets()]
    return seen


async def read_ten(reader: Consumer) -> None:
    """Five of each partition."""
    seen = set[int]()
    while len(seen) < 2:
        seen |= {part.partition for part in await reader.poll(1.0)}


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("comes_back", [True, False])
def test_it_does_not_undo_what_others_have_committed_since(kind: str, comes_back: bool) -> None:
    """1. A commits 5 and hears nothing. 2. B gets a partition, reads it to its end and commits
    that. 3. A tries again, while B has the partition still or when it is A's once more."""

    async def main(runtime: Runtime) -> None:
        options = {"enable_auto_commit": False, "request_timeout_ms": 20_000}
        async with member(runtime, kind, max_poll_records=5, **options) as first:
            await first.subscribe("t")
            await read_ten(first)
            world.cluster.silence.add(OffsetCommitRequest)
            commit = first.commit_soon()
            await asyncio.sleep(0.1)
            world.cluster.silence.clear()
            async with member(runtime, kind, **options) as second:
                await second.subscribe("t")
                _, others = await asyncio.gather(
                    read_for(first, runtime.clock, 10.0), read_for(second, runtime.clock, 10.0)
                )
                await second.commit()
                if not comes_back:
                    await asyncio.gather(
                        read_for(first, runtime.clock, PATIENCE_S),
                        read_for(second, runtime.clock, PATIENCE_S),
                    )
            again = await read_for(first, runtime.clock, PATIENCE_S)
            (theirs,) = {partition for partition, _ in others}
            assert world.cluster.groups.offsets["g"]["t", theirs] == COUNT
            assert set(again).isdisjoint(others)
            error = commit.exception()
            assert isinstance(error, KafkaError)
            assert (error.code, error.retriable) == (ErrorCode.ILLEGAL_GENERATION, False)
            assert "given up" in error.reason
            assert {"group", "topic", "partition", "offset"} <= error.context.keys()

    with ClientWorld(3) as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, COUNT)
        world.run_client(main)


def test_who_gave_up_one_partition_has_stored_the_other() -> None:
    async def main(runtime: Runtime) -> None:
        options = {"enable_auto_commit": False, "request_timeout_ms": 20_000}
        async with member(runtime, "cooperative", max_poll_records=5, **options) as first:
            await first.subscribe("t")
            await read_ten(first)
            world.cluster.silence.add(OffsetCommitRequest)
            commit = first.commit_soon()
            await asyncio.sleep(0.1)
            world.cluster.silence.clear()
            async with member(runtime, "cooperative", **options) as second:
                await second.subscribe("t")
                await asyncio.gather(
                    read_for(first, runtime.clock, PATIENCE_S),
                    read_for(second, runtime.clock, PATIENCE_S),
                )
                (kept,) = first.assignment
                assert world.cluster.groups.offsets["g"] == {(kept.topic, kept.partition): 5}
            assert isinstance(commit.exception(), KafkaError)

    with ClientWorld(3) as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, COUNT)
        world.run_client(main)
