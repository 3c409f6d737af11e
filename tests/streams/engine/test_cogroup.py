"""Several streams in one aggregate."""

from __future__ import annotations

import pytest

from moldau.streams import Streams, TopologyError, session, tumbling


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
