"""Patterns of topics: what matches, what does not, and what two sources may not share."""

from __future__ import annotations

import re

import pytest

from moldau.streams import Streams, TopologyError
from moldau.streams.plan.patterns import PREFIX, matches, patterns_of, resolved
from moldau.streams.plan.topics import topology_topic


def orders(pattern: str, flags: int = 0) -> Streams:
    app = Streams("app")
    by_key = app.stream(re.compile(pattern, flags), str).group_by(lambda order: order)
    by_key.count(name="counts").changes().to("out")
    return app


def test_whole_names_match_and_own_topics_do_not() -> None:
    plan = orders(".*orders.*|app-.*").plan()
    existing = [
        *("orders", "eu-orders", "my-orders-2", "bills", "__orders_internal"),
        *("app-counts-repartition", "app-counts-changelog", "app-own"),
    ]
    [pattern] = patterns_of(plan)
    found = matches(plan, existing)
    assert found == {pattern: ("app-own", "eu-orders", "my-orders-2", "orders")}
    assert matches(orders("orders").plan(), existing) == {"pattern:orders": ("orders",)}
    insensitive = orders("ORDERS", re.IGNORECASE).plan()
    assert matches(insensitive, existing) == {"pattern:(?i)ORDERS": ("orders",)}

    whole = resolved(plan, found)
    assert patterns_of(whole) == ()
    assert whole.programs[0].inputs == found[pattern]


def test_topics_that_keep_a_topology_never_match_and_a_user_may_name_one_topology() -> None:
    plan = orders("orders-.*|app-.*").plan()
    [pattern] = patterns_of(plan)
    existing = [topology_topic("orders-eu"), topology_topic("app"), "orders-topology", "app-in"]
    assert matches(plan, existing) == {pattern: ("app-in", "orders-topology")}


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        ("orders - .*  # of all regions", re.VERBOSE),
        ("ORDERS - .*\n", re.VERBOSE | re.IGNORECASE),
        ("(?x) orders - .*", re.IGNORECASE),
        ("(?i)ORDERS-.*", re.ASCII | re.MULTILINE | re.DOTALL),
    ],
)
def test_a_pattern_keeps_its_flags(pattern: str, flags: int) -> None:
    plan = orders(pattern, flags).plan()
    [name] = patterns_of(plan)
    assert matches(plan, ["orders-eu", "orders"]) == {name: ("orders-eu",)}
    assert re.compile(name.removeprefix(PREFIX)).flags == re.compile(pattern, flags).flags


def test_a_topic_is_read_by_one_source() -> None:
    app = Streams("app")
    app.stream(re.compile("a.*"), str).merge(app.stream("ab", str)).to("out")
    with pytest.raises(TopologyError) as refused:
        matches(app.plan(), ["aa", "ab"])
    assert str(refused.value) == (
        "app=app: topic ab is read by ab and pattern:a.*; make the pattern narrower, or read the "
        "topic once and use that stream twice"
    )


def test_the_driver_is_told_which_topics_there_are() -> None:
    driver = orders("orders-.*").test(topics=["orders-eu", "orders-us", "bills"])
    driver.pipe("orders-eu", "x")
    driver.pipe("orders-us", "x")
    assert driver.store("counts") == {"x": 2}
    with pytest.raises(Exception, match="topic=bills: the app does not read it"):
        driver.pipe("bills", "x")
