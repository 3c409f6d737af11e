"""Forward requests to the controller, and bring back its response or a timeout.

Every broker accepts the requests that only the controller decides, and forwards them. Clients need
not know where the controller is. The controller's response is the client's response.

The deadline of a request is in its context, and is set here from the timeout. The controller on
this node does not decide after it either.

Invariants: `on_answer` is called exactly once, at the latest when the time is over. A request is
sent again only if it is certain that no controller decided it: the channel rejected it with
`Undecided`, or with NOT_CONTROLLER before `submit` returned. Another error leaves open what was
done, so the client gets it, and can check and ask again. A decision after the time is over still
takes effect: the client gets REQUEST_TIMED_OUT, as from Kafka, and may find the change.

The purgatory does both kinds of waiting, for the timeout and for the next attempt, and ends them
when the broker stops. Errors while a response is made do not escape, because the controller calls
this code in the middle of its own work: they are logged, and the client gets UNKNOWN_SERVER_ERROR.
A channel that raises ends the request too: at the first attempt the caller gets the exception and
the request is not answered from here, later the client gets UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.node import Undecided
from moldau.broker.api.refused import error_response
from moldau.broker.replication.purgatory import Pause
from moldau.broker.settings import network
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.api.node import Node, OnAnswer
    from moldau.broker.api.refused import Refuse
    from moldau.broker.api.request import ApiRequest, Handler
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response

RETRY_MS: Final = 50
_IGNORED_TIMEOUTS: Final = frozenset((46,))
_UNDECIDED: Final = (
    "no controller has taken it: the metadata quorum has no leader that this broker reaches; it "
    "has one while more than half of its voters are alive"
)


def timeout_of(message: Message) -> int | None:
    """Return the timeout of a request that the controller decides. None if it has none: Kafka
    ignores the field of ListPartitionReassignments."""
    if type(message).spec.key in _IGNORED_TIMEOUTS:
        return None
    timeout_ms: int | None = getattr(message, "timeout_ms", None)
    return timeout_ms


def to_controller(refuse: Refuse | None = None) -> Handler:
    """Return a handler that does nothing but forward. `refuse` returns the response if there is
    none from the controller; without it, `error_code` has the error."""

    def serve(node: Node, request: ApiRequest) -> None:
        forward(node, request, request.decode(), refuse)

    return serve


def forward(
    node: Node,
    request: ApiRequest,
    message: Message,
    refuse: Refuse | None = None,
    answer: Callable[[Response], object] | None = None,
) -> None:
    """Answer with the controller's response, or with that of `refuse` if there is none. `answer`
    gets the response in the place of `request.answer`."""
    version = request.arrival.version
    if answer is None:
        answer = request.answer

    def answered(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = _refused(message, version, response, refuse)
        answer(response)

    timeout_ms = timeout_of(message)
    if timeout_ms is None:
        timeout_ms = node.settings[network.request_timeout_ms]
    submit(node, message, request.context, answered, timeout_ms=timeout_ms)


def _refused(message: Message, version: int, error: KafkaError, refuse: Refuse | None) -> Response:
    if refuse is not None:
        return refuse(message, version, error)
    key = type(message).spec.key
    assert key is not None
    response = error_response(key, version, error)
    assert response is not None, f"{type(message).__name__} needs a form of refusal"
    return response


def submit(
    node: Node, message: Message, context: RequestContext, on_answer: OnAnswer, *, timeout_ms: int
) -> None:
    """Send the request to the controller. `context` has no deadline; it gets one from `timeout_ms`.

    If the timeout is not positive, nothing is sent and the answer is REQUEST_TIMED_OUT at once.
    """
    now_ms = node.runtime.clock.monotonic_ns() // 1_000_000
    limited = context.with_timeout(timeout_ms, now_ms)
    if limited.is_over(now_ms):
        on_answer(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        return
    _Attempts(node, message, limited, on_answer).begin(timeout_ms)


class _Attempts:
    """All attempts to send one request, until it is answered."""

    __slots__ = (
        "_context", "_end", "_is_sending", "_is_undecided", "_message", "_next", "_node",
        "_on_answer",
    )  # fmt: skip

    def __init__(
        self, node: Node, message: Message, context: RequestContext, on_answer: OnAnswer
    ) -> None:
        self._node = node
        self._message = message
        self._context = context
        self._on_answer: OnAnswer | None = on_answer
        self._is_sending = False
        self._is_undecided = False
        self._end: Pause | None = Pause(self._give_up)
        self._next: Pause | None = None

    def begin(self, timeout_ms: int) -> None:
        """Make the first attempt. If it is answered at once, no timeout is set."""
        is_sent = False
        try:
            self._send()
            is_sent = True
        finally:
            if not is_sent:
                self._on_answer = None
                self._stop_waiting()
        if self._end is not None:
            self._node.replicas.purgatory.watch(self._end, (), timeout_ms)

    def _send(self) -> None:
        self._is_undecided = False
        self._is_sending = True
        try:
            self._node.controller.submit(self._message, self._context, self._answered)
        finally:
            self._is_sending = False

    def _send_again(self) -> None:
        is_sent = False
        try:
            self._send()
            is_sent = True
        finally:
            if not is_sent and self._on_answer is not None:
                self._finish(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _answered(self, response: Response | KafkaError) -> None:
        if self._on_answer is None:
            return  # too late
        if isinstance(response, Undecided) or (self._is_sending and _is_undecided_error(response)):
            self._is_undecided = True
            self._next = Pause(self._send_again)
            self._node.replicas.purgatory.watch(self._next, (), RETRY_MS)
            return
        self._finish(response)

    def _give_up(self) -> None:
        reason = _UNDECIDED if self._is_undecided else ""
        self._finish(KafkaError(ErrorCode.REQUEST_TIMED_OUT, reason))

    def _finish(self, response: Response | KafkaError) -> None:
        on_answer, self._on_answer = self._on_answer, None
        self._stop_waiting()
        assert on_answer is not None, "answered twice"
        try:
            on_answer(response)
        except Exception as error:
            self._node.log.failure("answer failed", error, api=type(self._message).__name__)
            on_answer(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _stop_waiting(self) -> None:
        """Drop both pauses: each knows this object, and would keep the request in a cycle."""
        for pause in filter(None, (self._end, self._next)):
            self._node.replicas.purgatory.cancel(pause)
        self._end = self._next = None


def _is_undecided_error(response: Response | KafkaError) -> bool:
    return isinstance(response, KafkaError) and response.code == ErrorCode.NOT_CONTROLLER
