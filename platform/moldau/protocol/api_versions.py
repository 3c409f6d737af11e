"""Answers ApiVersions: what a listener serves and which features the cluster has. No IO.

    welcome = Welcome(advertised_versions("broker"), supported={"kraft.version": Versions(0, 1)})
    welcome.answer(request, version, Finalized(epoch=17, levels={"kraft.version": 1}))

`Welcome` is what the code can do and stays; `Finalized` is what the cluster has agreed on and comes
with each request. Three rules are Kafka's:

* A feature that may be at level 0 is told from version 4 on only: older clients cannot read a
  range that begins there (KAFKA-17492). A feature that is at level 0 is not finalized.
* From version 3 on a client says what software it is (KIP-511). The words go into metrics and
  logs, so a request whose words have other characters is INVALID_REQUEST, and learns nothing else.
* A version that is not served is not decoded at all, and not answered here:
  `ServerConnection.answer_unsupported_api_versions` does that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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

_SOFTWARE_SINCE = 3
_LEVEL_0_SINCE = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Finalized:
    """The level that each feature has in the cluster, as of an epoch of the metadata."""

    epoch: int = UNKNOWN_EPOCH
    levels: Mapping[str, int] = field(default_factory=dict)


NOTHING_FINALIZED = Finalized()


class Welcome:
    """A listener's answer to ApiVersions: `advertised` by API key, `supported` levels by
    feature. Which APIs are in it is the caller's decision: telemetry may be switched off."""

    def __init__(
        self, advertised: Mapping[int, Versions], supported: Mapping[str, Versions] | None = None
    ) -> None:
        self._api_keys = [
            ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
            for key, versions in sorted(advertised.items())
        ]
        self._features = [
            SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
            for name, levels in sorted((supported or {}).items())
        ]

    def answer(
        self,
        request: ApiVersionsRequest,
        version: int,
        finalized: Finalized = NOTHING_FINALIZED,
        *,
        throttle_time_ms: int = 0,
    ) -> ApiVersionsResponse:
        """The answer to a request that came in `version`, to be encoded in the same one."""
        if not is_valid(request, version):
            return ApiVersionsResponse(
                error_code=ErrorCode.INVALID_REQUEST, api_keys=[], throttle_time_ms=throttle_time_ms
            )
        return ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=self._api_keys,
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


def is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Whether the client names its software as KIP-511 allows; it does so from version 3 on."""
    if version < _SOFTWARE_SINCE:
        return True
    words = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(word) is not None for word in words)
