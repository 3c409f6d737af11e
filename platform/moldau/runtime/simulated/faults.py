"""Random faults from the seed, within the limits that the system under test promises to survive.

Invariants: at most `down_max` nodes are crashed, paused, cut off or on a bad disk at one time, and
a node that ended by itself, with a failure, counts as one of them; each fault has an end, at which
its own effect, and only that, is undone; `heal` ends all faults and no new one comes.

A run has two phases. Safety: faults everywhere, nothing bad may happen. Liveness: everything is
healed, and something good must happen in bounded time; uniform faults alone never find a system
that cannot recover. The kinds of fault of a run are drawn, too (swarm testing): a run without
crashes reaches states that crashes would always prevent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from random import Random
from typing import TYPE_CHECKING

from moldau.deferred import dataclass
from moldau.runtime.simulated.node import NodeState

if TYPE_CHECKING:
    from moldau.runtime.simulated.disk_faults import DiskFaults
    from moldau.runtime.simulated.node import Node
    from moldau.runtime.simulated.simulation import Simulation
    from moldau.runtime.simulated.turn import Turn

Undo = Callable[[], None]
Fault = Callable[[], "Undo | None"]

RATES_PER_MINUTE: Mapping[str, float] = {
    "crash": 4.0,
    "power_loss": 2.0,
    "pause": 4.0,
    "isolate": 3.0,
    "one_way": 4.0,
    "clog": 6.0,
    "reset": 8.0,
    "sever": 3.0,
    "refuse": 2.0,
    "resolver": 2.0,
    "slow": 3.0,
    "wall_jump": 3.0,
    "drift": 2.0,
    "slow_sync": 3.0,
    "half_open": 3.0,
}
"""The kinds that a drawn plan chooses from."""

BY_HAND_PER_MINUTE: Mapping[str, float] = {
    "disk_error": 2.0,
    "no_space": 2.0,
    "bit_rot": 1.0,
    "misdirected_write": 1.0,
    "lose_disk": 0.5,
}
"""Kinds for plans written by hand, since not every system promises to survive them. The first two
are visible: calls fail, which may end a node; it is started again when the fault is over. The
others are not: durable data silently changes or disappears. A checksum can detect that, a copy can
repair it."""

KIND_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a run: how often each happens, and how long it lasts."""

    per_minute: Mapping[str, float] = field(default_factory=dict)
    seconds_mean: float = 5.0
    """The mean length of a fault; lengths are exponential."""
    seconds_max: float = 60.0

    @classmethod
    def draw(cls, random: Random) -> FaultPlan:
        """Return a plan with a random choice of kinds, each at its usual rate times 0.3 to 3."""
        chosen = {
            kind: rate * 10 ** random.uniform(-0.5, 0.5)
            for kind, rate in RATES_PER_MINUTE.items()
            if random.random() < KIND_SHARE
        }
        return cls(chosen, seconds_mean=random.uniform(1.0, 10.0))


