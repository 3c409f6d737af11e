"""DescribeTopicPartitions: pages, cursors, limits. Answers are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.broker.api.authorized_operations import ALL_OF_TOPIC
from moldau.protocol.acl_operations import NOT_ASKED
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from moldau.protocol.schemas.metadata_log import RemoveTopicRecord
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import topic

Page = tuple[list[tuple[str | None, int, list[int]]], tuple[str, int] | None]
WHOLE = 2000


@pytest.fixture
def broker() -> Administered:
    administered = Administered(1)
    administered.cluster.create(topic("t", 2), topic("a.b"), topic("__consumer_offsets", 3))
    return administered


def describe(
    broker: Administered,
    *names: str,
    limit: int = WHOLE,
    cursor: tuple[str, int] | None = None,
) -> DescribeTopicPartitionsResponse:
    at = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=each) for each in names],
        response_partition_limit=limit,
        cursor=at,
    )
    return broker.ask(request, DescribeTopicPartitionsResponse)


def page(response: DescribeTopicPartitionsResponse) -> Page:
    """Topics with their codes and partitions, and where the next page begins."""
    cursor = response.next_cursor
    return (
        [
            (each.name, each.error_code, [one.partition_index for one in each.partitions])
            for each in response.topics
        ],
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


OFFSETS = ("__consumer_offsets", 0, [0, 1, 2])


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        ((), WHOLE, None, ([OFFSETS, ("a.b", 0, [0]), ("t", 0, [0, 1])], None)),
        ((), 4, None, ([OFFSETS, ("a.b", 0, [0])], ("t", 0))),
        ((), 3, None, ([OFFSETS], ("a.b", 0))),
        ((), WHOLE, ("s", 1), ([("t", 0, [0, 1])], None)),
        ((), WHOLE, ("u", 0), ([], None)),
        (("t", "a.b"), 1, None, ([("a.b", 0, [0])], ("t", 0))),
        (("t", "a.b"), 2, None, ([("a.b", 0, [0]), ("t", 0, [0])], ("t", 1))),
        (("t", "a.b"), 3, None, ([("a.b", 0, [0]), ("t", 0, [0, 1])], None)),
        (("t", "a.b"), 0, None, ([("a.b", 0, [0])], ("t", 0))),
        (("t", "a.b"), -1, None, ([("a.b", 0, [0])], ("t", 0))),
        (("t", "t"), WHOLE, None, ([("t", 0, [0, 1])], None)),
        (("t",), WHOLE, ("t", 1), ([("t", 0, [1])], None)),
        (("t",), WHOLE, ("t", 5), ([("t", 0, [])], None)),
        (("t",), WHOLE, ("t", -1), ([("t", 42, [])], None)),
        (("t", "a.b"), WHOLE, ("b", 0), ([("t", 42, []), ("a.b", 42, [])], None)),
        (("no0", "no1", "t"), 1, None, ([("no0", 3, []), ("no1", 3, []), ("t", 0, [0])], ("t", 1))),
        (("no0", "no1", "t"), WHOLE, ("no1", 0), ([("no1", 3, []), ("t", 0, [0, 1])], None)),
        (("t", "zz"), 2, None, ([("t", 0, [0, 1])], ("zz", 0))),
        (("b ad",), WHOLE, None, ([("b ad", 17, [])], None)),
    ],
)
def test_pages(
    broker: Administered,
    names: tuple[str, ...],
    limit: int,
    cursor: tuple[str, int] | None,
    expected: Page,
) -> None:
    assert page(describe(broker, *names, limit=limit, cursor=cursor)) == expected


@pytest.mark.parametrize("limit", range(1, 8))
def test_all_pages_together_are_the_whole(broker: Administered, limit: int) -> None:
    found: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = ("", 0)
    while cursor is not None:
        topics, cursor = page(describe(broker, limit=limit, cursor=cursor))
        told = [(name, each) for name, _, numbers in topics for each in numbers]
        assert 1 <= len(told) <= limit
        found += told
    assert found == [
        (OFFSETS[0], 0),
        (OFFSETS[0], 1),
        (OFFSETS[0], 2),
        ("a.b", 0),
        ("t", 0),
        ("t", 1),
    ]


def test_topics_that_come_and_go_between_two_pages_are_on_the_next_or_not(
    broker: Administered,
) -> None:
    cursor = page(describe(broker, limit=4))[1]
    assert cursor == ("t", 0)
    broker.cluster.create(topic("b"), topic("u"))
    assert page(describe(broker, cursor=cursor)) == ([("t", 0, [0, 1]), ("u", 0, [0])], None)
    gone = broker.cluster.image.topics.by_name("t")
    assert gone is not None
    broker.cluster.append([RemoveTopicRecord(topic_id=gone.topic_id)])
    assert page(describe(broker, cursor=cursor)) == ([("u", 0, [0])], None)
    whole = page(describe(broker))[0]
    assert [name for name, _, _ in whole] == ["__consumer_offsets", "a.b", "b", "u"]


def test_the_broker_bounds_the_page_too() -> None:
    administered = Administered(1, max__request__partition__size__limit="2")
    administered.cluster.create(topic("t", 3))
    assert page(describe(administered)) == ([("t", 0, [0, 1])], ("t", 2))


def test_a_topic_is_told_with_its_id_and_operations(broker: Administered) -> None:
    known = broker.cluster.image.topics.by_name("__consumer_offsets")
    assert known is not None
    first, *_, missing = describe(broker, "__consumer_offsets", "a.b", "zz").topics
    assert (first.topic_id, first.is_internal) == (known.topic_id, True)
    assert first.topic_authorized_operations == ALL_OF_TOPIC
    assert missing.topic_authorized_operations == ALL_OF_TOPIC
    (refused,) = describe(broker, "t", cursor=("t", -1)).topics
    assert refused.topic_authorized_operations == NOT_ASKED


def test_eligible_leaders_are_told_when_the_isr_is_too_small() -> None:
    administered = Administered(1, 2)
    administered.cluster.create(
        topic("t", placed={0: [2, 1]}, configs={"min.insync.replicas": "2"})
    )
    administered.cluster.beat(2, want_fence=True)
    (one,) = describe(administered, "t").topics[0].partitions
    assert (one.leader_id, one.leader_epoch, one.isr_nodes) == (1, 1, [1])
    assert (one.eligible_leader_replicas, one.last_known_elr) == ([2], [])
    assert one.offline_replicas == [2]
    administered.cluster.beat(1, want_fence=True)
    (one,) = describe(administered, "t").topics[0].partitions
    assert (one.error_code, one.leader_id, one.isr_nodes) == (0, -1, [])
    assert (one.eligible_leader_replicas, one.last_known_elr) == ([2, 1], [1])
