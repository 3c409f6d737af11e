"""Raises or lowers the finalized levels of cluster features (KIP-584)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int8, Int16, Int32, String


class FeatureUpdateKey(Struct):
    """One feature and its new level."""

    feature: String = field(map_key=True)
    max_version_level: Int16
    allow_downgrade: Bool = field(until=0, default=False)
    # KIP-778: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade
    upgrade_type: Int8 = field(since=1, default=1)


class UpdateFeaturesRequest(
    Request, key=57, versions="0-2", flexible="0+", listeners=("broker", "controller")
):
    """The wanted levels; level 0 takes the feature away."""

    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field(since=1, default=False)


class UpdatableFeatureResult(Struct):
    """The outcome for one feature."""

    feature: String = field(map_key=True)
    error_code: Int16
    error_message: String | None


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    """Whether the levels took effect."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    # from version 2 on the request succeeds or fails as a whole
    results: list[UpdatableFeatureResult] = field(until=1, default_factory=list, ignorable=True)
