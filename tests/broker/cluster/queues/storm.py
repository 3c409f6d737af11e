"""Three brokers, a topic, a producer and the members of one share group, struck by whatever may
happen to them, from one seed.

Safety: nodes die, stop, stand still and lose each other, leadership moves (of the topic, of the
group and of the share coordinator), the share coordinator is slow or refuses, members crash, stand
still, answer late and leave, records are deleted; the watch looks after every event. Liveness: all
heals, members do their work, and the queue is empty at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from moldau.broker.api.share_persister import SharePersister
from moldau.broker.controller.topics import Topic
from moldau.broker.replication.purgatory import Pause
from moldau.client import Admin, NewTopic, Producer, Resource, ResourceType, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.cluster.invariants import Watch, check_metadata
from tests.broker.cluster.queues.ledger import Ledger, Place, Promise
from tests.broker.cluster.queues.members import TOPIC, Member
from tests.broker.cluster.queues.watch import QueueWatch
from tests.broker.cluster.queues.wire import (
    GROUP,
    INTERNAL_PARTITIONS,
    OFFSETS,
    STATES,
    reset_offset,
)
from tests.broker.cluster.storm import ALL, LIVENESS_S, Storm, draw_settings
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand
from tests.broker.simulation.scenario import Outcome, draw_options

PARTITIONS: Final = 2
MEMBERS: Final = 3
LOCK_MS: Final = 1500
MOST: Final = 100
"""The fewest records that may be the limit of a window."""
READ: Final[list[Place]] = [(TOPIC, index) for index in range(PARTITIONS)]
PLACES: Final[list[Place]] = [
    *(READ * 2),
    *((STATES, index) for index in range(INTERNAL_PARTITIONS)),
    (OFFSETS, 0),
]
PATIENCE_S: Final = 120.0


def draw_share_settings(random: Random) -> dict[str, str]:
    """Locks and sessions that end within a run."""
    return {
        "share_coordinator_state_topic_num_partitions": str(INTERNAL_PARTITIONS),
        "share_coordinator_state_topic_replication_factor": "3",
        "share_coordinator_state_topic_min_isr": "2",
        "share_coordinator_snapshot_update_records_per_snapshot": random.choice(("0", "3", "500")),
        "share_coordinator_state_topic_prune_interval_ms": random.choice(("500", "300000")),
        "share_coordinator_cold_partition_snapshot_interval_ms": random.choice(("700", "300000")),
        "group_share_min_record_lock_duration_ms": "1000",
        "group_share_record_lock_duration_ms": str(LOCK_MS),
        "group_share_partition_max_record_locks": str(MOST),
        "group_share_min_heartbeat_interval_ms": "200",
        "group_share_heartbeat_interval_ms": "400",
        "group_share_min_session_timeout_ms": "2000",
        "group_share_session_timeout_ms": "3000",
        "group_share_assignment_interval_ms": "0",
        "group_initial_rebalance_delay_ms": "0",
    }


class Run:
    """See the module. Satisfies the members' `Run`."""

    def __init__(self, world: Simulation, random: Random, given: dict[str, str]) -> None:
        settings = {**draw_settings(random), **draw_share_settings(random)}
        self.limit = random.choice((2, 3, 5))
        settings["group_share_delivery_count_limit"] = str(self.limit)
        self.world = world
        self.given = given
        controllers = random.choice((0, 0, 1))
        self.brokers = SimulatedBrokers(
            world, 3, controllers=controllers, first_voter=None, **settings
        )
        self.lock_ms = LOCK_MS
        self.ledger = Ledger()
        self.ids: dict[str, bytes] = {}
        self.is_ending = False
        self.is_over = False
        self.delays = random.random() < 0.4
        self.graves = random.choice((None, None, "dlq.q"))
        self.backoff_ms = random.choice((0, 0, 400))
        self.is_paused = False
        self.crashes = 0.02
        self.deletes = random.random() < 0.3
        self.resets = random.random() < 0.2
        self.pause_s = random.choice((0.02, 0.1, 0.3))
        self.watch = QueueWatch(
            self.brokers, self.ledger, lock_ms=LOCK_MS, limit=self.limit, most=MOST
        )
        self._random = random

    def epoch_of(self, place: Place) -> int:
        return self.watch.epoch_of(place)

    def prepare(self) -> None:
        """Create the topic and configure the group, and watch them."""
        self.brokers.await_up(within=LIVENESS_S)
        self.brokers.run(self._create, within=LIVENESS_S)

        def found() -> list[Topic | None]:
            nodes = (each.node for each in self.brokers.running.values())
            return [each.image.topics.by_name(TOPIC) for each in nodes]

        self.world.run_until(lambda: all(found()), within=LIVENESS_S)
        topic = found()[0]
        assert topic is not None
        self.ids[TOPIC] = topic.topic_id
        self.watch.names[topic.topic_id] = TOPIC
        self.watch.graves = self.graves
        if not self.deletes:  # it takes an empty log for one that has lost its records
            Watch(self.brokers, TOPIC).begin()
        self.watch.begin()

    async def _create(self, runtime: Runtime) -> None:
        async with Admin(
            runtime=runtime, bootstrap_servers=self.brokers.bootstrap_servers
        ) as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
            group = Resource(ResourceType.GROUP, GROUP)
            values = {"share.auto.offset.reset": "earliest", **self.given}
            if self.delays:
                values["share.deliver.at.enable"] = "true"
            if self.graves is not None:
                values["share.dlq.topic"] = self.graves
            if self.backoff_ms:
                values["share.retry.backoff"] = f"{self.backoff_ms}ms,1s"
            await admin.alter_configs(group, set_to=values)

    def start_clients(self) -> list[Any]:
        """The producer, the members, and perhaps somebody who deletes records."""
        random, brokers = self._random, self.brokers
        programs = [brokers.start_program(self._produce, "producer")]
        for number in range(MEMBERS):
            member = Member(self, f"m{number}", Random(random.random()))
            programs.append(brokers.start_program(member.main, f"m{number}"))
        if self.deletes:
            programs.append(brokers.start_program(self._delete, "deleter"))
        if self.resets:
            programs.append(brokers.start_program(self._reset, "resetter"))
        return programs

    async def _produce(self, runtime: Runtime) -> None:
        random, number = Random(self._random.random()), 0
        while not self.is_ending:
            try:
                async with Producer(
                    runtime=runtime, bootstrap_servers=self.brokers.bootstrap_servers
                ) as producer:
                    while not self.is_ending:
                        for _ in range(random.choice((1, 1, 5, 30))):
                            number += 1
                            value = f"{number}".encode()
                            await producer.send(TOPIC, value, partition=number % PARTITIONS)
                        await producer.flush()
                        if self.delays and random.random() < 0.3:
                            number += 1
                            await self._produce_early(producer, runtime, number)
                        await asyncio.sleep(self.pause_s * random.random() * 4)
            except KafkaError:
                await asyncio.sleep(0.1)
        self.ledger.counts["produced"] += number

    async def _produce_early(
        self, producer: Producer[Any, Any], runtime: Runtime, number: int
    ) -> None:
        """Write a record that is not to be given before a time."""
        rest_ms = Random(number).randint(100, 3000)
        until = asyncio.get_running_loop().time() + rest_ms / 1000
        headers = [("deliver-at", f"{runtime.clock.wall_ms() + rest_ms}".encode())]
        place = TOPIC, number % PARTITIONS
        value = f"{number}".encode()
        sent = await producer.send_and_wait(TOPIC, value, headers=headers, partition=place[1])
        self.ledger.rests(place, sent.offset, until - 0.002)
        self.ledger.counts["early records"] += 1

    async def _delete(self, runtime: Runtime) -> None:
        """Delete records now and then that members may hold."""
        random = Random(self._random.random())
        while not self.is_ending:
            await asyncio.sleep(random.uniform(0.2, 2.0))
            place = random.choice(READ)
            before = self.watch.start_of(place) + random.randint(0, 10)
            leader = self.brokers.running.get(self.brokers.leader_of(*place))
            partition = None if leader is None else leader.node.replicas.find(*place)
            if partition is None or not 0 < before <= partition.high_watermark:
                continue
            self.ledger.starts[place] = max(before, self.ledger.starts.get(place, 0))
            try:
                async with Admin(
                    runtime=runtime, bootstrap_servers=self.brokers.bootstrap_servers
                ) as admin:
                    await admin.delete_records({TopicPartition(*place): before})
            except KafkaError:
                continue
            self.ledger.counts["deletions"] += 1

    async def _reset(self, runtime: Runtime) -> None:
        """Let all members leave now and then, and let the group begin again somewhere."""
        random = Random(self._random.random())
        while not self.is_ending:
            await asyncio.sleep(random.uniform(0.5, 3.0))
            self.is_paused = True
            await asyncio.sleep(random.uniform(0.2, 4.0))
            place = random.choice(READ)
            before = random.randint(0, max(self.watch.start_of(place), 0))
            if await reset_offset(runtime, self.brokers, place, before):
                self.ledger.counts["resets"] += 1
            self.is_paused = False

    # The end.

    def is_drained(self) -> bool:
        """Whether all that was written is done, and stored as done."""
        for place in READ:
            leader = self.brokers.running.get(self.brokers.leader_of(*place))
            partition = None if leader is None else leader.node.replicas.find(*place)
            if partition is None or self.watch.start_of(place) < partition.high_watermark:
                return False
        return True

    def await_drained(self) -> None:
        """Let the members do their work; after too long the promise is broken."""
        deadline = self.world.now + PATIENCE_S
        is_seen = False

        def is_so() -> bool:
            nonlocal is_seen
            is_seen = is_seen or self.is_drained()
            return is_seen or self.world.now > deadline

        self.world.run_until(is_so, within=2 * PATIENCE_S)

        async def judge(runtime: Runtime) -> None:
            stand = {place: self.watch.start_of(place) for place in READ}
            demand(is_seen, Promise.QUEUE_DRAINS, stand=stand)

        self.brokers.run(judge, "judge")


