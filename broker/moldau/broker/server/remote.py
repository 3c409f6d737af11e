"""Requests to the active controller on another node, over the wire.

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

from typing import TYPE_CHECKING, Final

from moldau.broker.api.node import Undecided
from moldau.broker.server.envelope import Wrapped
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.api.node import OnAnswer
    from moldau.broker.decision.context import RequestContext
    from moldau.link import Peers
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
                wrapped = Wrapped(request, context)
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
