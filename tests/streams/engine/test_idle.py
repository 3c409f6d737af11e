"""Windows close by the wall clock when no record comes."""

from __future__ import annotations

from moldau.streams import Streams, tumbling
from moldau.streams.testing.driver import Driver


def driver() -> Driver:
    app = Streams("app")
    (
        app.stream("in", str, key=str)
        .group_by_key()
        .window(tumbling(100), emit="close", idle="5s")
        .count(name="n")
        .changes()
        .to("out")
    )
    return app.test()


def test_a_quiet_input_lets_the_last_window_close() -> None:
    idle = driver()
    idle.pipe("in", "v", key="a", timestamp=10)
    idle.advance(4999)
    assert idle.read("out") == []

    idle.advance(1)

    assert [(key.key, count) for key, count in idle.read("out")] == [("a", 1)]


def test_a_window_that_closed_by_the_clock_is_not_emitted_again() -> None:
    idle = driver()
    idle.pipe("in", "v", key="a", timestamp=10)
    idle.advance(6000)
    idle.read("out")

    idle.pipe("in", "v", key="a", timestamp=20)
    idle.pipe("in", "v", key="a", timestamp=9000)

    assert idle.read("out") == []


def test_an_input_that_is_not_quiet_keeps_stream_time() -> None:
    idle = driver()
    for _ in range(5):
        idle.pipe("in", "v", key="a", timestamp=10)
        idle.advance(3000)

    assert idle.read("out") == []
