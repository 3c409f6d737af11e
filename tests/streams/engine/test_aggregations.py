"""Every aggregation, and what a null aggregate does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.streams import Grouped, Streams, Table, TopologyError, session, tumbling

Built = Callable[[Grouped[Any, Any]], Table[Any, Any]]


def concatenated(so_far: str, key: str, value: int) -> str:
    return so_far + key + str(value)


CASES: list[tuple[Built, Any]] = [
    (lambda group: group.count(name="t"), [1, 2, 3]),
    (lambda group: group.sum(name="t"), [3, 4, 6]),
    (lambda group: group.sum(lambda value: 10 * value, name="t"), [30, 40, 60]),
    (lambda group: group.min(name="t"), [3, 1, 1]),
    (lambda group: group.max(name="t"), [3, 3, 3]),
    (lambda group: group.mean(name="t"), [3.0, 2.0, 2.0]),
    (lambda group: group.collect(name="t"), [[3], [3, 1], [3, 1, 2]]),
    (lambda group: group.distinct(lambda value: value % 2, name="t"), [[1], [1], [1, 0]]),
    (lambda group: group.top_k(2, name="t"), [[3], [3, 1], [3, 2]]),
    (lambda group: group.top_k(1, by=lambda value: -value, name="t"), [[3], [1], [1]]),
    (lambda group: group.reduce(lambda old, value: old * 10 + value, name="t"), [3, 31, 312]),
    (lambda group: group.aggregate("", concatenated, name="t"), ["k3", "k3k1", "k3k1k2"]),
]


@pytest.mark.parametrize(("build", "expected"), CASES)
@pytest.mark.parametrize("has_windows", [False, True])
def test_an_aggregation_updates_its_table(build: Built, expected: Any, has_windows: bool) -> None:
    app = Streams("app", emit="every")
    group: Any = app.stream("in", int, key=str).group_by_key()
    if has_windows:
        group = group.window(tumbling("1h"))
    build(group).changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("k", 3, 0), ("k", 1, 0), ("k", 2, 0)])

    assert [record.value for record in driver.read("out")] == expected


@pytest.mark.parametrize(("build", "expected"), CASES)
def test_a_restored_aggregation_goes_on_as_before(build: Built, expected: Any) -> None:
    app = Streams("app", emit="every")
    build(app.stream("in", int, key=str).group_by_key()).changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("k", 3, 0), ("k", 1, 0)])
    driver.restart(from_changelog=True)
    driver.pipe("in", 2, key="k", timestamp=0)

    assert [record.value for record in driver.read("out")] == expected


def test_a_null_aggregate_deletes_and_the_next_record_begins_anew() -> None:
    app = Streams("app", emit="every")
    group = app.stream("in", int, key=str).group_by_key()

    def add(so_far: int, value: int) -> int | None:
        return None if value == 0 else so_far + value

    group.aggregate(100, add, name="t", type=int).changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("k", 5, 7), ("k", 0, 3), ("k", 5, 1)])

    found = [(record.value, record.timestamp) for record in driver.read("out")]
    assert found == [(105, 7), (None, 7), (105, 1)]
    assert driver.changelogs["t"].values == [b"105"]


def test_an_aggregate_changed_in_place_does_not_change_what_was_emitted() -> None:
    app = Streams("app", emit="every")

    def add(so_far: list[int], value: int) -> list[int]:
        so_far.append(value)
        return so_far

    (
        app.stream("in", int, key=str)
        .group_by_key()
        .aggregate(list, add, name="t")
        .changes()
        .to_table(name="copy")
    )
    driver = app.test()

    driver.pipe_all("in", [("k", 1, 0), ("k", 2, 0)])

    assert driver.store("copy") == {"k": [1, 2]}
    assert driver.changelogs["copy"].values == [b"[1,2]"]


def test_a_nameless_state_is_refused() -> None:
    app = Streams("app")

    with pytest.raises(TopologyError, match=r'count\(name="\.\.\."\)'):
        app.stream("in", str).group_by_key().count()


def test_a_name_is_given_once() -> None:
    app = Streams("app")
    group = app.stream("in", str).group_by_key()
    group.count(name="n")

    with pytest.raises(TopologyError, match="'n' is taken"):
        group.count(name="n")


def test_streams_of_several_types_share_a_table() -> None:
    app = Streams("app", emit="every")
    sales = app.stream("sales", int, key=str).group_by_key()
    notes = app.stream("notes", str).group_by(lambda note: note[:1])
    table = sales.cogroup(lambda total, value: total + value).cogroup(
        notes, lambda total, key, note: total + len(key + note)
    )
    table.aggregate(100, name="t").changes().to("out")
    driver = app.test()

    driver.pipe_all("sales", [("a", 5, 0), ("a", None, 0)])
    driver.pipe("notes", "abc")

    assert [(record.key, record.value) for record in driver.read("out")] == [("a", 105), ("a", 109)]


def test_a_cogroup_may_be_in_windows() -> None:
    app = Streams("app", emit="every")
    one = app.stream("one", int, key=str).group_by_key()
    two = app.stream("two", int, key=str).group_by_key()
    both = one.cogroup(lambda old, value: old + value).cogroup(two, lambda old, value: old - value)
    both.window(tumbling(10)).aggregate(0, name="t").changes().to("out")
    both.window(session(10)).aggregate(0, merge=lambda a, b: a + b, name="s").changes().to("s")
    driver = app.test()

    driver.pipe("one", 5, key="a", timestamp=1)
    driver.pipe("two", 2, key="a", timestamp=2)
    driver.pipe("two", 2, key="a", timestamp=12)

    assert [(record.key.start, record.value) for record in driver.read("out")] == [
        (0, 5),
        (0, 3),
        (10, -2),
    ]
    assert [record.value for record in driver.read("s")] == [5, None, 3, None, 1]


def test_a_cogroup_needs_a_name() -> None:
    app = Streams("app")
    group = app.stream("one", int, key=str).group_by_key().cogroup(lambda old, value: old + value)

    with pytest.raises(TopologyError, match=r'aggregate\(\.\.\., name="\.\.\."\)'):
        group.aggregate(0)
