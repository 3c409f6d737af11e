"""The principal of a forwarded request: the bytes in an Envelope."""

from __future__ import annotations

from moldau.protocol.declare import Data
from moldau.protocol.types import Bool, String


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal as the stock principal builder writes it."""

    type: String
    name: String
    token_authenticated: Bool
