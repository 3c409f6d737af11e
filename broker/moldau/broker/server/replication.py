"""Replication on this node: connections to other brokers, fetchers, and ISR changes.

Invariant: the addresses of other brokers are those of their inter-broker listener in the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.replication.fetcher import FetcherServices, FetchSettings, ReplicaFetchers
from moldau.broker.server.isr_changes import IsrChanges
from moldau.broker.server.security import to_brokers
from moldau.broker.settings import read_listeners, tiered
from moldau.broker.settings import replication as rows
from moldau.broker.tiered.rebuild import SegmentHistory
from moldau.link import Address, ConnectionOptions, Peers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moldau.broker.api.node import Node
    from moldau.broker.controller.image import Image
    from moldau.broker.replication.partition import Partition
    from moldau.broker.tiered.rebuild import RemoteHistory
    from moldau.config import Settings
    from moldau.logging import Logger


class Replication:
    """The connections, fetchers and ISR changes of this broker, from start to exit."""

    def __init__(self, node: Node, log: Logger) -> None:
        self._node = node
        self._fenced: frozenset[int] | None = None
        """The brokers that the last image had fenced; None before the first one."""
        timeout_s = node.settings[rows.replica_socket_timeout_ms] / 1000
        self.peers = Peers(
            node.runtime,
            ConnectionOptions(
                client_id=f"broker-{node.node_id}",
                request_timeout_s=timeout_s,
                security=to_brokers(node.settings, node.runtime),
            ),
            on_lost=self._on_lost,
            on_opened=self._on_opened,
        )
        self._fetchers = ReplicaFetchers(
            FetcherServices(
                node.runtime,
                self.peers,
                node.node_id,
                lambda: node.broker_epoch,
                lambda: fetch_terms(node.settings),
                lambda: node.replicas.quotas.fetched,
                lambda: _watch_room(node),
                log,
                _remote_history,
            )
        )
        self._isr = IsrChanges(node, log)
        node.peers = self.peers
        node.replicas.on_followed = self._fetchers.follow
        node.replicas.on_unfollowed = self._fetchers.unfollow
        node.on_follower_caught_up = self._isr.on_caught_up

    def update(self, image: Image) -> None:
        """Use the addresses of the brokers in the image. Requests to a broker that has been fenced
        since the last image fail at once: one that died with its machine answers none of them, and
        each would wait for its own time."""
        name = read_listeners(self._node.settings).inter_broker
        addresses = {
            broker.broker_id: Address(at.host, at.port)
            for broker in image.brokers.by_id.values()
            if broker.broker_id != self._node.node_id
            for at in broker.endpoints
            if at.name == name
        }
        fenced = frozenset(
            broker.broker_id for broker in image.brokers.by_id.values() if broker.is_fenced
        )
        known, self._fenced = self._fenced, fenced
        if known is not None and fenced - known:
            self._on_fenced(fenced - known)
        if addresses != self.peers.addresses:
            self.peers.update(addresses)

    def _on_fenced(self, brokers: Iterable[int]) -> None:
        node = self._node
        for each in brokers:
            self.peers.hang_up_all(each)
            node.lost_brokers.on_fenced(each, node.now_ms())
        node.replicas.purgatory.moved(node.lost_brokers)

    def _on_lost(self, broker_id: int) -> None:
        self._node.lost_brokers.on_lost(broker_id, self._node.now_ms())

    def _on_opened(self, broker_id: int) -> None:
        node = self._node
        if node.lost_brokers.on_connected(broker_id):
            node.replicas.purgatory.moved(node.lost_brokers)

    def live(self) -> None:
        """Start to fetch: the broker is registered."""
        self._fetchers.start()
        self._isr.live()

    async def aclose(self) -> None:
        """Stop fetching, and close the connections."""
        await self._isr.aclose()
        await self._fetchers.aclose()
        await self.peers.aclose()


def fetch_terms(settings: Settings) -> FetchSettings:
    """Return the settings for fetching as a follower, as `FetchTerms`."""
    return FetchSettings(
        min_bytes=settings[rows.replica_fetch_min_bytes],
        wait_ms_max=settings[rows.replica_fetch_wait_max_ms],
        bytes_max=settings[rows.replica_fetch_response_max_bytes],
        partition_bytes_max=settings[rows.replica_fetch_max_bytes],
        backoff_ms=settings[rows.replica_fetch_backoff_ms],
        timeout_ms=settings[rows.replica_socket_timeout_ms],
        is_remote_skipped=settings[tiered.follower_fetch_last_tiered_offset_enable],
    )


def _remote_history(partition: Partition) -> RemoteHistory | None:
    """Return the remote records of a partition; None if it has none, or not yet."""
    part = partition.remote_part
    return None if part is None else SegmentHistory(part, partition.traffic.remote)


def _watch_room(node: Node) -> None:
    """Measure the room on the disks if one may be nearly full, and the last measure is old."""
    if node.directories.is_room_watched:
        node.directories.watch_room(node.runtime.clock.wall_ms())
