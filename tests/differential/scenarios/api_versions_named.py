"""The broker that a client means by its address (KIP-1242): the right one, another one, or half.

Apache Kafka 4.4 is asked: its version of ApiVersions is served. What is kept is the error, and
whether APIs come with it; `administration` has the APIs.
"""

from __future__ import annotations

from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.differential.talk import Talk

_NAMED = 5


async def scenario(talk: Talk) -> None:
    (broker,) = (await talk.send(MetadataRequest(topics=[]), MetadataResponse)).brokers
    cluster, node = talk.peer.cluster_id, broker.node_id
    for label, named in {
        "no broker": (None, -1),
        "the broker": (cluster, node),
        "another node": (cluster, node + 1),
        "another cluster": ("another", node),
        "another cluster and node": ("another", node + 1),
        "a cluster without a name": ("", node),
        "a negative node": (cluster, -2),
        "a cluster alone": (cluster, -1),
        "another cluster alone": ("another", -1),
        "a node alone": (None, node),
        "another node alone": (None, node + 1),
    }.items():
        talk.note(label, await _answer(talk, *named))
    await talk.ask("a broker of another cluster", _named("another", 1), _NAMED)
    talk.note("another cluster and odd software", await _answer(talk, "another", node, "b ad"))
    talk.note("another cluster in version 4", await _answer(talk, "another", node, version=4))


async def _answer(
    talk: Talk, cluster: str | None, node: int, software: str = "test", version: int = _NAMED
) -> dict[str, object]:
    answer = await talk.send(_named(cluster, node, software), ApiVersionsResponse, version)
    return {"error_code": answer.error_code, "has_apis": bool(answer.api_keys)}


def _named(cluster: str | None, node: int, software: str = "test") -> ApiVersionsRequest:
    return ApiVersionsRequest(
        client_software_name=software,
        client_software_version="1",
        cluster_id=cluster,
        node_id=node,
    )
