"""What all connections of one event loop share: the receive buffer, the time, and their turns.

A connection that gets a response outside its own reading requests a turn (`wake`). All such turns
run at the end of the loop's iteration, so ten responses after one fsync leave in one write. The
clock is read once a tick and not for each request. The tick runs only while there are connections.

Invariants: a connection is in the list of turns at most once. A lost connection is never called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.network.holds import THROTTLED
from moldau.broker.network.idle import IdleWheel
from moldau.broker.network.memory import RequestMemory
from moldau.logging.gathering import GatheredWarnings, PeerWarnings
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
# When memory is short, an unfinished request without new bytes for this long is given up.
STALL_SECONDS = 5.0


class Reactor:
    """The shared state of all listeners' connections."""

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
        self._gathering = GatheredWarnings(log)
        self._refusals = PeerWarnings(log)
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
        self._muted: dict[Connection, float] = {}
        self.connections: dict[Connection, None] = {}
        self.on_empty: Callable[[], object] | None = None

    def update(self, options: NetworkOptions) -> None:
        """Use other options. A shorter idle time applies to a connection from its next check."""
        self.options = options
        self.memory.update(options.queued_request_bytes_max)

    def warn(self, event: str, **facts: object) -> None:
        """Log a warning about a peer. Repeated warnings are gathered."""
        self._gathering.warn(event, self._clock.monotonic(), **facts)

    def warn_of_refusal(self, event: str, source: str, **facts: object) -> None:
        """Log a warning about a refused login: one a second for each source."""
        self._refusals.warn(event, source, self._clock.monotonic(), **facts)

    # Connections

    def add(self, connection: Connection) -> None:
        """Add a connection, and watch it for idleness."""
        if self._timer is None:
            self._tick()
        self.connections[connection] = None
        connection.last_active = self.now
        self._wheel.put(connection, self.now + self.idle_seconds)

    def remove(self, connection: Connection) -> None:
        """Remove a lost connection."""
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
        """How many seconds a connection may be inactive. A negative setting means no limit."""
        idle_ms = self.options.idle_ms_max
        return idle_ms / 1000 if idle_ms >= 0 else NEVER_SECONDS

    # Turns

    def wake(self, connection: Connection) -> None:
        """Give the connection a turn soon. Do not call it again before that turn."""
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
            # If one turn fails, the others must still get theirs.
            if taken < len(woken):
                for connection in woken[taken:]:
                    self.wake(connection)

    def wait_for_room(self, fileno: int, callback: Callable[[], object]) -> None:
        """Call `callback` whenever the descriptor can be written to, until `wait_no_more`."""
        self._loop.add_writer(fileno, callback)

    def wait_no_more(self, fileno: int) -> None:
        """Stop waiting. Do nothing if there is no callback."""
        self._loop.remove_writer(fileno)

    # Throttling

    def mute(self, connection: Connection, seconds: float) -> None:
        """Read and serve nothing of the connection for a while, because its client is over a quota.
        Responses leave. Of two such times, the later end counts."""
        until = self._clock.monotonic() + seconds
        known = self._muted.get(connection)
        self._muted[connection] = until if known is None else max(until, known)
        if known is None:
            connection.holds.hold(THROTTLED, self.metrics)
            self._loop.call_later(seconds, self._unmute, connection)

    def _unmute(self, connection: Connection) -> None:
        left = self._muted[connection] - self._clock.monotonic()
        if left > 0 and not connection.is_lost:
            self._loop.call_later(left, self._unmute, connection)
            return
        del self._muted[connection]
        connection.holds.let_go(THROTTLED)
        if not connection.is_lost:
            connection.wake()

    # Time

    def precise_now(self) -> float:
        """Read the clock. `now` is the time of the last tick."""
        return self._clock.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call `callback` after a delay. For rare events."""
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
                # Closing can take time, but not without limit: the next check aborts the
                # connection.
                due = self.now + self.idle_seconds
            if not connection.is_lost:
                self._wheel.put(connection, due)
        runner = self.memory.runner
        if runner is not None and self.memory.is_short:
            runner.on_shortage(self.now - STALL_SECONDS)
