"""Clusters as an admin client would see them, for decisions about failures and restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client.admin.cluster import ClusterDescription, Quorum, QuorumReplica
from moldau.link.addresses import Address
from moldau.link.metadata import Broker, Partition, Topic
from moldau.operations.availability import SeenCluster

NOW_MS = 1_000_000


def broker(node_id: int, rack: str | None = None) -> Broker:
    return Broker(node_id, Address(f"b{node_id}", 9092), rack)


def partition(
    index: int, replicas: Sequence[int], isr: Sequence[int] | None = None, leader: int | None = None
) -> Partition:
    in_sync = tuple(replicas if isr is None else isr)
    leads = (in_sync[0] if in_sync else -1) if leader is None else leader
    return Partition(index, leads, 1, tuple(replicas), in_sync)


def topic(name: str, *partitions: Partition) -> Topic:
    return Topic(name, bytes(16), partitions)


def quorum(
    leader: int, voters: Sequence[int], *, silent: Sequence[int] = (), behind: Sequence[int] = ()
) -> Quorum:
    """Voters that fetched now; the silent ones a minute ago, and some have read too little."""

    def of(node_id: int) -> QuorumReplica:
        fetched_ms = NOW_MS - 60_000 if node_id in silent else NOW_MS
        if node_id in behind:
            return QuorumReplica(node_id, 50, fetched_ms, NOW_MS - 60_000)
        return QuorumReplica(node_id, 100, fetched_ms, fetched_ms)

    return Quorum(leader, 1, 100, tuple(map(of, voters)), ())


def seen(
    topics: Sequence[Topic],
    metadata: Quorum | None = None,
    *,
    brokers: Sequence[Broker] | None = None,
    fenced: Sequence[Broker] = (),
    min_insync: Mapping[str, int] | None = None,
) -> SeenCluster:
    alive = tuple(map(broker, (1, 2, 3)) if brokers is None else brokers)
    described = ClusterDescription("c", 1, alive, tuple(fenced))
    floors = {each.name: 2 for each in topics} | dict(min_insync or {})
    return SeenCluster(described, topics, floors, metadata or quorum(1, (1, 2, 3)))
