"""Topics: created, refused, deleted, grown. Codes are those that Apache Kafka 4.3.1 gave."""

from __future__ import annotations

from collections import Counter

import pytest

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import METADATA_TOPIC_ID, ZERO_UUID
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import CreatableTopic
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.runtime.files import OpenFiles
from tests.broker.controller.cluster import Cluster, topic

LONG = "a" * 249


def test_a_topic_is_there_with_its_partitions_on_the_only_broker() -> None:
    cluster = Cluster(1)
    (made,) = cluster.create(topic("orders", 3))
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
    found = cluster.image.topics.by_name("orders")
    assert found is not None
    assert found.topic_id == made.topic_id
    assert [(each.replicas, each.isr, each.leader) for each in found.partitions.values()] == [
        ((1,), (1,), 1)
    ] * 3
    directory = cluster.image.brokers.by_id[1].log_dirs[0]
    assert found.partitions[0].directories == (directory,)
    cluster.check_fold()


def preferred(cluster: Cluster) -> list[int]:
    found = Counter(each.replicas[0] for _, _, each in cluster.image.topics.all_partitions())
    return sorted(found.values())


@pytest.mark.parametrize("seed", range(10))
def test_small_topics_are_spread_over_all_brokers(seed: int) -> None:
    cluster = Cluster(1, 2, 3, seed=seed)
    for number in range(4):
        cluster.create(topic(f"one-{number}"))
    assert preferred(cluster) == [1, 1, 2]
    cluster.create(*(topic(f"other-{number}") for number in range(8)))  # in one request
    assert preferred(cluster) == [4, 4, 4]
    delete(cluster, *(f"other-{number}" for number in range(8)))
    cluster.create(topic("large", 6, 2))
    assert preferred(cluster) == [3, 3, 4]
    assert grow(cluster, ("one-0", 4, None)) == [0]
    assert preferred(cluster) == [4, 4, 5]


def test_the_answer_describes_the_settings_in_force() -> None:
    (made,) = Cluster(1).create(topic("orders", configs={"retention.ms": "7"}))
    assert made.configs is not None
    shown = {each.name: (each.value, each.config_source) for each in made.configs}
    assert shown["retention.ms"] == ("7", 1)
    assert shown["cleanup.policy"] == ("delete", 5)
    assert list(shown) == sorted(shown)
    assert len(shown) == 37


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("x y"), 17),
        (topic(""), 17),
        (topic("."), 17),
        (topic(".."), 17),
        (topic("a" * 250), 17),
        (topic("__cluster_metadata"), 42),
        (topic("t", 0), 37),
        (topic("t", -2), 37),
        (topic("t", 1, 0), 38),
        (topic("t", 1, 2), 38),
        (topic("t", 1, -2), 38),
        (topic("t", 0, 0), 38),
        (topic("t", placed={0: [1], 2: [1]}), 39),
        (topic("t", placed={1: [1]}), 39),
        (topic("t", placed={0: [2]}), 39),
        (topic("t", placed={0: [-5]}), 39),
        (topic("t", placed={0: [1, 1]}), 39),
        (topic("t", placed={0: []}), 39),
        (topic("t", configs={"nope": "1"}), 40),
        (topic("t", configs={"": "1"}), 40),
        (topic("t", configs={"retention.ms": "x"}), 40),
        (topic("t", configs={"retention.ms": None}), 40),
        (topic("t", configs={"cleanup.policy": "bad"}), 40),
        (topic("t", configs={"min.insync.replicas": "0"}), 40),
        (topic("t", configs={"compression.type": "ZSTD"}), 40),
        (topic("t", configs={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}), 40),
        (topic("t", configs={"remote.storage.enable": "true"}), 40),
        (topic(LONG), 0),
        (topic("t", -1, -1), 0),
        (topic("t", placed={0: [1], 1: [1]}), 0),
        (topic("t", configs={"cleanup.policy": "compact"}), 0),
    ],
)
def test_what_kafka_answers_to_one_topic(wanted: CreatableTopic, code: int) -> None:
    cluster = Cluster(1)
    before = len(cluster.log)
    (made,) = cluster.create(wanted)
    assert made.error_code == code
    assert (len(cluster.log) > before) == (code == 0)
    assert (made.error_message is None) == (code == 0)
    cluster.check_fold()


