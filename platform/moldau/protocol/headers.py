"""The header version of each message, and the frames of header and body.

Flexible requests have header 2, other requests 1; responses 1 and 0. The response to ApiVersions
always has header 0 (KIP-511): a client that asks for versions cannot know yet which ones the other
side supports. A request of an unknown version still has the header of its kind, so every version
from the first flexible one on counts as flexible here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any

from moldau.protocol.messages import request_class
from moldau.protocol.versions import NEWEST

API_VERSIONS = 18

_PLAIN = Struct(">ii").pack
_TAGGED = Struct(">iix").pack


@cache
def _flexible_from(key: int) -> int:
    since = request_class(key).spec.flexible_since
    return NEWEST + 1 if since is None else since


def request_header_version(key: int, version: int) -> int:
    """Return the header version of a request. Raise KeyError for an unknown API."""
    return 2 if version >= _flexible_from(key) else 1


@cache
def response_header_version(key: int, version: int) -> int:
    """Return the header version of the response to a request whose version we support."""
    return 1 if key != API_VERSIONS and version >= _flexible_from(key) else 0


def response_frame(correlation_id: int, header_version: int, body: Sequence[Any]) -> list[Any]:
    """Return the buffers of a response, in order; pieces are joined where that is cheap."""
    if len(body) == 1:
        (whole,) = body
        if header_version:
            return [_TAGGED(5 + len(whole), correlation_id) + whole]
        return [_PLAIN(4 + len(whole), correlation_id) + whole]
    size = sum(map(len, body))
    start = (
        _TAGGED(5 + size, correlation_id) if header_version else _PLAIN(4 + size, correlation_id)
    )
    return [start + body[0], *body[1:]]


def request_frame(header: bytes, body: Sequence[Any]) -> list[Any]:
    """Return the buffers of a request whose header is already encoded."""
    size = len(header) + sum(map(len, body))
    return [size.to_bytes(4, "big") + header + body[0], *body[1:]]
