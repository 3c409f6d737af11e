"""Which things a run of metadata records touches: those that are looked at again, and no others."""

from __future__ import annotations

from moldau.broker.controller.configs import Resource, ResourceType
from moldau.broker.controller.image import Image
from moldau.broker.server.publishing import Changes, RemovedTopic
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ORDERS, RETURNS = b"o" * 16, b"r" * 16


def partition(topic_id: bytes, index: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )


def touched(image: Image, *records: MetadataRecord) -> Changes:
    changes = Changes()
    changes.replay(image, records)
    return changes


def with_orders() -> Image:
    image = Image()
    touched(
        image,
        TopicRecord(name="orders", topic_id=ORDERS),
        partition(ORDERS, 0),
        partition(ORDERS, 1),
    )
    return image


def test_a_new_partition_is_new_also_when_it_changes_at_once() -> None:
    image = with_orders()
    changes = touched(
        image,
        TopicRecord(name="returns", topic_id=RETURNS),
        partition(RETURNS),
        PartitionChangeRecord(partition_id=0, topic_id=RETURNS, leader=1),
        PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=1),
    )

    assert changes.partitions == {(RETURNS, 0): True, (ORDERS, 1): False}


def test_a_removed_topic_is_told_with_what_it_had() -> None:
    changes = touched(with_orders(), RemoveTopicRecord(topic_id=ORDERS))

    assert changes.removed == [RemovedTopic("orders", ORDERS, (0, 1))]


def test_settings_are_told_by_resource() -> None:
    record = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="orders", name="a", value="1"
    )
    changes = touched(with_orders(), record, record)

    assert list(changes.resources) == [Resource(ResourceType.TOPIC, "orders")]


def test_an_aborted_removal_leaves_the_topic() -> None:
    image = with_orders()
    changes = touched(
        image,
        BeginTransactionRecord(name=None),
        RemoveTopicRecord(topic_id=ORDERS),
        AbortTransactionRecord(reason=None),
    )

    assert [each.topic_id for each in changes.removed] == [ORDERS]
    assert ORDERS in image.topics.by_id, "so whoever applies the changes passes over it"


def test_a_transaction_counts_as_one_run() -> None:
    image = with_orders()
    changes = touched(image, BeginTransactionRecord(name=None), RemoveTopicRecord(topic_id=ORDERS))
    assert image.is_in_transaction

    changes.replay(image, [EndTransactionRecord()])

    assert not image.topics.by_id
    assert len(changes.removed) == 1
