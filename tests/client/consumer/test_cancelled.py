"""What a task has at hand as it is cancelled is not committed by itself, but read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal

import pytest

from moldau.client import Consumer, ConsumerRecord, PartitionRecords
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import fill
from tests.client.world import ClientWorld

RECORDS = 20
FOR_EVER_S = 1_000.0
How = Literal["aclose", "unsubscribe"]
Reads = Literal["for", "batches", "poll"]


def committed(
    program: Callable[[ClientWorld, Consumer], Awaitable[None]],
    kind: str = PROTOCOLS[0],
    **options: Any,
) -> int:
    """What the group has committed of twenty records at the end of a program, which runs in the
    block of a consumer that subscribes to them."""

    async def main(runtime: Any) -> None:
        late = {"auto_commit_interval_ms": 100_000}
        async with member(runtime, kind, **{**late, **options}) as reader:
            await reader.subscribe("t")
            await program(world, reader)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], RECORDS)
        world.run_client(main)
        return world.cluster.groups.offsets.get("g", {}).get(("t", 0), 0)


async def work(reader: Consumer, reads: Reads, hangs_at: int, handled: list[int]) -> None:
    """Handles one record after the other, and has one in hand without end."""

    async def handle(offset: int) -> None:
        if offset == hangs_at:
            await asyncio.sleep(FOR_EVER_S)
        handled.append(offset)

    if reads == "for":
        async for record in reader:
            await handle(record.offset)
    if reads == "batches":
        async for part in reader.batches():
            for each in part.records:
                await handle(each.offset)
    while reads == "poll":
        for part in await reader.poll(1.0):
            for each in part.records:
                await handle(each.offset)


async def cancel(*tasks: asyncio.Task[None]) -> None:
    """And waits until they have ended."""
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    assert all(each.cancelled() for each in tasks)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("how", ["aclose", "unsubscribe"])
@pytest.mark.parametrize(("reads", "stored"), [("for", 12), ("batches", 10), ("poll", 10)])
@pytest.mark.parametrize("is_done", [False, True])
def test_as_a_server_ends_what_is_in_hand_is_not_committed(
    kind: str, how: How, reads: Reads, stored: int, is_done: bool
) -> None:
    """It cancels the task that reads, waits for it, and closes. Where that one only waited for
    more, it was done with all."""
    handled: list[int] = []

    async def program(_: ClientWorld, reader: Consumer) -> None:
        task = asyncio.create_task(work(reader, reads, -1 if is_done else 12, handled))
        await asyncio.sleep(10.0)
        await cancel(task)
        await getattr(reader, how)()

    found = committed(program, kind, max_poll_records=5)
    assert handled == list(range(RECORDS if is_done else 12))
    assert found == (RECORDS if is_done else stored)


def first_offset(given: ConsumerRecord | PartitionRecords) -> int:
    return given.offset if isinstance(given, ConsumerRecord) else given.records[0].offset


@pytest.mark.parametrize("reads", ["for", "batches", "poll"])
def test_it_does_not_hold_back_the_close_once_commits_have_passed_it(reads: Reads) -> None:
    """Else each close and rebalance behind one task that was cancelled would leave to be read again
    what was done since the last commit by time."""

    async def program(world: ClientWorld, reader: Consumer) -> None:
        task = asyncio.create_task(work(reader, reads, 4, []))
        await asyncio.sleep(3.0)
        await cancel(task)
        async for record in reader:  # by another task
            if record.offset == 17:
                break
            await asyncio.sleep(1.0)
        assert 4 < world.cluster.groups.offsets["g"]["t", 0] < 17

    assert committed(program, auto_commit_interval_ms=5_000, max_poll_records=2) == 18


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_a_cancelled_task_has_committed_of_a_poll_is_not_taken_back(kind: str) -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def commit() -> None:
            for part in await reader.poll(10.0):
                await reader.commit({(part.topic, part.partition): 3})
                await asyncio.sleep(FOR_EVER_S)

        task = asyncio.create_task(commit())
        await asyncio.sleep(20.0)
        await cancel(task)

    assert committed(program, kind, max_poll_records=5) == 3


@pytest.mark.parametrize("hangs_at", [12, -1])
def test_a_close_while_an_error_is_handled_commits_nothing(hangs_at: int) -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def end() -> None:
            try:
                await work(reader, "for", hangs_at, [])
            finally:
                await reader.aclose()

        task = asyncio.create_task(end())
        await asyncio.sleep(10.0)
        await cancel(task)

    assert committed(program) == 0


def test_a_task_that_fails_leaves_what_it_had_at_hand() -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def fail() -> None:
            async for record in reader:
                if record.offset == 12:
                    raise ValueError

        with suppress(ValueError):
            await asyncio.create_task(fail())

    assert committed(program) == 12


def test_a_task_that_ends_in_order_is_done_with_what_it_had() -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def read() -> None:
            async for record in reader:
                if record.offset == 12:
                    break

        await asyncio.create_task(read())

    assert committed(program) == 13


@pytest.mark.parametrize("reads", ["for", "batches", "poll"])
def test_what_lies_before_a_slow_record_is_committed_as_time_passes(reads: Reads) -> None:
    async def program(world: ClientWorld, reader: Consumer) -> None:
        task = asyncio.create_task(work(reader, reads, 12, []))
        await asyncio.sleep(10.0)
        assert world.cluster.groups.offsets["g"]["t", 0] == (12 if reads == "for" else 10)
        await cancel(task)

    found = committed(program, max_poll_records=5, auto_commit_interval_ms=1_000)
    assert found == (12 if reads == "for" else 10)


@pytest.mark.parametrize("reads", ["for", "batches"])
def test_who_is_cancelled_as_he_gives_way_has_asked_for_the_next(reads: Reads) -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def read() -> None:
            stream: AsyncIterable[ConsumerRecord | PartitionRecords] = reader
            if reads == "batches":
                stream = reader.batches(max_records=1)
            async for each in stream:
                await asyncio.sleep(0.02)  # so the rest of the loop is to have its turn
                if first_offset(each) == 12:
                    asyncio.get_running_loop().call_soon(task.cancel)

        task = asyncio.create_task(read())
        await asyncio.wait([task])
        assert task.cancelled()

    assert committed(program) == 13
