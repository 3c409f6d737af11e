"""Takes a controller that is gone for good out of the metadata."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Int16, Int32, String


class UnregisterControllerRequest(
    Request, key=94, versions="0", flexible="0+", listeners=("broker", "controller")
):
    """The controller to forget."""

    controller_id: Int32


class UnregisterControllerResponse(Response, key=94, versions="0", flexible="0+"):
    """Whether it was forgotten."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
