"""Dead letters never come back to the sub-topology that they come from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from moldau.streams import Streams, TopologyError, dead_letter, retry


def _of_the_app(source: Any) -> Streams:
    app = Streams("app", on_error=dead_letter("i"))
    app.stream(source, int).to("out")
    return app


def _of_an_operator(source: Any) -> Streams:
    app = Streams("app")
    numbers = app.stream(source, int)
    numbers.map_values(abs, on_error=retry(2, then=dead_letter("i"))).to("out")
    return app


def _of_another_sub_topology(source: Any) -> Streams:
    app = Streams("app")
    app.stream("first", int, on_error=dead_letter("i")).to("out")
    app.stream(source, int, on_error=dead_letter("first")).to("out")
    return app


@pytest.mark.parametrize("source", ["i", re.compile("[h-j]")])
@pytest.mark.parametrize("made", [_of_the_app, _of_an_operator, _of_another_sub_topology])
def test_dead_letters_that_would_fail_again_without_end_are_refused(
    made: Callable[[Any], Streams], source: Any
) -> None:
    with pytest.raises(TopologyError, match=r"dead letters go to topic (i|first), which"):
        made(source).plan()


@pytest.mark.parametrize("source", ["i", re.compile("[h-j]")])
def test_the_topic_of_all_dead_letters_may_be_no_input_that_is_skipped(source: Any) -> None:
    app = Streams("app", on_error="skip")
    app.stream(source, int).to("out")
    with pytest.raises(TopologyError, match="app=app: dead letters go to topic i, which"):
        app.test(dead_letters="i")
    app.test(dead_letters="other").close()


def test_a_sub_topology_may_read_the_dead_letters_of_another_one() -> None:
    app = Streams("app")
    app.stream("in", int, on_error=dead_letter("dead")).to("out")
    app.stream("dead", str, on_error="skip").to("seen")
    driver = app.test()
    driver.pipe_bytes("in", b"poison")
    assert [each.value for each in driver.read("seen")] == ["poison"]
