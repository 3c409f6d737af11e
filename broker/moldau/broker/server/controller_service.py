"""The service behind the controller listener: the quorum, and the active controller.

Other voters vote and fetch here. Brokers register, send heartbeats and request changes. A client's
request to a broker comes in an Envelope (KIP-590).

Order of a request: gate -> decode -> the active controller. The gate reads the row of the API, in
the context of the connection. An envelope passes it as what it is, a request between nodes, and the
request in it once more, in the context of the original client (`channel.decide`, where
requests of the broker in the same process come in, too).

Invariants: an API is served exactly if its row names the controllers' listeners. Only what brokers
forward is taken out of an envelope. A node that does not lead the quorum
answers NOT_CONTROLLER, which promises that nothing was decided. If leadership is lost during a
decision, its outcome is unknown and the answer is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.api_versions import finalized
from moldau.broker.api.cluster import Controllers, answer_of_controllers
from moldau.broker.api.describe_configs import answer as describe_configs
from moldau.broker.api.forwarding import timeout_of
from moldau.broker.api.gate import guarded_request
from moldau.broker.api.handlers import APIS
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.decision.authorizer import check_cluster
from moldau.broker.raft import wire
from moldau.broker.server.channel import decide, kraft_version
from moldau.broker.server.envelope import context_of
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging.gathering import GatheredWarnings
from moldau.protocol.api_versions import Welcome
from moldau.protocol.connection import ServerConnection
from moldau.protocol.declare import Request as Message
from moldau.protocol.declare import Response
from moldau.protocol.messages import api as api_entry
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.negotiation import advertised_versions, own_versions, supported_versions
from moldau.protocol.rights import ALTER_CLUSTER, CLUSTER_ACTION, REFUSALS, Right

if TYPE_CHECKING:
    from moldau.broker.api.describe_configs import ConfigView
    from moldau.broker.api.node import OnAnswer
    from moldau.broker.api.request import ApiRequest, Peer
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.server.channel import LocalController
    from moldau.logging import Logger
    from moldau.protocol.versions import Versions

_SIZE_BYTES: Final = 4
_FETCH: Final = 1
_API_VERSIONS: Final = 18
_DESCRIBE_CONFIGS: Final = 32
_RAFT: Final = (52, 53, 54)
_ENVELOPE: Final = 58
_FETCH_SNAPSHOT: Final = 59
_DESCRIBE_CLUSTER: Final = 60
_RIGHTS: Final = {
    _FETCH: (CLUSTER_ACTION,),
    _DESCRIBE_CLUSTER: (ALTER_CLUSTER,),
}
"""The rights of requests that take another one from a controller than from a broker."""
_REFUSED_RIGHTS: Final = frozenset((*REFUSALS.values(), ErrorCode.SECURITY_DISABLED))
"""Errors of the original client. Those of the broker that forwarded are the envelope's own."""