@pytest.mark.parametrize(("partitions", "factor"), [(1, -1), (-1, 1), (1, 1)])
def test_replicas_placed_by_hand_allow_no_counts(partitions: int, factor: int) -> None:
    wanted = topic("t", placed={0: [1]})
    wanted.num_partitions, wanted.replication_factor = partitions, factor
    (made,) = Cluster(1).create(wanted)
    assert made.error_code == ErrorCode.INVALID_REQUEST


def test_a_name_is_taken_once_and_metrics_can_tell_it_from_others() -> None:
    cluster = Cluster(1)
    assert [each.error_code for each in cluster.create(topic("a.b"))] == [0]
    codes = [each.error_code for each in cluster.create(topic("a.b"), topic("a_b"), topic("a-b"))]
    assert codes == [36, 17, 0]


def test_a_name_that_is_free_again_collides_no_more() -> None:
    cluster = Cluster(1)
    cluster.create(topic("a.b"))
    delete(cluster, "a.b")
    assert cluster.create(topic("a_b"))[0].error_code == 0


def test_a_topic_named_twice_fails_once_and_others_are_made() -> None:
    made = Cluster(1).create(topic("dup"), topic("dup", 2), topic("ok"))
    assert [(each.name, each.error_code) for each in made] == [("ok", 0), ("dup", 42)]


def test_validation_alone_writes_nothing() -> None:
    cluster = Cluster(1)
    before = list(cluster.log)
    assert cluster.create(topic("t", 3), validate_only=True)[0].num_partitions == 3
    assert cluster.log == before


def test_a_fenced_broker_follows_but_does_not_lead() -> None:
    cluster = Cluster(1)
    assert cluster.register(5).error_code == 0
    assert cluster.create(topic("f", 4, 2))[0].error_code == 0
    found = cluster.image.topics.by_name("f")
    assert found is not None
    for partition in found.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader) == ((1, 5), (1,), 1)
    assert cluster.create(topic("g", placed={0: [5]}))[0].error_code == 39


def test_nothing_is_made_while_nobody_lives() -> None:
    cluster = Cluster()
    assert cluster.create(topic("t"))[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def delete(cluster: Cluster, *wanted: str | bytes | None) -> list[DeletableTopicResult]:
    states = [
        DeleteTopicState(name=None, topic_id=each)
        if isinstance(each, bytes)
        else DeleteTopicState(name=each, topic_id=ZERO_UUID)
        for each in wanted
    ]
    request = DeleteTopicsRequest(topics=states, timeout_ms=1)
    return cluster.ask(request, DeleteTopicsResponse).responses


def test_a_topic_goes_with_its_settings() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t", configs={"retention.ms": "5"}))
    (gone,) = delete(cluster, "t")
    assert (gone.error_code, gone.name) == (0, "t")
    assert cluster.image.topics.by_name("t") is None
    assert not cluster.image.configs.of_topic("t")
    cluster.check_fold()


def test_a_topic_made_again_has_another_id() -> None:
    cluster = Cluster(1)
    (first,) = cluster.create(topic("t"))
    (gone,) = delete(cluster, first.topic_id)
    assert (gone.error_code, gone.name, gone.topic_id) == (0, "t", first.topic_id)
    (second,) = cluster.create(topic("t"))
    assert second.topic_id != first.topic_id


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ("nope", 3),
        ("", 3),
        ("__cluster_metadata", 3),
        (None, 42),
        (b"x" * 16, 100),
        (METADATA_TOPIC_ID, 100),
    ],
)
def test_what_is_not_there_cannot_be_deleted(wanted: str | bytes | None, code: int) -> None:
    assert [each.error_code for each in delete(Cluster(1), wanted)] == [code]


def test_named_twice_in_whatever_way_nothing_is_deleted() -> None:
    cluster = Cluster(1)
    (made,) = cluster.create(topic("t"))
    assert [each.error_code for each in delete(cluster, "t", "t")] == [42]
    assert [each.error_code for each in delete(cluster, "t", made.topic_id)] == [42, 42]
    assert cluster.image.topics.by_name("t") is not None
    both = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t", topic_id=made.topic_id)], timeout_ms=1
    )
    assert cluster.ask(both, DeleteTopicsResponse).responses[0].error_code == 42


