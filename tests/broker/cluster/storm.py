"""Three brokers and their clients, struck by whatever may happen to them, from one seed.

Safety: nodes die, stop, stand still, lose power and lose each other, leadership is moved, and the
watch looks after every event. Liveness: everything heals, all replicas are in sync again, every
client gets more done, and the history is judged.

What the cluster promises to survive: any number of killed processes and cuts; or the loss of power
of one node at a time, while all replicas are in sync (nothing here is flushed before it is
acknowledged). So a run has one or the other. With three controllers of their own, one at a time may
lose its disk, and the next one when that one has caught up.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from moldau.errors.codes import KafkaError
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.node import NodeState
from moldau.testing.simulated_cluster import PORT
from tests.broker.cluster.ends import EndReader
from tests.broker.cluster.faults import await_more, check
from tests.broker.cluster.invariants import Watch, check_metadata
from tests.broker.cluster.metadata_watch import MetadataWatch, replicas
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.server.wire import wired
from tests.broker.simulation.scenario import Outcome, draw_options

FAULTS: Final = (6, 14)
LIVENESS_S: Final = 180.0
ALL: Final = frozenset((1, 2, 3))
Place = tuple[str, int]
Undo = Callable[[], object]
Client = Callable[[Runtime], Coroutine[Any, Any, None]]


def draw_settings(random: Random) -> dict[str, str]:
    """Sessions and patience that end within a run, or not."""
    return {
        "replica_lag_time_max_ms": random.choice(("600", "1500", "30000")),
        "broker_session_timeout_ms": random.choice(("1200", "3000", "9000")),
        "broker_heartbeat_interval_ms": random.choice(("300", "1000")),
        "replica_fetch_wait_max_ms": random.choice(("20", "100", "500")),
        "replica_high_watermark_checkpoint_interval_ms": random.choice(("70", "5000")),
        "log_initial_task_delay_ms": "50",
        "log_flush_scheduler_interval_ms": random.choice(("50", "1000")),
        "log_flush_interval_messages": random.choice(("1", "100000", "100000")),
        "metadata_log_max_record_bytes_between_snapshots": random.choice(("2000", "20971520")),
        "controller_quorum_retry_backoff_ms": random.choice(("20", "300")),
    }


class Storm:
    """The faults of a run."""

    def __init__(
        self,
        brokers: SimulatedBrokers,
        random: Random,
        places: Sequence[Place] = ((TOPIC, 0),),
        more: Sequence[Callable[[], Undo | None]] = (),
    ) -> None:
        """`places` are partitions: their leaders are struck and moved; `more` are faults of
        others than brokers."""
        self._places = places
        self.counts: Counter[str] = Counter()
        self._brokers = brokers
        self._world = brokers.world
        self._random = random
        self._undos: list[Undo] = []
        self._asked = 0
        self._stopped: list[tuple[int, int]] = []
        self._kinds: list[Callable[[], Undo | None]] = [
            *(self._isolate, self._block, self._clog, self._reset, self._sever),
            *(self._pause, self._elect, self._elect),
            *more,
        ]
        if random.random() < 0.35:
            self._kinds += [self._power_loss, self._power_loss]
        else:
            self._kinds += [self._kill, self._kill, self._kill, self._stop, self._kill_all]
        self._wiped: set[int] = set()
        if len(brokers.controller_ids) == 3 and not {*brokers.controller_ids} & ALL:
            self._kinds.append(self._lose_disk)

    def blow(self) -> None:
        """The safety phase."""
        random = self._random
        for _ in range(random.randint(*FAULTS)):
            kind = random.choice(self._kinds)
            undo = kind()
            if undo is not None:
                self._undos.append(undo)
            self.counts[kind.__name__[1:]] += 1
            self._world.run_for(random.choice((0.02, 0.3, 1.0, 3.0)) * random.random())
            while self._undos and random.random() < 0.45:
                self._undos.pop(random.randrange(len(self._undos)))()
        self._brokers.heal()
        self._world.run_until(self._have_stopped, within=LIVENESS_S)
        self._brokers.heal()

    def _have_stopped(self) -> bool:
        """No node that was told to stop is still about to; one that stood still does it late."""
        nodes = self._brokers.nodes
        return not any(
            nodes[number].is_alive and nodes[number].starts == life
            for number, life in self._stopped
        )

    def _pair(self) -> tuple[str, str]:
        a, b = self._random.sample(self._brokers.node_ids, 2)
        return f"b{a}", f"b{b}"

    def _place(self) -> Place:
        return self._places[0] if len(self._places) == 1 else self._random.choice(self._places)

    def _some(self) -> int:
        """A node; often the one that matters most."""
        leader = self._brokers.leader_of(*self._place())
        active = self._brokers.controller()
        others = self._brokers.node_ids
        return self._random.choice([*others, *(each for each in (leader, active) if each > 0)])

    def _start(self, number: int) -> None:
        if not self._brokers.is_alive(number):
            self._brokers.start(number)

    def _kill(self) -> Undo | None:
        number = self._some()
        if self._brokers.is_alive(number):
            self._brokers.kill(number)
        return lambda: self._start(number)

    def _kill_all(self) -> Undo | None:
        numbers = [each for each in self._brokers.node_ids if self._brokers.is_alive(each)]
        for number in numbers:
            self._brokers.kill(number)

        def undo() -> None:
            for number in numbers:
                self._start(number)

        return undo

    def _stop(self) -> Undo | None:
        number = self._some()
        if number in self._brokers.up:
            node = self._brokers.nodes[number]
            node.stop()
            self._stopped.append((number, node.starts))
        return lambda: self._start(number)

    def _power_loss(self) -> Undo | None:
        is_whole = all(each in self._brokers.up for each in self._brokers.node_ids)
        isrs = [self._brokers.isr_of(*each) for each in self._places]
        if not is_whole or any(each != ALL for each in isrs if each):
            return None
        number = self._some()
        self._brokers.power_loss(number)
        return lambda: self._start(number)

    def _lose_disk(self) -> Undo | None:
        """A controller comes back with an empty disk."""
        marked = {number: raft.core.has_empty_disk for number, raft in replicas(self._brokers)}
        self._wiped = {each for each in self._wiped if marked.get(each, True)}
        if self._wiped:
            return None
        number = self._random.choice(self._brokers.controller_ids)
        if self._brokers.is_alive(number):
            self._brokers.kill(number)
        self._brokers.nodes[number].lose_disk()
        self._wiped.add(number)
        return lambda: self._start(number)

    def _pause(self) -> Undo | None:
        node = self._brokers.nodes[self._some()]
        if node.state is NodeState.RUNNING:
            node.pause()
        return node.resume

    def _isolate(self) -> Undo | None:
        name, network = f"b{self._some()}", self._world.network
        others = [each for each in network.hosts if each != name]
        network.partition([name], others)

        def undo() -> None:
            for other in others:
                network.unblock(name, other)
                network.unblock(other, name)

        return undo

    def _block(self) -> Undo | None:
        pair = self._pair()
        self._world.network.block(*pair)
        return lambda: self._world.network.unblock(*pair)

    def _clog(self) -> Undo | None:
        pair = self._pair()
        self._world.network.clog(*pair)
        return lambda: self._world.network.unclog(*pair)

    def _reset(self) -> None:
        self._world.network.reset(*self._pair())

    def _sever(self) -> None:
        self._world.network.sever(*self._pair())

    def _elect(self) -> None:
        """Leadership goes to the preferred replica, without a broker that dies."""
        ready = [each for each in self._brokers.broker_ids if each in self._brokers.up]
        if not ready:
            return
        by, self._asked = self._random.choice(ready), self._asked + 1
        topic, index = self._place()
        request = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=topic, partitions=[index])],
            timeout_ms=1000,
        )

        async def main(runtime: Runtime) -> None:
            try:
                async with wired(runtime, f"b{by}", PORT) as wire:
                    await wire.ask(request, ElectLeadersResponse)
            except (OSError, EOFError, TimeoutError):
                return

        self._brokers.start_program(main, f"elector-{self._asked}")


def again(traffic: Traffic, main: Client) -> Client:
    """The client, started again when it ends by an error."""

    async def body(runtime: Runtime) -> None:
        while not traffic.is_ending:
            try:
                await main(runtime)
            except KafkaError:
                await asyncio.sleep(0.1)

    return body


def run_cluster(seed: int) -> Outcome:
    """Run one seed; SimulationFailed when an invariant is broken or nothing goes on."""
    random = Random(seed)
    with Simulation(seed, draw_options(random)) as world:
        controllers = random.choice((0, 0, 1, 3))
        settings = draw_settings(random)
        brokers = SimulatedBrokers(world, 3, controllers=controllers, first_voter=None, **settings)
        brokers.await_up(within=LIVENESS_S)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.run(traffic.create)
        watch = Watch(brokers, TOPIC)
        watch.begin()
        MetadataWatch(brokers).begin()
        traffic.pause_s = random.choice((0.03, 0.1))
        clients = [
            brokers.start_program(again(traffic, main), main.__name__)
            for main in (
                traffic.produce,
                traffic.produce_ahead,
                traffic.produce_loosely,
                traffic.read,
            )
        ]
        ends = EndReader(
            brokers, watch, [(TOPIC, 0)], Random(random.random()), lambda: traffic.is_ending
        )
        clients.append(brokers.start_program(ends.read, "ends"))
        world.run_for(random.uniform(0.2, 0.6))
        storm = Storm(brokers, random)
        storm.blow()
        brokers.await_up(within=LIVENESS_S)
        brokers.await_in_sync(TOPIC, ALL, within=LIVENESS_S)
        traffic.pause_s = 0.05
        await_more(brokers, traffic, None)
        traffic.is_ending = True
        world.run_until(lambda: all(each.is_done for each in clients), within=LIVENESS_S)
        check(brokers, traffic)
        check_metadata(brokers)
        counts = (
            storm.counts
            + ends.counts
            + Counter({"acknowledged": traffic.acknowledged, "virtual seconds": round(world.now)})
        )
        return Outcome(world.fingerprint, counts)
