"""An attempt that fails leaves nothing behind, and a policy leaves out what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.streams import (
    Context,
    Record,
    StateStore,
    Stream,
    Streams,
    dead_letter,
    retry,
    session,
    sliding,
    tumbling,
    until_time,
)
from moldau.streams.testing.driver import Driver


class Flaky:
    """Fails so many times at a value."""

    def __init__(self, at: int, times: int) -> None:
        self.at = at
        self.left = times

    def __call__(self, value: int) -> int:
        if value == self.at and self.left:
            self.left -= 1
            raise ConnectionError("not now")
        return value


def values(driver: Driver, topic: str) -> list[Any]:
    return [each.value for each in driver.read(topic, type=int)]


def test_branches_are_not_repeated_by_a_retry() -> None:
    app = Streams("app", emit="every")
    stream = app.stream("in", int, key=str)
    stream.to("copy")
    stream.group_by_key().count(name="counts").changes().to("counts")
    stream.map_values(Flaky(2, 2), on_error=retry(2, backoff="1s")).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", value, 0) for value in (1, 2, 3)])
    assert values(driver, "copy") == [1]
    driver.advance(1000)
    driver.advance(2000)

    assert values(driver, "copy") == [2, 3]
    assert values(driver, "counts") == [1, 2, 3]
    assert values(driver, "out") == [1, 2, 3]
    assert driver.changelogs["counts"].values == [b"1", b"3"]


@pytest.mark.parametrize("policy", ["skip", dead_letter("dead")])
def test_an_operator_with_a_policy_of_its_own_leaves_out_its_own_work(policy: Any) -> None:
    app = Streams("app", emit="every")
    stream = app.stream("in", int, key=str)
    stream.to("before")
    stream.map_values(Flaky(2, 9), on_error=policy).to("out")
    stream.to("after")
    driver = app.test()

    driver.pipe_all("in", [("a", value, 0) for value in (1, 2, 3)])

    assert values(driver, "out") == [1, 3]
    assert values(driver, "before") == values(driver, "after") == [1, 2, 3]
    assert values(driver, "dead") == ([2] if policy != "skip" else [])


@pytest.mark.parametrize("policy", ["skip", dead_letter("dead")])
def test_the_policy_of_the_app_leaves_out_the_record(policy: Any) -> None:
    app = Streams("app", on_error=policy, emit="every")
    stream = app.stream("in", int, key=str)
    stream.to("before")
    stream.group_by_key().count(name="counts").changes().to("counts")
    stream.map_values(Flaky(2, 9)).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", value, 0) for value in (1, 2, 3)])

    assert values(driver, "out") == values(driver, "before") == [1, 3]
    assert values(driver, "counts") == [1, 2]
    assert values(driver, "dead") == ([2] if policy != "skip" else [])


@pytest.mark.parametrize("policy", ["skip", retry(1, backoff="1s")])
def test_dead_letters_of_an_attempt_are_undone(policy: Any) -> None:
    app = Streams("app", on_error=policy)
    stream = app.stream("in", int)
    stream.map_values(Flaky(2, 9), on_error=dead_letter("dead")).to("one")
    stream.map_values(Flaky(2, 1)).to("other")
    driver = app.test()

    driver.pipe_all("in", [(None, value, 0) for value in (1, 2, 3)])
    driver.advance(1000)

    is_tried_again = policy != "skip"
    assert values(driver, "dead") == ([2] if is_tried_again else [])
    assert values(driver, "other") == ([1, 2, 3] if is_tried_again else [1, 3])
    assert driver.counters()["dead-lettered"] == is_tried_again


def test_a_record_has_one_dead_letter_of_an_operator_that_fails_on_all_of_its_parts() -> None:
    app = Streams("app")
    parts = app.stream("in", int).flat_map(lambda value: [value, value, 7], type=int)
    parts.map_values(Flaky(2, 9), on_error=dead_letter("dead")).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, value, 0) for value in (2, 3)])

    assert values(driver, "dead") == [2]
    assert values(driver, "out") == [7, 3, 3, 7]


def test_an_emitted_row_has_one_dead_letter_of_an_operator_that_fails_on_all_of_its_parts() -> None:
    app = Streams("app")
    windows = app.stream("in", int, key=str).group_by_key().window(tumbling("1s"), emit="close")
    parts = windows.sum(name="w").changes().flat_map(lambda value: [value, value, 7], type=int)
    parts.map_values(Flaky(2, 9), on_error=dead_letter("dead")).select_key(lambda v: v).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 2, 0), ("a", 3, 1000), ("a", 2, 2000), ("a", 0, 3000)])

    assert values(driver, "dead") == [2, 2]
    assert values(driver, "out") == [7, 3, 3, 7, 7]


def test_the_attempts_of_each_operator_are_counted_apart() -> None:
    app = Streams("app")
    stream = app.stream("in", int)
    for name in ("one", "other"):
        stream.map_values(Flaky(2, 2), on_error=retry(2, backoff="1s", then="skip")).to(name)
    driver = app.test()

    driver.pipe_all("in", [(None, 2, 0)])
    for _ in range(8):
        driver.advance(1000)

    assert values(driver, "one") == values(driver, "other") == [2]


class Forwarding:
    """Forwards by stream time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last = context.store("last")
        context.schedule("50s", self._tick)

    def process(self, record: Record) -> None:
        self._last["a"] = record.value
        self._context.forward(record)

    def _tick(self, now_ms: int) -> None:
        self._context.forward(Record("a", -self._last["a"], now_ms))


