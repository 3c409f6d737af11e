"""ApiVersions: the APIs of this broker, and the finalized features of the cluster.

`moldau.protocol.api_versions` has the rules of the response; this module provides the data. A
request in an unknown version never gets here: the network layer answers it. A client that means
another broker than this one, because an address has another owner now, gets REBOOTSTRAP_REQUIRED
and nothing else (KIP-1242).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, cast

from moldau.broker.api.telemetry import KEYS
from moldau.broker.controller.levels import KRAFT_VERSION
from moldau.errors.codes import ErrorCode
from moldau.protocol.api_versions import IDENTITY_SINCE, FinalizedFeatures, Welcome, is_valid
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.negotiation import advertised_versions, own_versions

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest, Handler
    from moldau.broker.controller.image import Image
    from moldau.protocol.versions import Versions


def welcome(keys: Collection[int], features: Mapping[str, Versions]) -> Welcome:
    """Return the fixed part of the response of a broker that serves these APIs."""
    advertised = advertised_versions("broker")
    served = {key: versions for key, versions in advertised.items() if key in keys}
    own = {key: versions for key, versions in own_versions("broker").items() if key in keys}
    return Welcome(served, features, own)


def finalized(image: Image, metadata_offset: int, kraft_version: int) -> FinalizedFeatures:
    """Return the finalized features, as of the last record that is in `image`."""
    levels = dict(image.features.levels)
    if kraft_version:
        levels[KRAFT_VERSION] = kraft_version  # stored by the quorum, not in the metadata
    return FinalizedFeatures(metadata_offset - 1, levels)


def handler(keys: Callable[[], Collection[int]]) -> Handler:
    """Return a handler of ApiVersions for a table of APIs with these keys, its own included."""
    known: tuple[Mapping[str, Versions], bool, Welcome] | None = None

    def serve(node: Node, request: ApiRequest) -> None:
        nonlocal known
        is_told = node.telemetry.is_offered
        if known is None or known[0] is not node.features or known[1] is not is_told:
            offered = keys() if is_told else set(keys()) - KEYS
            known = node.features, is_told, welcome(offered, node.features)
        message = cast(ApiVersionsRequest, request.decode())
        software = message.client_software_name, message.client_software_version
        request.connection.software = software
        if _means_another(node, message, request.arrival.version):
            code = ErrorCode.REBOOTSTRAP_REQUIRED
            request.answer(ApiVersionsResponse(error_code=code, api_keys=[]))
            return
        state = finalized(node.image, node.metadata_offset, node.kraft_version())
        request.answer(known[2].answer(message, request.arrival.version, state))

    return serve


def _means_another(node: Node, message: ApiVersionsRequest, version: int) -> bool:
    """Whether a valid request names another broker, or one of another cluster."""
    if version < IDENTITY_SINCE or message.cluster_id is None or not is_valid(message, version):
        return False
    return (message.cluster_id, message.node_id) != (node.cluster_id, node.node_id)
