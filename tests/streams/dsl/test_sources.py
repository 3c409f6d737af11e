"""A topic that is read twice."""

from __future__ import annotations

import pytest

from moldau.streams import Streams, TopologyError


def test_the_same_topic_twice_is_the_same_stream() -> None:
    app = Streams("app")
    app.stream("in", str, key=str).to("one")
    app.stream("in", str, key=str).map_values(str.upper).to("two")

    driver = app.test()
    driver.pipe("in", "a", key="k")

    assert [each.value for each in driver.read("one")] == ["a"]
    assert [each.value for each in driver.read("two")] == ["A"]
    assert app.plan().source_topics() == ("in",)


def test_a_stream_joins_what_is_read_again() -> None:
    app = Streams("app")
    left = app.stream("in", str, key=str)
    left.join(app.stream("in", str, key=str), within="1s", name="j").to("out")

    driver = app.test()
    driver.pipe("in", "a", key="k")

    assert [each.value for each in driver.read("out")] == [("a", "a")]


def test_other_types_are_an_error() -> None:
    app = Streams("app")
    app.stream("in", str, key=str)

    with pytest.raises(TopologyError, match=r"in is read twice with different types: .*str.*int"):
        app.stream("in", int, key=str)
    with pytest.raises(
        TopologyError, match=r"another timestamp=\.\.\., partitioner=\.\.\. or on_error"
    ):
        app.stream("in", str, key=str, on_error="skip")


def test_a_topic_among_others_is_read_once() -> None:
    app = Streams("app")
    app.stream("in", str).to("one")
    app.stream(["in", "other"], str).to("two")

    with pytest.raises(TopologyError, match="read it once"):
        app.plan()
