"""The layout of an app on a cluster: partition counts, topics to make, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from moldau.streams import Streams
from moldau.streams.plan.layout import assumed_layout, laid_out
from moldau.streams.plan.topics import InternalTopic
from moldau.streams.problems import CoPartitionError, MissingTopics, TopologyError, UnfitTopic
from tests.streams.worker.counting import word_count


def counts(app: Streams, topics: Mapping[str, int]) -> Mapping[str, int]:
    return laid_out(app.plan(), topics).counts


def words() -> Streams:
    app = Streams("app")
    app.stream("in", str).group_by(lambda word: word).count(name="n")
    return app


def joined() -> Streams:
    app = Streams("app")
    app.stream("left", str, key=str).join(app.table("right", str, key=str)).to("out")
    return app


def two_widths() -> Streams:
    """Two streams that meet with fixed counts that differ."""
    app = Streams("app")
    left = app.stream("left", str, key=str).repartition("a", partitions=3)
    right = app.stream("right", str, key=str).repartition("b", partitions=4)
    left.join(right, within="1s", name="j").to("out")
    return app


def test_own_topics_have_as_many_partitions_as_what_feeds_them() -> None:
    assert counts(words(), {"in": 6}) == {"in": 6, "app-n-repartition": 6, "app-n-changelog": 6}


def test_a_repartition_topic_takes_the_count_of_the_other_side() -> None:
    app = Streams("app")
    left = app.stream("left", str).select_key(lambda value: value)
    left.join(app.table("right", str, key=str), name="j").to("out")

    assert counts(app, {"left": 8, "right": 3})["app-j-repartition"] == 3


def test_the_topics_of_a_foreign_key_join_fit_each_side() -> None:
    app = Streams("app")
    customers = app.table("customers", str, key=str)
    orders = app.table("orders", str, key=str)
    orders.join(customers, on=lambda order: order, name="named").changes().to("out")

    found = counts(app, {"orders": 4, "customers": 2})

    assert found["app-named-subscription-repartition"] == 2
    assert found["app-named-answer-repartition"] == 4
    assert found["app-named-changelog"] == 4
    assert found["app-named-references-changelog"] == 2


def test_repartition_topics_in_a_circle_take_the_largest_input_that_reaches_it() -> None:
    app = Streams("app")
    source = app.stream("in", str, key=str)
    counted = source.group_by(lambda value: value).count(name="n")
    again = counted.changes().map_values(str).select_key(lambda value: value)
    source.join(again.to_table(name="back"), name="j").to("out")
    other = app.stream("wide", str).select_key(lambda value: value)
    other.join(counted, name="k").to("other")

    found = counts(app, {"in": 3, "wide": 5})

    assert found["app-n-repartition"] == found["app-k-repartition"]
    assert found["app-back-repartition"] == 3, "it meets the source by key"
    assert found["app-n-changelog"] == found["app-n-repartition"]


def test_changelogs_have_a_partition_for_each_task_and_are_compacted() -> None:
    layout = laid_out(word_count("app"), {"lines": 3})

    [repartition, changelog, topology] = layout.internal
    assert (repartition.name, repartition.partitions) == ("app-words-repartition", 3)
    configs = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    assert changelog == InternalTopic("app-counts-changelog", 3, configs)
    assert topology == InternalTopic("app-moldau-topology", 1, {"cleanup.policy": "compact"})
    assert [layout.tasks(program) for program in layout.plan.programs] == [3, 3]
    assert layout.outputs == ("out",)


@pytest.mark.parametrize(
    ("make", "topics", "error", "text"),
    [
        (words, {"other": 1}, MissingTopics, "input topic in does not exist; create it first"),
        (joined, {}, MissingTopics, "input topics left, right do not exist; create them first"),
        (joined, {"left": 8, "right": 3}, CoPartitionError, "left=8, right=3"),
        (words, {"in": 2, "app-n-changelog": 4}, UnfitTopic, "has 4 partitions and the app now"),
        (two_widths, {"left": 1, "right": 1}, CoPartitionError, "app-a-repartition=3"),
    ],
)
def test_what_a_cluster_cannot_run_is_refused_by_name(
    make: Callable[[], Streams], topics: dict[str, int], error: type[TopologyError], text: str
) -> None:
    with pytest.raises(error, match=text):
        laid_out(make().plan(), topics)


@pytest.mark.parametrize(
    ("make", "partitions"), [(joined, {"left": 8, "right": 3}), (two_widths, {})]
)
def test_the_driver_refuses_it_with_the_same_text(
    make: Callable[[], Streams], partitions: dict[str, int]
) -> None:
    with pytest.raises(CoPartitionError) as of_cluster:
        laid_out(make().plan(), {"left": 1, "right": 1, **partitions})
    with pytest.raises(CoPartitionError) as of_driver:
        make().test(partitions=partitions)

    assert str(of_driver.value) == str(of_cluster.value)


def test_an_input_without_a_count_is_taken_to_fit() -> None:
    app = Streams("app")
    left = app.stream("left", str, key=str).repartition("wide", partitions=3)
    left.join(app.table("right", str, key=str), name="j").to("out")

    assert assumed_layout(app.plan(), {}).counts["right"] == 3
    assert assumed_layout(joined().plan(), {"left": 8}).counts["right"] == 8
