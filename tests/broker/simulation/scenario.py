"""One node, its clients and its tormentor, from one seed.

Safety: clients work while the disk is struck in the midst of whatever it is that the broker does
there, the network breaks connections, processes pause. Liveness: all is healed, each client gets
one more thing done, and everything is read and compared; then once more after a last life.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from moldau.broker.server import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.config import Settings, overrides
from moldau.errors import MoldauError
from moldau.runtime import Runtime
from moldau.runtime.simulated.faults import FaultPlan, FaultScheduler
from moldau.runtime.simulated.link import LinkOptions
from moldau.runtime.simulated.node import State
from moldau.runtime.simulated.simulation import Options, Simulation
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.clients import Administrator, Client, Reader, Writer, audit
from tests.broker.simulation.promises import Kind, Ledger, Loss, demand
from tests.broker.simulation.struck_disk import Place, StruckDisk

T = TypeVar("T")

DIRECTORY: Final = "/data"
HOST, PORT = "broker", 9092
SAFETY_S: Final = 2.5
LIVENESS_S: Final = 60.0
EVENTS_MAX: Final = 2_000_000

POWER, KILL, STOP, BAD_CALL, NO_ROOM = "power loss", "kill", "stop", "bad call", "no room"
FATES: Final = {POWER: 9, KILL: 4, STOP: 3, BAD_CALL: 3, NO_ROOM: 1}
PLACES: Final[Mapping[Place | None, int]] = {
    None: 4,
    Place.APPEND: 3,
    Place.ROLL: 3,
    Place.COMPACTION: 3,
    Place.SNAPSHOT: 2,
    Place.CHECKPOINT: 3,
    Place.METADATA: 3,
    Place.NAMES: 2,
}
REFUSALS: Final = ("read_error", "write_error", "sync_error", "no_space")
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

StartBroker = Callable[[Runtime, Settings], Coroutine[Any, Any, Broker]]


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

    def __init__(self, world: Simulation, start_broker: StartBroker) -> None:
        self.world = world
        self.random = random = world.random("scenario")
        self.ledger = Ledger()
        self.is_ending = False
        self.host, self.port = HOST, PORT
        self.pause_s = 10 ** random.uniform(-2.3, -1.3)
        self.life = 0
        self.counts: Counter[str] = Counter()
        self._start_broker = start_broker
        self._settings = draw_settings(random)
        self._broker: Broker | None = None
        self._loss = Loss.NOTHING
        self._fate = POWER
        self._refusals = 0
        self._ended = 0
        self._clients = 0
        self.node = world.add_node(HOST, self._serve, start=False)
        self.disk = self.node.disk = StruckDisk(
            world.random("disk"), now_ms=self.node.clock.wall_ms, kill=self._struck
        )
        self.disk.tell_busy(self.node._be_busy)
        self.disk.sector_bytes = random.choice((32, 512, 4096))
        self.disk.costs.sync_ns = round(10 ** random.uniform(5, 6.7))
        self.disk.costs.slow_sync_ns = 600_000_000
        self.disk.faults.write_back = random.choice((0.0, 0.02, 0.2))
        self.administrator = Administrator(self, draw_layout(random))
        self._add("administrator", self.administrator)
        self.node.start()
        chosen = {kind: rate for kind, rate in NETWORK.items() if random.random() < 0.5}
        self.faults = FaultScheduler(world, FaultPlan(chosen, seconds_mean=0.15, seconds_max=1.0))

    def starts(self) -> int:
        return self.node.starts

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

    # The broker's lives.

    async def _serve(self, runtime: Runtime) -> None:
        """One life."""
        self.disk.is_starting = True
        self._refusals = self._count_refusals()
        try:
            await self._live(runtime)
        except (OSError, MoldauError) as error:
            if self._count_refusals() == self._refusals:
                raise
            self.counts["ended by its disk"] += 1
            self.world.note(HOST, "refused", type(error).__name__)
            self._begin_again()  # also when it did not even start

    async def _live(self, runtime: Runtime) -> None:
        settings = broker_settings(
            standalone_layer(DIRECTORY, "", PORT), overrides(dict(self._settings))
        )
        now_ms = runtime.clock.wall_ms()
        format_if_empty(runtime.files, settings, runtime.random, now_ms, HOST)
        broker = await self._start_broker(runtime, settings)
        try:
            if broker.failure is None:  # or the disk refused while it was about to be up
                self._on_started(broker)
            await broker.wait()
        finally:
            self._on_ending(broker)
            try:
                await broker.aclose()
                self.counts["closed in order"] += 1
            finally:
                self._begin_again()

    def _count_refusals(self) -> int:
        return sum(self.disk.fault_counts.get(each, 0) for each in REFUSALS)

    def _on_started(self, broker: Broker) -> None:
        """Before the first request: what the new life has found."""
        self._broker = broker
        self.life = self.node.starts
        self.disk.is_starting = False
        topics = broker.node.image.topics
        self.ledger.check_topics({each.name: each.topic_id for each in topics.by_id.values()})
        hosted = {(each.topic_id, each.index): each for each in broker.node.replicas}
        for key, promised in list(self.ledger.partitions.items()):
            if self.ledger.topics[promised.topic].may_exist != {True}:
                continue
            found = hosted.get(key)
            demand(found is not None, "what was acknowledged is kept", partition=promised)
            assert found is not None
            promised.on_log_start(found.log_start_offset, promised.promised_start)
            promised.on_life(found.log_end_offset, self._loss)
        self._loss = Loss.NOTHING
        self.counts["lives"] += 1

    def _on_ending(self, broker: Broker) -> None:
        """What the broker claims to be durable; it dies, or nearly so."""
        self._broker = None
        for each in broker.node.replicas:
            promised = self.ledger.partitions.get((each.topic_id, each.index))
            if promised is not None:
                promised.flushed = each.log.flushed_end_offset

    def _die(self, fate: str) -> None:
        if self._broker is not None:
            self._on_ending(self._broker)
        self.counts[fate] += 1
        if fate == POWER:
            self._loss = Loss.TAIL
            self.node.power_loss()
        elif self.node.is_alive:
            self.node.crash()
        self.disk.spare()
        self._begin_again()

    def _struck(self) -> None:
        """In the midst of a call to the disk: nothing more that this life does has an effect."""
        incarnation = self.node.incarnation
        assert incarnation is not None
        incarnation.poison()
        self.world.loop.call_first(self._die, self._fate)

    def _begin_again(self) -> None:
        self.world.after(self.random.choice((0.0, 0.01, 0.2)), self._start, self.node.starts)

    def _start(self, life: int) -> None:
        """As an operator does, when that life is over: a disk that failed is mounted anew before
        anything trusts it."""
        if self.node.is_alive:
            if self.node.starts == life:  # it takes its time to end
                self.world.after(0.01, self._start, life)
            return
        disk = self.disk
        if disk.needs_remount:
            self._loss = Loss.TAIL
            disk.remount()
        elif self.random.random() < 0.1:
            self.counts["power loss at rest"] += 1
            self._loss = max(self._loss, Loss.TAIL)
            self.node.power_loss()
        self.node.start()

    # Its tormentor.

    def strike(self) -> None:
        """Again and again: something happens at the disk, soon or now."""
        if self.is_ending:
            return
        self.world.after(self.random.uniform(0.05, 0.5), self.strike)
        if self.disk.is_aimed:
            self.disk.spare()
            if self._fate in (POWER, KILL) and self.node.state is State.RUNNING:
                self._die(self._fate)
            return
        self._fate = self._weighted(FATES)
        place = self._weighted(PLACES)
        calls = 1 + int(self.random.expovariate(1 / 6))
        if self._fate == STOP:
            self._fate = self.random.choice((POWER, KILL))
            if self.random.random() < 0.7:
                self.disk.aim(None, 1 + int(self.random.expovariate(1 / 15)))
            if not self.disk.is_starting:
                self.node.stop()
            return
        error = {BAD_CALL: errno.EIO, NO_ROOM: errno.ENOSPC}.get(self._fate, 0)
        self.disk.aim(place, calls, error)

    def _weighted(self, table: Mapping[T, int]) -> T:
        return self.random.choices(list(table), list(table.values()))[0]

    def end(self) -> None:
        """Everything heals."""
        self.is_ending = True
        self.disk.spare()
        if self.disk.needs_remount:  # which `heal` does
            if self._broker is not None:
                self._on_ending(self._broker)
            self._loss = Loss.TAIL
        self.faults.heal()
        self.disk.faults.write_back = 0.0

    async def audit(self, runtime: Runtime) -> None:
        await audit(self, runtime)
        self._ended += 1

    def outcome(self) -> Outcome:
        counts = self.counts + self.ledger.counts + self.faults.counts
        counts.update(self.disk.fault_counts)
        counts["records lost with power"] += sum(
            each.lost for each in self.ledger.partitions.values()
        )
        return Outcome(self.world.fingerprint, counts)


async def start_broker(runtime: Runtime, settings: Settings) -> Broker:
    return await Broker.start(runtime, settings, host_name=HOST)


def run_broker(seed: int, start: StartBroker = start_broker) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken."""
    with Simulation(seed, draw_options(Random(seed))) as world:
        run = Run(world, start)
        world.run_until(lambda: run.administrator.layout_is_there, within=LIVENESS_S)
        run.add_clients()
        run.faults.start()
        run.strike()
        world.run_for(SAFETY_S)
        run.end()
        world.run_until(run.all_have_ended, within=LIVENESS_S)
        for number, how in enumerate((None, POWER)):
            if how is not None:
                run._die(how)
            run._clients += 1
            world.add_node(f"auditor-{number}", run.audit)
            world.run_until(run.all_have_ended, within=LIVENESS_S)
        return run.outcome()