class FaultScheduler:
    """Applies the faults of a plan to some nodes of a world."""

    def __init__(
        self,
        world: Simulation,
        plan: FaultPlan,
        nodes: Iterable[str] | None = None,
        *,
        down_max: int = 1,
        own: Mapping[str, Fault] | None = None,
    ) -> None:
        """`own` has more kinds: each function starts a fault and returns what undoes it, or
        None."""
        self.counts: Counter[str] = Counter()
        self.plan = plan
        self._world = world
        self._names = list(nodes if nodes is not None else world.nodes)
        self._down_max = down_max
        self._down: dict[str, None] = {}
        self._under_way: set[tuple[str, str]] = set()
        self._random = world.random("faults")
        self._undos: dict[int, Undo] = {}
        self._next_undo = 0
        self._turns: dict[str, Turn] = {}
        self._active = False
        self._faults: dict[str, Fault] = {
            "crash": self._crash,
            "power_loss": self._power_loss,
            "lose_disk": self._lose_disk,
            "pause": self._pause,
            "isolate": self._isolate,
            "one_way": self._one_way,
            "clog": self._clog,
            "reset": self._reset,
            "sever": self._sever,
            "refuse": self._refuse,
            "resolver": self._resolver,
            "slow": self._slow,
            "wall_jump": self._wall_jump,
            "drift": self._drift,
            "slow_sync": self._slow_sync,
            "half_open": self._half_open,
            "disk_error": self._disk_error,
            "no_space": self._no_space,
            "bit_rot": self._bit_rot,
            "misdirected_write": self._misdirected_write,
            **(own or {}),
        }
        unknown = sorted(set(plan.per_minute) - set(self._faults))
        assert not unknown, f"no such faults: {', '.join(unknown)}"

    def start(self) -> None:
        """Begin the safety phase."""
        self._active = True
        for kind in self._faults:
            self._schedule(kind)

    def _schedule(self, kind: str) -> None:
        rate = self.plan.per_minute.get(kind, 0.0)
        if rate > 0 and self._active:
            seconds = self._random.expovariate(rate / 60.0)
            self._turns[kind] = self._world.after(seconds, self._strike, kind)

    def _strike(self, kind: str) -> None:
        undo = self._faults[kind]()
        self._schedule(kind)
        if undo is None:
            return
        self.counts[kind] += 1
        number = self._next_undo = self._next_undo + 1
        self._undos[number] = undo
        seconds = self._random.expovariate(1.0 / self.plan.seconds_mean)
        self._world.after(min(seconds, self.plan.seconds_max), self._end, number)

    def _end(self, number: int) -> None:
        undo = self._undos.pop(number, None)
        if undo is not None:
            undo()

    def heal(self) -> None:
        """Begin the liveness phase: end every fault, start dead nodes, and add no new faults.

        Rare paths (buggify) are not taken any more either.
        """
        self._active = False
        for turn in self._turns.values():
            turn.cancel()
        for number in list(self._undos):
            self._end(number)
        self._world.network.heal()
        self._world.buggify.enabled = False
        for node in self._nodes():
            node.clock.set_right()
            self._mend(node)
            if self._is_gone(node):
                node.start()

    # Choosing

    def _nodes(self) -> list[Node]:
        return [self._world.nodes[name] for name in self._names]

    def _victim(self) -> Node | None:
        """Return a running node that may go down now; None if there is none."""
        gone = [node.name for node in self._nodes() if self._is_gone(node)]
        if len(self._down.keys() | gone) >= self._down_max:
            return None
        able = [node for node in self._nodes() if node.state is NodeState.RUNNING]
        able = [node for node in able if node.name not in self._down]
        return self._random.choice(able) if able else None

    @staticmethod
    def _is_gone(node: Node) -> bool:
        """Whether a process is missing: one that returned has done its work."""
        if node.is_alive or not node.starts:
            return False
        return node.state is not NodeState.EXITED or node.has_failed

    def _once(self, kind: str, node: Node, undo: Undo) -> Undo | None:
        """Allow one fault of a kind at a time for each node; None if there is one already."""
        key = kind, node.name
        if key in self._under_way:
            return None
        self._under_way.add(key)

        def end() -> None:
            self._under_way.discard(key)
            undo()

        return end

    def _take_down(self, node: Node, undo: Undo) -> Undo:
        self._down[node.name] = None

        def back() -> None:
            self._down.pop(node.name, None)
            undo()

        return back

    def _any(self) -> Node:
        return self._random.choice(self._nodes())

    def _two(self) -> tuple[str, str] | None:
        if len(self._names) < 2:
            return None
        first, second = self._random.sample(self._names, 2)
        return first, second

    @staticmethod
    def _nothing() -> None:
        """Do nothing, for faults that need no undoing."""

    # Processes and machines

    def _crash(self) -> Undo | None:
        return self._fell("crash")

    def _power_loss(self) -> Undo | None:
        return self._fell("power_loss")

    def _lose_disk(self) -> Undo | None:
        return self._fell("lose_disk")

    def _fell(self, how: str) -> Undo | None:
        node = self._victim()
        if node is None:
            return None
        getattr(node, how)()

        def start() -> None:
            if not node.is_alive:
                node.start()

        return self._take_down(node, start)

    def _pause(self) -> Undo | None:
        node = self._victim()
        if node is None:
            return None
        node.pause()
        return self._take_down(node, node.resume)

    def _slow(self) -> Undo | None:
        node = self._any()
        end = self._once("slow", node, lambda: node.slow_down(0))
        if end is not None:
            node.slow_down(self._random.randrange(20_000, 2_000_000))
        return end

    # Network

    def _isolate(self) -> Undo | None:
        node = self._victim()
        if node is None:
            return None
        network = self._world.network
        others = [other for other in self._world.nodes if other != node.name]
        network.partition([node.name], others)

        def join() -> None:
            for other in others:
                network.unblock(node.name, other)
                network.unblock(other, node.name)

        return self._take_down(node, join)

    def _one_way(self) -> Undo | None:
        node = self._victim()
        others = [name for name in self._names if node is not None and name != node.name]
        if node is None or not others:
            return None
        ends = [node.name, self._random.choice(others)]
        self._random.shuffle(ends)
        source, target = ends
        self._world.network.block(source, target)
        return self._take_down(node, lambda: self._world.network.unblock(source, target))

    def _clog(self) -> Undo | None:
        two = self._two()
        if two is None:
            return None
        self._world.network.clog(*two)
        return lambda: self._world.network.unclog(*two)

    def _reset(self) -> Undo | None:
        two = self._two()
        return self._nothing if two and self._world.network.reset(*two) else None

    def _sever(self) -> Undo | None:
        two = self._two()
        return self._nothing if two and self._world.network.sever(*two) else None

    def _half_open(self) -> Undo | None:
        two = self._two()
        return self._nothing if two and self._world.network.drop_end(*two) else None

    def _refuse(self) -> Undo | None:
        node, network = self._any(), self._world.network
        end = self._once("refuse", node, lambda: network.set_accepting(node.name, True))
        if end is not None:
            network.set_accepting(node.name, False)
        return end

    def _resolver(self) -> Undo | None:
        node, network = self._any(), self._world.network
        end = self._once("resolver", node, lambda: network.set_resolver(node.name, True))
        if end is not None:
            network.set_resolver(node.name, False)
        return end

    # Clocks and disks

    def _wall_jump(self) -> Undo | None:
        milliseconds = self._random.randrange(-600_000, 600_000)
        clock = self._any().clock
        clock.jump_wall(milliseconds)
        return lambda: clock.jump_wall(-milliseconds)

    def _drift(self) -> Undo | None:
        node = self._any()
        end = self._once("drift", node, lambda: node.clock.drift(0))
        if end is not None:
            node.clock.drift(self._random.randrange(-100_000, 100_000))
        return end

    def _slow_sync(self) -> Undo | None:
        return self._bad_disk(self._any(), lambda now: replace(now, slow_sync=0.5))

    def _disk_error(self) -> Undo | None:
        node = self._victim()
        if node is None:
            return None
        mend = self._bad_disk(
            node, lambda now: replace(now, read_error=0.02, write_error=0.05, sync_error=0.1)
        )
        return None if mend is None else self._take_down(node, self._started_again(node, mend))

    def _no_space(self) -> Undo | None:
        node = self._victim()
        if node is None:
            return None
        left = round(4096 ** self._random.random())  # little: also for nodes that write little
        full = node.disk.used_bytes() + left
        mend = self._bad_disk(node, lambda now: replace(now, capacity_bytes=full))
        return None if mend is None else self._take_down(node, self._started_again(node, mend))

    def _bit_rot(self) -> Undo | None:
        disk = self._any().disk
        paths = [path for path in disk.paths() if disk.contents(path)]
        if not paths:
            return None
        disk.rot(self._random.choice(paths))
        return self._nothing

    def _misdirected_write(self) -> Undo | None:
        return self._bad_disk(self._any(), lambda now: replace(now, misdirected_write=0.2))

    def _bad_disk(self, node: Node, worse: Callable[[DiskFaults], DiskFaults]) -> Undo | None:
        """Make the disk worse until the fault ends, which restores its earlier faults."""
        before = node.disk.faults

        def mend() -> None:
            node.disk.faults = before

        end = self._once("disk", node, mend)
        if end is not None:
            node.disk.faults = worse(before)
        return end

    def _started_again(self, node: Node, mend: Undo) -> Undo:
        """Return a function that repairs the disk, and starts a process that the fault ended."""

        def end() -> None:
            mend()
            self._mend(node)
            if not node.is_alive:
                node.start()

        return end

    @staticmethod
    def _mend(node: Node) -> None:
        """Mount a failed disk again, for which no process may have open files."""
        if node.disk.is_read_only and node.is_alive:
            node.crash()
            node.disk.remount()
            node.start()
        elif not node.is_alive and node.disk.needs_remount:
            node.disk.remount()
