"""Partition counts of the app's own topics, and inputs that do not fit together."""

from __future__ import annotations

import pytest

from moldau.streams import Streams, TopologyError
from moldau.streams.plan.partitions import partition_counts
from moldau.streams.problems import CoPartitionError


def test_own_topics_have_as_many_partitions_as_what_feeds_them() -> None:
    app = Streams("app")
    app.stream("in", str).group_by(lambda word: word).count(name="n")

    assert partition_counts(app.plan(), {"in": 6}) == {
        "in": 6,
        "app-n-repartition": 6,
        "app-n-changelog": 6,
    }


def test_a_missing_input_is_named() -> None:
    app = Streams("app")
    app.stream(["one", "two"], str).to("out")

    with pytest.raises(TopologyError, match="input topic two does not exist"):
        partition_counts(app.plan(), {"one": 1})


def test_a_repartition_topic_takes_the_count_of_the_other_side() -> None:
    app = Streams("app")
    left = app.stream("left", str).select_key(lambda value: value)
    left.join(app.table("right", str, key=str), name="j").to("out")

    counts = partition_counts(app.plan(), {"left": 8, "right": 3})

    assert counts["app-j-repartition"] == 3


def test_inputs_with_different_counts_do_not_join() -> None:
    app = Streams("app")
    app.stream("left", str, key=str).join(app.table("right", str, key=str)).to("out")

    with pytest.raises(CoPartitionError, match="left=8, right=3"):
        partition_counts(app.plan(), {"left": 8, "right": 3})


def test_a_topic_is_read_once() -> None:
    app = Streams("app")
    app.stream("in", str).to("one")
    app.stream("in", str).to("two")

    with pytest.raises(TopologyError, match="read it once"):
        app.plan()
