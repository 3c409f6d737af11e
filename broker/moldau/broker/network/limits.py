"""The limits on the number and rate of connections. A pure core.

A new connection is admitted, put in line, or rejected. It is rejected if there are too many from
its address, or if the process has no file for it. If a listener or the node is full, or if
connections come too fast, it waits in line without service, as it would in the kernel's accept
queue if the node stopped accepting. The line is bounded.

Invariants: `connections` counts the admitted connections; `_by_address` counts all, in line or not.
Files are counted for these and for rejected connections that are `held` before they end.
Within a listener, connections are admitted in the order of arrival. The node's limit never keeps
connections out of a protected listener (between brokers): a connection of another listener must
make room then. Of the files for connections, unprotected listeners never take the last ones, so a
flood of clients does not stop replication.

Why a line and not a stopped accept: an event loop accepts by itself, and the client sees the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from moldau.broker.network.options import ListenerOptions, NetworkOptions

_MAPPED_PREFIX = "::ffff:"
_RATES_MAX = 10_000
_KEPT_SHARE = 8
"""The share of the files for connections that is kept for protected listeners: an eighth."""
_HELD_SHARE = 8
"""The share of them that rejected connections may hold, so that they take no place of others."""


class Guest(Protocol):
    """The properties of a connection that the limits need."""

    listener: str
    address: str
    is_admitted: bool


G = TypeVar("G", bound=Guest)


class Verdict(Enum):
    """The decision on a new connection."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    FILES_FULL = "too many open files"
    ADDRESS_FULL = "too many connections from this address"
    ADDRESS_FAST = "connections from this address come too fast"
    LINE_FULL = "too many connections are waiting"


