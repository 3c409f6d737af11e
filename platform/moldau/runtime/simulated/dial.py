"""One attempt to connect, as the kernels at both ends handle it.

Invariants: the future is resolved exactly once: with a transport that both sides see as open, or
with the OSError that a socket would give (refused, timed out). A request to connect that the
network drops, or that finds the accept queue full, is sent again with growing pauses until the
system's time is over; so is one whose answer the network drops.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.fabric import Fabric
    from moldau.runtime.simulated.host import Host
    from moldau.runtime.simulated.transport import Address, SimulatedTransport

FIRST_PAUSE_NS = 1_000_000_000


class Dial:
    """A connection attempt from one machine to a port of another."""

    def __init__(
        self,
        fabric: Fabric,
        source: Host,
        target: Host,
        local: Address,
        remote: Address,
    ) -> None:
        self._fabric = fabric
        self._loop = fabric.loop
        self._source = source
        self._target = target
        self._local = local
        self._remote = remote
        self._there = fabric.link(source.name, target.name)
        self._back = fabric.link(target.name, source.name)
        self._began_ns = fabric.loop.now_ns
        self._pause_ns = FIRST_PAUSE_NS
        self._retry: Turn | None = None
        self._joined = False
        self._incarnation = CURRENT.get()
        self.answer: asyncio.Future[SimulatedTransport] = fabric.loop.create_future()

    @property
    def _caller_is_dead(self) -> bool:
        return self._incarnation is not None and not self._incarnation.alive

    def send(self) -> None:
        """Send the request to connect, for the first time or again."""
        if self.answer.done() or self._caller_is_dead:
            return
        now_ns = self._loop.now_ns
        if now_ns - self._began_ns >= self._fabric.connect_timeout_ns:
            self._fail(TimeoutError(errno.ETIMEDOUT, f"connect to {self._remote} timed out"))
            return
        self._retry = Turn(self.send, (), world_context())
        self._loop.schedule(now_ns + self._pause_ns, self._retry)
        self._pause_ns *= 2
        if self._joined:
            return  # the other machine has it, and its answer is on the way or stuck
        if self._there.clogged:
            self._there.when_open(self._leave)
        elif not self._there.blocked:
            self._leave()

    def _leave(self) -> None:
        self._later(self._there.latency_ns(), self._arrive)

    def _later(self, delay_ns: int, *step: object) -> None:
        turn = Turn(step[0], step[1:], world_context())  # type: ignore[arg-type]
        self._loop.schedule(self._loop.now_ns + delay_ns, turn)

    def _arrive(self) -> None:
        """Handle the request, which has reached the other machine."""
        if self._joined or not self._target.is_up:
            return
        server = self._target.server_at(*self._remote)
        if server is None:
            error = ConnectionRefusedError(errno.ECONNREFUSED, f"{self._remote} refused")
            self._answer(error)
        elif server.has_room:
            self._joined = True
            near, far = self._fabric.join(self._source, self._local, self._target, self._remote)
            near.incarnation, far.incarnation = self._incarnation, server.incarnation
            self._answer(near)
            server.offer(far)

    def _answer(self, answer: SimulatedTransport | OSError) -> None:
        """Send the answer back, as soon as the way back is open."""
        if self._back.stopped:
            self._back.when_open(lambda: self._answer(answer))
        else:
            self._later(self._back.latency_ns(), self._take, answer)

    def _take(self, answer: SimulatedTransport | OSError) -> None:
        """Handle the answer, which has arrived; its caller may have gone meanwhile."""
        if isinstance(answer, OSError):
            self._fail(answer)
            return
        if self._retry is not None:
            self._retry.cancel()
        if self._caller_is_dead:
            answer.vanish(silently=not self._source.is_up)
        elif self.answer.done():
            answer.abort()
        else:
            self.answer.set_result(answer)

    async def connected(self) -> SimulatedTransport:
        """Return the transport once it exists; leave nothing behind if the caller is cancelled."""
        try:
            return await self.answer
        except asyncio.CancelledError:
            if self.answer.done() and not self.answer.cancelled() and not self.answer.exception():
                self.answer.result().abort()
            raise

    def _fail(self, error: OSError) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if not self.answer.done():
            self.answer.set_exception(error)
