"""What stands behind a listener: each request goes to the handler of its API.

    SocketServer(..., service=BrokerService(node))

Invariants: an API is served exactly if it has a handler; a handler that fails costs its connection
or its answer and nothing else, and the log says why.

What escapes from a handler becomes the answer's `error_code` where the API has one for the whole
request. Where it has none, the connection is closed: an answer that leaves out what was asked for
is worse than none, because clients do not look for it.
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
    """The versions that a broker's listener serves, by API key: stable ones of what has a handler.

    What it advertises differs in one place, see `moldau.protocol.negotiation`.
    """
    return {
        key: versions for key, versions in supported_versions("broker").items() if key in handlers
    }


class BrokerService:
    """Satisfies `moldau.broker.network.Service`. One serves any number of listeners."""

    def __init__(self, node: Node, handlers: Mapping[int, Handler] = HANDLERS) -> None:
        self.served: Mapping[int, Versions] = served_versions(handlers)
        self._node = node
        self._handlers = dict(handlers)

    def opened(self, connection: Peer) -> None:
        """Nothing is known of a connection before its first request."""

    def serve(self, request: ApiRequest) -> None:
        """A request of an API and version that is served."""
        try:
            self._handlers[request.arrival.key](self._node, request)
        except MalformedMessage:
            raise
        except KafkaError as error:
            self._refuse(request, error)
        except Exception as error:
            self._report(request, error)
            self._refuse(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def closed(self, connection: Peer) -> None:
        """Nothing of it waits any more. Fetch sessions outlive their connections."""
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