def _forwarding(stream: Stream[str, int]) -> Stream[Any, Any]:
    store = StateStore("last", key=str, value=int)
    return stream.process(Forwarding, name="p", stores=[store], key=str, type=int)


TIMED: dict[str, Callable[[Stream[str, int]], Stream[Any, Any]]] = {
    "tumbling": lambda stream: (
        stream.group_by_key().window(tumbling("10s")).reduce(max, name="w").changes()
    ),
    "session": lambda stream: (
        stream.group_by_key().window(session("1s")).reduce(max, name="w").changes()
    ),
    "sliding": lambda stream: (
        stream.group_by_key().window(sliding("1s")).reduce(max, name="w").changes()
    ),
    "suppress": lambda stream: (
        stream.to_table(name="t").suppress(until_time("10s"), name="s").changes()
    ),
    "join": lambda stream: stream.join(stream, max, within="1s", name="j"),
    "process": _forwarding,
}


@pytest.mark.parametrize("kind", TIMED)
def test_a_record_that_is_left_out_does_not_move_the_time(kind: str) -> None:
    """The record of a far future fails behind: those after it are no later than without it."""
    found = []
    for failures in (0, 1):
        app = Streams("app", on_error="skip", emit="every")
        stream = app.stream("in", int, key=str)
        TIMED[kind](stream).map(lambda _, value: ("a", value), key=str, type=int).to("out")
        stream.map_values(Flaky(900, failures)).to("copy")
        driver = app.test()
        records = [("a", 1, 0), ("a", 2, 20_000), ("a", 3, 15_000), ("a", 4, 31_000)]
        if failures:
            records.insert(2, ("a", 900, 10_000_000))
        driver.pipe_all("in", records)
        found.append((values(driver, "out"), driver.counters() | {"skipped": 0}))

    assert found[0] == found[1]


def test_a_timer_of_the_wall_clock_is_tried_again() -> None:
    flaky = Flaky(1, 1)

    class Ticking:
        """Forwards what it has by the wall clock."""

        def __init__(self, context: Context) -> None:
            self._context = context
            context.schedule("10s", self._tick, by="wall")

        def process(self, record: Record) -> None:
            """Wait for the timer."""

        def _tick(self, now_ms: int) -> None:
            self._context.forward(Record("a", 5, now_ms))
            flaky(1)
            self._context.forward(Record("a", 6, now_ms))

    app = Streams("app")
    ticks = app.stream("in", int, key=str).process(
        Ticking, name="p", key=str, type=int, on_error=retry(1, backoff="1s")
    )
    ticks.to("out")
    driver = app.test()

    driver.pipe("in", 1, key="a")
    driver.advance(10_000)
    assert values(driver, "out") == []
    driver.advance(1_000)

    assert values(driver, "out") == [5, 6]
