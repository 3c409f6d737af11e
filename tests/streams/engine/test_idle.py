"""Windows close by the wall clock when no record comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, retry, tumbling, until_time
from moldau.streams.plan.policies import Policy
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


class Flaky:
    """Fails at each record as often as its value says."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}

    def __call__(self, value: int) -> int:
        failed = self._failures.get(value, 0)
        if failed < value % 3:
            self._failures[value] = failed + 1
            raise OSError("down")
        return value


async def awaited(value: int) -> int:
    await asyncio.sleep(0)
    return value


Call = Callable[[int], int | Awaitable[int]]


def collecting(
    *, idle: str | None = "5s", call: Call = int, on_error: Policy | None = None
) -> Driver:
    app = Streams("app")
    stream = app.stream("in", int, key=str).map_values(call, type=int, on_error=on_error)
    windows = stream.group_by_key().window(tumbling("10s"), emit="close", idle=idle)
    collected: Any = windows.collect(name="c")
    collected.changes().to("out")
    collected.late().to("late")
    return app.test()


def late(driver: Driver) -> list[int]:
    return [record.value for record in driver.read("late", type=int)]


def closed(driver: Driver) -> list[int]:
    return [key.start for key, _ in driver.read("out")]


def test_a_record_every_two_seconds_is_not_quiet_beside_an_async_function() -> None:
    driver = collecting(call=awaited)
    for value in range(20):
        driver.pipe("in", value, key="a", timestamp=100_000 + value * 1000)
        driver.advance(2000)

    assert late(driver) == []


def test_an_async_function_lets_the_last_window_close_after_a_jump() -> None:
    driver = collecting(call=awaited)
    driver.pipe("in", 1, key="a", timestamp=0)
    driver.advance(1000)
    driver.pipe("in", 2, key="a", timestamp=1_000_000)
    driver.advance(60_000)

    assert closed(driver) == [0, 1_000_000]


def test_records_behind_one_that_is_retried_are_not_late() -> None:
    driver = collecting(call=Flaky(), on_error=retry(5, backoff="10s"))
    driver.pipe_all("in", [("a", value, 100_000 + value * 1000) for value in range(10)])
    for _ in range(400):
        driver.advance(1000)

    assert late(driver) == []
    assert closed(driver) == [100_000]


def test_an_input_with_more_in_its_log_is_not_quiet() -> None:
    driver = collecting()
    driver.pipe("in", 0, key="a", timestamp=100_000)
    for task in driver._tasks:
        task.set_at_end("in", False)
    driver.advance(20_000)
    driver.pipe("in", 1, key="a", timestamp=101_000)

    assert late(driver) == []


def test_an_update_that_is_retried_keeps_stream_time() -> None:
    failures = iter([True, True])

    def flaky(key: str, count: int) -> int:
        if key == "b" and next(failures, False):
            raise OSError("down")
        return count

    app = Streams("app")
    counts = app.stream("in", int, key=str).group_by_key().count(name="n")
    first = counts.suppress(until_time("1s", idle="1s"), name="first")
    passed = first.map_values(flaky, type=int, on_error=retry(5, backoff="10s"))
    passed.suppress(until_time("10s", idle="5s"), name="second").changes().to("out")
    driver = app.test()
    driver.pipe_all("in", [("a", 1, 100_000), ("b", 2, 100_000)])
    for _ in range(30):
        driver.advance(1000)
    assert driver.read("out") == []

    for _ in range(30):
        driver.advance(1000)
    assert [key for key, _ in driver.read("out")] == ["a", "b"]


def wait(driver: Driver, pause_ms: int, *, is_lagging: bool) -> None:
    """The wall clock goes on, while more of the log is known to come or not."""
    for task in driver._tasks:
        task.set_at_end("in", not is_lagging)
    for _ in range(4 if is_lagging else 1):
        driver.advance(pause_ms)
    for task in driver._tasks:
        task.set_at_end("in", True)


@pytest.mark.parametrize("kind", ["sync", "async", "retry", "lag"])
@given(st.lists(st.tuples(st.integers(0, 4999), st.integers(-15_000, 15_000)), max_size=30))
def test_idle_changes_no_result_unless_its_input_is_quiet(
    kind: str, steps: list[tuple[int, int]]
) -> None:
    found = []
    for idle in ("5s", None):
        calls: dict[str, Call] = {"async": awaited, "retry": Flaky()}
        call = calls.get(kind, int)
        on_error = retry(5, backoff="1s") if kind == "retry" else None
        driver = collecting(idle=idle, call=call, on_error=on_error)
        time = 100_000
        for value, (pause_ms, jump_ms) in enumerate(steps):
            time = max(0, time + jump_ms)
            driver.pipe("in", value, key="a", timestamp=time)
            wait(driver, pause_ms, is_lagging=kind == "lag")
        found.append((driver.read("out"), late(driver)))

    assert found[0] == found[1]
