"""One world of a broker, its groups, and all that torments them, from one seed.

Safety: producers write, members of several groups read and commit, an administrator changes topics,
while the broker dies or is struck at its disk, processes are killed and paused, the network breaks,
coordinators move, somebody uses other people's ids. Liveness: all is healed; every group settles,
reads everything and commits it, everybody leaves; then all is read and compared, and once more
after a last death.

That targets converge (invariant 12) is seen by what comes of it: each partition with records that a
group has not committed must come to a member that reads on, so a group that hangs in a rebalance
breaks `ALL_COMMITTED`. Nobody looks who owns a partition where nothing is left to be read.

On one node acknowledged is what is synced; so where the draw says that nothing waits for syncs, the
machine keeps its power and its disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from moldau.broker.log.rounds import rest
from moldau.broker.server import Broker
from moldau.client import TopicPartition
from moldau.errors.codes import KafkaError
from moldau.records import Codec
from moldau.runtime import Runtime
from moldau.runtime.simulated.faults import FaultPlan, FaultScheduler
from moldau.runtime.simulated.simulation import Simulation
from tests.broker.simulation import scenario as broker_scenario
from tests.broker.simulation.lives import FATES, HOST, KILL, PORT, POWER, STOP, Lives
from tests.broker.simulation.promises import BrokenPromise
from tests.broker.simulation.scenario import Outcome
from tests.client.simulation.actors import HAND_PARTITIONS, RETRY_S, Administrator, Reader, audit
from tests.client.simulation.ghost import Ghost
from tests.client.simulation.promises import Promise
from tests.client.simulation.records import MORTAL, Kind, Records
from tests.client.simulation.truth import Group, Truth
from tests.client.simulation.walls import Walls
from tests.client.simulation.watch import Watch
from tests.client.simulation.writers import TOPICS_DRAWN, Writer, draw_producer

SAFETY_S: Final = 4.0
LIVENESS_S: Final = 90.0
RESTS_S: Final = (0.2, 3.0)
NETWORK: Final = {
    "reset": 100.0,
    "sever": 40.0,
    "half_open": 40.0,
    "clog": 40.0,
    "isolate": 20.0,
    "one_way": 20.0,
    "pause": 40.0,
    "slow": 10.0,
    "wall_jump": 5.0,
    "drift": 10.0,
    "slow_sync": 10.0,
    "member dies": 40.0,
    "coordinator moves": 30.0,
}
"""A minute; half of them in each run."""


@dataclass(frozen=True, slots=True)
class Bias:
    """What there is more of than by even chances, for who looks where it is rare."""

    groups: tuple[str, ...] = ("eager", "cooperative", "consumer", "mixed", "hand")
    """Two of these."""
    static_share: float = 0.3
    """Of the groups: their members have a group.instance.id."""
    changes_share: float = 0.01
    """Of the polls: after them a member gives all up and subscribes again."""
    topics: tuple[str, ...] = TOPICS_DRAWN
    """What is written to, one at a time."""


EVENLY: Final = Bias()


def draw_settings(random: Random, *, is_durable: bool) -> dict[str, str]:
    """As for the broker alone, and what groups need: everything goes quickly."""
    settings = {
        **broker_scenario.draw_settings(random),
        "log.cleaner.backoff.ms": "150",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "offsets.topic.num.partitions": random.choice(("1", "2", "3")),
        "log.roll.ms": random.choice(("50", "500", "60000")),
        "offsets.load.buffer.size": random.choice(("500", "5242880")),
        "group.initial.rebalance.delay.ms": random.choice(("0", "0", "100")),
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": random.choice(("500", "1000")),
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.heartbeat.interval.ms": random.choice(("30", "100")),
        "group.consumer.min.assignment.interval.ms": "0",
        "group.consumer.assignment.interval.ms": random.choice(("0", "0", "200")),
        "group.consumer.regex.refresh.interval.ms": "10000",
        "group.coordinator.append.linger.ms": random.choice(("-1", "0", "5")),
    }
    if is_durable:
        settings["log.flush.interval.messages"] = "1"
    return settings


def draw_kinds(random: Random) -> dict[str, Kind]:
    """The topics that there are."""
    codecs = (None, None, None, Codec.NONE, Codec.GZIP, Codec.ZSTD)
    return {
        "a": Kind(4, 4, codec=random.choice(codecs)),
        "b": Kind(2, 2),
        MORTAL: Kind(2, 2, is_mortal=True),
        "narrow": Kind(
            2, 2, bytes_max=random.choice((250, 600, 1500)), codec=random.choice(codecs)
        ),
        "stamped": Kind(3, 3, is_stamped=True, bytes_max=random.choice((None, None, 600))),
    }


class Run:
    """See the module. Satisfies the actors' `World`."""

    def __init__(self, world: Simulation, bias: Bias) -> None:
        self.world = world
        self.bias = bias
        self.random = random = world.random("scenario")
        self.is_ending = self.is_over = False
        self.host, self.port = HOST, PORT
        self.pause_s = 10 ** random.uniform(-2.0, -1.0)
        self._processes = self._ended = 0
        is_durable = random.random() < 0.6
        settings = draw_settings(random, is_durable=is_durable)
        self.lives = Lives(world, random, self, settings)
        self.lives.rests_s = RESTS_S
        if not is_durable:
            self.lives.fates = {each: FATES[each] for each in (KILL, STOP)}
        self.last_fate = POWER if is_durable else KILL
        tool = Group("tool", is_free=True)
        self.walls = Walls()
        clock = self.lives.node.clock
        self.truth = Truth([tool], Records(draw_kinds(random), self.walls, clock))
        partitions = int(settings["offsets.topic.num.partitions"])
        self.watch = Watch(world, self.truth, lambda: self.lives.broker, partitions)
        self.members: list[Reader] = []
        self.administrator = Administrator(self, tool)
        self._add("admin", self.administrator.run)
        self.lives.node.start()

    def starts(self) -> int:
        return self.lives.node.starts

    def on_ended(self) -> None:
        self._ended += 1

    def on_started(self, broker: Broker, loss: int) -> None:
        """The watch sees what its coordinators have loaded."""

    def on_ending(self, broker: Broker) -> None:
        """Nothing is asked of it any more."""

    def _add_writer(self, at: int) -> None:
        options = draw_producer(self.random)

        async def run(runtime: Runtime) -> None:
            clock = self.world.nodes[f"writer{at}"].clock
            writer = Writer(self, f"w{at}", options, clock)
            writer.topics = self.bias.topics
            await writer.run(runtime)

        self._add(f"writer{at}", run)

    def _add(self, name: str, run: Callable[[Runtime], Any]) -> None:
        self._processes += 1
        self.world.add_node(name, run)

    def all_have_ended(self) -> bool:
        return self._ended == self._processes

    # Who is there.

    def add_clients(self) -> None:
        """When the topics are there."""
        random = self.random
        for at in range(random.choice((1, 2))):
            self._add_writer(at)
        for kind in random.sample(self.bias.groups, 2):
            self._add_group(kind)
        names = [name for name in self.truth.groups if name not in ("tool", "hand")]
        if random.random() < 0.5:
            self._add("ghost", Ghost(self, self, lambda: names).run)
        chosen = {kind: rate for kind, rate in NETWORK.items() if random.random() < 0.5}
        self.faults = FaultScheduler(
            self.world,
            FaultPlan(chosen, seconds_mean=0.4, seconds_max=2.5),
            down_max=3,
            own={"member dies": self._kill_a_member, "coordinator moves": self._move},
        )

    def _add_group(self, kind: str) -> None:
        random = self.random
        is_static = kind != "hand" and random.random() < self.bias.static_share
        what: Any = random.choice(
            (
                ["a"],
                ["a", "b"],
                ["a", MORTAL],
                ["b", "narrow"],
                ["narrow", "stamped"],
                "a|b",
                f"[ab]|{MORTAL}",
            )
        )
        if kind == "hand":
            what = None
        topics = frozenset(
            ["b"]
            if what is None
            else what
            if isinstance(what, list)
            else [
                each
                for each in self.truth.records.kinds
                if each in what or (each in "ab" and "[ab]" in what)
            ]
        )
        group = Group(kind, topics, HAND_PARTITIONS if kind == "hand" else 1000)
        self.truth.groups[kind] = group
        base = random.choice(("range", "roundrobin", "sticky"))
        count = 1 if kind == "hand" else random.choice((2, 3))
        for at in range(count):
            options = self._draw_member(kind, base)
            if is_static:
                options["group_instance_id"] = f"{kind}-{at}"
            self._add_member(Reader(self, group, f"{kind}{at}", options, what))
        if is_static and random.random() < 0.5:
            twin = Reader(self, group, f"{kind}-twin", dict(options), what)
            twin.is_spare = True
            self._add_member(twin)

    def _add_member(self, reader: Reader) -> None:
        reader.changes_share = self.bias.changes_share
        self.members.append(reader)
        self._add(reader.name, reader.run)

    def _draw_member(self, kind: str, base: str) -> dict[str, Any]:
        random = self.random
        options: dict[str, Any] = {
            "max_poll_interval_ms": random.choice((700, 1500)),
            "auto_commit_interval_ms": random.choice((50, 300)),
            "enable_auto_commit": random.random() < 0.7,
        }
        if kind == "mixed":
            kind = random.choice(("consumer", "cooperative", "either"))
        if kind == "consumer":
            options["group_protocol"] = "consumer"
            options["group_remote_assignor"] = random.choice((None, "uniform", "range"))
            return options
        options["session_timeout_ms"] = random.choice((400, 900))
        options["heartbeat_interval_ms"] = random.choice((40, 120))
        options["partition_assignment_strategy"] = {
            "cooperative": "cooperative-sticky",
            "either": "cooperative-sticky,range",
        }.get(kind) or random.choice((base, f"{base},cooperative-sticky"))
        return options

    # What happens to them.

    def _kill_a_member(self) -> Callable[[], None] | None:
        node = self.world.nodes[self.random.choice(self.members).name]
        if not node.is_alive:
            return None
        self.watch.readings.pop(node.name, None)
        node.crash()

        def start() -> None:
            if not node.is_alive:
                node.start()

        return start

    def _move(self) -> Callable[[], None] | None:
        """Away and back: on one node there is nowhere else to go."""
        broker, runtime = self.lives.broker, self.lives.node.runtime
        if broker is None or runtime is None:
            return None
        groups = broker.node.groups
        led = [index for index, _ in groups.loaded()]
        if not led:
            return None

        async def move(index: int, seconds: float) -> None:
            groups.resign(index)
            await rest(seconds)
            groups.elect(index)

        away_s = self.random.choice((0.0, 0.05, 0.5))
        runtime.spawn(move(self.random.choice(led), away_s), name="a coordinator moves")
        return lambda: None

    def end(self) -> None:
        """Everything heals."""
        self.is_ending = True
        self.lives.end()
        self.faults.heal()
        self.lives.disk.faults.write_back = 0.0

    def what_is_left(self) -> list[tuple[object, ...]]:
        """Producers that have not ended; what groups have not committed of what they read."""
        writers = [node for name, node in self.world.nodes.items() if name.startswith("writer")]
        left: list[tuple[object, ...]] = [(each.name,) for each in writers if each.is_alive]
        broker = self.lives.broker
        if broker is None:
            return [(HOST,), *left]
        for replica in broker.node.replicas:
            where = TopicPartition(replica.topic, replica.index)
            for group in self.truth.groups.values():
                stored, end = group.stored(where), replica.log_end_offset
                if group.reads(where) and (stored or 0) != end:
                    left.append((group.name, *where, stored, end))
        return left

    def leave(self) -> None:
        """Members have nothing more to do. What a writer gave up for lost may come still: it is
        nobody's any more."""
        assert self.lives.broker is not None
        self.truth.ends = {
            TopicPartition(each.topic, each.index): each.log_end_offset
            for each in self.lives.broker.node.replicas
        }
        self.is_over = True

    def audit_after(self, number: int, how: str | None) -> None:
        """Reads everything and compares, after the broker died by that."""
        if how is not None:
            self.lives.die(how)
        self._add(f"auditor-{number}", self._audit)

    async def _audit(self, runtime: Runtime) -> None:
        is_done = False
        while not is_done:
            try:
                await audit(runtime, self.truth)
                is_done = True
            except KafkaError:  # it comes up yet
                await rest(RETRY_S)
        self._ended += 1

    def outcome(self) -> Outcome:
        counts = self.lives.counts + self.truth.counts + self.faults.counts
        counts.update(self.lives.disk.fault_counts)
        return Outcome(self.world.fingerprint, counts)


