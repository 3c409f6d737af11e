"""One direction of one connection: bytes in order, each with its time of arrival.

Invariants: segments arrive in the order of sending, whatever happens to the link; `in_flight`
counts the bytes that were sent but not yet read by the application at the other end, and never
exceeds the window, so a reader that stops reading stops the writer. A pipe outlives the process
that wrote into it: bytes of a closed connection may arrive after the writer has reconnected.
"""

from __future__ import annotations

from collections import deque
from contextvars import Context, copy_context
from enum import Enum
from errno import ECONNRESET, ETIMEDOUT
from heapq import heappush
from typing import TYPE_CHECKING

from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.host import Host
    from moldau.runtime.simulated.link import Link
    from moldau.runtime.simulated.loop import SimulatedLoop
    from moldau.runtime.simulated.transport import SimulatedTransport

WINDOW_BYTES = 256 * 1024
READ_BYTES_MAX = 256 * 1024


class Signal(Enum):
    """The signals that a pipe carries besides bytes."""

    END = "end"
    RESET = "reset"


def world_context() -> Context:
    """Return a context without a node: for the actions of kernels and wires."""
    context = copy_context()
    context.run(CURRENT.set, None)
    return context


class Pipe:
    """Carries the data that `source` writes to `target`."""

    __slots__ = (
        "_held",
        "_holds",
        "_last_ns",
        "_loop",
        "_next_order",
        "_note",
        "_power_losses",
        "_segments",
        "_severed",
        "_timers",
        "_turn",
        "back",
        "in_flight",
        "link",
        "retransmit_timeout_ns",
        "source",
        "target",
        "target_host",
        "writer_waits",
    )

    def __init__(
        self,
        loop: SimulatedLoop,
        link: Link,
        back: Link,
        target_host: Host,
        retransmit_timeout_ns: int,
    ) -> None:
        self._loop = loop
        self._timers = loop.timers
        self._next_order = loop.next_order
        self._note = loop.trace.unmixed_bytes.append
        self.link = link
        self.back = back
        self.target_host = target_host
        self.retransmit_timeout_ns = retransmit_timeout_ns
        self.source: SimulatedTransport | None = None
        self.target: SimulatedTransport | None = None
        self.in_flight = 0
        self.writer_waits = False
        """Whether the source has bytes that do not fit into the window."""
        self._segments: deque[tuple[int, bytes | Signal]] = deque()
        self._held: deque[bytes | Signal] = deque()
        self._holds = 0
        self._power_losses: int | None = None
        self._last_ns = 0
        self._severed = False
        self._turn = Turn(self.deliver, (), world_context())

    # The writing side

    def send(self, data: bytes, size: int) -> None:
        """Send bytes; the caller has checked that the window allows that many."""
        self.in_flight += size
        link = self.link
        if not link.is_plain or self._held or self._severed:
            for piece in link.pieces(data) if link.options.split else (data,):
                self._put(piece)
            return
        # The same as `_put` in the usual case, without its calls.
        latencies_ns, next_order = link.latencies_ns or link.draw_latencies(), self._next_order
        when_ns = self._loop.now_ns + latencies_ns.pop()
        if when_ns < self._last_ns:
            when_ns = self._last_ns
        self._last_ns = when_ns
        self._segments.append((when_ns, data))
        heappush(self._timers, (when_ns, next_order(), self._turn))

    def signal(self, signal: Signal) -> None:
        """Send the end of the stream, or a reset."""
        self._put(signal)

    def _put(self, item: bytes | Signal) -> None:
        link = self.link
        if self._held or link.stopped or self._severed:
            self._hold(item)
            return
        loop = self._loop
        if link.options.bytes_per_second is None:
            when_ns = loop.now_ns + link.latency_ns()
        else:
            when_ns = link.arrival_ns(loop.now_ns, len(item) if type(item) is bytes else 0)
        if when_ns <= self._last_ns:
            # Not before earlier data. Pieces of one write arrive separately.
            when_ns = self._last_ns + (1 if link.options.split else 0)
        self._last_ns = when_ns
        self._segments.append((when_ns, item))
        loop.schedule(when_ns, self._turn)

    def _hold(self, item: bytes | Signal) -> None:
        self._held.append(item)
        if len(self._held) == 1:
            self._holds += 1
            self._power_losses = None
            if not self._severed:
                self.link.when_open(self._release)
        if self._power_losses is None and (self._severed or self.link.blocked):
            # The sender's kernel keeps these, and sends them again.
            self._power_losses = self._source_power_losses()
            self._schedule_giving_up()

    def _source_power_losses(self) -> int:
        return 0 if self.source is None else self.source.host.power_losses

    def _schedule_giving_up(self) -> None:
        deadline_ns = self._loop.now_ns + self.retransmit_timeout_ns
        self._loop.schedule(deadline_ns, Turn(self._give_up, (self._holds,), world_context()))

    def _release(self) -> None:
        """Send the held data on the open link: it arrives after one more retransmission."""
        held, self._held = self._held, deque()
        link = self.link
        if self._severed or not held:
            self._held = held
            return
        if self._power_losses not in (None, self._source_power_losses()):
            return  # the machine that kept them had a power loss
        delay_ns = link.random.randrange(link.options.retransmit_ns * 4 + 1)
        self._last_ns = max(self._last_ns, self._loop.now_ns + delay_ns)
        for item in held:
            self._put(item)

    def _give_up(self, hold: int) -> None:
        """Fail the connection: without acknowledgements the sender's kernel gives up."""
        if self._held and self._holds == hold and (self._severed or self.link.blocked):
            self._held.clear()
            if self.source is not None:
                self.source.fail(TimeoutError(ETIMEDOUT, "connection timed out"))

    def sever(self) -> None:
        """Let nothing arrive from now on, without notifying either end.

        Data that has arrived can still be read. Data under way is never acknowledged: finally its
        sender gives up.
        """
        self._severed = True
        now_ns = self._loop.now_ns
        under_way = [item for when_ns, item in self._segments if when_ns > now_ns]
        for _ in under_way:
            self._segments.pop()
        if not (under_way or self._held):
            return
        self._held.extendleft(reversed(under_way))
        self._holds += 1
        self._power_losses = self._source_power_losses()
        self._schedule_giving_up()

    def discard(self) -> None:
        """Drop all data under way."""
        self._segments.clear()
        self._held.clear()

    # The reading side

    def attach(self, context: Context) -> None:
        """Let deliveries be callbacks of the reading application from now on, including those of
        data that is under way already."""
        self._turn.cancel()
        self._turn = Turn(self.deliver, (), context)
        self._reschedule()

    def detach(self) -> None:
        """Remove the reading socket; only the machine's kernel, if it is up, still answers."""
        self.target = None
        self._turn = Turn(self.deliver, (), world_context())
        self._reschedule()

    def _reschedule(self) -> None:
        for when_ns, _ in self._segments:
            self._loop.schedule(max(when_ns, self._loop.now_ns), self._turn)

    def wake(self) -> None:
        """Deliver data that has arrived meanwhile: the reader reads again."""
        if self._segments and self._segments[0][0] <= self._loop.now_ns:
            self._loop.make_ready(self._turn)

    def has_arrived(self) -> bool:
        """Whether bytes wait for the reader."""
        segments = self._segments
        return bool(
            segments and segments[0][0] <= self._loop.now_ns and type(segments[0][1]) is bytes
        )

    def reset_has_arrived(self) -> bool:
        """Whether the reader's kernel has received a reset."""
        now_ns = self._loop.now_ns
        return any(item is Signal.RESET and when_ns <= now_ns for when_ns, item in self._segments)

    def deliver(self) -> None:
        """Deliver arrived data. Runs as the reader's node; without a reader, as no node."""
        segments, now_ns, target = self._segments, self._loop.now_ns, self.target
        if not segments:
            return
        if target is not None and target.is_receiving:
            when_ns, item = segments.popleft()
            if when_ns > now_ns:
                segments.appendleft((when_ns, item))
                return
            if type(item) is bytes:
                if segments and segments[0][0] <= now_ns:
                    item = self._with_what_followed(item)
                size, note = len(item), self._note
                note(item)
                target.history.append((now_ns, "received", size, target.peer))
                self.in_flight -= size
                target.receive(item)
                if self.writer_waits:
                    self._open_window()
                if not segments:
                    return
            elif item is Signal.END:
                target.receive_end()
            else:
                target.fail(ConnectionResetError(ECONNRESET, "connection reset by peer"))
        elif segments[0][0] > now_ns:
            return
        elif target is None:
            self._answer_for_nobody(segments.popleft()[1])
        else:
            if target.waiting_bytes and self.reset_has_arrived():
                # It does not read, but it writes, and that fails.
                target.fail_to_write()
            return
        if segments and segments[0][0] <= now_ns:
            self._loop.make_ready(self._turn)

    def take_back(self, data: bytes) -> None:
        """Take back the end of a delivery that the reader had no space for."""
        self.in_flight += len(data)
        self._segments.appendleft((self._loop.now_ns, data))

    def _with_what_followed(self, data: bytes) -> bytes:
        segments, now_ns = self._segments, self._loop.now_ns
        parts = [data]
        size = len(data)
        while segments and segments[0][0] <= now_ns and size < READ_BYTES_MAX:
            item = segments[0][1]
            if not isinstance(item, bytes):
                break
            segments.popleft()
            parts.append(item)
            size += len(item)
        return b"".join(parts)

    def _open_window(self) -> None:
        """Notify the writer, one latency later, that there is space again."""
        source = self.source
        if source is None or source.is_told:
            return
        if self.back.stopped:
            self.back.when_open(self._open_window)
            return
        source.is_told = True
        when_ns = self._loop.now_ns + self.back.latency_ns()
        self._loop.schedule(when_ns, Turn(source.on_window, (), source.context))

    def _answer_for_nobody(self, item: bytes | Signal) -> None:
        if type(item) is not bytes or self.source is None:
            return
        self._segments.clear()
        if self.target_host.is_up:
            self.source.inbound.signal(Signal.RESET)
        else:
            power_losses = self._source_power_losses()
            self._retransmit(self._loop.now_ns, self.link.options.retransmit_ns, power_losses)

    def _retransmit(self, since_ns: int, delay_ns: int, power_losses: int) -> None:
        """Let the sender's kernel retry until the machine, which is off, answers or time is up."""
        if self.source is None or power_losses != self._source_power_losses():
            return
        now_ns = self._loop.now_ns
        if self.target_host.is_up and not self.link.stopped:
            self.source.inbound.signal(Signal.RESET)
        elif now_ns - since_ns >= self.retransmit_timeout_ns:
            self.source.fail(TimeoutError(ETIMEDOUT, "connection timed out"))
        else:
            turn = Turn(self._retransmit, (since_ns, delay_ns * 2, power_losses), world_context())
            self._loop.schedule(now_ns + delay_ns, turn)
