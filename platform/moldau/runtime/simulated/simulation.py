"""A world of nodes in virtual time, made from one seed.

Invariants: equal seeds and equal code give equal runs (`digest` proves it), because every random
choice comes from a stream with a name, derived from the seed; a failure anywhere (an unhandled
exception, a broken invariant, a deadlock) ends the run with a report that names the seed; when the
world is closed, none of its nodes and tasks is left. Close it (`with` does): until then the garbage
collector of the process runs only at the simulation's moments.

`run(driver)` runs a coroutine of the world; `run_for` and `run_until` advance time from outside.
Between them the world stands still and can be examined.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import field
from random import Random
from typing import Any, TypeVar

from moldau.deferred import dataclass
from moldau.runtime.simulated.blocking import BlockingWork
from moldau.runtime.simulated.buggify import ACTIVE_SHARE, Buggify, Coverage
from moldau.runtime.simulated.fabric import Fabric
from moldau.runtime.simulated.link import SECOND_NS, LinkOptions
from moldau.runtime.simulated.log import NodeLogs
from moldau.runtime.simulated.loop import EVENTS_MAX, FOREVER_NS, SimulatedLoop
from moldau.runtime.simulated.node import Main, Node
from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.simulated.report import SimulationFailed, describe
from moldau.runtime.simulated.sockets import Sockets
from moldau.runtime.simulated.trace import HISTORY, WORLD, Fingerprint, Trace
from moldau.runtime.simulated.turn import Turn

T = TypeVar("T")


@dataclass(slots=True)
class Options:
    """The options of a world besides its seed."""

    link: LinkOptions = field(default_factory=LinkOptions)
    shuffle: bool = False
    """Draw the order of timers, deliveries and nodes that are due at the same nanosecond."""
    events_max: int = EVENTS_MAX
    history: int = HISTORY
    """The number of events of each node that a report shows."""
    buggify_share: float = ACTIVE_SHARE


class Simulation:
    """A simulated world: its nodes, network, time and trace."""

    def __init__(self, seed: int, options: Options | None = None) -> None:
        options = options or Options()
        self.seed = seed
        self.trace = Trace(options.history)
        self.loop = SimulatedLoop(
            self.trace,
            shuffle=self.random("shuffle") if options.shuffle else None,
            events_max=options.events_max,
        )
        self.loop.on_failure = self.fail
        self.loop.blocking = BlockingWork(self.loop, self.random("blocking"))
        self.network = Fabric(self.loop, self.random("network"), options.link)
        self.sockets = self.loop.sockets = Sockets(self.network)
        self.buggify = Buggify(str(seed), active_share=options.buggify_share)
        self.coverage = Coverage()
        self.nodes: dict[str, Node] = {}
        self._logs = NodeLogs(self)
        self._failure: tuple[str, BaseException | None] | None = None
        self._closed = False

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(check=kind is None)

    # What it is made of

    def random(self, purpose: str) -> Random:
        """Return a separate stream of randomness; streams do not influence each other."""
        digest = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=16).digest()
        return Random(int.from_bytes(digest, "big"))

    def add_node(self, name: str, main: Main, *, start: bool = True) -> Node:
        """Add a machine with that name that runs `main(runtime)`."""
        assert name not in self.nodes, f"there is a node {name!r} already"
        node = self.nodes[name] = Node(self, name, main, len(self.nodes) + 1)
        if start:
            node.start()
        return node

    def add_invariant(self, check: Callable[[], object]) -> None:
        """Call `check` after every event; it raises if an invariant of the world is broken."""
        self.loop.checks.append(check)

    def sometimes(self, name: str, happened: bool = True) -> None:
        """Count something that should happen in some runs."""
        self.coverage.sometimes(name, happened)

    def note(self, node: str, kind: str, *facts: object) -> None:
        """Add an event to the trace; its facts must have the same text in every process."""
        self.trace.note(self.loop.now_ns, node, kind, *facts)

    @property
    def now(self) -> float:
        """The seconds since the world began."""
        return self.loop.now_ns / 1e9

    @property
    def digest(self) -> str:
        """The hash of everything that has happened."""
        return self.trace.hexdigest()

    @property
    def fingerprint(self) -> Fingerprint:
        """The digest, with the other facts that distinguish two runs."""
        milestones = tuple(self.trace.milestones)
        return Fingerprint(self.digest, self.loop.events, self.loop.now_ns, milestones)

    def after(self, seconds: float, action: Callable[..., object], *args: Any) -> Turn:
        """Call `action` as the world, after `seconds`. The returned turn can be cancelled."""
        turn = Turn(action, args, world_context())
        self.loop.schedule(self.loop.now_ns + round(seconds * SECOND_NS), turn)
        return turn

    def fail(self, reason: str, error: BaseException | None = None) -> None:
        """End the run as failed; the first failure counts."""
        if self._failure is None:
            self._failure = (reason, error)
        self.note(WORLD, "failure")
        self.loop.stop()

    # Driving

    def run(self, driver: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `driver()` as code of the world, and return its result."""
        task = self.loop.create_task(driver(), name="driver")
        task.add_done_callback(lambda _: self.loop.stop(), context=world_context())
        self._drive(FOREVER_NS)
        if task.cancelled():
            self._raise("the driver was cancelled", None)
        error = task.exception()
        if error is not None:
            self._raise("the driver failed", error)
        return task.result()

    def run_for(self, seconds: float) -> None:
        """Advance virtual time by `seconds`."""
        self._drive(self.loop.now_ns + round(seconds * SECOND_NS))

    def run_until(self, reached: Callable[[], object], *, within: float) -> None:
        """Advance time until `reached()` is true, which is checked after every event. Fail if it
        takes longer than `within` seconds."""
        if reached():
            return
        done = False

        def look() -> None:
            nonlocal done
            if reached():
                done = True
                self.loop.stop()

        self.loop.checks.append(look)
        try:
            self._drive(self.loop.now_ns + round(within * SECOND_NS))
        finally:
            self.loop.checks.remove(look)
        if not done:
            name = getattr(reached, "__qualname__", repr(reached))
            self._raise(f"not reached within {within} s: {name}", None)

    def _drive(self, until_ns: int) -> None:
        try:
            with self._logs.listening():
                self.loop.drive(until_ns)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            self._raise(f"{type(error).__name__}: {error}", error)
        self._forget_done()
        if self._failure is not None:
            self._raise(*self._failure)

    def _forget_done(self) -> None:
        self.loop.forget_done(self.loop.tasks)
        for node in self.nodes.values():
            if node.incarnation is not None:
                self.loop.forget_done(node.incarnation.tasks)

    def _raise(self, reason: str, error: BaseException | None) -> None:
        self._failure = self._failure or (reason, error)
        raise SimulationFailed(self.seed, reason, describe(self, reason, error)) from error

    def close(self, *, check: bool = True) -> None:
        """Kill the nodes that still run. With `check`, raise failures that this reveals."""
        if self._closed:
            return
        self._closed = True
        check = check and self._failure is None
        self._forget_done()
        for node in self.nodes.values():
            if node.is_alive:
                node.crash()
        for task in self.loop.tasks:
            task.cancel()
        self.loop.checks.clear()
        try:
            self._clear_away()
        finally:
            self.loop.close()
        if check and self._failure is not None:
            self._raise(*self._failure)

    def _clear_away(self) -> None:
        """Let killed nodes end, without advancing time; a failure must not stop the others."""
        for _ in range(1 + len(self.nodes)):
            self.loop.drive(self.loop.now_ns)
        for task in self.loop.tasks:
            # The world's own tasks that need time to end do not get it.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.tasks.clear()
