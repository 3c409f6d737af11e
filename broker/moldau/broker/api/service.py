"""The service behind a listener: it passes each request to the handler of its API.

    SocketServer(..., service=BrokerService(node))

Order of a request: the header is decoded -> context -> gate -> handler -> throttle. The gate reads
the rights of the API (`rights.table`): it checks a right on the cluster before the handler runs,
and guards take the parts out of a message that its client has no right to. Other rights are
checked by the handler, item by item (`gate.allowed`). For requests that are forwarded to the
controller, the gate is on the controller's node, in the context of the original request. The
throttle is the one place that sets `throttle_time_ms`, when a response leaves
(`network.Request.answer`).

Requests of a connection take effect in the order in which they came: one that waits before its
effect holds the next ones back (`ordering`).

Invariants: an API is served exactly if it has a row that a broker offers. A handler that fails
affects only its response or its connection, and the failure is logged.

An exception from a handler becomes the response's `error_code` if the API has one for the whole
request. Otherwise the connection is closed: a response that leaves out the requested parts is worse
than none, because clients do not check for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.api.delayed_answer import end_session
from moldau.broker.api.gate import checked
from moldau.broker.api.handlers import APIS
from moldau.broker.api.node import Node
from moldau.broker.api.ordering import in_order
from moldau.broker.api.refused import error_response
from moldau.broker.api.request import ApiRequest, Peer, Throttle
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.api.row import Api
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import api as api_entry
from moldau.protocol.negotiation import own_versions, supported_versions
from moldau.protocol.rights import CLUSTER_ACTION
from moldau.protocol.versions import Versions


def served_versions(apis: Mapping[int, Api] = APIS) -> dict[int, Versions]:
    """Return the versions that a broker's listener serves, by API key: the stable versions of each
    API that brokers offer.

    The advertised versions differ in one place, see `moldau.protocol.negotiation`.
    """
    return {
        key: versions
        for key, versions in (supported_versions("broker") | own_versions("broker")).items()
        if key in apis and apis[key].serve is not None
    }


class BrokerService:
    """The service of a broker's listeners; it can serve any number of them. Satisfies
    `moldau.broker.network.Service`."""

    def __init__(
        self, node: Node, apis: Mapping[int, Api] = APIS, throttle: Throttle | None = None
    ) -> None:
        """`throttle` says how long the client of a request must wait after its response; None: as
        long as the node's quotas say."""
        self.served: Mapping[int, Versions] = served_versions(apis)
        self.throttle: Throttle = throttle or node.quotas.take
        self._node = node
        self._requests = node.requests
        self._apis = apis
        is_guarded = not node.authorizer.allows_all
        self._of_nodes = frozenset(
            key for key, row in RIGHTS.items() if row.right == CLUSTER_ACTION
        )
        """The requests of brokers and controllers, which have no quota."""
        self._handlers = {
            key: in_order(key, checked(apis[key], RIGHTS[key], is_guarded=is_guarded))
            for key in self.served
        }

    def opened(self, connection: Peer) -> None:
        """Do nothing: nothing is known about a connection before its first request."""

    def serve(self, request: ApiRequest) -> None:
        """Handle a request of an API and version that are served. A KafkaError of the gate or of
        the handler becomes the answer."""
        key = request.arrival.key
        self._requests[key] += 1
        quotas = self._node.quotas
        is_limiting = quotas.is_limiting
        if is_limiting:
            if not key:
                quotas.charge_produce(request)
            if key not in self._of_nodes:
                quotas.begin(request)
        try:
            self._handlers[key](self._node, request)
        except MalformedMessage:
            raise
        except KafkaError as error:
            self._refuse(request, error)
        except Exception as error:
            self._report(request, error)
            self._refuse(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        finally:
            if is_limiting:
                quotas.end()

    def closed(self, connection: Peer) -> None:
        """Drop the waiting requests of the connection. Fetch sessions outlive their connections;
        share sessions do not."""
        if connection.session is not None:
            self._node.shares.on_disconnected(connection.session)
        end_session(connection, self._node.replicas.purgatory)

    def _refuse(self, request: ApiRequest, error: KafkaError) -> None:
        key, version = request.arrival.key, request.arrival.version
        row = self._apis[key]
        if row.refuse is None:
            response = error_response(key, version, error)
        else:
            response = row.refuse(request.decode(), version, error)
        if response is None:
            self._node.log.info(
                "closes connection: its request is refused, and no answer can say so",
                client=request.arrival.client_id,
                peer=request.connection.address,
                api=api_entry(key).name,
                version=version,
                error=error.code.name,
                reason=error.reason,
            )
            request.connection.close()
        else:
            request.answer(response)

    def _report(self, request: ApiRequest, error: Exception) -> None:
        arrival = request.arrival
        self._node.log.failure(
            "request failed",
            error,
            api=api_entry(arrival.key).name,
            version=arrival.version,
            client=arrival.client_id,
            peer=request.connection.address,
        )
