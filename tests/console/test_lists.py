"""The lists behind the pages: rows, counts and changes."""

from __future__ import annotations

from moldau.client.group.descriptions import ListedGroup
from moldau.console.picture import ClusterLists, TopicRow, kinds


def row(name: str, *leaders: int, lagging: int = 0) -> TopicRow:
    return TopicRow(name, False, leaders, 1, lagging)


def test_counts_of_all_topics() -> None:
    counts = ClusterLists([row("a", 1, 2, lagging=1), row("b", 1, -1)]).counts()
    assert (counts.topics, counts.partitions, counts.leaderless, counts.lagging) == (2, 4, 1, 1)
    assert counts.led == {1: 2, 2: 1}


def test_a_changed_topic_keeps_the_order_and_the_counts() -> None:
    listed = ClusterLists([row("a", 1), row("c", 1)], is_complete=True)
    assert listed.counts().partitions == 2
    listed.put(row("b", 1, 1))
    listed.put(row("c", 2, 2, 2))
    listed.drop("a")
    listed.drop("none")
    assert [each.name for each in listed.topics] == ["b", "c"]
    assert (listed.counts().partitions, listed.leaders()["c"]) == (5, (2, 2, 2))


def test_while_topics_are_read_some_are_dropped_and_none_is_put() -> None:
    groups = [ListedGroup(name, "consumer", "Empty", "classic") for name in "ab"]
    listed = ClusterLists([row("a", 1), row("b", 1)], groups, lags={"a": 1})
    listed.put(row("c", 1))
    listed.drop("b")
    listed.drop_group("a")
    assert [each.name for each in listed.topics] == ["a"]
    assert ([each.group_id for each in listed.groups], listed.lags) == (["b"], {})


def test_groups_by_what_is_known_of_their_offsets() -> None:
    groups = [
        ListedGroup(name, "consumer", "Empty", kind)
        for name, kind in (("a", "classic"), ("b", "share"), ("c", ""), ("d", "other"))
    ]
    assert kinds(groups) == (["a", "c"], ["b"])
