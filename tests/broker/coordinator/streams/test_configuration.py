"""The configured topology: numbers of partitions and tasks, or why the group is not ready."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.group.streams.configuration import Status, configure
from moldau.broker.coordinator.group.streams.topology import topology_of
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.streams_group_heartbeat import Topology
from tests.broker.coordinator.streams.topologies import (
    WORD_COUNT,
    Topics,
    internal,
    subtopology,
    topology,
)


def obstacle(given: Topology, topics: Topics) -> tuple[Status, str] | None:
    found = configure(topology_of(given), topics).obstacle
    return None if found is None else (found.status, found.detail)


def test_source_topics_that_are_missing_come_first() -> None:
    given = topology(subtopology("0", "b", "a", changelogs=["log"]))
    assert obstacle(given, Topics()) == (
        Status.MISSING_SOURCE_TOPICS,
        "Source topics a, b are missing.",
    )
    configured = configure(topology_of(given), Topics())
    assert not configured.is_ready
    assert configured.creatable() == ()


def test_a_repartition_topic_is_as_large_as_the_largest_input_of_its_writers() -> None:
    configured = configure(topology_of(WORD_COUNT), Topics(lines=6))
    assert configured.obstacle is not None
    assert configured.obstacle.status is Status.MISSING_INTERNAL_TOPICS
    made = {each.name: each.num_partitions for each in configured.creatable()}
    assert made == {"app-count-changelog": 6, "app-count-repartition": 6}
    assert {each.replication_factor for each in configured.creatable()} == {-1}


def test_internal_topics_that_exist_make_the_group_ready() -> None:
    topics = Topics(lines=3, app_count_repartition=3, app_count_changelog=3)
    configured = configure(topology_of(WORD_COUNT), topics)
    assert configured.is_ready
    assert configured.task_counts == {"0": 3, "1": 3}
    assert configured.stateful == {"1"}


def test_an_internal_topic_of_another_size_is_an_obstacle() -> None:
    topics = Topics(lines=3, app_count_repartition=3, app_count_changelog=2)
    assert obstacle(WORD_COUNT, topics) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic app-count-changelog has different number of partitions: expected 3, "
        "found 2",
    )


def test_sizes_go_through_a_chain_of_repartitions() -> None:
    chain = topology(
        subtopology("2", repartitions=[internal("second")], changelogs=["log"]),
        subtopology("1", repartitions=[internal("first")], sinks=["second"]),
        subtopology("0", "in", sinks=["first"]),
    )
    configured = configure(topology_of(chain), Topics(**{"in": 5}))
    made = {each.name: each.num_partitions for each in configured.creatable()}
    assert made == {"first": 5, "second": 5, "log": 5}


def test_the_two_topics_of_a_foreign_key_join_depend_on_each_other() -> None:
    given = topology(
        subtopology(
            "0", "orders", repartitions=[internal("back")], sinks=["there"],
            together=[((0,), (0,))],
        ),
        subtopology(
            "1", "customers", repartitions=[internal("there")], sinks=["back"],
            together=[((0,), (0,))],
        ),
    )  # fmt: skip
    configured = configure(topology_of(given), Topics(orders=2, customers=5))
    made = {each.name: each.num_partitions for each in configured.creatable()}
    assert made == {"there": 5, "back": 2}


@pytest.mark.parametrize(
    "given",
    [
        topology(subtopology("0", repartitions=[internal("loop")], sinks=["loop"])),
        topology(subtopology("0", "in"), subtopology("1", repartitions=[internal("unwritten")])),
        topology(subtopology("0", "in"), subtopology("1")),
    ],
)
def test_a_topology_that_no_topics_could_make_run_is_rejected(given: Topology) -> None:
    with pytest.raises(KafkaError) as raised:
        configure(topology_of(given), Topics(**{"in": 2}))
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_copartitioned_sources_must_have_the_same_size() -> None:
    given = topology(subtopology("0", "a", "b", together=[((0, 1), ())]))
    assert obstacle(given, Topics(a=2, b=2)) is None
    assert obstacle(given, Topics(a=2, b=3)) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=2, b=3}]",
    )


def join(partitions: int) -> Topology:
    """A repartition topic that is joined with a source of another size."""
    return topology(
        subtopology("0", "left", sinks=["moved"]),
        subtopology(
            "1",
            "right",
            repartitions=[internal("moved", partitions)],
            together=[((0,), (0,))],
        ),
    )


def test_a_repartition_topic_takes_the_size_of_the_source_that_it_is_joined_with() -> None:
    configured = configure(topology_of(join(0)), Topics(left=4, right=7))
    assert [each.num_partitions for each in configured.creatable()] == [7]
    assert configured.task_counts == {"0": 4, "1": 7}


def test_a_repartition_topic_with_a_size_of_its_own_must_fit() -> None:
    assert obstacle(join(3), Topics(left=4, right=7)) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [3] of repartition topic [moved] doesn't match number of partitions "
        "[7] of the source topic.",
    )


def test_repartition_topics_that_are_joined_with_each_other_take_the_largest_size() -> None:
    given = topology(
        subtopology("0", "a", sinks=["from-a"]),
        subtopology("1", "b", sinks=["from-b"]),
        subtopology(
            "2",
            repartitions=[internal("from-a"), internal("from-b")],
            together=[((), (0, 1))],
        ),
    )
    configured = configure(topology_of(given), Topics(a=2, b=9))
    made = {each.name: each.num_partitions for each in configured.creatable()}
    assert made == {"from-a": 9, "from-b": 9}


def test_a_source_that_is_its_own_changelog_is_not_created() -> None:
    given = topology(subtopology("0", "table", changelogs=["table"]))
    configured = configure(topology_of(given), Topics(table=2))
    assert configured.is_ready
    assert configured.stateful == {"0"}


def test_settings_of_internal_topics_are_kept() -> None:
    given = topology(subtopology("0", "in", repartitions=()))
    given.subtopologies[0].state_changelog_topics = [
        internal("log", configs={"cleanup.policy": "compact"})
    ]
    (topic,) = configure(topology_of(given), Topics(**{"in": 1})).creatable()
    assert [(each.name, each.value) for each in topic.configs] == [("cleanup.policy", "compact")]