class Rate:
    """A rate per second; up to one second's tokens can be used at once. Tokens grow with time."""

    __slots__ = ("_at", "_tokens", "per_second")

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._tokens = float(max(per_second, 1))
        self._at = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token, or 0.0 if there is one."""
        if self.per_second <= 0:
            return 0.0
        grown = self._tokens + (now - self._at) * self.per_second
        self._tokens = min(grown, float(max(self.per_second, 1)))
        self._at = now
        # Without the tolerance, rounding would make a connection wait for nothing.
        missing = 1.0 - self._tokens
        return missing / self.per_second if missing > 1e-9 else 0.0

    def take(self) -> None:
        """Use the token that `wait` promised."""
        self._tokens -= 1.0


class _Door:
    """The connections and limits of one listener."""

    __slots__ = ("admitted", "limit", "line", "protected", "rate")

    def __init__(self, options: ListenerOptions) -> None:
        self.limit = options.connections_max
        self.rate = Rate(options.connections_per_second)
        self.protected = options.is_protected
        self.admitted = 0
        self.line: deque[Guest] = deque()

    def update(self, options: ListenerOptions) -> None:
        """Use other limits. An unchanged rate keeps its tokens."""
        self.limit = options.connections_max
        if options.connections_per_second != self.rate.per_second:
            self.rate = Rate(options.connections_per_second)


class ConnectionLimits(Generic[G]):
    """The limits of all listeners of a node."""

    def __init__(
        self, options: NetworkOptions, room: Callable[[], int | None] = lambda: None
    ) -> None:
        """`room` returns how many connections the process has files for; None means any number."""
        self._options = options
        self._room = room
        self._here = 0
        """The connections that have a file: the sum of `_by_address`, and `held`."""
        self._clients = 0
        """How many of them are at listeners that are not protected."""
        self._rate = Rate(options.connections_per_second)
        self._doors: dict[str, _Door] = {}
        self._by_address: dict[str, int] = {}
        self._rates: dict[str, Rate] = {}
        """The rates of addresses with a quota."""
        self.connections = 0
        self.held = 0
        """Rejected connections that have not ended yet."""

    def update(self, options: NetworkOptions) -> None:
        """Use other limits. Admitted connections stay."""
        if options.connections_per_second != self._rate.per_second:
            self._rate = Rate(options.connections_per_second)
        self._options = options

    def add_listener(self, options: ListenerOptions) -> None:
        """Add a listener before its connections come."""
        assert options.name not in self._doors, f"there is a listener {options.name!r} already"
        self._doors[options.name] = _Door(options)

    def has_listener(self, name: str) -> bool:
        """Whether a listener of that name was added."""
        return name in self._doors

    def update_listener(self, options: ListenerOptions) -> None:
        """Use other limits for a listener, if it is there. Admitted connections stay."""
        door = self._doors.get(options.name)
        if door is not None:
            door.update(options)

    def remove_listener(self, name: str) -> None:
        """Remove a listener that has no connections and will get none."""
        door = self._doors.pop(name)
        assert not door.admitted, "a connection is admitted"
        assert not door.line, "a connection waits in line"

    def waiting(self, listener: str) -> int:
        """Return how many connections wait in line at this listener."""
        return len(self._doors[listener].line)

    def admitted(self, listener: str) -> int:
        """Return how many connections of this listener are admitted."""
        return self._doors[listener].admitted

    @property
    def must_yield(self) -> bool:
        """Whether more connections are admitted than the node allows, because a protected listener
        admitted one."""
        return 0 <= self._options.connections_max < self.connections

    def is_protected(self, listener: str) -> bool:
        """Whether connections of this listener never make room for others."""
        return self._doors[listener].protected

    # Arriving and leaving.

    def arrive(self, guest: G, now: float) -> Verdict:
        """Count an accepted connection, unless it is rejected."""
        door = self._doors[guest.listener]
        if not self._has_file(door):
            return Verdict.FILES_FULL
        here = self._by_address.get(guest.address, 0)
        if 0 <= self._limit_of(guest.address) <= here:
            return Verdict.ADDRESS_FULL
        if self._is_fast(guest.address, now):
            return Verdict.ADDRESS_FAST
        if not door.line and self._has_room(door) and not self._wait(door, now):
            self._note(guest, here, door)
            self._admit(door, guest)
            return Verdict.ADMITTED
        if len(door.line) >= self._options.waiting_connections_max:
            return Verdict.LINE_FULL
        self._note(guest, here, door)
        door.line.append(guest)
        return Verdict.WAITING

    def _has_file(self, door: _Door) -> bool:
        """Whether the process has a file for one more connection of this listener."""
        room = self._room()
        if room is None:
            return True
        if self._here >= room:
            return False
        if door.protected or not any(each.protected for each in self._doors.values()):
            return True
        return self._clients < room - room // _KEPT_SHARE

    def _is_fast(self, address: str, now: float) -> bool:
        """Whether an address with a quota opens connections too fast. If not, this one counts."""
        per_second = self._options.connection_rate_of(address)
        if per_second is None:
            return False
        rate = self._rates.get(address)
        if rate is None or rate.per_second != per_second:
            if len(self._rates) >= _RATES_MAX:
                self._rates.pop(next(iter(self._rates)))
            rate = self._rates[address] = Rate(per_second)
        if rate.wait(now):
            return True
        rate.take()
        return False

    def _note(self, guest: G, here: int, door: _Door) -> None:
        self._by_address[guest.address] = here + 1
        self._here += 1
        self._clients += not door.protected

    def hold(self, *, is_protected: bool) -> bool:
        """Count a rejected connection that ends later, if there is room for it. If not, it must end
        at once. Call `release` when it ends."""
        most, room = self._options.waiting_connections_max, self._room()
        if self.held >= (most if room is None else min(most, room // _HELD_SHARE)):
            return False
        self.held += 1
        self._here += 1
        self._clients += not is_protected
        return True

    def release(self, *, is_protected: bool) -> None:
        """Forget a connection that was held, and has ended."""
        self.held -= 1
        self._here -= 1
        self._clients -= not is_protected

    def leave(self, guest: G) -> None:
        """Forget a connection that was admitted or in line. Call `enter` next."""
        self._here -= 1
        here = self._by_address[guest.address] - 1
        if here:
            self._by_address[guest.address] = here
        else:
            del self._by_address[guest.address]
        door = self._doors[guest.listener]
        self._clients -= not door.protected
        if guest.is_admitted:
            guest.is_admitted = False
            door.admitted -= 1
            self.connections -= 1
        else:
            door.line.remove(guest)

    def enter(self, now: float, has_ended: Callable[[G], bool] = lambda guest: False) -> list[G]:
        """Admit the waiting connections that have room now. Return them in order. Those that have
        ended are forgotten when it is their turn: they are returned too, but not admitted, and take
        nothing of a rate."""
        entered: list[G] = []
        for door in self._lines():
            while door.line and self._has_room(door) and not self._wait(door, now):
                guest: G = door.line[0]  # type: ignore[assignment]
                entered.append(guest)
                if has_ended(guest):
                    self.leave(guest)
                else:
                    door.line.popleft()
                    self._admit(door, guest)
        return entered

    def wait(self, now: float) -> float | None:
        """Return the seconds until `enter` can admit a connection because of time alone, or None if
        it never can."""
        waits = [self._wait(door, now) for door in self._lines() if self._has_room(door)]
        return min(waits) if waits else None

    def _lines(self) -> Iterable[_Door]:
        """Return the listeners with waiting connections, protected ones first."""
        return sorted(
            (door for door in self._doors.values() if door.line),
            key=lambda door: not door.protected,
        )

    def _has_room(self, door: _Door) -> bool:
        if not self._options.is_admitting or 0 <= door.limit <= door.admitted:
            return False
        return door.protected or not 0 <= self._options.connections_max <= self.connections

    def _wait(self, door: _Door, now: float) -> float:
        # Between brokers only the listener's own rate counts, and only its own limit.
        own = door.rate.wait(now)
        return own if door.protected else max(own, self._rate.wait(now))

    def _admit(self, door: _Door, guest: G) -> None:
        door.rate.take()
        if not door.protected:
            self._rate.take()
        guest.is_admitted = True
        door.admitted += 1
        self.connections += 1

    def _limit_of(self, address: str) -> int:
        options = self._options
        return options.connections_max_by_address.get(address, options.connections_max_per_address)


def plain_address(address: str) -> str:
    """Return an IPv4 address that came through an IPv6 socket in its IPv4 form."""
    return address.removeprefix(_MAPPED_PREFIX) if "." in address else address
