"""Two brokers of a cluster are the shards of one host, and one of them is hot: the whole flow, from
the measure to the controller on another node, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import pytest

from moldau.broker.controller.assignment import is_moving
from moldau.broker.controller.topics import Partition
from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.main.shard_answers import ShardAnswers
from moldau.broker.main.shard_balance import ShardBalance
from moldau.broker.server.broker import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.client import Admin, NewTopic
from moldau.config import overrides
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.questions import NoAnswer, Questions
from tests.broker.cluster.faults import check
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world

SHARE = 0.3
"""What each partition of the topic costs the shard that leads it."""
PARTITIONS = 3
WINDOW_S = 10


class SimulatedShard:
    """A shard as its supervisor asks it. Each run of its broker has answers of its own."""

    def __init__(self, brokers: SimulatedBrokers, number: int) -> None:
        self._brokers = brokers
        self._number = number
        self._known: tuple[Broker, ShardAnswers] | None = None

    async def ask(self, question: str, timeout_s: float) -> bytes:
        broker = self._brokers.running.get(self._number)
        if broker is None or not self._brokers.is_alive(self._number):
            raise NoAnswer("it has ended")
        answers = self._answers_of(broker)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def answer() -> None:
            pieces = [each async for each in answers.answer(question)]
            if not answered.done():
                answered.set_result(b"".join(pieces))

        broker.node.runtime.spawn(answer(), name="answer")
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            raise NoAnswer("it does not answer in time") from None

    def _answers_of(self, broker: Broker) -> ShardAnswers:
        if self._known is None or self._known[0] is not broker:
            clock = broker.node.runtime.clock
            busy = [clock.monotonic(), 0.0]

            def busy_s() -> float:
                before, busy[0] = busy[0], clock.monotonic()
                led = sum(each.topic == TOPIC for each in broker.node.replicas)
                busy[1] += SHARE * led * (busy[0] - before)
                return busy[1]

            answers = ShardAnswers(clock, busy_s=busy_s)
            answers.watch(ObservedBroker(broker))
            self._known = broker, answers
        return self._known[1]


class Host:
    """A cluster of three brokers with a controller elsewhere; the first two are one host."""

    def __init__(self, brokers: SimulatedBrokers, traffic: Traffic, replicas: list[int]) -> None:
        self.brokers, self.traffic = brokers, traffic
        self.world = brokers.world
        traffic.pause_s = 0.1
        self.lines: list[str] = []
        self.pages: list[ShardBalance] = []
        shards = {number: cast(Questions, SimulatedShard(brokers, number + 1)) for number in (0, 1)}
        brokers.await_up()

        async def create(runtime: Runtime) -> None:
            async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
                assignments = dict.fromkeys(range(PARTITIONS), replicas)
                await admin.create_topics([NewTopic(TOPIC, assignments=assignments)])

        brokers.run(create, "admin")
        brokers.start_program(partial(self._balance, shards), "host")
        self._produced = brokers.start_program(traffic.produce, "producer")
        brokers.start_program(traffic.read, "reader")

    async def _balance(self, shards: Mapping[int, Questions | None], runtime: Runtime) -> None:
        settings = broker_settings(
            standalone_layer("/data"),
            overrides({"moldau.shards.balance.window.ms": str(WINDOW_S * 1000)}),
        )
        loggers = Loggers(runtime.clock, self.lines.append)
        balance = ShardBalance(runtime, settings, lambda: shards, loggers.get("shards"))
        self.pages.append(balance)
        balance.begin()
        await asyncio.Event().wait()

    def partitions(self) -> Mapping[int, Partition]:
        broker = self.brokers.running[3]
        topic = broker.node.image.topics.by_name(TOPIC)
        return {} if topic is None else topic.partitions

    def leaders(self) -> list[int]:
        return sorted(each.leader for each in self.partitions().values())

    def end(self) -> None:
        """What was written is there, once and in order; the metrics have one move."""
        self.traffic.is_ending = True
        self.world.run_until(lambda: self._produced.is_done, within=60)
        check(self.brokers, self.traffic)
        assert self.traffic.acknowledged > 100

    @property
    def began(self) -> list[str]:
        return [each for each in self.lines if "moves to another" in each]


@pytest.fixture
def three() -> Any:
    with new_world(1) as world:
        yield SimulatedBrokers(
            world,
            3,
            controllers=1,
            min_insync_replicas="1",
            leader_imbalance_check_interval_seconds="20",
        )


def paced(brokers: SimulatedBrokers) -> tuple[str, int] | None:
    """The partition that the second shard copies slowly."""
    return brokers.running[2].node.replicas.quotas.fetched.paced


def test_a_hot_shard_gives_a_replica_away_while_clients_work(three: SimulatedBrokers) -> None:
    host = Host(three, Traffic(three.bootstrap_servers, PARTITIONS), [1])
    host.world.run_until(lambda: host.leaders() == [1, 1, 2], within=60)
    (index,) = [number for number, each in host.partitions().items() if each.leader == 2]
    assert host.partitions()[index].replicas == (2,)
    assert paced(three) == (TOPIC, index)
    host.world.run_for(1)
    assert paced(three) is None
    host.world.run_for(6 * WINDOW_S)  # neither is hot any more
    assert host.leaders() == [1, 1, 2]
    (line,) = host.began
    assert "source=0 target=1 what=replica" in line
    assert "source_share=90% target_share=0%" in line
    page = host.pages[0].page()
    assert 'moldau_shard_core_share{shard="0"} 0.6' in page
    assert 'moldau_shard_core_share{shard="1"} 0.3' in page
    assert 'moldau_shard_moves_total{what="replica"} 1' in page
    host.end()


def test_a_hot_shard_gives_only_the_leader_to_an_in_sync_replica(three: SimulatedBrokers) -> None:
    host = Host(three, Traffic(three.bootstrap_servers, PARTITIONS), [1, 2])
    host.world.run_until(lambda: host.leaders() == [1, 1, 2], within=60)
    host.world.run_for(6 * WINDOW_S)  # longer than leaders take to be where they are preferred
    assert host.leaders() == [1, 1, 2]
    moved = next(each for each in host.partitions().values() if each.leader == 2)
    assert moved.replicas == (2, 1)
    assert set(moved.isr) == {1, 2}
    assert "what=leader" in host.began[0]
    assert len(host.began) == 1
    host.end()


def test_a_target_that_is_killed_during_a_move_finishes_it(three: SimulatedBrokers) -> None:
    host = Host(three, Traffic(three.bootstrap_servers, PARTITIONS), [1])
    host.world.run_until(lambda: any(map(is_moving, host.partitions().values())), within=60)
    three.kill(2)
    host.world.run_for(30)
    assert host.leaders() == [1, 1, 1]
    three.start(2)
    host.world.run_until(lambda: host.leaders() == [1, 1, 2], within=60)
    host.world.run_for(WINDOW_S)
    assert len(host.began) == 1
    assert not any(map(is_moving, host.partitions().values()))
    host.end()


def test_a_cancelled_move_is_named_and_another_partition_moves(three: SimulatedBrokers) -> None:
    host = Host(three, Traffic(three.bootstrap_servers, PARTITIONS), [1])
    three.world.network.block("b2", "b1")  # the copy makes no progress
    host.world.run_until(lambda: any(map(is_moving, host.partitions().values())), within=60)
    (index,) = [n for n, each in host.partitions().items() if is_moving(each)]
    assert paced(three) == (TOPIC, index)

    async def cancel(runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=three.bootstrap_servers) as admin:
            for each in await admin.list_partition_reassignments():
                await admin.alter_partition_reassignments({each: None})

    three.run(cancel, "user")
    three.world.network.heal()
    host.world.run_until(lambda: host.leaders() == [1, 1, 2], within=60)
    assert host.partitions()[index].leader == 1
    host.world.run_for(2 * WINDOW_S)
    assert paced(three) is None
    assert [each for each in host.lines if "does not move" in each and "why=cancelled" in each]
    host.end()
