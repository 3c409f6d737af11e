"""The service behind a listener: it passes each request to the handler of its API.

    SocketServer(..., service=BrokerService(node))

Order of a request: the header is decoded -> context -> handler. `BrokerService.serve` is the gate:
every request of a client or another broker passes it once, before any handler has run. Checks that
may reject or delay a request without its message (an authorizer of whole APIs, the throttles)
belong there, with `request.context`. Checks of the resources that the message names belong in the
handler, after it has decoded the message, with the same context. For requests that the controller
decides, the gate is on the controller's node, in the context of the original request
(`ActiveController.request`).

Invariants: an API is served exactly if it has a handler. A handler that fails affects only its
response or its connection, and the failure is logged.

An exception from a handler becomes the response's `error_code` if the API has one for the whole
request. Otherwise the connection is closed: a response that leaves out the requested parts is worse
than none, because clients do not check for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.api.delayed_answer import end_session
from moldau.broker.api.error_response import error_response
from moldau.broker.api.handlers import HANDLERS
from moldau.broker.api.node import Node
from moldau.broker.api.request import ApiRequest, Handler, Peer
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import API
from moldau.protocol.negotiation import supported_versions
from moldau.protocol.versions import Versions


def served_versions(handlers: Mapping[int, Handler] = HANDLERS) -> dict[int, Versions]:
    """Return the versions that a broker's listener serves, by API key: the stable versions of each
    API with a handler.

    The advertised versions differ in one place, see `moldau.protocol.negotiation`.
    """
    return {
        key: versions for key, versions in supported_versions("broker").items() if key in handlers
    }


class BrokerService:
    """The service of a broker's listeners; it can serve any number of them. Satisfies
    `moldau.broker.network.Service`."""

    def __init__(self, node: Node, handlers: Mapping[int, Handler] = HANDLERS) -> None:
        self.served: Mapping[int, Versions] = served_versions(handlers)
        self._node = node
        self._handlers = dict(handlers)

    def opened(self, connection: Peer) -> None:
        """Do nothing: nothing is known about a connection before its first request."""

    def serve(self, request: ApiRequest) -> None:
        """Handle a request of an API and version that are served. This is the gate, see the module:
        a KafkaError that is raised before the handler runs becomes the answer, too."""
        try:
            # There are no checks here yet, so a produce and a fetch make no context.
            self._handlers[request.arrival.key](self._node, request)
        except MalformedMessage:
            raise
        except KafkaError as error:
            self._refuse(request, error)
        except Exception as error:
            self._report(request, error)
            self._refuse(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def closed(self, connection: Peer) -> None:
        """Drop the waiting requests of the connection. Fetch sessions outlive their connections."""
        end_session(connection, self._node.replicas.purgatory)

    def _refuse(self, request: ApiRequest, error: KafkaError) -> None:
        response = error_response(request.arrival.key, request.arrival.version, error)
        if response is None:
            request.connection.close()
        else:
            request.answer(response)

    def _report(self, request: ApiRequest, error: Exception) -> None:
        arrival = request.arrival
        self._node.log.failure(
            "request failed",
            error,
            api=API[arrival.key].name,
            version=arrival.version,
            client=arrival.client_id,
            peer=request.connection.address,
        )
