"""What all connections of one event loop share: the receive buffer, the time, and their turns.

A connection that got answers from outside its own reading asks for a turn (`wake`); all such turns
run once, at the end of the loop's iteration, so that ten acknowledgements which one fsync brings
leave in one write. Time is read once a tick and not at each request; the tick runs only while there
are connections.

Invariants: a connection stands in the list of turns at most once; a lost one is never called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.network.idle import IdleWheel
from moldau.broker.network.memory import RequestMemory
from moldau.logging.gathering import Gathering
from moldau.protocol.framing import Tenancy, shared_buffer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from moldau.broker.network.metrics import NetworkMetrics
    from moldau.broker.network.options import NetworkOptions
    from moldau.broker.network.shell import Connection
    from moldau.logging import Logger
    from moldau.runtime import Clock

TICK_SECONDS_MIN = 0.01
TICK_SECONDS_MAX = 1.0
TICKS_WHILE_IDLE = 4
NEVER_SECONDS = 1e9
# An unfinished request that brought nothing for so long is given up when memory is short.
STALL_SECONDS = 5.0


class Reactor:
    """One for all listeners."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        options: NetworkOptions,
        metrics: NetworkMetrics,
        log: Logger,
    ) -> None:
        self.options = options
        self.metrics = metrics
        self.log = log
        self._gathering = Gathering(log)
        self.buffer = shared_buffer()
        self.tenancy = Tenancy()
        self.memory = RequestMemory(options.queued_request_bytes_max)
        self.now = clock.monotonic()
        self._loop = loop
        self._clock = clock
        self._tick_seconds = min(
            TICK_SECONDS_MAX, max(TICK_SECONDS_MIN, self.idle_seconds / TICKS_WHILE_IDLE)
        )
        self._wheel: IdleWheel[Connection] = IdleWheel(self._tick_seconds)
        self._timer: asyncio.TimerHandle | None = None
        self._woken: list[Connection] = []
        self.connections: dict[Connection, None] = {}
        self.on_empty: Callable[[], object] | None = None

    def update(self, options: NetworkOptions) -> None:
        """Other options; a shorter idle time counts for a connection when it is next looked at."""
        self.options = options
        self.memory.update(options.queued_request_bytes_max)

    def warn(self, event: str, **facts: object) -> None:
        """Of what another side did, perhaps again and again."""
        self._gathering.warn(event, self._clock.monotonic(), **facts)

    # Connections

    def add(self, connection: Connection) -> None:
        """A connection that shall be watched for idleness."""
        if self._timer is None:
            self._tick()
        self.connections[connection] = None
        connection.last_active = self.now
        self._wheel.put(connection, self.now + self.idle_seconds)

    def remove(self, connection: Connection) -> None:
        """It is lost."""
        self.connections.pop(connection, None)
        self._wheel.remove(connection)
        if self.connections:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.on_empty is not None:
            self._gathering.close(self._clock.monotonic())
            self.on_empty()

    @property
    def idle_seconds(self) -> float:
        """How long a connection may do nothing; a negative setting means for ever."""
        idle_ms = self.options.idle_ms_max
        return idle_ms / 1000 if idle_ms >= 0 else NEVER_SECONDS

    # Turns

    def wake(self, connection: Connection) -> None:
        """Gives the connection a turn soon. Not to be called twice before it."""
        if not self._woken:
            self._loop.call_soon(self._take_turns)
        self._woken.append(connection)

    def _take_turns(self) -> None:
        woken, self._woken = self._woken, []
        taken = 0
        try:
            for connection in woken:
                taken += 1
                connection.take_turn()
        finally:
            # One that fails shall not cost the others their turn.
            if taken < len(woken):
                for connection in woken[taken:]:
                    self.wake(connection)

    def wait_for_room(self, fileno: int, callback: Callable[[], object]) -> None:
        """Calls when the descriptor can be written to, again and again until `wait_no_more`."""
        self._loop.add_writer(fileno, callback)

    def wait_no_more(self, fileno: int) -> None:
        """Fine if nobody waits."""
        self._loop.remove_writer(fileno)

    # Time

    def precise_now(self) -> float:
        """The time; `now` is that of the last tick."""
        return self._clock.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """For what happens seldom."""
        self._loop.call_later(seconds, callback)

    def _tick(self) -> None:
        self.now = self._clock.monotonic()
        self._timer = self._loop.call_later(self._tick_seconds, self._tick)
        self.metrics.queued_bytes.value = self.memory.used
        self._gathering.tick(self.now)
        for connection in self._wheel.due(self.now):
            due = connection.when_idle(self.idle_seconds)
            if due <= self.now:
                connection.end_idle()
                # Its end can take time, but not for ever: the next look cuts it off.
                due = self.now + self.idle_seconds
            if not connection.is_lost:
                self._wheel.put(connection, due)
        runner = self.memory.runner
        if runner is not None and self.memory.is_short:
            runner.on_shortage(self.now - STALL_SECONDS)
