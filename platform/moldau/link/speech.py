"""The interfaces for making requests and reading responses: a broker's versions, and metadata."""

from __future__ import annotations

from typing import Protocol

from moldau.errors.codes import KafkaError
from moldau.link.metadata import Metadata
from moldau.protocol.declare import Request


class Speaker(Protocol):
    """An object that knows which versions of requests a broker supports."""

    def version_of(self, request: type[Request], *, at_most: int | None = None) -> int: ...


class Listener(Protocol):
    """An object with the cluster's metadata, to which errors about stale metadata are reported."""

    metadata: Metadata

    def note(self, error: KafkaError) -> None: ...