def test_old_versions_delete_by_name() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t"))
    request = DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=1)
    answer = cluster.ask(request, DeleteTopicsResponse, 5)
    assert [each.error_code for each in answer.responses] == [0, 3]


def grow(
    cluster: Cluster, *wanted: tuple[str, int, list[list[int]] | None], validate_only: bool = False
) -> list[int]:
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if placed is None
            else [CreatePartitionsAssignment(broker_ids=each) for each in placed],
        )
        for name, count, placed in wanted
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=validate_only)
    return [each.error_code for each in cluster.ask(request, CreatePartitionsResponse).results]


def test_partitions_are_added_behind_those_that_are_there() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t", 1))
    assert grow(cluster, ("t", 3, None)) == [0]
    assert grow(cluster, ("t", 4, [[1]])) == [0]
    assert grow(cluster, ("t", 9, None), validate_only=True) == [0]
    found = cluster.image.topics.by_name("t")
    assert found is not None
    assert list(found.partitions) == [0, 1, 2, 3]
    cluster.check_fold()


@pytest.mark.parametrize(
    ("count", "placed", "code"),
    [
        (2, None, 37),
        (1, None, 37),
        (0, None, 37),
        (-1, None, 37),
        (4, [[1]], 39),
        (3, [[2]], 39),
        (3, [[1, 1]], 39),
        (3, [[]], 39),
        (3, [], 39),
        (2, [], 37),
        (20_000, None, 44),
    ],
)
def test_what_a_topic_cannot_grow_to(count: int, placed: list[list[int]] | None, code: int) -> None:
    cluster = Cluster(1)
    cluster.create(topic("t", 2))
    assert grow(cluster, ("t", count, placed)) == [code]


def test_unknown_and_repeated_topics_do_not_grow() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t", 2))
    assert grow(cluster, ("nope", 3, None)) == [3]
    assert grow(cluster, ("t", 3, None), ("t", 4, None)) == [42]


@pytest.mark.parametrize(
    "wanted",
    [
        [topic("small"), topic("large", 10_001)],
        [topic("small"), topic("large", 10_000)],
        [topic("a", 5_000), topic("b", 5_000), topic("small")],
        [topic("small"), topic("not to be", 10_001, 7)],
        [topic("small"), topic("t", placed={number: [1] for number in range(10_001)})],
        [topic("small"), topic("l", 9_996, configs={"retention.ms": "7", "segment.ms": "7"})],
    ],
)
def test_too_many_for_one_request_are_refused_all_together(wanted: list[CreatableTopic]) -> None:
    cluster = Cluster(1)
    with pytest.raises(KafkaError) as caught:
        cluster.create(*wanted)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION
    assert cluster.image.topics.by_name("small") is None


def grown(cluster: Cluster, name: str, count: int) -> tuple[int, str | None]:
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)
    (result,) = cluster.ask(request, CreatePartitionsResponse).results
    return result.error_code, result.error_message


def test_a_partition_is_refused_when_the_process_has_no_file_left_to_make_it() -> None:
    """It would be in the metadata log, and the node could not make it."""
    cluster = Cluster(1, 2)
    cluster.create(topic("present"))
    cluster.open_files = OpenFiles(400, 400)
    before = len(cluster.log)
    (refused,) = cluster.create(topic("more"))
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert refused.error_message is not None
    assert "400 of the 400 files" in refused.error_message
    assert grown(cluster, "present", 20)[0] == ErrorCode.POLICY_VIOLATION
    assert len(cluster.log) == before
    (exists,) = cluster.create(topic("present"))
    assert exists.error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "not a matter of files"
    (made,) = cluster.create(topic("elsewhere", placed={0: [2]}))
    assert made.error_code == 0, "only replicas on this node need its files"
    cluster.open_files = OpenFiles(300, 400)
    (made,) = cluster.create(topic("more", 5_000))
    assert made.error_code == 0, "logs that are not used need no files"
