"""Chooses the version to use with a peer: the highest that both sides support.

The served and the advertised versions differ in one place, see `advertised_versions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request
from moldau.protocol.messages import API, OWN, request_class
from moldau.protocol.versions import NO_VERSIONS, Versions

PRODUCE = 0


class VersionRange(Protocol):
    """A row of an ApiVersions response."""

    api_key: int
    min_version: int
    max_version: int


def supported_versions(listener: str, *, unstable: bool = False) -> dict[int, Versions]:
    """Return the versions that this code supports on a listener, "broker" or "controller"."""
    return _versions(API, listener, unstable=unstable)


def own_versions(listener: str) -> dict[int, Versions]:
    """Return those of the APIs that Kafka does not have: only moldau's own clients are told."""
    return _versions(OWN, listener)


def _versions(keys: Iterable[int], listener: str, *, unstable: bool = False) -> dict[int, Versions]:
    supported = {}
    for key in keys:
        spec = request_class(key).spec
        versions = spec.versions if unstable else spec.stable_versions
        if listener in spec.listeners and versions:
            supported[key] = versions
    return supported


def advertised_versions(listener: str, *, unstable: bool = False) -> dict[int, Versions]:
    """Return the versions that an ApiVersions response reports for a listener.

    A broker's listener reports Produce from version 0 on: librdkafka before 2025 assumes that a
    broker without it supports no compression but zstd, and silently sends everything else
    uncompressed (KAFKA-18659). A Produce below the served versions is still an unsupported version.
    """
    advertised = supported_versions(listener, unstable=unstable)
    if listener == "broker":
        advertised[PRODUCE] = Versions(0, advertised[PRODUCE].last)
    return advertised


def highest_common(ours: Versions, theirs: Versions, **context: object) -> int:
    """Return the version to use. Raise KafkaError(UNSUPPORTED_VERSION) if there is none."""
    common = ours.common(theirs)
    if not common:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, **context, ours=str(ours), theirs=str(theirs)
        )
    return common.last


class PeerVersions:
    """The versions that a peer serves, and so the version to use for each of our requests."""

    def __init__(self, rows: Iterable[VersionRange]) -> None:
        self.by_key: Mapping[int, Versions] = {
            row.api_key: Versions(row.min_version, row.max_version) for row in rows
        }
        self._chosen: dict[tuple[type[Request], int | None], int] = {}
        """By request and `at_most`, the stable version."""

    def version(
        self, request: type[Request], *, at_most: int | None = None, unstable: bool = False
    ) -> int:
        """Return the highest common version, up to `at_most`; unstable ones only on request."""
        chosen = None if unstable else self._chosen.get((request, at_most))
        return self._choose(request, at_most, unstable) if chosen is None else chosen

    def _choose(self, request: type[Request], at_most: int | None, unstable: bool) -> int:
        spec = request.spec
        assert spec.key is not None
        ours = spec.versions if unstable else spec.stable_versions
        if at_most is not None:
            ours = Versions(ours.first, min(ours.last, at_most))
        theirs = self.by_key.get(spec.key, NO_VERSIONS)
        version = highest_common(ours, theirs, request=spec.name)
        if not unstable:
            self._chosen[request, at_most] = version
        return version
