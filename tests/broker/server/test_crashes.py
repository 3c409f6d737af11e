"""A broker whose process dies and whose power fails, from many seeds: what was acknowledged stays.

A client appends numbered values to two topics, and writes down what was acknowledged at which
offset. `safe` acknowledges after fsync and must lose nothing to anything; `fast` must lose nothing
to the death of the process, which leaves the page cache alone.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.network.virtual_pause import after
from tests.broker.server.houses import House
from tests.broker.server.wire import Wire, wired

pytestmark = pytest.mark.usefixtures("no_world_is_left")

PORT = 9092
SEEDS = range(6)
LIVES = 6
APPENDS = 40


class Story:
    """One world, and what was promised in it."""

    def __init__(self, seed: int, *, loses_power: bool) -> None:
        self.random = Random(seed)
        self.world = Simulation(seed)
        self.topics = ("safe",) if loses_power else ("safe", "fast")
        self.loses_power = loses_power
        self.promised: dict[str, dict[int, bytes]] = {name: {} for name in self.topics}
        self.created: set[str] = set()
        self.count = 0
        self.lives = 0

    async def serve(self, runtime: Runtime) -> None:
        house = House(runtime, "/data", host="")
        house.port = PORT
        broker = await house.start(log_index_size_max_bytes="4096")
        self.lives += 1
        await broker.wait()

    async def append(self, runtime: Runtime) -> None:
        """Goes on and on, whatever happens to the broker."""
        while True:
            try:
                async with asyncio.timeout(0.5), wired(runtime, "broker", PORT) as wire:
                    await self.talk(wire)
            except (OSError, EOFError, TimeoutError):
                await after(0.01)

    async def talk(self, wire: Wire) -> None:
        for _ in range(APPENDS):
            topic = self.random.choice(self.topics)
            if topic not in self.created:
                configs = {"flush_messages": "1"} if topic == "safe" else {}
                code = await wire.create(topic, 1, **configs)
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self.created.add(topic)
                continue
            self.count += 1
            value = f"{topic}-{self.count}".encode()
            answer = await wire.produce(topic, [value])
            if answer.error_code == ErrorCode.NONE:
                known = self.promised[topic].setdefault(answer.base_offset, value)
                assert known == value, "an offset was promised to another value"

    async def audit(self, runtime: Runtime) -> None:
        """Reads everything when it is over."""
        async with wired(runtime, "broker", PORT) as wire:
            names = {each.name for each in (await wire.metadata()).topics}
            assert self.created <= names, "a topic that was acknowledged is gone"
            for topic in self.created:
                self.check(topic, await wire.fetch_all(topic))
            assert (await wire.produce("safe", [b"end"])).error_code == ErrorCode.NONE

    def check(self, topic: str, found: list[bytes]) -> None:
        for offset, value in self.promised[topic].items():
            assert found[offset] == value, f"{topic} promised {value!r} at {offset}"
        assert len(set(found)) == len(found), "a value stands twice"

    def run(self) -> None:
        with self.world as world:
            broker = world.add_node("broker", self.serve)
            client = world.add_node("client", self.append)
            world.run_until(lambda: "safe" in self.created, within=60)
            for _ in range(LIVES):
                world.run_for(self.random.choice((0.005, 0.05, 0.5)) * self.random.random())
                if self.loses_power and self.random.random() < 0.7:
                    broker.power_loss()
                else:
                    broker.crash()
                world.run_for(self.random.random() / 10)
                broker.start()
            world.run_for(2.0)
            client.crash()
            auditor = world.add_node("auditor", self.audit)
            world.run_until(lambda: not auditor.is_alive, within=60)
            assert not auditor.has_failed


@pytest.mark.parametrize("seed", SEEDS)
def test_the_death_of_the_process_loses_nothing(seed: int) -> None:
    story = Story(seed, loses_power=False)
    story.run()

    assert story.promised["safe"]
    assert story.promised["fast"]


@pytest.mark.parametrize("seed", SEEDS)
def test_power_loss_takes_nothing_that_was_acknowledged_after_fsync(seed: int) -> None:
    story = Story(seed, loses_power=True)
    story.run()

    assert story.promised["safe"]
