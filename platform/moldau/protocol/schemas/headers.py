"""The headers that stand before every request and response.

Version 1 and 0 go with messages that are not flexible, 2 and 1 with those that are; the answer to
ApiVersions keeps header version 0 whatever its own version, because the client cannot know yet
what the broker speaks.
"""

from __future__ import annotations

from moldau.protocol.declare import Header, field
from moldau.protocol.types import Int16, Int32, String


class RequestHeader(Header, versions="1-2", flexible="2+"):
    """What is asked, in which version, and the number by which the answer is recognised."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    # stays a classic string, so that any broker can read the header of ApiVersions
    client_id: String | None = field(flexible=False)


class ResponseHeader(Header, versions="0-1", flexible="1+"):
    """The number of the request that this answers."""

    correlation_id: Int32