def run_clients(seed: int, bias: Bias = EVENLY) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken."""
    with Simulation(seed, broker_scenario.draw_options(Random(seed))) as world:
        run = Run(world, bias)
        with run.walls.watching(), run.watch.watching():
            drive(world, run)
        return run.outcome()


def drive(world: Simulation, run: Run) -> None:
    """From the beginning to the end."""
    reach(world, Promise.ALL_END, lambda: run.administrator.layout_is_there)
    run.add_clients()
    run.faults.start()
    world.after(run.random.uniform(*run.lives.rests_s), run.lives.strike)
    world.run_for(SAFETY_S)
    run.end()
    settled = every(0.1, world, lambda: not run.what_is_left())
    reach(world, Promise.ALL_COMMITTED, settled, run.what_is_left)
    run.leave()
    reach(world, Promise.ALL_END, run.all_have_ended)
    for number, how in enumerate((None, run.last_fate)):
        run.audit_after(number, how)
        reach(world, Promise.ALL_END, run.all_have_ended)


def reach(
    world: Simulation,
    promise: Promise,
    question: Callable[[], bool],
    left: Callable[[], object] = lambda: "",
) -> None:
    """Lets time pass until it is so; if that takes too long, the promise is broken. `left`: what is
    told then."""
    is_reached = is_late = False

    def look() -> bool:
        nonlocal is_reached
        is_reached = is_reached or question()
        return is_reached or is_late

    def ring() -> None:
        nonlocal is_late
        is_late = True

    alarm = world.after(LIVENESS_S, ring)
    world.run_until(look, within=2 * LIVENESS_S)
    alarm.cancel()
    if not is_reached:
        broken = BrokenPromise(promise, f"{left()}")
        world.fail(f"{broken}", broken)
        world.run_for(0.0)


def every(seconds: float, world: Simulation, question: Callable[[], bool]) -> Callable[[], bool]:
    """The question, asked no oftener than that: it costs more than an event."""
    asked_at = -seconds

    def ask() -> bool:
        nonlocal asked_at
        if world.now - asked_at < seconds:
            return False
        asked_at = world.now
        return question()

    return ask
