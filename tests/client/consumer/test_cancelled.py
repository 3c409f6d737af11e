"""What tasks have in hand as they are cancelled is not committed by itself, but read again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal

import pytest

from moldau.client import Consumer, ConsumerRecord, PartitionRecords
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from tests.client.consumer.test_consumer import fill
from tests.client.consumer.test_membership import PROTOCOLS, member
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
        return world.cluster.groups.offsets["g"]["t", 0]


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


class Shared:
    """A consumer that several tasks read, each in a stream of its own, and one at a time."""

    def __init__(self, reader: Consumer, reads: Reads) -> None:
        self._reader = reader
        self._reads = reads
        self._asks = asyncio.Lock()

    def stream(self) -> AsyncIterator[ConsumerRecord | PartitionRecords]:
        return aiter(self._reader) if self._reads == "for" else self._reader.batches(max_records=2)

    async def take(self, stream: AsyncIterator[ConsumerRecord | PartitionRecords]) -> int:
        """The first offset of what is given next."""
        async with self._asks:
            if self._reads == "poll":
                parts: list[PartitionRecords] = []
                while not parts:
                    parts = await self._reader.poll(1.0, max_records=2)
                return parts[0].records[0].offset
            return first_offset(await anext(stream))

    async def work(self, hangs_at: int, takes_s: float) -> None:
        """As one of several."""
        stream = self.stream()
        while True:
            offset = await self.take(stream)
            await asyncio.sleep(FOR_EVER_S if offset == hangs_at else takes_s)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("reads", ["for", "batches", "poll"])
@pytest.mark.parametrize("is_in_turn", [False, True])
@pytest.mark.parametrize("takes_s", [0.0, 1.0])
def test_nor_is_what_any_of_several_tasks_has_in_hand(
    kind: str, reads: Reads, is_in_turn: bool, takes_s: float
) -> None:
    """Though others asked for more behind it, also while one after the other is cancelled."""

    async def program(_: ClientWorld, reader: Consumer) -> None:
        shared = Shared(reader, reads)
        tasks = [asyncio.create_task(shared.work(4, takes_s)) for _ in range(3)]
        await asyncio.sleep(8.0)
        for each in [[task] for task in tasks] if is_in_turn else [tasks]:
            await cancel(*each)
            await asyncio.sleep(1.5 if is_in_turn else 0.0)

    assert committed(program, kind, max_poll_records=5) == 4


def test_what_others_did_before_it_and_after_it_is_committed_once_it_is_behind_all() -> None:
    """Of a task that was cancelled alone, what it had in hand is committed as time passes: else one
    record would hold the group back for ever."""

    async def program(world: ClientWorld, reader: Consumer) -> None:
        shared = Shared(reader, "for")
        tasks = [asyncio.create_task(shared.work(4, 1.0)) for _ in range(3)]
        await asyncio.sleep(5.0)
        await cancel(*tasks[:2])
        await asyncio.sleep(30.0)
        assert world.cluster.groups.offsets["g"]["t", 0] == RECORDS
        await cancel(tasks[2])

    assert committed(program, auto_commit_interval_ms=1_000) == RECORDS


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


def test_nor_does_it_if_they_had_passed_it_before_its_task_was_cancelled() -> None:
    async def program(world: ClientWorld, reader: Consumer) -> None:
        task = asyncio.create_task(work(reader, "poll", 4, []))
        await asyncio.sleep(1.0)
        async for record in reader:
            if record.offset == 17:
                break
            await asyncio.sleep(1.0)
        await cancel(task)
        assert 5 < world.cluster.groups.offsets["g"]["t", 0] < 17

    assert committed(program, auto_commit_interval_ms=5_000, max_poll_records=5) == 18


def test_of_two_that_were_cancelled_commits_have_to_pass_both() -> None:
    """1. One is cancelled with record 4, another one with 9, 2. meanwhile a third one has 7 in
    hand, which is as far as commits go as time passes, 3. it goes on, and reads all."""

    async def program(world: ClientWorld, reader: Consumer) -> None:
        shared = Shared(reader, "for")
        third, goes_on = shared.stream(), asyncio.Event()
        cancelled = []

        async def take_up_to(offset: int) -> None:
            stream = shared.stream()
            while await shared.take(stream) < offset:
                pass
            await asyncio.sleep(FOR_EVER_S)

        async def read_slowly() -> None:
            while await shared.take(third) < 7:
                pass
            await goes_on.wait()
            while await shared.take(third) < RECORDS - 1:
                pass

        cancelled.append(asyncio.create_task(take_up_to(4)))
        await asyncio.sleep(2.0)
        slow = asyncio.create_task(read_slowly())
        await asyncio.sleep(1.0)
        cancelled.append(asyncio.create_task(take_up_to(9)))
        await asyncio.sleep(1.0)
        await cancel(*cancelled)
        asks = asyncio.create_task(shared.take(shared.stream()))
        await asyncio.sleep(10.0)
        assert world.cluster.groups.offsets["g"]["t", 0] == 7
        goes_on.set()
        await asyncio.wait([slow, asks])

    assert committed(program, auto_commit_interval_ms=5_000) <= 9


def test_who_seeks_past_what_a_task_has_in_hand_that_is_cancelled_then_does_not_go_back() -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        tasks = []
        for hangs_at in (4, 8):
            tasks.append(asyncio.create_task(work(reader, "for", hangs_at, [])))
            await asyncio.sleep(2.0)
        reader.seek("t", 0, 13)
        await cancel(*tasks)

    assert committed(program) == 13


def test_what_commits_have_not_passed_is_held_back_also_if_they_have_passed_another() -> None:
    async def program(world: ClientWorld, reader: Consumer) -> None:
        for hangs_at in (4, 16):
            task = asyncio.create_task(work(reader, "for", hangs_at, []))
            await asyncio.sleep(2.0)
            await cancel(task)
            async for record in reader:
                if record.offset == hangs_at + 2:
                    break
                await asyncio.sleep(3.0 if hangs_at == 4 else 0.1)
        assert world.cluster.groups.offsets["g"]["t", 0] < 16

    assert committed(program, auto_commit_interval_ms=5_000) == 16


def test_it_is_not_committed_as_time_passes_while_others_end() -> None:
    """1. A server cancels all tasks, 2. one has a record in hand, and ends at once, 3. another one
    has a later record, and takes its time to end, 4. meanwhile a commit is due."""

    async def program(world: ClientWorld, reader: Consumer) -> None:
        async def end_slowly() -> None:
            try:
                await work(reader, "for", 9, [])
            finally:
                await asyncio.sleep(10.0)

        tasks = []
        for each in (work(reader, "for", 4, []), end_slowly()):
            tasks.append(asyncio.create_task(each))
            await asyncio.sleep(2.0)
        await cancel(*tasks)
        assert world.cluster.groups.offsets["g"]["t", 0] == 4

    assert committed(program, auto_commit_interval_ms=1_000) == 4


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


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("reads", ["for", "batches", "poll"])
@pytest.mark.parametrize("others", [0, 2])
def test_who_seeks_past_what_a_cancelled_task_has_in_hand_does_not_go_back(
    kind: str, reads: Reads, others: int
) -> None:
    async def program(_: ClientWorld, reader: Consumer) -> None:
        shared = Shared(reader, reads)
        tasks = [asyncio.create_task(shared.work(12, 1.0)) for _ in range(1 + others)]
        await asyncio.sleep(20.0)
        await cancel(*tasks)
        reader.seek("t", 0, 13)

    assert committed(program, kind, auto_commit_interval_ms=1_000) == 13


@pytest.mark.parametrize("how", ["finally", "unmoved"])
@pytest.mark.parametrize(("hangs_at", "stored"), [(12, 12), (-1, RECORDS)])
def test_who_is_cancelled_and_closes_himself_or_ends_in_peace_is_not_done(
    how: Literal["finally", "unmoved"], hangs_at: int, stored: int
) -> None:
    """Unless he only waited for more."""

    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def end() -> None:
            try:
                await work(reader, "for", hangs_at, [])
            except asyncio.CancelledError:
                if how == "finally":
                    await reader.aclose()

        task = asyncio.create_task(end())
        await asyncio.sleep(10.0)
        task.cancel()
        await task

    assert committed(program) == stored


def test_one_of_several_that_closes_himself_commits_nothing_that_another_had_in_hand() -> None:
    """Whether that one has ended by then or not."""

    async def program(_: ClientWorld, reader: Consumer) -> None:
        shared = Shared(reader, "for")

        async def end() -> None:
            try:
                await shared.work(-1, 0.1)
            finally:
                await reader.aclose()

        tasks = [asyncio.create_task(shared.work(4, 0.0))]
        await asyncio.sleep(2.0)
        tasks += [asyncio.create_task(end()) for _ in range(2)]
        await asyncio.sleep(8.0)
        await cancel(*tasks)

    assert committed(program) == 4


def test_who_was_to_be_cancelled_before_he_read_is_done_with_what_he_leaves() -> None:
    """As a task that has taken note of it, and reads what is left."""

    async def program(_: ClientWorld, reader: Consumer) -> None:
        async def read_the_rest() -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(FOR_EVER_S)
            async for record in reader:
                if record.offset == 12:
                    break
            await reader.aclose()

        task = asyncio.create_task(read_the_rest())
        await asyncio.sleep(1.0)
        task.cancel()
        await task

    assert committed(program) == 13


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


def test_what_a_task_was_cancelled_committing_is_tried_again_at_the_close() -> None:
    """Else what it was done with before that would not be committed either."""

    async def program(world: ClientWorld, reader: Consumer) -> None:
        async def commit() -> None:
            async for record in reader:
                if record.offset == 12:
                    world.cluster.silence.add(OffsetCommitRequest)
                    await reader.commit()

        task = asyncio.create_task(commit())
        await asyncio.sleep(10.0)
        await cancel(task)
        world.cluster.silence.clear()

    assert committed(program) == 13


def test_a_task_that_has_read_a_consumer_keeps_nothing_of_it() -> None:
    """Though it lives on, and reads one after the other."""

    async def main(runtime: Any) -> None:
        async with member(runtime, PROTOCOLS[0]) as reader:
            reader.assign([("t", 0)])
            await reader.poll(1.0)
        kept = weakref.ref(vars(reader).pop("_readers"))
        gc.collect()
        assert kept() is None

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], RECORDS)
        world.run_client(main)