@contextmanager
def unsteady_coordinator(
    random: Random, rate: float, is_calm: Callable[[], bool], watch: QueueWatch
) -> Iterator[None]:
    """The share coordinator refuses, answers late, or what it answers is lost."""
    pure, load = SharePersister.store, SharePersister.load

    def store(
        self: SharePersister, key: Any, state: int, epoch: int, change: Any, then: Any
    ) -> None:
        pure(self, key, state, epoch, change, watch.heard_by(key, epoch, then))

    def unsteady_load(self: SharePersister, key: Any, epoch: int, then: Any) -> None:
        if is_calm() or random.random() >= rate / 3:
            load(self, key, epoch, then)
        else:
            late = Pause(lambda: load(self, key, epoch, then))
            self.node.replicas.purgatory.watch(late, (), random.randint(100, 2500))

    def unsteady(
        self: SharePersister, key: Any, state: int, epoch: int, change: Any, then: Any
    ) -> None:
        dice = random.random()
        lost = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if is_calm() or dice >= rate:
            store(self, key, state, epoch, change, then)
        elif dice < rate / 3:
            self.node.replicas.purgatory.watch(Pause(lambda: then(lost)), (), 5)
        elif dice < 2 * rate / 3:
            store(self, key, state, epoch, change, lambda error: then(error or lost))
        else:
            late = Pause(lambda: store(self, key, state, epoch, change, then))
            self.node.replicas.purgatory.watch(late, (), random.randint(100, 2500))

    with (
        patch.object(SharePersister, "store", unsteady),
        patch.object(SharePersister, "load", unsteady_load),
    ):
        yield


