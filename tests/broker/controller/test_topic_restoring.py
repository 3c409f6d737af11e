"""The producer ids of a cluster into which topics are restored."""

from __future__ import annotations

from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.protocol.messages.restore_topic import (
    RESTORING,
    RestoreTopicRequest,
    RestoreTopicResponse,
)
from moldau.protocol.schemas.metadata_log import ConfigRecord
from tests.broker.controller.cluster import Cluster


def restore(cluster: Cluster, producer_id_end: int) -> int:
    """Restore a topic, and return the end of the ids that were given out before."""
    request = RestoreTopicRequest(
        name="old",
        topic_id=bytes(range(16)),
        replication_factor=1,
        leader_epochs=[4],
        configs=[],
        producer_id_end=producer_id_end,
        backup="backup",
        timeout_ms=5000,
    )
    return cluster.ask(request, RestoreTopicResponse).next_producer_id


def ends(cluster: Cluster) -> tuple[int, int]:
    """The next id of the cluster, and the end of those that brokers drop."""
    ids = cluster.image.producer_ids
    return ids.next_id, ids.restored_end


def test_blocks_that_brokers_hold_are_dropped_and_the_client_is_told_of_them() -> None:
    cluster = Cluster(1)
    allocate = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epochs[1])
    assert cluster.ask(allocate, AllocateProducerIdsResponse).producer_id_start == 0
    assert restore(cluster, 5) == 1000
    assert ends(cluster) == (1000, 1000)
    assert cluster.ask(allocate, AllocateProducerIdsResponse).producer_id_start == 1000


def test_ids_are_raised_until_the_topic_is_whole() -> None:
    cluster = Cluster(1)
    assert restore(cluster, 0) == 0
    assert ends(cluster) == (0, 0)
    assert restore(cluster, 7) == 0
    assert restore(cluster, 9) == 7
    assert ends(cluster) == (9, 9)
    mark = ConfigRecord(resource_type=2, resource_name="old", name=RESTORING, value=None)
    cluster.append([mark])
    assert restore(cluster, 20) == 9
    assert ends(cluster) == (9, 9)
