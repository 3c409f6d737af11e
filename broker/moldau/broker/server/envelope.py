"""The envelope of a client's request that a broker forwards to the controller (KIP-590).

It holds the request with its header, which has the client id, and the principal and address. The
controller makes the context of the original request from them.

Invariant: the bytes are Kafka's. A controller of Apache Kafka reads our envelopes, and we read
those of its brokers. Kafka's envelope has no place for the listener, nor for a deadline: clocks
differ between hosts, so the controller counts the timeout of the message from its arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.node import Undecided
from moldau.broker.decision.context import (
    Principal,
    RequestContext,
    packed_host,
    unpacked_host,
)
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.protocol.schemas.principal import DefaultPrincipalData
from moldau.protocol.schemas.versioned import decode_versioned, encode_versioned

if TYPE_CHECKING:
    from moldau.protocol.connection import Arrival
    from moldau.protocol.declare import Request, Response

_SIZE_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = 0


class ForwardedRequest:
    """A client's request in an envelope, and the way to its response."""

    def __init__(self, request: Request, context: RequestContext) -> None:
        self._inner = ClientConnection(context.client_id)
        data = b"".join(bytes(each) for each in self._inner.send(request, context.version))
        self.envelope = EnvelopeRequest(
            request_data=data[_SIZE_BYTES:],
            request_principal=_principal_bytes(context.principal),
            client_host_address=packed_host(context.client_host),
        )

    def opened(self, answer: Response | KafkaError) -> Response | KafkaError:
        """Return the response from the envelope's response, or the error."""
        if isinstance(answer, KafkaError):
            return answer
        assert isinstance(answer, EnvelopeResponse)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return Undecided()
        if answer.error_code or answer.response_data is None:
            return KafkaError(ErrorCode(answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
        try:
            return self._inner.receive(memoryview(bytes(answer.response_data))).response
        except MalformedMessage as error:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why=str(error))


def context_of(envelope: EnvelopeRequest, arrival: Arrival, listener: str) -> RequestContext:
    """Return the context of the original request. `arrival` is the request in the envelope,
    `listener` the one that the envelope came through.

    Raise KafkaError with Kafka's codes for a principal or an address that cannot be read."""
    principal = _principal_of(envelope.request_principal)
    try:
        host = unpacked_host(envelope.client_host_address)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "the client's address is not an IP address"
        ) from error
    return RequestContext(arrival.client_id or "", host, arrival.version, listener, principal)


def _principal_bytes(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type,
        name=principal.name,
        token_authenticated=principal.is_token_authenticated,
    )
    return encode_versioned(data, _PRINCIPAL_VERSION)


def _principal_of(data: bytes | None) -> Principal:
    try:
        read = decode_versioned(DefaultPrincipalData, data or b"")
    except MalformedMessage as error:
        raise KafkaError(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, "the forwarded principal cannot be read"
        ) from error
    return Principal(read.type, read.name, read.token_authenticated)
