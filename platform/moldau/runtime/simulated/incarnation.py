"""One life of a simulated node, from its start until it is killed.

Invariant: once `alive` is False it never becomes True again; a restart is a new incarnation. Every
effect that a node can have (files, sockets, timers, tasks, clock) first calls `check()`, so a
`finally` block that runs while a killed node is cleared away can change nothing. That is the
difference between cancelling tasks and pulling the plug: cancellation alone runs clean-up code that
a dead process would never have run, and hides the bugs that crashes are meant to find.

A context variable holds the incarnation that running code belongs to, because asyncio itself passes
it on to every callback and task.
"""

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from moldau.runtime.simulated.blocking import Work
    from moldau.runtime.simulated.clock import NodeClock
    from moldau.runtime.simulated.disk import SimulatedDisk
    from moldau.runtime.simulated.threads import SimulatedThreads
    from moldau.runtime.simulated.turn import Turn


class NodeKilled(BaseException):
    """Raised in code of a node that no longer exists.

    It is a BaseException, so that `except Exception` in the node cannot take it for an ordinary
    failure and continue.
    """


class Gate(Protocol):
    """Holds back the callbacks of an incarnation that may not run now."""

    def hold(self, turn: Turn) -> None:
        """Take over a callback that was due."""
        ...


class Incarnation:
    """The identity of one life of a node; everything that belongs to it dies with it."""

    __slots__ = (
        "alive",
        "clock",
        "disk",
        "gate",
        "name",
        "number",
        "tasks",
        "thread_context",
        "threads",
        "trace_number",
        "works",
    )

    def __init__(self, name: str, number: int = 1, trace_number: int = 0) -> None:
        self.alive = True
        self.name = name
        self.number = number
        self.trace_number = trace_number
        self.clock: NodeClock | None = None
        self.disk: SimulatedDisk | None = None
        self.gate: Gate | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self.works: list[Work] = []
        """Blocking work that has not run yet."""
        self.threads: SimulatedThreads | None = None
        self.thread_context = Context()
        """The context variables of the node's threads: only the incarnation, and nothing else."""
        self.thread_context.run(CURRENT.set, self)

    def check(self) -> None:
        """Raise NodeKilled if this life is over."""
        if not self.alive:
            raise NodeKilled(self.name)

    def poison(self) -> None:
        """End this life: from now on it can have no effect."""
        self.alive = False

    def __repr__(self) -> str:
        return f"<{self.name}#{self.number} {'alive' if self.alive else 'dead'}>"


CURRENT: ContextVar[Incarnation | None] = ContextVar("incarnation", default=None)
