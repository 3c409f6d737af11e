"""Recognizes servers that are no brokers, by the first bytes of their answers.

The first four bytes of a broker's answer are its size. Those of an HTTP server or of a TLS alert
are a size that no broker sends.
"""

from __future__ import annotations

from struct import error, pack
from typing import Final

_HTTP: Final = (b"HTTP", b"http", b"<!DO", b"<!do", b"<htm", b"<HTM")
_TLS_RECORDS: Final = (0x15, 0x16)
"""An alert and a handshake."""
_TLS_MAJOR: Final = 3

IS_HTTP: Final = (
    "an HTTP server answers at this port, not a broker: give a broker's listener, such as port 9092"
)
IS_TLS: Final = (
    "this port speaks TLS, and this client connects in plain text: give a listener of the protocol "
    "PLAINTEXT"
)


def foreign_server(size: object) -> str | None:
    """Return what a server is that sent this size of a frame, and what to do; None if unknown."""
    try:
        first = pack(">i", size)
    except error:
        return None
    if first in _HTTP:
        return IS_HTTP
    if first[0] in _TLS_RECORDS and first[1] == _TLS_MAJOR:
        return IS_TLS
    return None
