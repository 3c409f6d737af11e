"""The service behind the controller listener: the quorum, and the active controller.

Other voters vote and fetch here. Brokers register, send heartbeats and request changes. A client's
request to a broker comes in an Envelope (KIP-590).

Order of a request: decode -> context -> the active controller. The context is that of the
connection, or of the original request in an envelope. Requests of the broker in the same process do
not come through here: both ways meet in `ActiveController.request`, which is the gate for an
authorizer of decisions.

Invariants: an API is served exactly if it has a row here. A node that does not lead the quorum
answers NOT_CONTROLLER, which promises that nothing was decided. If leadership is lost during a
decision, its outcome is unknown and the answer is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.api_versions import finalized
from moldau.broker.api.cluster import Controllers, answer_of_controllers
from moldau.broker.api.error_response import error_response
from moldau.broker.raft import wire
from moldau.broker.server.envelope import context_of
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.api_versions import Welcome
from moldau.protocol.connection import ServerConnection
from moldau.protocol.declare import Request as Message
from moldau.protocol.declare import Response
from moldau.protocol.messages import API
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.negotiation import advertised_versions, supported_versions

if TYPE_CHECKING:
    from moldau.broker.api.request import ApiRequest, Peer
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.server.channel import LocalController
    from moldau.logging import Logger
    from moldau.protocol.versions import Versions

_SIZE_BYTES: Final = 4
_FETCH: Final = 1
_API_VERSIONS: Final = 18
_RAFT: Final = (52, 53, 54)
_FETCH_SNAPSHOT: Final = 59
_ENVELOPE: Final = 58
_DESCRIBE_CLUSTER: Final = 60
_DECIDED: Final = (55, 56, 62, 63, 64, 67, 70, 73, 80, 81, 82)
"""Requests of brokers that the active controller decides."""
_FORWARDED: Final = (19, 20, 33, 37, 43, 44, 45, 46, 55, 57, 64, 74, 80, 81)
"""Requests of a broker's clients, forwarded in an envelope."""


class ControllerService:
    """The service of the controller listener. Satisfies `moldau.broker.network.Service`."""

    def __init__(
        self,
        controller: LocalController,
        features: Mapping[str, Versions],
        image: Callable[[], Image],
        log: Logger,
    ) -> None:
        """`image` returns the metadata published to this node."""
        asked = (_API_VERSIONS, _DESCRIBE_CLUSTER)
        keys = {_FETCH, *asked, *_RAFT, _FETCH_SNAPSHOT, _ENVELOPE, *_DECIDED}
        supported = supported_versions("controller")
        self.served: Mapping[int, Versions] = {
            key: versions for key, versions in supported.items() if key in keys
        }
        self._forwarded = {
            key: versions
            for key, versions in supported_versions("broker").items()
            if key in _FORWARDED
        }
        advertised = advertised_versions("controller")
        self._welcome = Welcome(
            {key: versions for key, versions in advertised.items() if key in keys}, features
        )
        self._controller = controller
        self._image = image
        self._log = log

    def opened(self, connection: Peer) -> None:
        """Do nothing: the other node is unknown before its first fetch."""

    def closed(self, connection: Peer) -> None:
        """Probe the broker of the connection, which may be gone. Later responses are dropped."""
        if connection.session is not None:
            self._controller.outside.probe.suspect(connection.session)

    def serve(self, request: ApiRequest) -> None:
        """Serve a request of a supported API and version."""
        key, version = request.arrival.key, request.arrival.version
        raft = self._controller.raft
        try:
            if key == _FETCH:
                fetch = cast(FetchRequest, request.decode())
                request.connection.session = fetch.replica_state.replica_id
                raft.serve_fetch(fetch, version, request.answer)
            elif key in _RAFT:
                raft.serve(cast(wire.RaftRequest, request.decode()), request.answer)
            elif key == _FETCH_SNAPSHOT:
                raft.serve_snapshot(cast(FetchSnapshotRequest, request.decode()), request.answer)
            elif key == _API_VERSIONS:
                self._serve_versions(request)
            elif key == _DESCRIBE_CLUSTER:
                self._serve_cluster(request)
            elif key == _ENVELOPE:
                request.keep()
                self._serve_envelope(request)
            else:
                request.keep()
                self._decide(request)
        except MalformedMessage:
            raise
        except Exception as error:
            self._log.failure("request failed", error, api=API[key].name, version=version)
            request.connection.close()

    def _serve_versions(self, request: ApiRequest) -> None:
        message = cast(ApiVersionsRequest, request.decode())
        state = finalized(self._image(), self._controller.quorum.high_watermark, 0)
        request.answer(self._welcome.answer(message, request.arrival.version, state))

    def _serve_cluster(self, request: ApiRequest) -> None:
        message = cast(DescribeClusterRequest, request.decode())
        controller = self._controller
        view = Controllers(
            self._image(),
            controller.cluster_id,
            controller.raft.core.leader_id,
            request.connection.listener,
        )
        request.answer(answer_of_controllers(view, message, request.arrival.version))

    def _decide(self, request: ApiRequest) -> None:
        key, version = request.arrival.key, request.arrival.version

        def refuse(error: KafkaError) -> None:
            response = error_response(key, version, error)
            if response is None:
                request.connection.close()
            else:
                request.answer(response)

        self._submit(request.decode(), request.context, request.answer, refuse)

    def _submit(
        self,
        message: Message,
        context: RequestContext,
        answer: Callable[[Response], None],
        refuse: Callable[[KafkaError], None],
    ) -> None:
        """Let the active controller decide. The timeout in the message counts from now on."""
        active = self._controller.active
        if active is None:
            refuse(KafkaError(ErrorCode.NOT_CONTROLLER))
            return
        timeout_ms = getattr(message, "timeout_ms", None)
        if timeout_ms is not None:
            context = context.with_timeout(timeout_ms, self._controller.now_ms())
        is_deciding = True

        def on_answer(outcome: Response | KafkaError) -> None:
            if not isinstance(outcome, KafkaError):
                answer(outcome)
            elif outcome.code == ErrorCode.NOT_CONTROLLER and not is_deciding:
                refuse(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
            else:
                refuse(outcome)

        active.request(message, context, on_answer)
        is_deciding = False

    def _serve_envelope(self, request: ApiRequest) -> None:
        envelope = cast(EnvelopeRequest, request.decode())
        inner = ServerConnection(self._forwarded)
        arrival = inner.receive(memoryview(bytes(envelope.request_data)))
        try:
            context = context_of(envelope, arrival, request.connection.listener)
        except KafkaError as error:
            self._log.debug("cannot read an envelope", why=str(error))
            request.answer(EnvelopeResponse(error_code=error.code))
            return
        if arrival.problem is not None:
            request.answer(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
            return

        def answer(response: Response) -> None:
            data = b"".join(bytes(each) for each in inner.answer(arrival, response))
            request.answer(
                EnvelopeResponse(response_data=data[_SIZE_BYTES:], error_code=ErrorCode.NONE)
            )

        def refuse(error: KafkaError) -> None:
            request.answer(EnvelopeResponse(error_code=error.code))

        self._submit(arrival.decode(), context, answer, refuse)
