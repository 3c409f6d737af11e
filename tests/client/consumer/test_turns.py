"""Who reads on and on lets the rest of the loop have its turn.

Virtual time stands still while a task suspends nowhere but for turns. So the user's work is counted
here: the consumer's clock is ahead by it, until a turn of the loop makes up for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from moldau.client import Consumer, RebalanceListener
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.runtime import Clock, Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld

SESSION_S = 3.0
READINGS: dict[str, Callable[[Consumer], AsyncIterator[list[int]]]] = {}
Reading = Callable[[Consumer], AsyncIterator[list[int]]]


def reading(way: Reading) -> Reading:
    READINGS[way.__name__.strip("_")] = way
    return way


@reading
async def _polls(reader: Consumer) -> AsyncIterator[list[int]]:
    while True:
        yield [n for part in await reader.poll(1.0, max_records=10) for n in part.offsets()]


@reading
async def _batches(reader: Consumer) -> AsyncIterator[list[int]]:
    async for part in reader.batches():
        yield part.offsets()


@reading
async def _records(reader: Consumer) -> AsyncIterator[list[int]]:
    async for record in reader:
        yield [record.offset]


class Worked:
    """The clock of a consumer whose user works without a pause."""

    def __init__(self, reader: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock: Clock = reader._reader._clock
        self._ahead_s = 0.0
        give_way = reader._reader._give_way

        async def gives_way() -> None:
            await self.catch_up()
            await give_way()

        monkeypatch.setattr(reader._reader, "_clock", self)
        monkeypatch.setattr(reader._reader, "_give_way", gives_way)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._ahead_s

    def work(self, seconds: float) -> None:
        self._ahead_s += seconds
        assert self._ahead_s < SESSION_S, "the loop had no turn for as long as a session"

    async def catch_up(self) -> None:
        ahead_s, self._ahead_s = self._ahead_s, 0.0
        await asyncio.sleep(ahead_s)


class Lost(RebalanceListener):
    def __init__(self) -> None:
        self.partitions: list[Any] = []

    def on_partitions_lost(self, partitions: Any) -> None:
        self.partitions += partitions


@pytest.mark.parametrize("has_group", [True, False])
def test_polls_without_time_end_in_records(
    has_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(runtime: Runtime) -> list[int]:
        options = {"group_id": "g"} if has_group else {}
        async with consumer(runtime, auto_offset_reset="earliest", **options) as reader:
            clock = Worked(reader, monkeypatch)
            if has_group:
                await reader.subscribe("t")
            else:
                reader.assign([("t", 0)])
            for _ in range(20_000):
                clock.work(0.001)
                if parts := await reader.poll():
                    return parts[0].offsets()
        raise AssertionError("nothing came")

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == list(range(10))


def test_a_poll_that_gives_nothing_lets_the_loop_have_its_turn_whatever_the_time() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            turns: list[int] = []
            other = asyncio.create_task(_count(turns))
            for _ in range(10):
                before = len(turns)
                assert await reader.poll() == []
                assert len(turns) > before
            other.cancel()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


@pytest.mark.parametrize("how", READINGS)
def test_others_have_their_turns_while_much_lies_here(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            clock = Worked(reader, monkeypatch)
            reader.assign([("t", index) for index in range(10)])
            count = len((await reader.poll(5.0, max_records=1))[0].records)
            turns: list[int] = []
            other = asyncio.create_task(_count(turns, every_s=0.02))
            async for offsets in READINGS[how](reader):
                count += len(offsets)
                clock.work(0.02)
                assert len(turns) >= count // 250
                if count == 1000:
                    break
            other.cancel()

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1] * 10):
            fill(log, 100)
        world.run_client(main)


@pytest.mark.parametrize("kind", ["eager", "consumer"])
@pytest.mark.parametrize("how", READINGS)
def test_a_member_whose_handler_only_computes_stays_in_its_group(
    how: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(runtime: Runtime) -> tuple[list[int], list[Any]]:
        lost = Lost()
        async with member(runtime, kind, max_poll_records=500) as reader:
            clock = Worked(reader, monkeypatch)
            await reader.subscribe("t", listener=lost)
            found: list[int] = []
            async for offsets in READINGS[how](reader):
                for _ in offsets:
                    clock.work(0.04)
                found += offsets
                if len(found) >= 1000:
                    break
        return sorted(found), lost.partitions

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1] * 20):
            fill(log, 50)
        assert world.run_client(main) == (sorted([*range(50)] * 20), [])
        beats = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)
        assert sum(isinstance(each, beats) for _, each in world.cluster.requests) > 5


def test_where_each_record_takes_long_there_is_a_turn_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(runtime: Runtime) -> list[Any]:
        lost = Lost()
        async with member(runtime, "eager", max_poll_records=500) as reader:
            clock = Worked(reader, monkeypatch)
            await reader.subscribe("t", listener=lost)
            async for record in reader:
                clock.work(SESSION_S / 2)
                if record.offset == 19:
                    break
        return lost.partitions

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 100)
        assert world.run_client(main) == []


def test_the_faster_records_go_by_the_more_share_a_look_at_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = range(300, 500)

    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            clock = Worked(reader, monkeypatch)
            reader.assign([("t", 0)])
            looked_at, offset, gives_way = list[int](), -1, reader._reader.give_way_if_due

            async def looks() -> bool:
                looked_at.append(offset)
                return await gives_way()

            monkeypatch.setattr(reader._reader, "give_way_if_due", looks)
            async for record in reader:
                offset = record.offset
                clock.work(0.02 if offset in slow else 0.0)
                if offset == 999:
                    return [after - before for before, after in pairwise(looked_at)]
        raise AssertionError("it has ended")

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 1000)
        counts = [each for each in world.run_client(main) if each]
    assert counts[:8] == [1, 2, 4, 8, 16, 32, 64, 64]
    slowest = [index for index, count in enumerate(counts) if count == 1]
    assert len(slowest) > 50
    assert 64 in counts[: slowest[1]]
    assert 64 in counts[slowest[-1] :]


@pytest.mark.parametrize("how", ["poll", "batches", "records"])
def test_who_is_cancelled_while_others_have_their_turn_loses_nothing(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            clock = Worked(reader, monkeypatch)
            reader.assign([("t", 0)])
            (first,) = await reader.poll(5.0, max_records=1)
            ways: dict[str, Callable[[], Any]] = {
                "poll": lambda: reader.poll(1.0),
                "batches": reader.batches().__anext__,
                "records": aiter(reader).__anext__,
            }
            for _ in range(5):
                clock.work(0.1)
                taking = asyncio.ensure_future(ways[how]())
                await asyncio.sleep(0)
                taking.cancel()
                with suppress(asyncio.CancelledError):
                    await taking
                    raise AssertionError("it did not wait for its turn")
            return first.offsets() + (await read_all(reader, 99))[0]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 100)
        assert world.run_client(main) == list(range(100))


@pytest.mark.parametrize("how", ["poll", "batches", "records"])
def test_who_is_closed_while_others_have_their_turn_gives_nothing_any_more(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(runtime: Runtime) -> None:
        reader = consumer(runtime, auto_offset_reset="earliest")
        await reader.start()
        clock = Worked(reader, monkeypatch)
        reader.assign([("t", 0)])
        await anext(aiter(reader))  # the others lie here
        ways: dict[str, Callable[[], Any]] = {
            "poll": lambda: reader.poll(1.0),
            "batches": reader.batches().__anext__,
            "records": aiter(reader).__anext__,
        }
        clock.work(0.1)
        taking = asyncio.ensure_future(ways[how]())
        await asyncio.sleep(0)
        await reader.aclose()
        with pytest.raises(KafkaError if how == "poll" else StopAsyncIteration):
            await taking

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 100)
        world.run_client(main)


def test_there_are_turns_enough_for_a_heartbeat_and_its_answer() -> None:
    """Two for its timer and the task that writes it, and two for what is read and who awaits it:
    however rarely somebody polls, each poll sends one."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            turns: list[int] = []
            other = asyncio.create_task(_count(turns))
            await reader._reader._give_way()
            other.cancel()
            assert len(turns) == 4

    with ClientWorld() as world:
        world.run_client(main)


async def _count(turns: list[int], every_s: float = 0.0) -> None:
    while True:
        turns.append(len(turns))
        await asyncio.sleep(every_s)
