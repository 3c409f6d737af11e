"""The TLS handshakes of one listener that are under way, and which one makes room for another.

Invariants: as in `moldau.runtime.tls`. A source is an IPv4 address or an IPv6 network, since one
client has all addresses of a network. The connections of a source are in the order of the
last steps of their handshakes, so the first one that waits for its client has waited for the
longest.

Why a new handshake does not always end another one: many clients behind one address connect at the
same time after a restart. If each ended the one before, none of them would ever finish. So a
handshake is safe for its first `silent_seconds`, except from sources with fewer handshakes. Only a
step that we answer makes it safe anew. A client cannot have many of those, but it can send single
bytes for as long as it likes, and would lock out all others behind its address.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from moldau.runtime.names import network_of

if TYPE_CHECKING:
    from moldau.runtime.tls import TlsServer, TlsTransport

_RECEIVE_BYTES: Final = 256 << 10
TOO_MANY: Final = "too many handshakes are under way"


class Handshakes:
    """The handshakes of one listener that are under way."""

    def __init__(self, terms: TlsServer) -> None:
        self.terms = terms
        self.buffer = memoryview(bytearray(_RECEIVE_BYTES))
        """The encrypted bytes of one read. They are taken out before the next read."""
        self._sources: dict[str, dict[TlsTransport, float]] = {}
        """The handshakes of each source, with the time of their last step, in that order."""
        self._count = 0
        self._accepted: set[TlsTransport] = set()
        """The connections without a protocol, those that wait for their handshake among them."""
        self._ready: deque[TlsTransport] = deque()
        self._loop = asyncio.get_running_loop()

    def accept(self, transport: TlsTransport) -> None:
        """Note a connection before its handshake."""
        self._accepted.add(transport)

    def begin(self, transport: TlsTransport) -> bool:
        """Count a new handshake. End another one if there are too many. Return False if none may be
        ended."""
        terms = self.terms
        own = self._sources.get(transport.source, {})
        now = self._loop.time()
        if len(own) >= terms.handshakes_per_source_max:
            if not _end_silent(own, now - terms.silent_seconds):
                return False
        elif self._count >= terms.handshakes_max and not self._make_room(len(own), now):
            return False
        self._sources.setdefault(transport.source, {})[transport] = now
        self._count += 1
        return True

    def _make_room(self, own_count: int, now: float) -> bool:
        """End a handshake of the source with the most, for one of a source that has `own_count`."""
        for each in sorted(self._sources.values(), key=len, reverse=True):
            is_larger = len(each) > own_count + 1
            if _end_silent(each, now if is_larger else now - self.terms.silent_seconds):
                return True
        return False

    def on_step(self, transport: TlsTransport) -> None:
        """Note that a step of the handshake has been answered."""
        own = self._sources.get(transport.source)
        if own is not None and transport in own:
            del own[transport]
            own[transport] = self._loop.time()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call back when the time of a connection without a protocol is over."""
        return self._loop.call_later(seconds, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in the next iteration of the event loop."""
        self._loop.call_soon(callback)

    def end(self, transport: TlsTransport) -> None:
        """Forget a handshake that has succeeded or failed."""
        self._accepted.discard(transport)
        own = self._sources.get(transport.source)
        if own is None or transport not in own:
            return
        del own[transport]
        self._count -= 1
        if not own:
            del self._sources[transport.source]

    def close(self) -> None:
        """End all handshakes: the listener is closed."""
        for transport in list(self._accepted):
            transport.abort()

    def continue_soon(self, transport: TlsTransport) -> None:
        """Let a handshake take its next step when it is its turn."""
        if not self._ready:
            self._loop.call_soon(self._step)
        self._ready.append(transport)

    def _step(self) -> None:
        transport = self._ready.popleft()
        if self._ready:
            self._loop.call_soon(self._step)
        transport.shake()


def _end_silent(handshakes: Mapping[TlsTransport, float], since: float) -> bool:
    """End the first handshake that waits for its client, if it has waited since that time. Return
    False if there is none."""
    for each, last_step in handshakes.items():
        if last_step > since:
            return False
        if not each.is_queued:
            each.fail(TOO_MANY)
            return True
    return False


def source_of(peer: object) -> str:
    """Return the IPv4 address of a peer, or its IPv6 network."""
    return network_of(str(peer[0])) if isinstance(peer, tuple) else ""
