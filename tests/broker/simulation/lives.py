"""A broker that is struck in the midst of whatever it does at its disk, dies, and comes up again.

One node of a world. Who owns it hears of each life: what it found when it was up, before the first
request, and what it had when it ended.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, Final, Protocol, TypeVar

from moldau.broker.server import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.config import Settings, overrides
from moldau.errors import MoldauError
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import NodeState
from moldau.runtime.simulated.simulation import Simulation
from tests.broker.simulation.promises import BrokenPromise, Loss, Promise
from tests.broker.simulation.struck_disk import Place, StruckDisk

T = TypeVar("T")

DIRECTORY: Final = "/data"
HOST, PORT = "broker", 9092

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

StartBroker = Callable[[Runtime, Settings], Coroutine[Any, Any, Broker]]


async def start_broker(runtime: Runtime, settings: Settings) -> Broker:
    """As it is."""
    return await Broker.start(runtime, settings, host_name=HOST)


class Owner(Protocol):
    """Who hears of the lives."""

    def on_started(self, broker: Broker, loss: int) -> None:
        """It is up; `loss` is what the ends since the last time may have taken."""
        ...

    def on_ending(self, broker: Broker) -> None:
        """It dies, or nearly so."""
        ...


class Lives:
    """See the module."""

    def __init__(
        self,
        world: Simulation,
        random: Random,
        owner: Owner,
        settings: Mapping[str, str],
        start: StartBroker = start_broker,
    ) -> None:
        """The node is there and not started."""
        self.world = world
        self.counts: Counter[str] = Counter()
        self.broker: Broker | None = None
        """While it is up."""
        self.life = 0
        self.is_over = False
        self.fates = FATES
        self.rests_s = (0.05, 0.5)
        """Between two strikes."""
        self._random = random
        self._owner = owner
        self._settings = settings
        self._start_broker = start
        self._loss = Loss.NOTHING
        self._fate = POWER
        self._refusals = 0
        self.node = world.add_node(HOST, self._serve, start=False)
        self.disk = self.node.disk = StruckDisk(
            world.random("disk"), now_ms=self.node.clock.wall_ms, kill=self._struck
        )
        self.disk.report_busy(self.node._be_busy)
        self.disk.sector_bytes = random.choice((32, 512, 4096))
        self.disk.costs.sync_ns = round(10 ** random.uniform(5, 6.7))
        self.disk.costs.slow_sync_ns = 600_000_000
        self.disk.faults.write_back = random.choice((0.0, 0.02, 0.2))

    async def _serve(self, runtime: Runtime) -> None:
        """One life."""
        self.disk.is_starting = True
        self._refusals = self._count_refusals()
        try:
            await self._live(runtime)
        except (OSError, MoldauError) as error:
            if self._count_refusals() == self._refusals:
                raise BrokenPromise(Promise.LIVES_ON, repr(error)) from error
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
        if broker.failure is None:  # or the disk refused while it was about to be up
            self._on_started(broker)  # a promise that breaks there ends the run before it serves
        try:
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
        self.broker = broker
        self.life = self.node.starts
        self.disk.is_starting = False
        self._owner.on_started(broker, self._loss)
        self._loss = Loss.NOTHING
        self.counts["lives"] += 1

    def _on_ending(self, broker: Broker) -> None:
        self.broker = None
        self._owner.on_ending(broker)

    def die(self, fate: str) -> None:
        """Now, and by that."""
        if self.broker is not None:
            self._on_ending(self.broker)
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
        self.world.loop.call_first(self.die, self._fate)

    def _begin_again(self) -> None:
        self.world.after(self._random.choice((0.0, 0.01, 0.2)), self._start, self.node.starts)

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
        elif POWER in self.fates and self._random.random() < 0.1:
            self.counts["power loss at rest"] += 1
            self._loss = max(self._loss, Loss.TAIL)
            self.node.power_loss()
        self.node.start()

    # Its tormentor.

    def strike(self) -> None:
        """Again and again: something happens at the disk, soon or now."""
        if self.is_over:
            return
        self.world.after(self._random.uniform(*self.rests_s), self.strike)
        if self.disk.is_aimed:
            self.disk.spare()
            if self._fate in (POWER, KILL) and self.node.state is NodeState.RUNNING:
                self.die(self._fate)
            return
        self._fate = self._weighted(self.fates)
        place = self._weighted(PLACES)
        calls = 1 + int(self._random.expovariate(1 / 6))
        if self._fate == STOP:
            self._fate = self._weighted({each: 1 for each in (POWER, KILL) if each in self.fates})
            if self._random.random() < 0.7:
                self.disk.aim(None, 1 + int(self._random.expovariate(1 / 15)))
            if not self.disk.is_starting:
                self.node.stop()
            return
        error = {BAD_CALL: errno.EIO, NO_ROOM: errno.ENOSPC}.get(self._fate, 0)
        self.disk.aim(place, calls, error)

    def _weighted(self, table: Mapping[T, int]) -> T:
        return self._random.choices(list(table), list(table.values()))[0]

    def end(self) -> None:
        """No strike comes any more."""
        self.is_over = True
        self.disk.spare()
        if self.disk.needs_remount:  # which `FaultScheduler.heal` does
            if self.broker is not None:
                self._on_ending(self.broker)
            self._loss = Loss.TAIL
