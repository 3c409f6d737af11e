"""The lists behind the pages: rows, counts, changes, and the lag over time."""

from __future__ import annotations

from moldau.client.group.descriptions import ListedGroup
from moldau.console.history import EVERY_MS, POINTS, LagHistory, Point, chart
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


def test_a_history_of_lag_is_bounded_and_forgets_groups_that_are_gone() -> None:
    past = LagHistory()
    for number in range(POINTS + 10):
        past.add(number * EVERY_MS, {"a": number, **({"b": 1} if number < 5 else {})})
        past.add(number * EVERY_MS + 1, {"a": 0, **({"b": 1} if number < 5 else {})})
    points = past.of("a")
    assert (len(points), points[-1]) == (POINTS, Point((POINTS + 9) * EVERY_MS, POINTS + 9))
    assert past.of("b") == past.of("none") == []


def test_a_chart_has_a_gap_where_nobody_looked() -> None:
    assert chart([Point(0, 1)]) is None
    drawn = chart([Point(0, 0), Point(10_000, 50), Point(200_000, 100), Point(400_000, 0)])
    assert drawn is not None
    assert drawn.lines == ["0.0,120.0 20.0,60.0", "400.0,0.0", "800.0,120.0"]
    assert (drawn.first.lag, drawn.last.lag, drawn.most) == (0, 0, 100)
