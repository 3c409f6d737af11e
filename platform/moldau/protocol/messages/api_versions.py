"""Says which APIs and versions a broker speaks; the first request on a connection.

The response header stays at version 0 for good, and a request of an unknown version is answered
in version 0 with error 35, so that two strangers can always find common ground (KIP-511).
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int16, Int32, Int64, String


class ApiVersionsRequest(
    Request, key=18, versions="0-5", flexible="3+", listeners=("broker", "controller")
):
    """Asks; from version 3 on the client also says what software it is, and from version 5 on which
    broker of which cluster it means (KIP-1242): both or neither."""

    client_software_name: String = field(since=3, default="", ignorable=True)
    client_software_version: String = field(since=3, default="", ignorable=True)
    cluster_id: String | None = field(since=5, default=None, ignorable=True)
    node_id: Int32 = field(since=5, default=-1, ignorable=True)


class ApiVersion(Struct):
    """The versions of one API that this listener serves, both ends included."""

    api_key: Int16 = field(map_key=True)
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    """A feature and the levels that this broker could run at."""

    name: String = field(map_key=True)
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    """A feature and the level that the cluster has agreed on."""

    name: String = field(map_key=True)
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Response, key=18, versions="0-5", flexible="3+"):
    """A range for every API, and the features of the cluster."""

    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(
        since=3, tag=0, default_factory=list, ignorable=True
    )
    # KIP-584: -1 where the broker does not know yet
    finalized_features_epoch: Int64 = field(since=3, tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(
        since=3, tag=2, default_factory=list, ignorable=True
    )
    zk_migration_ready: Bool = field(since=3, tag=3, default=False, ignorable=True)