def run_queues(
    seed: int,
    *,
    rate: float | None = None,
    prepare: Callable[[Run], None] | None = None,
    **given: str,
) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken or nothing goes on. `rate` is the
    share of stores that go wrong, `given` are settings of the group."""
    random = Random(seed)
    drawn = random.choice((0.0, 0.0, 0.1, 0.5))
    with Simulation(seed, draw_options(random)) as world:
        settings = {name.replace("_", "."): value for name, value in given.items()}
        run = Run(world, random, settings)
        if prepare is not None:
            prepare(run)
        with unsteady_coordinator(
            Random(seed), drawn if rate is None else rate, lambda: run.is_ending, run.watch
        ):
            run.prepare()
            programs = run.start_clients()
            world.run_for(random.uniform(0.5, 2.0))
            storm = Storm(run.brokers, random, PLACES)
            storm.blow()
            run.brokers.await_up(within=LIVENESS_S)
            run.brokers.await_in_sync(TOPIC, ALL, within=LIVENESS_S)
            run.is_ending = True
            world.run_until(lambda: programs[0].is_done, within=LIVENESS_S)
            run.await_drained()
            run.is_over = True
            world.run_until(lambda: all(each.is_done for each in programs), within=LIVENESS_S)
            check_metadata(run.brokers)
            assert not run.brokers.failures, run.brokers.failures
            counts = storm.counts + run.ledger.counts
            counts["virtual seconds"] = round(world.now)
            return Outcome(world.fingerprint, counts)
