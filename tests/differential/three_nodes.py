"""Three of our brokers that scenarios are played to: the answers shall be those of one Kafka.

Each request goes to the broker that a client would ask: the coordinator of its kind, or the leader
of all topics, `b1`. So what one node decides alone takes requests between nodes here: a transaction
begins and ends on another node than its partitions have their leader, and what a coordinator writes
is committed when two followers have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.testing.simulated_cluster import CLUSTER_ID, PORT, SimulatedCluster
from tests.differential.comparison import OnPurpose
from tests.differential.peers import SETTINGS, SETTLING_S, Scenario
from tests.differential.talk import Line, Peer, Talk

NODES: Final = (1, 2, 3)
_HOST: Final = "10.0.0.{}"
_NAMES: Final[frozenset[object]] = frozenset((*NODES, *(f"b{each}" for each in NODES)))
OF_THREE: Final = (
    OnPurpose(
        "A coordinator is on another node than the broker that is asked.",
        "The recorded answers are of one broker.",
        "Groups",
        ("coordinators/*",),
        ("node_id", "host", "coordinators.node_id", "coordinators.host"),
        ours=lambda difference: difference.ours in _NAMES,
    ),
)
"""What shall differ because there are three nodes."""
_WITHIN_S: Final = 3_600
_SETTINGS: Final = {
    **SETTINGS,
    "share.coordinator.state.topic.num.partitions": "1",
    "log.index.size.max.bytes": "65536",
}
_BY_TOPIC: Final[Mapping[str, frozenset[int]]] = {
    "__consumer_offsets": frozenset(
        (8, 9, 11, 12, 13, 14, 15, 16, 28, 42, 47, 68, 69, 76, 77, 88, 89, 90, 91, 92, 93)
    ),
    "__transaction_state": frozenset((22, 24, 25, 26, 65, 66)),
    "__share_group_state": frozenset((83, 84, 85, 86, 87)),
}
"""The topic of a coordinator, and the keys of the APIs that are asked there."""


@dataclass(slots=True)
class ClusterPeer(Peer):
    """The cluster. It is neither stopped nor started again."""

    cluster: SimulatedCluster | None = None

    def line(self) -> Line:
        return _ClusterLine(self)

    def at(self, request: Request) -> Peer:
        """The broker to ask. Its topics may not be there yet: then any broker says so."""
        assert self.cluster is not None
        key = type(request).spec.key
        topic = next((topic for topic, keys in _BY_TOPIC.items() if key in keys), None)
        leader = 1 if topic is None else max(1, self.cluster.leader_of(topic))
        return replace(self, host=_HOST.format(leader))


class _ClusterLine(Line):
    """A connection to each broker; an answer comes from the one that was asked last."""

    def __init__(self, peer: ClusterPeer) -> None:
        self._cluster = peer
        super().__init__(peer)
        self._lines: dict[str, Line] = {}
        self._last: Line = self

    async def send(self, request: Request, version: int, *, is_answered: bool = True) -> None:
        peer = self._cluster.at(request)
        self._last = self._lines.setdefault(peer.host, Line(peer))
        await self._last.send(_led_by_first(request), version, is_answered=is_answered)

    async def receive(self, patience_s: float = 10.0) -> Response | str:
        return await self._last.receive(patience_s)

    async def closed(self, patience_s: float) -> bool:
        return await self._last.closed(patience_s)

    def close(self) -> None:
        for each in self._lines.values():
            each.close()


def _led_by_first(request: Request) -> Request:
    """New topics have a replica on each broker, and are led by the first."""
    if not isinstance(request, CreateTopicsRequest):
        return request
    led = copy(request)
    led.topics = [_replicated(each) for each in request.topics]
    return led


def _replicated(topic: CreatableTopic) -> CreatableTopic:
    if topic.assignments or topic.num_partitions < 1 or topic.replication_factor not in (-1, 1):
        return topic
    placed = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(NODES))
        for index in range(topic.num_partitions)
    ]
    placed_topic = copy(topic)
    placed_topic.num_partitions = placed_topic.replication_factor = -1
    placed_topic.assignments = placed
    return placed_topic


def talk_to_three(scenario: Scenario, settings: Mapping[str, str], seed: int = 1) -> Talk:
    """Play the scenario to three brokers in a world in which nothing goes wrong."""

    async def refuse() -> None:
        raise AssertionError("a scenario that stops its broker is for one")

    with Simulation(seed) as world:
        cluster = SimulatedCluster(world, len(NODES), settings={**_SETTINGS, **settings})
        cluster.await_up()

        async def main(runtime: Runtime) -> Talk:
            first = _HOST.format(NODES[0])
            stops = (refuse, refuse, SETTLING_S)
            peer = ClusterPeer(runtime, first, PORT, "/data", CLUSTER_ID, *stops, cluster)
            talk = Talk(peer)
            talk.symbols.call_text(_HOST.format(len(NODES) + 1), "<host>")  # the client's
            try:
                await scenario(talk)
            finally:
                talk.close()
            return talk

        return cluster.run(main, within=_WITHIN_S)
