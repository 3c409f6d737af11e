"""The cluster as clients of one listener see it: reachable brokers, and leaders.

A broker has an address for each of its listeners, and a client gets only the address of the
listener that it uses. So a leader without that listener is no leader for this client, and a replica
without it is offline. This broker's addresses are the ones that it advertises now; the addresses of
other brokers are the registered ones.

A view is created for one response and then dropped: it caches its lookups, and the image changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.controller.topics import NO_LEADER, Partition
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.controller.brokers import Broker
    from moldau.broker.controller.image import Image
    from moldau.ids import Uuid

NOBODY: Final = -1


class Address(NamedTuple):
    """A broker's address on one listener."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this broker: its id, its cluster, and its own addresses by listener."""

    node_id: int
    cluster_id: str
    endpoints: Mapping[str, tuple[str, int]]


class ListenerView:
    """The cluster as clients of one listener see it; see the module."""

    __slots__ = ("_addresses", "_identity", "_lately_fenced", "_offline", "image", "listener")

    def __init__(
        self,
        image: Image,
        identity: Identity,
        listener: str,
        lately_fenced: Collection[int] = (),
    ) -> None:
        self._lately_fenced = lately_fenced
        self.image = image
        self.listener = listener
        self._identity = identity
        self._addresses: dict[int, Address | None] = {}
        self._offline: dict[tuple[tuple[int, ...], tuple[Uuid, ...]], list[int]] = {}
        """The offline replicas by the brokers and directories of a partition, which many
        partitions have in common."""

    @classmethod
    def of(cls, node: Node, request: ApiRequest) -> ListenerView:
        """Return the current view for the client that sent the request."""
        identity = Identity(node.node_id, node.cluster_id, node.endpoints)
        lately_fenced = node.lost_brokers.lately_fenced(node.now_ms())
        return cls(node.image, identity, request.connection.listener, lately_fenced)

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._identity.cluster_id

    def address(self, broker_id: int) -> Address | None:
        """Return the broker's address, fenced or not; None if it has no such listener."""
        try:
            return self._addresses[broker_id]
        except KeyError:
            found = self._addresses[broker_id] = self._look_up(broker_id)
            return found

    def _look_up(self, broker_id: int) -> Address | None:
        broker = self.image.brokers.by_id.get(broker_id)
        if broker is None:
            return None
        at = self._endpoint(broker)
        return None if at is None else Address(broker_id, *at, broker.rack, broker.is_fenced)

    def _endpoint(self, broker: Broker) -> tuple[str, int] | None:
        if broker.broker_id == self._identity.node_id and self._identity.endpoints:
            return self._identity.endpoints.get(self.listener)
        for each in broker.endpoints:
            if each.name == self.listener:
                return each.host, each.port
        return None

    def addresses(
        self, *, with_fenced: bool = False, with_lately_fenced: bool = False
    ) -> list[Address]:
        """Return the addresses of all brokers that are reachable through the listener, by id."""
        also = self._lately_fenced if with_lately_fenced else ()
        found = map(self.address, sorted(self.image.brokers.by_id))
        return [
            each
            for each in found
            if each is not None and (with_fenced or not each.is_fenced or each.broker_id in also)
        ]

    def controller_id(self) -> int:
        """Return the broker that clients use as the controller: it forwards requests to the real
        one.

        Kafka names a random broker, to spread the load. The load spreads as well if each broker
        names itself, and this saves a connection.
        """
        alive = [each.broker_id for each in self.addresses()]
        if self._identity.node_id in alive:
            return self._identity.node_id
        return alive[0] if alive else NOBODY

    def leader(self, partition: Partition) -> int:
        """Return the leader if it can be reached, else NO_LEADER."""
        return NO_LEADER if self.address(partition.leader) is None else partition.leader

    def reachable(self, broker_ids: Iterable[int]) -> list[int]:
        """Return the given brokers that are alive and can be reached."""
        found = ((each, self.address(each)) for each in broker_ids)
        return [each for each, at in found if at is not None and not at.is_fenced]

    def offline_replicas(self, partition: Partition) -> list[int]:
        """Return the replicas that cannot serve clients of this listener: they are unreachable, or
        in a failed directory."""
        placed = partition.replicas, partition.directories
        found = self._offline.get(placed)
        if found is None:
            found = [each for each in partition.replicas if not self._is_online(partition, each)]
            self._offline[placed] = found
        return found

    def _is_online(self, partition: Partition, broker_id: int) -> bool:
        at = self.address(broker_id)
        if at is None or at.is_fenced:
            return False
        broker = self.image.brokers.by_id[broker_id]
        return broker.has_online(partition.directory_of(broker_id))
