"""Answers ApiVersions: the APIs of a listener, and the features of the cluster. No IO.

    welcome = Welcome(advertised_versions("broker"), supported={"kraft.version": Versions(0, 1)})
    welcome.answer(request, version, FinalizedFeatures(epoch=17, levels={"kraft.version": 1}))

`Welcome` has what the code supports and does not change; `FinalizedFeatures` has the levels that
the cluster agreed on, and is passed with each request. Three rules are Kafka's:

* A feature that may be at level 0 is reported only from version 4 on: older clients cannot read a
  range that begins there (KAFKA-17492). A feature that is at level 0 is not finalized.
* From version 3 on a client sends its software's name and version (KIP-511). They are used in
  metrics and logs, so other characters make the request an INVALID_REQUEST, with no other answer.
* From version 5 on a client that knows it names the broker that it means, by the ids of cluster and
  node (KIP-1242). One without the other is an INVALID_REQUEST.
* A version that is not served is not decoded at all, and not answered here:
  `ServerConnection.answer_unsupported_api_versions` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from moldau.protocol.versions import Versions

UNKNOWN_EPOCH = -1
UNKNOWN_NODE = -1
IDENTITY_SINCE = 5
"""The first version in which a client names the broker that it means."""
SOFTWARE = "moldau"
"""The software name of moldau's own clients."""

_SOFTWARE_SINCE = 3
_LEVEL_0_SINCE = 4
_SOFTWARE = deferred_pattern(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The level of each feature in the cluster, as of an epoch of the metadata."""

    epoch: int = UNKNOWN_EPOCH
    levels: Mapping[str, int] = field(default_factory=dict)


NOTHING_FINALIZED = FinalizedFeatures()


class Welcome:
    """Answers ApiVersions for a listener, with versions by API key and supported levels by feature.
    The caller decides which APIs are included: telemetry may be switched off."""

    def __init__(
        self,
        advertised: Mapping[int, Versions],
        supported: Mapping[str, Versions] | None = None,
        own: Mapping[int, Versions] | None = None,
    ) -> None:
        """`own`: the APIs that only moldau's own clients are told of."""
        self._api_keys = _rows(advertised)
        self._own_keys = [*self._api_keys, *_rows(own or {})]
        self._features = [
            SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
            for name, levels in sorted((supported or {}).items())
        ]

    def answer(
        self,
        request: ApiVersionsRequest,
        version: int,
        finalized: FinalizedFeatures = NOTHING_FINALIZED,
        *,
        throttle_time_ms: int = 0,
    ) -> ApiVersionsResponse:
        """Return the response to a request in `version`; encode it in the same version."""
        if not is_valid(request, version):
            return ApiVersionsResponse(
                error_code=ErrorCode.INVALID_REQUEST, api_keys=[], throttle_time_ms=throttle_time_ms
            )
        is_own = version >= _SOFTWARE_SINCE and request.client_software_name == SOFTWARE
        return ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=self._own_keys if is_own else self._api_keys,
            throttle_time_ms=throttle_time_ms,
            supported_features=[
                feature
                for feature in self._features
                if feature.min_version > 0 or version >= _LEVEL_0_SINCE
            ],
            finalized_features_epoch=finalized.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(finalized.levels.items())
                if level != 0
            ],
        )


def _rows(versions: Mapping[int, Versions]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=each.first, max_version=each.last)
        for key, each in sorted(versions.items())
    ]


def is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Whether the client's software name and version, from version 3 on, follow KIP-511, and it
    names both a cluster and a node or neither, from version 5 on."""
    if version < _SOFTWARE_SINCE:
        return True
    names_cluster, names_node = request.cluster_id is not None, request.node_id != UNKNOWN_NODE
    if version >= IDENTITY_SINCE and names_cluster != names_node:
        return False
    words = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(word) is not None for word in words)
