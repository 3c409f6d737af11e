"""A node's access to other nodes: connections to the controllers, and a probe of brokers.

Detection of a broker's exit before its session ends.

A killed broker's connections are closed. The active controller then tries to connect to the broker.
If the host refuses the connection, the process is gone, and the broker is fenced. Any other outcome
(a connection, or no answer) proves nothing, and the session timeout decides.

Invariant: a broker is fenced early only if its hosts refuse connections for all its listeners.

Requests to the active controller on another node, over the wire.

Requests that only brokers send (registration, heartbeats, ISR changes) are sent directly. A
client's request to this node is sent in an Envelope (`envelope`), whose own error code says whether
a controller decided it. A request of this node that clients may send too, such as to create a
topic, is also sent in an Envelope: its principal is the node's.

Requests that only brokers send are repeated, so the timeout of the connection's options applies to
it. A client's request is not repeated: it may wait as long as clients wait, in a lane of its own,
since a request behind it would wait as long.

Invariant: `on_answer` is called once. It gets `Undecided` if certainly no controller decided: there
is no connection, or the other node answers that it is not the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from moldau.broker.api.node import Undecided
from moldau.broker.server.envelope import ForwardedRequest
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link import Address, ConnectionOptions, Peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.api.node import OnAnswer
    from moldau.broker.controller.active_controller import ActiveController
    from moldau.broker.decision.context import RequestContext
    from moldau.link import Peers
    from moldau.link.security import Security
    from moldau.logging import Logger
    from moldau.protocol.declare import Request, Response
    from moldau.runtime import Runtime

LANE: Final = "controller"
FORWARDING_LANE: Final = "forwarding"
FORWARDING_SECONDS: Final = 30.0


class RemoteController:
    """The active controller on another node; see the module."""

    def __init__(self, runtime: Runtime, peers: Peers, log: Logger) -> None:
        self._runtime = runtime
        self._peers = peers
        self._log = log
        self._asked: int | None = None

    def heard_of_leader(self, node_id: int) -> None:
        """Note that this node leads the quorum now. A previous leader may never answer: its
        connections are closed, which ends the requests to it."""
        asked = self._asked
        if asked is not None and node_id != asked:
            self._asked = None
            self._peers.hang_up(asked, LANE)
            self._peers.hang_up(asked, FORWARDING_LANE)

    def submit(
        self, node_id: int, request: Request, context: RequestContext, on_answer: OnAnswer
    ) -> None:
        """Send a request to the controller on that node. Connect first if there is no
        connection."""
        self.heard_of_leader(node_id)
        self._asked = node_id
        if self._peers.ready(node_id, _lane_of(request)) is not None:
            self._ask(node_id, request, context, on_answer)
        else:
            self._runtime.spawn(
                self._connect(node_id, request, context, on_answer), name="ask-controller"
            )

    async def _connect(
        self, node_id: int, request: Request, context: RequestContext, on_answer: OnAnswer
    ) -> None:
        try:
            await self._peers.connection(node_id, _lane_of(request))
        except KafkaError as error:
            self._log.debug("the controller cannot be reached", node_id=node_id, why=str(error))
            on_answer(Undecided())
            return
        self._ask(node_id, request, context, on_answer)

    def _ask(
        self, node_id: int, request: Request, context: RequestContext, on_answer: OnAnswer
    ) -> None:
        if context.is_over(self._runtime.clock.monotonic_ns() // 1_000_000):
            # The controller would count the message's timeout from its own beginning.
            on_answer(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
            return
        connection = self._peers.ready(node_id, _lane_of(request))
        if connection is None:
            on_answer(Undecided())
            return
        try:
            if _is_of_client(request):
                wrapped = ForwardedRequest(request, context)
                connection.ask(
                    wrapped.envelope,
                    lambda answer: on_answer(wrapped.opened(answer)),
                    timeout_s=FORWARDING_SECONDS,
                )
            else:
                connection.ask(
                    request, lambda answer: on_answer(_direct(answer)), version=context.version
                )
        except KafkaError as error:
            self._log.debug("the controller cannot be asked", node_id=node_id, why=str(error))
            on_answer(Undecided())


def _is_of_client(request: Request) -> bool:
    return "broker" in type(request).spec.listeners


def _lane_of(request: Request) -> str:
    return FORWARDING_LANE if _is_of_client(request) else LANE


def _direct(answer: Response | KafkaError) -> Response | KafkaError:
    """Return the response, or `Undecided` if its own error code is NOT_CONTROLLER. These requests
    can be sent again, whatever their outcome."""
    if not isinstance(answer, KafkaError) and getattr(answer, "error_code", 0) == (
        ErrorCode.NOT_CONTROLLER
    ):
        return Undecided()
    return answer


DELAYS_SECONDS: Final = (0.02, 0.1, 0.3)
"""The pauses before the attempts. A process that exits closes its connections and its listener one
after the other."""
CONNECT_SECONDS: Final = 1.0


class BrokerProbe:
    """The probes of one node. They run only while the active controller is on this node."""

    def __init__(
        self, runtime: Runtime, active: Callable[[], ActiveController | None], log: Logger
    ) -> None:
        self._runtime = runtime
        self._active = active
        self._log = log
        self._probing: dict[int, asyncio.Task[None]] = {}

    def suspect_all(self, own_id: int) -> None:
        """Probe all other brokers: this node has just become the quorum's leader, and the previous
        leader may be gone."""
        active = self._active()
        if active is not None:
            for broker in list(active.controller.image.brokers.by_id.values()):
                if broker.broker_id != own_id and not broker.is_fenced:
                    self.suspect(broker.broker_id)

    def suspect(self, broker_id: int) -> None:
        """Probe a broker after a connection from it has ended."""
        if self._active() is not None and broker_id not in self._probing:
            task = self._runtime.spawn(self._probe(broker_id), name=f"probe-{broker_id}")
            self._probing[broker_id] = task
            task.add_done_callback(lambda _: self._probing.pop(broker_id, None))

    async def aclose(self) -> None:
        """Stop all probes."""
        tasks = list(self._probing.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _probe(self, broker_id: int) -> None:
        for delay_s in DELAYS_SECONDS:
            await asyncio.sleep(delay_s)
            active = self._active()
            if active is None:
                return
            broker = active.controller.image.brokers.by_id.get(broker_id)
            if broker is None or broker.is_fenced or not broker.endpoints:
                return
            if await self._is_gone([(at.host, at.port) for at in broker.endpoints]):
                ports = [at.port for at in broker.endpoints]
                self._log.warn("a broker is gone, and is fenced", broker=broker_id, ports=ports)
                active.on_broker_gone(broker_id, broker.broker_epoch)
                return

    async def _is_gone(self, endpoints: list[tuple[str, int]]) -> bool:
        """Whether no process listens at any of the broker's endpoints."""
        for host, port in endpoints:
            if not await self._is_refused(host, port):
                return False
        return True

    async def _is_refused(self, host: str, port: int) -> bool:
        """Whether every address of the host refuses the connection."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for address, _ in await self._runtime.network.resolve(host, port):
                    try:
                        transport, _ = await self._runtime.network.connect(
                            asyncio.Protocol, address, port
                        )
                    except ConnectionRefusedError:
                        continue
                    transport.abort()
                    return False
        except (OSError, TimeoutError):
            return False
        return True


class Outside:
    """The connections of one node to the others."""

    def __init__(
        self,
        ground: tuple[Runtime, Logger],
        node_id: int,
        addresses: Mapping[int, tuple[str, int]],
        active: Callable[[], ActiveController | None],
        terms: tuple[float, Security | None],
    ) -> None:
        """`addresses` are the addresses of the controllers. `active` returns the active controller
        while it is on this node, else None. `terms` are the timeout of requests in seconds, and the
        encryption and the login at controllers."""
        runtime, log = ground
        timeout_s, security = terms
        options = ConnectionOptions(
            client_id=f"controller-{node_id}",
            request_timeout_s=timeout_s,
            setup_timeout_s=timeout_s,
            security=security,
        )
        known = {each: Address(*at) for each, at in addresses.items()}
        self.peers = Peers(runtime, options, known)
        self.remote = RemoteController(runtime, self.peers, log)
        self.probe = BrokerProbe(runtime, active, log)

    def update(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Replace the addresses of the controllers."""
        known = {each: Address(*at) for each, at in addresses.items()}
        if known != self.peers.addresses:
            self.peers.update(known)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.probe.aclose()
        await self.peers.aclose()
