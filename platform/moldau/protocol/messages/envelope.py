"""Carries a client's request, with its principal and address, to the controller (KIP-590)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bytes, BytesView, Int16


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+", listeners=("controller",)):
    """The request as the client sent it, and the principal that the broker saw."""

    request_data: BytesView
    request_principal: Bytes | None
    client_host_address: Bytes


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    """The controller's answer, to be passed on as it is."""

    response_data: BytesView | None = field(default=None)
    error_code: Int16
