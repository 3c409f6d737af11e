"""All machines, the links between them, and their faults.

Invariants: machines, links and connections are kept in the order in which they appeared, so that a
fault of "all connections" affects them in the same order in each run; `heal` takes back every
fault, except for its effects on connections; a link that was blocked or clogged several times opens
when that was taken back as often, so that overlapping faults do not end each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from errno import ECONNRESET
from random import Random
from typing import TYPE_CHECKING

from moldau.runtime.simulated.host import ANY_ADDRESS, LOOPBACK, Host
from moldau.runtime.simulated.link import SECOND_NS, Link, LinkOptions
from moldau.runtime.simulated.pipe import Pipe
from moldau.runtime.simulated.transport import Address, SimulatedTransport

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

LOCAL_LINK = LinkOptions(latency_min_ns=10_000, latency_mean_ns=5_000)
RETRANSMIT_TIMEOUT_NS = 900 * SECOND_NS
CONNECT_TIMEOUT_NS = 127 * SECOND_NS


class Fabric:
    """The network with its faults; nodes are given by their names."""

    def __init__(
        self, loop: SimulatedLoop, random: Random, options: LinkOptions | None = None
    ) -> None:
        self.loop = loop
        self.options = options or LinkOptions()
        self.retransmit_timeout_ns = RETRANSMIT_TIMEOUT_NS
        self.connect_timeout_ns = CONNECT_TIMEOUT_NS
        self.hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self._aliases: dict[str, str] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._blocks: Counter[tuple[str, str]] = Counter()
        self._clogs: Counter[tuple[str, str]] = Counter()
        self._random = random

    # Machines and names

    def add_host(self, name: str) -> Host:
        """Add a machine with an address of its own."""
        assert name not in self.hosts, f"there is a host {name!r} already"
        number = len(self.hosts) + 1
        host = Host(name, f"10.0.{number >> 8}.{number & 255}")
        self.hosts[name] = host
        self._by_address[host.address] = host
        return host

    def add_name(self, alias: str, name: str) -> None:
        """Add a name for a machine; a known name moves to it."""
        self._aliases[alias] = name

    def lookup(self, source: Host, host: str) -> Host | None:
        """Return the machine with this name or address, as seen from `source`, or None."""
        if host in ("localhost", LOOPBACK, ANY_ADDRESS, ""):
            return source
        name = self._aliases.get(host, host)
        return self.hosts.get(name) or self._by_address.get(host)

    # Links and connections

    def link(self, source: str, target: str) -> Link:
        """Return the link in one direction."""
        link = self._links.get((source, target))
        if link is None:
            options = LOCAL_LINK if source == target else replace(self.options)
            seed = self._random.getrandbits(64)
            link = self._links[source, target] = Link(options, Random(seed))
        return link

    def join(
        self, client_host: Host, client: Address, server_host: Host, server: Address
    ) -> tuple[SimulatedTransport, SimulatedTransport]:
        """Return both ends of a new connection: (the client's, the server's)."""
        near = SimulatedTransport(self.loop, client_host, client, server)
        far = SimulatedTransport(self.loop, server_host, server, client)
        there = self.link(client_host.name, server_host.name)
        back = self.link(server_host.name, client_host.name)
        timeout_ns = self.retransmit_timeout_ns
        near.outbound = far.inbound = Pipe(self.loop, there, back, server_host, timeout_ns)
        far.outbound = near.inbound = Pipe(self.loop, back, there, client_host, timeout_ns)
        for end, other in ((near, far), (far, near)):
            end.outbound.source = end
            end.outbound.target = other
            end.host.connections[end] = None
        return near, far

    def _between(self, a: str, b: str) -> list[SimulatedTransport]:
        other = self.hosts[b]
        addresses = (other.address, LOOPBACK) if a == b else (other.address,)
        return [end for end in self.hosts[a].connections if end.peer[0] in addresses]

    # Faults

    def _note(self, kind: str, *facts: object) -> None:
        self.loop.trace.note(self.loop.now_ns, "world", kind, *facts)

    def block(self, source: str, target: str) -> None:
        """Drop everything that `source` sends to `target` from now on (one way only)."""
        self._note("block", source, target)
        self._blocks[source, target] += 1
        self.link(source, target).set_state(blocked=True)

    def unblock(self, source: str, target: str) -> None:
        """Take `block` back: retransmissions arrive some time later."""
        self._note("unblock", source, target)
        left = self._blocks[source, target] = max(0, self._blocks[source, target] - 1)
        self.link(source, target).set_state(blocked=left > 0)

    def partition(self, left: Iterable[str], right: Iterable[str]) -> None:
        """Block both directions between two groups of nodes."""
        others = list(right)
        for a in left:
            for b in others:
                self.block(a, b)
                self.block(b, a)

    def isolate(self, name: str) -> None:
        """Cut one node off from all others."""
        self.partition([name], [other for other in self.hosts if other != name])

    def clog(self, source: str, target: str) -> None:
        """Hold back everything from `source` to `target` from now on."""
        self._note("clog", source, target)
        self._clogs[source, target] += 1
        self.link(source, target).set_state(clogged=True)

    def unclog(self, source: str, target: str) -> None:
        """Take `clog` back: the held data arrives, connections in any order."""
        self._note("unclog", source, target)
        left = self._clogs[source, target] = max(0, self._clogs[source, target] - 1)
        self.link(source, target).set_state(clogged=left > 0)

    def heal(self) -> None:
        """Open every link and accept queue; connections that were broken stay broken."""
        self._note("heal")
        self._blocks.clear()
        self._clogs.clear()
        for host in self.hosts.values():
            host.accepts = True
            host.resolver_works = True
        for link in list(self._links.values()):
            if link.stopped:
                link.set_state(blocked=False, clogged=False)

    def reset(self, a: str, b: str) -> int:
        """Reset all connections between two nodes; both ends learn it at once."""
        ends = self._between(a, b) + (self._between(b, a) if a != b else [])
        self._note("reset", a, b, len(ends))
        for end in ends:
            end.outbound.discard()
            end.inbound.discard()
        for end in ends:
            end.fail(ConnectionResetError(ECONNRESET, "connection reset by peer"))
        return len(ends)

    def sever(self, a: str, b: str) -> int:
        """End connections between two nodes without notifying either end: half-open on both sides.

        Like a router that lost its table: new connections work, old ones time out when written to.
        """
        ends = self._between(a, b)
        self._note("sever", a, b, len(ends))
        for end in ends:
            end.outbound.sever()
            end.inbound.sever()
        return len(ends)

    def drop_end(self, a: str, b: str) -> int:
        """End the connections of `a` to `b`; `a` learns it at once, `b` only when it writes."""
        ends = self._between(a, b)
        self._note("drop-end", a, b, len(ends))
        for end in ends:
            end.fail(ConnectionResetError(ECONNRESET, "connection reset by peer"))
        return len(ends)

    def set_accepting(self, name: str, accepts: bool) -> None:
        """Set whether the accept queues of a node have space."""
        self._note("accepting", name, accepts)
        self.hosts[name].accepts = accepts

    def set_resolver(self, name: str, works: bool) -> None:
        """Set whether a node can look names up."""
        self._note("resolver", name, works)
        self.hosts[name].resolver_works = works

    def set_options(self, source: str, target: str, options: LinkOptions) -> None:
        """Change the options of one link."""
        self._note("link", source, target)
        self.link(source, target).options = options