class ControllerService:
    """The service of the controller listener. Satisfies `moldau.broker.network.Service`."""

    def __init__(
        self,
        controller: LocalController,
        features: Mapping[str, Versions],
        image: Callable[[], Image],
        config_view: Callable[[], ConfigView],
        log: Logger,
    ) -> None:
        """`image` returns the metadata published to this node, `config_view` its settings with that
        metadata."""
        keys = {key for key, row in APIS.items() if "controller" in row.listeners}
        supported = supported_versions("controller") | own_versions("controller")
        self.served: Mapping[int, Versions] = {
            key: versions for key, versions in supported.items() if key in keys
        }
        self.throttle = None
        self._forwarded = {
            key: versions
            for key, versions in (supported_versions("broker") | own_versions("broker")).items()
            if key in APIS and APIS[key].is_forwarded
        }
        advertised = advertised_versions("controller")
        self._welcome = Welcome(
            {key: versions for key, versions in advertised.items() if key in keys}, features
        )
        self._controller = controller
        self._image = image
        self._config_view = config_view
        self._log = log
        self._refusals = GatheredWarnings(log, lines=1)

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
            if not self._passes(request):
                return
            if key == _FETCH:
                fetch = cast(FetchRequest, request.decode())
                request.connection.session = fetch.replica_state.replica_id
                raft.serve_fetch(fetch, version, request.context.listener, request.answer)
            elif key in _RAFT:
                raft.serve(cast(wire.RaftRequest, request.decode()), request.answer)
            elif key == _FETCH_SNAPSHOT:
                raft.serve_snapshot(cast(FetchSnapshotRequest, request.decode()), request.answer)
            elif key == _API_VERSIONS:
                self._serve_versions(request)
            elif key == _DESCRIBE_CLUSTER:
                self._serve_cluster(self._guarded(request))
            elif key == _DESCRIBE_CONFIGS:
                self._serve_configs(self._guarded(request))
            elif key == _ENVELOPE:
                request.keep()
                self._serve_envelope(request)
            else:
                request.keep()
                self._decide(request)
        except MalformedMessage:
            raise
        except Exception as error:
            self._log.failure("request failed", error, api=api_entry(key).name, version=version)
            request.connection.close()

    def _passes(self, request: ApiRequest) -> bool:
        """Check what nodes send each other. Refuse the request if the client is no node."""
        authorizer = self._controller.authorizer
        if authorizer.allows_all:
            return True
        key, version = request.arrival.key, request.arrival.version
        row = APIS[key]
        rights = _RIGHTS.get(key, RIGHTS[key].cluster_rights)
        if not rights or row.is_forwarded:
            return True
        try:
            check_cluster(authorizer, request.context, *rights)
        except KafkaError as error:
            self._report_refused(request, rights[0])
            self._refuse(request, row.refusal(request.decode(), version, error))
            return False
        return True

    def _report_refused(self, request: ApiRequest, right: Right) -> None:
        """Log once a minute which node lacks a right: without it a cluster may wait for ever."""
        context = request.context
        self._refusals.warn(
            f"refuses a node: {context.principal} has no right {right.operation.name} on the "
            "cluster. If it is a node of this cluster, name it in super.users of all controllers",
            self._controller.now_ms() / 1000,
            api=api_entry(request.arrival.key).name,
            address=context.client_host,
        )

    def _guarded(self, request: ApiRequest) -> ApiRequest:
        """Return the request without the parts that its client has no right to."""
        return guarded_request(self._controller.authorizer, self._image(), request)

    def _serve_configs(self, request: ApiRequest) -> None:
        message = cast(DescribeConfigsRequest, request.decode())
        request.answer(describe_configs(self._config_view(), message))

    def _refuse(self, request: ApiRequest, response: Response | None) -> None:
        if response is None:
            request.connection.close()
        else:
            request.answer(response)

    def _serve_versions(self, request: ApiRequest) -> None:
        message = cast(ApiVersionsRequest, request.decode())
        state = finalized(
            self._image(),
            self._controller.quorum.high_watermark,
            kraft_version(self._controller.quorum),
        )
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
        message, off = request.decode(), APIS[key].off
        if off is not None:
            self._refuse(request, APIS[key].refusal(message, version, off))
            return

        def on_answer(outcome: Response | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                self._refuse(request, APIS[key].refusal(message, version, outcome))
            else:
                request.answer(outcome)

        self._submit(message, request.context, on_answer)

    def _submit(self, message: Message, context: RequestContext, on_answer: OnAnswer) -> None:
        """Let the active controller decide. The timeout in the message counts from now on."""
        if self._controller.active is None:
            on_answer(KafkaError(ErrorCode.NOT_CONTROLLER))
            return
        timeout_ms = timeout_of(message)
        if timeout_ms is not None:
            context = context.with_timeout(timeout_ms, self._controller.now_ms())
        is_deciding = True

        def decided(outcome: Response | KafkaError) -> None:
            is_lost = isinstance(outcome, KafkaError) and outcome.code == ErrorCode.NOT_CONTROLLER
            if is_lost and not is_deciding:
                outcome = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            on_answer(outcome)

        decide(self._controller, message, context, decided)
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

        message = arrival.decode()

        def on_answer(outcome: Response | KafkaError) -> None:
            if isinstance(outcome, KafkaError) and outcome.code in _REFUSED_RIGHTS:
                refused = APIS[arrival.key].refusal(message, arrival.version, outcome)
                outcome = outcome if refused is None else refused
            if isinstance(outcome, KafkaError):
                request.answer(EnvelopeResponse(error_code=outcome.code))
                return
            data = b"".join(bytes(each) for each in inner.answer(arrival, outcome))
            request.answer(
                EnvelopeResponse(response_data=data[_SIZE_BYTES:], error_code=ErrorCode.NONE)
            )

        self._submit(message, context, on_answer)
