"""Records of a partition come in order, once, and are committed only when they were given, whatever
partitions are paused and resumed, however they are read, and whatever is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from moldau.client import Consumer, PartitionRecords, TopicPartition
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.world import ClientWorld

COUNT = 300
PARTITIONS = [TopicPartition("t", index) for index in range(3)]


def test_partitions_that_are_resumed_while_an_async_for_waits_go_on_where_they_were() -> None:
    """And what is committed by itself meanwhile was given."""
    both = PARTITIONS[:2]
    given: dict[int, list[int]] = {0: [], 1: []}

    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", auto_commit_interval_ms=100) as reader:
            reader.assign(both)
            async for record in reader:
                mine = given[record.partition]
                mine.append(record.offset)
                if len(mine) == 100:
                    reader.pause([(record.topic, record.partition)])
                    if len(reader.paused) == 2:
                        asyncio.get_running_loop().call_later(3.0, reader.resume, both)
                if len(given[0]) > 100:
                    await asyncio.sleep(0.01)
                if sum(map(len, given.values())) == 2 * 500:
                    return

    def stored(where: tuple[str, int], offset: int) -> None:
        assert given[where[1]][:offset] == list(range(offset)), "nobody was given that"

    with ClientWorld() as world:
        world.cluster.groups.on_commit = stored
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 500)
        world.run_client(main)
    assert given == {0: list(range(500)), 1: list(range(500))}


class Readings:
    """Reads by all ways in turn, most of them cut short, while partitions are paused and resumed
    and change their leaders."""

    def __init__(self, reader: Consumer, random: Random, move: Callable[[int, int], None]) -> None:
        self.random = random
        self.given = dict.fromkeys(PARTITIONS, 0)
        self.stored = dict.fromkeys(PARTITIONS, 0)
        self._reader = reader
        self._move = move
        self._records = aiter(reader)
        self._parts = reader.batches(max_records=random.choice([None, 2, 9]))

    def on_commit(self, where: tuple[str, int], offset: int) -> None:
        place = TopicPartition(*where)
        assert self.stored[place] <= offset <= self.given[place]
        self.stored[place] = offset

    async def toggle(self) -> None:
        while True:
            await asyncio.sleep(self.random.random() * 0.4)
            where = self.random.choice(PARTITIONS)
            self._reader.resume([where]) if self._is_paused(where) else self._reader.pause([where])

    def _is_paused(self, where: TopicPartition) -> bool:
        return where in self._reader.paused

    def _give(self, where: TopicPartition, offset: int) -> None:
        assert not self._is_paused(where)
        assert offset == self.given[where], where
        self.given[where] += 1

    def _give_part(self, part: PartitionRecords) -> None:
        for offset in part.offsets():
            self._give(TopicPartition(*part[:2]), offset)

    async def turn(self) -> None:
        ways: list[Callable[[], Awaitable[None]]] = [self._poll, self._some, self._part]
        if self.random.random() < 0.03:
            self._move(self.random.randrange(3), self.random.choice([1, 2]))
        try:
            await self.random.choice(ways)()
        except TimeoutError:
            return

    async def _in_time(self, found: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(found, self.random.choice([0.0, 0.001, 0.05, 0.3, 1.0]))

    async def _poll(self) -> None:
        most = self.random.choice([None, 1, 5])
        timeout_s = self.random.choice([0.0, 0.2])
        for part in await self._in_time(self._reader.poll(timeout_s, max_records=most)):
            self._give_part(part)

    async def _some(self) -> None:
        for _ in range(self.random.randrange(1, 20)):
            record = await self._in_time(anext(self._records))
            self._give(TopicPartition(record.topic, record.partition), record.offset)
            if self.random.random() < 0.1:
                await asyncio.sleep(self.random.random() * 0.2)

    async def _part(self) -> None:
        self._give_part(await self._in_time(anext(self._parts)))


def _slowly(random: Random) -> Callable[..., Any]:
    async def decode(data: bytes | None, _: object) -> bytes | None:
        if random.random() < 0.02:
            await asyncio.sleep(random.random() * 0.3)
        return data

    return decode


@pytest.mark.parametrize("how", ["plain", "decoded", "committed"])
@pytest.mark.parametrize("seed", [0, 7, 16, 20, 29])  # most found what this holds
def test_everything_comes_once_and_in_order_by_whatever_way(seed: int, how: str) -> None:
    random = Random(seed)
    options: dict[str, Any] = {} if how == "plain" else {"value_deserializer": _slowly(random)}
    if how == "committed":
        options["isolation_level"] = "read_committed"
    sizes = {
        "max_poll_records": random.choice([3, 17, 500]),
        "max_partition_fetch_bytes": random.choice([700, 3000, 1 << 20]),
        "buffer_memory": random.choice([2000, 1 << 20]),
    }

    async def main(runtime: Runtime) -> None:
        often = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 200}
        async with consumer(runtime, group_id="g", **often, **sizes, **options) as reader:
            reader.assign(PARTITIONS)
            readings = Readings(reader, random, lambda n, to: world.cluster.move("t", n, to))
            world.cluster.groups.on_commit = readings.on_commit
            toggling = asyncio.create_task(readings.toggle())
            async with asyncio.timeout(250):
                while sum(readings.given.values()) < len(PARTITIONS) * COUNT:
                    await readings.turn()
            toggling.cancel()

    with ClientWorld(seed) as world:
        for log in world.cluster.add_topic("t", [1, 2, 1]):
            fill(log, COUNT)
        world.run_client(main, within=400)
