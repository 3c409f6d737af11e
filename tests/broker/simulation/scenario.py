"""One node, its clients and its tormentor, from one seed.

Safety: clients work while the disk is struck in the midst of whatever it is that the broker does
there, the network breaks connections, processes pause. Liveness: all is healed, each client gets
one more thing done, and everything is read and compared; then once more after a last life.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from moldau.broker.server import Broker
from moldau.runtime import Runtime
from moldau.runtime.simulated.faults import FaultPlan, FaultScheduler
from moldau.runtime.simulated.link import LinkOptions
from moldau.runtime.simulated.simulation import Options, Simulation
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.clients import Administrator, Client, Reader, Writer, audit
from tests.broker.simulation.lives import HOST, PORT, POWER, Lives, StartBroker, start_broker
from tests.broker.simulation.promises import Kind, Ledger, Promise, demand

SAFETY_S: Final = 2.5
LIVENESS_S: Final = 60.0
EVENTS_MAX: Final = 2_000_000

NETWORK: Final = {
    "reset": 60.0,
    "sever": 20.0,
    "half_open": 20.0,
    "clog": 20.0,
    "pause": 20.0,
    "slow": 10.0,
    "wall_jump": 10.0,
    "slow_sync": 20.0,
}
"""A minute; half of them in each run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a run that kept all promises."""

    fingerprint: Fingerprint
    counts: Counter[str]


def draw_options(random: Random) -> Options:
    """A network that is quick or slow, whole or leaky."""
    link = LinkOptions(
        latency_mean_ns=round(10 ** random.uniform(4.5, 6.5)),
        loss=random.choice([0.0, 0.0, 0.01]),
        split=random.choice([0.0, 0.0, 0.1]),
    )
    return Options(link=link, shuffle=True, events_max=EVENTS_MAX)


def draw_settings(random: Random) -> dict[str, str]:
    """Everything that the broker does now and then, it does often."""
    return {
        "log.cleaner.backoff.ms": "40",
        "log.cleaner.threads": random.choice(("1", "2")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("60", "500")),
        "log.flush.start.offset.checkpoint.interval.ms": "200",
        "log.flush.scheduler.interval.ms": random.choice(("50", "1000")),
        "replica.high.watermark.checkpoint.interval.ms": random.choice(("70", "1000")),
        "log.retention.check.interval.ms": "150",
        "log.initial.task.delay.ms": "50",
        "log.segment.delete.delay.ms": random.choice(("0", "100", "60000")),
        "metadata.log.max.record.bytes.between.snapshots": random.choice(("300", "2000", "20000")),
        "internal.metadata.delete.delay.millis": random.choice(("0", "60000")),
        "log.index.interval.bytes": random.choice(("0", "500", "4096")),
        "log.index.size.max.bytes": random.choice(("120", "4096")),
        "producer.id.expiration.ms": "86400000",
    }


def draw_layout(random: Random) -> dict[str, tuple[Kind, int, dict[str, str]]]:
    """The topics that are there from the beginning to the end."""
    durable = {"flush.messages": "1"}

    def rolls() -> dict[str, str]:
        return {"retention.ms": "-1", "segment.ms": str(random.choice((5, 60, 400, 60_000)))}

    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": random.choice(("0", "100", "86400000")),
        "segment.ms": str(random.choice((5, 30))),
    }
    is_durable = random.random() < 0.5
    return {
        "durable": (Kind(is_durable=True), 1, {**durable, **rolls()}),
        "loose": (Kind(), 1, rolls()),
        "cut": (Kind(is_durable), 1, {**(durable if is_durable else {}), **rolls()}),
        "keyed": (Kind(True, is_compacted=True), 1, {**durable, **compacted}),
        "keyed-loose": (Kind(is_compacted=True), 1, compacted),
    }


class Run:
    """See the module. Satisfies the clients' `World`."""

    def __init__(self, world: Simulation, start: StartBroker) -> None:
        self.world = world
        self.random = random = world.random("scenario")
        self.ledger = Ledger()
        self.is_ending = False
        self.host, self.port = HOST, PORT
        self.pause_s = 10 ** random.uniform(-2.3, -1.3)
        self._ended = 0
        self._clients = 0
        self.lives = Lives(world, random, self, draw_settings(random), start)
        self.disk = self.lives.disk
        self.administrator = Administrator(self, draw_layout(random))
        self._add("administrator", self.administrator)
        self.lives.node.start()
        chosen = {kind: rate for kind, rate in NETWORK.items() if random.random() < 0.5}
        self.faults = FaultScheduler(world, FaultPlan(chosen, seconds_mean=0.15, seconds_max=1.0))

    @property
    def life(self) -> int:
        return self.lives.life

    def starts(self) -> int:
        return self.lives.node.starts

    def on_ended(self) -> None:
        self._ended += 1

    def _add(self, name: str, client: Client) -> None:
        self._clients += 1
        self.world.add_node(name, client.run)

    def add_clients(self) -> None:
        """When the topics are there."""
        for key, at in list(self.ledger.partitions.items()):
            if at.topic not in self.administrator.layout:
                continue
            keys = self.random.choice((1, 4, 12)) if at.kind.is_compacted else 0
            for how, depth in (("idempotent", self.random.choice((1, 2, 5))), ("plain", 1)):
                name = f"{how}-{at}"
                self._add(name, Writer(self, key, name, keys=keys, depth=depth))
            self._add(f"reader-{at}", Reader(self, key))

    def all_have_ended(self) -> bool:
        return self._ended == self._clients

    def on_started(self, broker: Broker, loss: int) -> None:
        """Before the first request: what the new life has found."""
        topics = broker.node.image.topics
        self.ledger.check_topics({each.name: each.topic_id for each in topics.by_id.values()})
        hosted = {(each.topic_id, each.index): each for each in broker.node.replicas}
        for key, promised in list(self.ledger.partitions.items()):
            if self.ledger.topics[promised.topic].may_exist != {True}:
                continue
            found = hosted.get(key)
            demand(found is not None, Promise.ACKNOWLEDGED_KEPT, partition=promised)
            assert found is not None
            promised.on_log_start(found.log_start_offset, promised.promised_start)
            promised.on_life(found.log_end_offset, loss)

    def on_ending(self, broker: Broker) -> None:
        """What the broker claims to be durable."""
        for each in broker.node.replicas:
            promised = self.ledger.partitions.get((each.topic_id, each.index))
            if promised is not None:
                promised.flushed = each.log.flushed_end_offset

    def end(self) -> None:
        """Everything heals."""
        self.is_ending = True
        self.lives.end()
        self.faults.heal()
        self.disk.faults.write_back = 0.0

    def audit_after(self, number: int, how: str | None) -> None:
        """Reads everything and compares, after the broker died by that."""
        if how is not None:
            self.lives.die(how)
        self._clients += 1
        self.world.add_node(f"auditor-{number}", self._audit)

    async def _audit(self, runtime: Runtime) -> None:
        await audit(self, runtime)
        self._ended += 1

    def outcome(self) -> Outcome:
        counts = self.lives.counts + self.ledger.counts + self.faults.counts
        counts.update(self.disk.fault_counts)
        counts["records lost with power"] += sum(
            each.lost for each in self.ledger.partitions.values()
        )
        return Outcome(self.world.fingerprint, counts)


def run_broker(seed: int, start: StartBroker = start_broker) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken."""
    with Simulation(seed, draw_options(Random(seed))) as world:
        run = Run(world, start)
        world.run_until(lambda: run.administrator.layout_is_there, within=LIVENESS_S)
        run.add_clients()
        run.faults.start()
        run.lives.strike()
        world.run_for(SAFETY_S)
        run.end()
        world.run_until(run.all_have_ended, within=LIVENESS_S)
        for number, how in enumerate((None, POWER)):
            run.audit_after(number, how)
            world.run_until(run.all_have_ended, within=LIVENESS_S)
        return run.outcome()
