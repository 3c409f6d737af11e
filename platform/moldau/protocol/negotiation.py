"""Which version to speak with a peer: the highest that both sides have.

What is served and what is advertised differ in one place, see `advertised_versions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request
from moldau.protocol.messages import API, request_class
from moldau.protocol.versions import NO_VERSIONS, Versions

PRODUCE = 0


class VersionRange(Protocol):
    """A row of an ApiVersions answer."""

    api_key: int
    min_version: int
    max_version: int


def supported_versions(listener: str, *, unstable: bool = False) -> dict[int, Versions]:
    """What this code can serve on a listener, "broker" or "controller", by API key."""
    supported = {}
    for key in API:
        spec = request_class(key).spec
        versions = spec.versions if unstable else spec.stable_versions
        if listener in spec.listeners and versions:
            supported[key] = versions
    return supported


def advertised_versions(listener: str, *, unstable: bool = False) -> dict[int, Versions]:
    """What an ApiVersions answer says that a listener serves.

    On a broker's listener Produce is said to begin at version 0: librdkafka before 2025 takes a
    broker without it for one that knows no compression but zstd, and sends everything else plain
    without a word (KAFKA-18659). A Produce below what is served is still an unsupported version.
    """
    advertised = supported_versions(listener, unstable=unstable)
    if listener == "broker":
        advertised[PRODUCE] = Versions(0, advertised[PRODUCE].last)
    return advertised


def highest_common(ours: Versions, theirs: Versions, **context: object) -> int:
    """The version to speak; KafkaError(UNSUPPORTED_VERSION) names both ranges if there is none."""
    common = ours.common(theirs)
    if not common:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, **context, ours=str(ours), theirs=str(theirs)
        )
    return common.last


class PeerVersions:
    """What a peer said that it serves, and so which version each of our requests takes."""

    def __init__(self, rows: Iterable[VersionRange]) -> None:
        self.by_key: Mapping[int, Versions] = {
            row.api_key: Versions(row.min_version, row.max_version) for row in rows
        }

    def version(
        self, request: type[Request], *, at_most: int | None = None, unstable: bool = False
    ) -> int:
        """The highest common version, not above `at_most`, unstable ones only on demand."""
        spec = request.spec
        assert spec.key is not None
        ours = spec.versions if unstable else spec.stable_versions
        if at_most is not None:
            ours = Versions(ours.first, min(ours.last, at_most))
        theirs = self.by_key.get(spec.key, NO_VERSIONS)
        return highest_common(ours, theirs, request=spec.name)
