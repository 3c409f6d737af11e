"""What requests are made and answers read with: a broker's versions, and the cluster's metadata."""

from __future__ import annotations

from typing import Protocol

from moldau.errors.codes import KafkaError
from moldau.link.metadata import Metadata
from moldau.protocol.declare import Request


class Speaker(Protocol):
    """Knows which versions of requests a broker takes."""

    def version_of(self, request: type[Request], *, at_most: int | None = None) -> int: ...


class Listener(Protocol):
    """Hears of stale metadata."""

    metadata: Metadata

    def note(self, error: KafkaError) -> None: ...
